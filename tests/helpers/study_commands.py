"""Commands of a study."""

from __future__ import annotations

from typer.testing import CliRunner

from colonnade.cli import app

INIT = ("--party", "registry.csv", "--party", "bank.csv", "--party", "callcentre.csv", "--on", "client_id")
LABEL = ("--label", "bank.subscribed=yes")


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*map(str, words)])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def done(*words: object) -> str:
    code, out, error = call(*words)
    assert code == 0, error
    return out
