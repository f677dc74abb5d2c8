"""A party whose operator is asked at a terminal."""

from __future__ import annotations

import codecs
import contextlib
import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.methods.node_setup import Call, protocol_of
from colonnade.network.questions import Question
from colonnade.privacy.events import Policy
from colonnade.privacy.store import Row
from colonnade.runs import budgets as budget
from colonnade.runtime.host import Promise
from tests.helpers.contract import EVERY_METHOD, federation
from tests.helpers.organisations import SERVER, Organisations

SECURE = EVERY_METHOD["private gram, secure"]
SECONDS = 60.0  # a busy machine; on an idle one everything here takes a moment


class Screen:
    """The other end of an operator's terminal."""

    def __init__(self) -> None:
        self.end, self.terminal = pty.openpty()
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # what is read may end within a letter

    def _read(self) -> str:
        return self._decoder.decode(os.read(self.end, 4096))

    def until(self, wanted: str) -> None:
        """Read until something has been shown since the last time."""
        ends, fresh = time.monotonic() + SECONDS, ""
        while wanted not in fresh:
            if select.select([self.end], [], [], 0.1)[0]:
                fresh += self._read()
            assert time.monotonic() < ends, self.text + fresh
        self.text += fresh

    def type(self, text: bytes) -> None:
        os.write(self.end, text)

    def close(self) -> str:
        """All that was shown, with one space for every white one."""
        while select.select([self.end], [], [], 0.1)[0]:
            self.text += self._read()
        os.close(self.end)
        os.close(self.terminal)
        return re.sub(r"\s+", " ", self.text)


def operate(file: str, terminal: str) -> None:
    """`colonnade party run` in a session of its own, at that terminal."""
    os.setsid()
    there = os.open(terminal, os.O_RDWR)  # the first one that a session opens is the one whose Ctrl-C it hears
    for place in (0, 1, 2):
        os.dup2(there, place)
    sys.stdin = os.fdopen(0)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    from colonnade.cli import app

    app(["party", "run", file])


class Asked:
    """One party at a terminal, and a hub that proposes runs to it."""

    def __init__(self, folder: Path) -> None:
        self.made = Organisations.of(federation(SECURE), folder, Policy(epsilon=2.0, delta=1e-6, quorum=2))
        self.made.file = replace(self.made.file, deadline=45.0)
        self.hub, self.home = self.made.hub(patience=SECONDS), folder / "home"
        self.home.mkdir()
        self.made.file.save(self.home / "federation.toml")
        np.save(self.home / "table.npy", self.made.tables["party0"])
        (self.home / "signing.key").write_text(self.made.keys["party0"].hex())
        text = (
            'version = 1\nname = "party0"\nfederation = "federation.toml"\nstore = "store"\nkey = "signing.key"\n'
            f'certs = "../certs"\nhub = "localhost:{self.hub.port}"\n[data]\nsource = "table.npy"\n'
        )
        (self.home / "party.toml").write_text(text)

    @contextlib.contextmanager
    def party(self, screen: Screen) -> Iterator[BaseProcess]:
        arguments = str(self.home / "party.toml"), os.ttyname(screen.terminal)
        process = SERVER.Process(target=operate, args=arguments, daemon=True)
        process.start()
        try:
            self.hub.open(self.made.file).wait_for(["party0"], SECONDS)
            yield process
        finally:
            process.kill()
            process.join()

    def propose(self, run: str) -> Promise[Any]:
        call = Call(SECURE.method, SECURE.problem, SECURE.privacy)
        head = {"run": run, "call": call.to_json(), "code": protocol_of(call.method), "session": ""}
        return self.hub.ask("party0", Question.CONSIDER, head)

    def reserved(self) -> list[Row]:
        with budget.open_ledger(self.home / "store", "party0") as ledger:
            return ledger.log.rows(kind="open")
