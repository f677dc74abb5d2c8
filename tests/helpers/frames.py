"""Letters among the fields of a question or of an answer, as a test finds them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from colonnade.network.questions import letters_in
from colonnade.runtime.wire import Frame, Letter


def letters_of(head: Any, run: str = "run") -> list[Letter]:
    """The letters that plain fields carry."""
    return letters_in(msgspec.convert(head["letters"], tuple[Frame, ...]), run)


def with_letters(letters: Sequence[Letter], run: str = "run", frame_run: str | None = None) -> dict[str, Any]:
    """The fields of a question that brings letters; their frames may say another run."""
    return {"run": run, "letters": [letter.frame(frame_run or run) for letter in letters]}
