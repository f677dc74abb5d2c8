"""The list of planted mistakes fits the code: `make mutants` would find every place and every test that it names."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from run import ROOT, mutants

MUTANTS = {one.name: one for one in mutants()}


def test_there_are_enough_and_no_name_is_given_twice():
    assert len(MUTANTS) == len(mutants()) >= 80
    changes = Counter((one.file, one.planted()) for one in MUTANTS.values())
    assert [file for (file, _), count in changes.items() if count > 1] == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_still_has_its_place_and_its_tests(name):
    one = MUTANTS[name]
    text = one.planted()  # its old text stands there exactly once, or this raises
    assert text != (ROOT / one.file).read_text(encoding="utf-8")
    compile(text, one.file, "exec")
    assert one.why
    assert one.tests
    for test in one.tests:
        file, _, rest = test.partition("::")
        source = (ROOT / file).read_text(encoding="utf-8")
        assert not rest or re.search(rf"^def {re.escape(rest.partition('[')[0])}\(", source, re.MULTILINE), test
