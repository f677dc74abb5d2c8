"""Claims about files that people write: regular and of bounded size before they are read, and one error for whatever is in them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from colonnade.data.text_file import parse_toml, read_bytes, read_text, safe_cell
from colonnade.errors import InvalidInput


def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 8)
    assert read_bytes(path, 8) == b"x" * 8
    with pytest.raises(InvalidInput, match=re.escape("it has 8 bytes, and may have 7 at most")):
        read_bytes(path, 7)


def test_what_is_no_regular_file_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    """A device without end, a pipe that nobody writes to: to open them would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "null").symlink_to("/dev/null")
    for path, why in (
        (Path("/dev/null"), "a device, a pipe or a socket"),
        (tmp_path / "null", "a device, a pipe or a socket"),
        (tmp_path / "pipe", "a device, a pipe or a socket"),
        (tmp_path, "a folder"),
        (tmp_path / "loop", "symbolic links"),
        (tmp_path / ("x" * 5000), "too long"),
        (Path("a\0b"), "is no path"),
    ):
        with pytest.raises(InvalidInput, match=f"{why}.* Ask somebody."):
            read_text(path, advice="Ask somebody.")


@pytest.mark.parametrize("text", ["x = ", f"x = {'9' * 5000}", "x = " + "[" * 5000, "x = 2020-99-99"])
def test_whatever_toml_ends_in_is_one_error_that_names_the_file(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^study.toml is not a TOML file: .*Correct it there\.$"):
        parse_toml(text, "study.toml")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_end_of_a_line_is_one(newline: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(f"a = 1{newline}b = 2{newline}".encode())
    assert read_text(tmp_path / "file") == "a = 1\nb = 2\n"


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", "\0"])
def test_what_would_begin_a_formula_gets_an_apostrophe(begin: str) -> None:
    assert safe_cell(f"{begin}1") == f"'{begin}1"
    assert safe_cell(f"1{begin}") == f"1{begin}"
