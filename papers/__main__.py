"""`python -m papers`: the papers' figures and our findings about them, measured again."""

from __future__ import annotations

from papers.commands import app

if __name__ == "__main__":
    app(prog_name="python -m papers")
