"""Shared by all tests: generated examples have no deadline, since the machine may be busy and numba compiles once."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.append(str(Path(__file__).parent / "faults"))  # the toy method of the crash tests is used elsewhere too

settings.register_profile("colonnade", deadline=None)
settings.load_profile("colonnade")
