"""The claim that a benchmark's table, cut to fewer rows, still tells whose rows they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse


def test_a_table_cut_to_fewer_rows_is_still_split_by_person(monkeypatch):
    budgets = pytest.importorskip("benchmarks.gram_budgets", reason="the benchmarks are not beside the tests")
    from benchmarks.gram import Dataset, PublicColumns, splits

    columns = PublicColumns(
        *(np.zeros(1, int), np.ones(1), np.ones(1), np.zeros(1, bool), np.ones(1, bool), np.zeros(1, int), np.ones(1))
    )
    people, y = np.repeat(np.arange(20), 3), np.ones(60)
    whole = Dataset(
        sparse.csr_array(people[:, None].astype(float)), y, {}, columns, 0, people
    )  # the cell says whose row
    monkeypatch.setattr(budgets, "load", lambda name: whole)
    cut = budgets.table("made up", 30)
    assert cut.units.tolist() == cut.matrix.toarray()[:, 0].tolist()
    for train, test in splits(cut, 3):
        assert train.size + test.size == 30
        assert not set(cut.units[train]) & set(cut.units[test])
