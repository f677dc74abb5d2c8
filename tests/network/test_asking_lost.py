"""Claims about a question to an operator whose coordinator goes away. (The party at its terminal is that of test_asking.py.)"""

from __future__ import annotations

import pytest

from colonnade.cli.party import PROMPT
from colonnade.errors import PeerFailed
from colonnade.runtime.host import Lost
from tests.helpers.asking import SECONDS, Asked, Screen
from tests.helpers.streams import Proxy

pytestmark = pytest.mark.chance(0, "ids, keys and masks alone are drawn: no claim depends on them")


def test_a_question_whose_coordinator_has_gone_is_void_and_the_next_one_is_put_again(tmp_path):
    """What is typed after that is no answer to the coordinator that comes next."""
    asked, screen = Asked(tmp_path), Screen()
    port, void = asked.hub.port, "the question is void, and nothing was approved run=run why=the coordinator has gone"
    with asked.party(screen):
        asked.propose("run")
        screen.until(PROMPT)
        asked.hub.close()
        screen.until(void)
        screen.type(b"y\n")
        asked.hub = asked.made.hub(port, patience=SECONDS)
        asked.hub.open(asked.made.file).wait_for(["party0"], SECONDS)
        again = asked.propose("run")
        screen.until(PROMPT)
        screen.type(b"n\n")
        with pytest.raises(PeerFailed, match=r"refused 'consider' \(refused\)"):
            again.result()
    screen.close()
    asked.hub.close()


def test_after_a_line_that_broke_the_same_coordinator_hears_that_it_must_propose_again(tmp_path):
    asked, screen = Asked(tmp_path), Screen()
    with Proxy(asked.hub.port) as proxy:
        file = asked.home / "party.toml"
        file.write_text(file.read_text().replace(f":{asked.hub.port}", f":{proxy.port}"))
        with asked.party(screen):
            before = asked.propose("run")
            screen.until(PROMPT)
            proxy.break_all()
            screen.until("why=the coordinator has gone")
            with pytest.raises(Lost):
                before.result()
            again = asked.propose("run")
            screen.until(PROMPT)
            screen.type(b"y\n")
            assert again.result().code == 0
    screen.close()
    asked.hub.close()
