"""All of it at once, with the reference in place of the engine: an attack is seen, restricted, refused, and so it ends."""

import json
import time
from itertools import count

from lab.engine.loop.filelogs import FileLogs
from lab.model.schema import LOGINS
from lab.restrict.client import Enforcement
from lab.restrict.decide import Decider
from lab.restrict.service import HOST
from lab.stream.player import Player
from tests.restrict.test_restrictions import GUESSING
from tests.restrict.test_service import TOKEN, serving
from tests.rulestore.engine import Engine

STEP_S = 5  # of the player's clock: an attack of minutes takes a second


def attempts(folder, kinds: tuple[str, ...], enforced: bool) -> tuple[Player, list[dict]]:
    """Plays attacks; returns the player and the wrong passwords that the shop let happen."""
    logs = FileLogs(folder)
    logs.create()
    logs.log("control").append(
        [json.dumps(GUESSING), json.dumps(GUESSING | {"ruleId": 2, "groupingKeyNames": ["ip"]})]
    )
    engine, seconds, played = Engine(logs, LOGINS), count(), []

    class Sink:
        def append(self, lines) -> None:
            played.extend(map(json.loads, lines))
            logs.log("events").append(lines)

    with serving(logs.log("restrictions")) as port, Decider(logs, LOGINS) as decider:
        shop = Enforcement(f"http://{HOST}:{port}", TOKEN)
        player = Player(
            "logins",
            Sink(),
            rate=0.01,
            burst_every_s=0,
            clock=lambda: next(seconds) * STEP_S / 3,
            ask=shop.allowed if enforced else None,
        )
        for kind in kinds:
            player.burst(kind)
        for _ in range(120):
            player.step()
            engine.step()
            if decider.write_new_restrictions():
                time.sleep(0.05)  # the service looks at its log
        assert (shop.unanswered, shop.refused) == (0, 0), shop.error
    return player, [event for event in played if event["action"] == "login_failed"]


def test_an_attack_ends_when_the_shop_asks(tmp_path):
    kinds = ("guessing_one_ip", "guessing_many_ips", "stuffing")
    _, free = attempts(tmp_path / "free", kinds, enforced=False)
    player, enforced = attempts(tmp_path / "enforced", kinds, enforced=True)
    assert len(free) > 35 and len(enforced) <= 3 * GUESSING["limit"] + 3
    assert {kind for kind in player.refused if kind} == set(kinds)
    assert player.refused[""] == 0, "nobody else is refused"
