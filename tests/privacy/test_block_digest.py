"""Claims about a block's hash: the same for the same table, and another for any other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from colonnade.privacy import block as module
from colonnade.privacy.block import Block

ROWS, COLUMNS = 200, 3


def table():
    return np.random.default_rng(0).normal(size=(ROWS, COLUMNS))


def labelled(X, positions=(0, 1, 2), labels=None):
    return Block(X, np.array(positions), labels=np.ones(len(X)) if labels is None else labels)


@pytest.mark.parametrize("piece", [1 << 26, 40, 8])
def test_the_least_change_of_any_cell_label_or_place_changes_the_hash(monkeypatch, piece):
    """All cells: those that key the hash and those that do not, in every piece of it."""
    monkeypatch.setattr(module, "PIECE", piece)
    whole = labelled(table()).digest()
    assert whole == labelled(table()).digest()
    found = {whole}
    for r in range(0, ROWS, 1 if piece > 40 else 37):
        for j in range(COLUMNS):
            X = table()
            X[r, j] = np.nextafter(X[r, j], 9.0)
            found.add(labelled(X).digest())
    y = np.ones(ROWS)
    y[77] = -1.0
    found |= {labelled(table(), labels=y).digest(), labelled(table(), (0, 2, 1)).digest()}
    assert len(found) == 3 + COLUMNS * len(range(0, ROWS, 1 if piece > 40 else 37))


def test_cells_that_change_places_change_the_hash():
    X = table()
    for a, b in ((1, 2), (0, 64), (63, 64), (64, 128)):
        swapped = X.copy()
        swapped[[a, b]] = X[[b, a]]
        assert labelled(swapped).digest() != labelled(X).digest()


def test_the_same_bytes_in_another_form_have_another_hash():
    X = table()
    forms = [X, X.reshape(ROWS // 2, 2 * COLUMNS), X.view(np.int64), sparse.csc_array(X), X[:, :0]]
    assert len({Block(form, np.arange(form.shape[1])).digest() for form in forms}) == len(forms)


def test_how_a_table_lies_in_memory_does_not_change_the_hash():
    X = table()
    assert labelled(np.asfortranarray(X)).digest() == labelled(X).digest()
