"""Claims about the largest message: it goes from end to end, and one byte more is refused before anything is spent."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import colonnade as co
from colonnade.methods.method import Done, Finish, Method
from colonnade.methods.node_setup import known_values
from colonnade.model.job import Answer, Own, Status
from colonnade.network.certs import tls_in
from colonnade.network.questions import letters_out, pack
from colonnade.privacy.events import EXACT, Charge
from colonnade.privacy.keyring import Keyring, public_key
from colonnade.privacy.ledger import Ledger
from colonnade.privacy.store import FileLog
from colonnade.privacy.values import Released
from colonnade.runtime.program import COORDINATOR, Sealed, ask, ask_one, last, message, receive, tell
from colonnade.runtime.wire import LARGEST, LONGEST_NAME, SEALING, Letter, decode, encode

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'colonnade[grpc]'")

from colonnade.data.federation_file import new_key
from colonnade.network.transport.envelope import LIMIT
from colonnade.network.transport.party import serve
from tests.helpers.organisations import Organisations

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")

BYTES = 3 + 1 + 4  # around the bytes of a message with one field: its head, a tag and a length
RELEASED = BYTES + 1  # and a tag more where they were released


@message(940)
class Throw:
    """Coordinator → party: some bytes, and how many to send back."""

    body: bytes
    back: int


@message(941)
class Catch:
    """Party → coordinator: that many."""

    body: Released[bytes]


THROW = BYTES + 9  # the number beside the bytes


@dataclass(frozen=True)
class Ball(Method):
    """A toy: so many bytes to every party, and so many back."""

    there: int
    back: int
    TITLE: ClassVar[str] = "a large ball"
    PROTOCOL: ClassVar[int] = 1
    REPLIES: ClassVar[dict[type | None, type]] = {Throw: Catch, Finish: Done}

    def check(self, job: Any) -> None:
        """Any job will do."""

    def price(self, job: Any) -> dict[str, Any]:
        return dict.fromkeys(job.roster.parties, (Charge(EXACT, 1, "bytes"),))

    def coordinator(self, job: Any, gate: Any) -> Any:
        names = job.roster.parties
        found = yield from ask(names, Throw(bytes(self.there), self.back), Catch, {"round": 1})
        assert {len(caught.body.value) for caught in found.values()} == {self.back}
        nothing = {name: np.zeros(len(job.roster.positions[name])) for name in names}
        yield from tell({name: Finish(x, 0.0) for name, x in nothing.items()}, Done)
        return Answer(nothing, 0.0, None, None, Status.OUT_OF_ROUNDS)

    def party(self, job: Any, block: Any, gate: Any) -> Any:
        thrown = yield from receive(COORDINATOR, Throw)
        assert len(thrown.body) == self.there
        request = yield from ask_one(COORDINATOR, Catch(gate.exact(bytes(thrown.back))), Finish)
        yield from last({COORDINATOR: Done()})
        return Own(request.coefficients, gate.receipt())


@pytest.fixture
def toys():
    """The toy may travel, for as long as a test lasts."""
    known_values()["Ball"] = Ball
    yield
    del known_values()["Ball"]


@contextlib.contextmanager
def at_work(made: Organisations, port: int) -> Iterator[None]:
    """The parties as threads of this process, which knows the toy."""
    stop, ended = threading.Event(), []

    def live(name: str) -> None:
        with contextlib.closing(made.service(name)) as service:
            serve(f"localhost:{port}", tls_in(made.folder / "certs", name), name, service.answer, stop=stop)
        ended.append(name)

    threads = [threading.Thread(target=live, args=(name,)) for name in made.names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert sorted(ended) == sorted(made.names)


def thrown(toy: Ball, folder: Path) -> tuple[co.Fit, Organisations]:
    fed = co.Federation.split(np.ones((4, 1)), np.zeros(4), parties={"lab": [0]}, label="lab")
    made = Organisations.of(fed, folder, co.Policy(exact=True))
    problem = co.Problem(co.LeastSquares(), co.L1Ball(1.0))
    with made.hub() as hub, at_work(made, hub.port):
        return co.fit(made.federation, problem, toy, engine=hub, store=folder / "hub"), made


def released(folder: Path) -> int:
    """How many releases stand in the party's ledger."""
    with contextlib.closing(FileLog(folder / "lab" / "nodes" / "lab.db")) as log:
        return len(Ledger(log, "lab", co.Policy(exact=True)).entries())


@pytest.mark.usefixtures("toys")
def test_the_largest_message_goes_to_a_party_and_back(tmp_path):
    fit, _ = thrown(Ball(LARGEST - THROW, LARGEST - RELEASED), tmp_path)
    sizes = {row["type"]: row["bytes"] for row in fit.communication.table().iter_rows(named=True)}
    assert sizes["Throw"] == sizes["Catch"] == LARGEST
    assert released(tmp_path) == 1


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("toy", "refused"),
    [
        (Ball(LARGEST - THROW + 1, 1), r"Throw takes 67,108,865 bytes; over 67,108,864 must go as row blocks"),
        (Ball(1, LARGEST - RELEASED + 1), r"'lab' stopped this run|'lab' refused 'turn' \(protocol\)"),
    ],
    ids=["to a party", "from a party"],
)
def test_one_byte_more_is_refused_and_nothing_is_spent(toy, refused, tmp_path):
    with pytest.raises((co.WireError, co.PeerFailed), match=refused):
        thrown(toy, tmp_path)
    assert released(tmp_path) == 0


def test_the_largest_message_also_goes_sealed_in_a_parcel_with_the_longest_names():
    own = {name: new_key()[1] for name in "ab"}
    keys = {name: public_key(key) for name, key in own.items()}
    one, other = (Keyring("run", name, key, keys, name.encode() * 32) for name, key in own.items())
    one.meet("b", *other.hello)
    other.meet("a", *one.hello)
    body = encode(Throw(bytes(LARGEST - THROW), 0), guarded=False)
    assert len(body) == LARGEST
    sealed = encode(Sealed(*one.seal({"b": 0}, body, "ball")["b"]), guarded=False)
    assert LARGEST < len(sealed) <= LARGEST + SEALING
    read = decode(sealed)
    assert other.open("a", 0, read.key, read.content) == body
    names = "x" * LONGEST_NAME
    letters = letters_out([Letter(names, names, 2**53, 2**32, sealed, names)], "run")
    assert len(pack({"what": "turn", "run": names, "letters": letters})) <= LIMIT


def test_a_message_over_the_limit_is_refused_where_it_is_read():
    """Only what is sealed may be longer, by what a seal adds."""
    body = encode(Throw(bytes(LARGEST - THROW), 0), guarded=False)
    longer = body[:3] + b"b" + (LARGEST - THROW + 1).to_bytes(4, "little") + bytes(LARGEST - THROW + 1) + body[-9:]
    assert len(longer) == LARGEST + 1
    with pytest.raises(co.WireError, match="must come as row blocks"):
        decode(longer)
