"""The list of planted mistakes fits the code: `make mutants` would find every place and every test that it names."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache

from tests.mutants.run import ROOT, mutants

MUTANTS = {one.name: one for one in mutants()}


def test_there_are_enough_and_no_name_is_given_twice():
    assert len(MUTANTS) == len(mutants()) >= 80
    changes = Counter((one.file, one.planted()) for one in MUTANTS.values())
    assert [file for (file, _), count in changes.items() if count > 1] == []


def test_the_documents_that_say_how_many_there_are_agree_with_the_list():
    """In hundreds; `docs/generate.py` writes README's, people the others."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    said = {page.name: re.findall(r"plants over (\d+) mistakes", page.read_text(encoding="utf-8")) for page in pages}
    told = {name: set(numbers) for name, numbers in said.items() if numbers and name != "CHANGELOG.md"}
    hundreds = {str(len(MUTANTS) // 100 * 100)}
    assert told == {"README.md": hundreds, "CONTRIBUTING.md": hundreds}


def test_every_mistake_still_has_its_place_and_its_tests():
    sources = {one.file: (ROOT / one.file).read_text(encoding="utf-8") for one in MUTANTS.values()}
    for name, one in MUTANTS.items():
        text = one.planted()  # its old text stands there exactly once, or this raises
        assert text != sources[one.file], name
        ast.parse(text, one.file)
        assert one.why, name
        assert one.tests, name
        for test in one.tests:
            file, _, wanted = test.partition("::")
            assert not wanted or wanted.partition("[")[0] in defined_in(file), f"{name}: {test}"
            assert (ROOT / file).is_file(), f"{name}: {test}"


@cache
def defined_in(file: str) -> set[str]:
    return set(re.findall(r"^def (\w+)\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE))
