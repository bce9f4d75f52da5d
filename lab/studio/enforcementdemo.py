"""The whole way from a policy to a refusal in one process, for lessons: no Java, no server, nothing left behind.

demo.store ─► capture ─► engine ─► alerts ─► decider ─► service ◄── may this happen? ── demo.player
"""

import time
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Self

from lab.machine import ports
from lab.model.schema import LOGINS
from lab.model.times import now_ms
from lab.restrict.client import HOST, Enforcement
from lab.restrict.decide import POLL_S, Decider
from lab.restrict.service import serving
from lab.restrict.tokens import new_token
from lab.rulestore import capture
from lab.rulestore.store import RuleStore
from lab.studio.studio import Studio


class EnforcementDemo:
    """A stream of `rate` logins a second, an engine in this kernel, a rule store in a file, and what enforces its rules.

    `speed`: how much faster than real time the stream plays, so that an attack of minutes fits a lesson. Restrictions last
    in real time. `shop_asks`: whether the shop asks before it lets something happen; it may be set at any time.

    >>> with EnforcementDemo(rate=20) as demo:  # doctest: +SKIP
    ...     demo.store.put({"ruleId": 1, ..., "action": "block_login", "ttl": "1m"})
    """

    def __init__(self, rate: float = 20, speed: float = 10, shop_asks: bool = True):
        self.shop_asks, self.shop = shop_asks, None
        self._open, self._stopped = ExitStack(), Event()
        began, began_ms = time.monotonic(), now_ms()

        def clock() -> float:
            return speed * (time.monotonic() - began)

        try:
            folder = Path(self._open.enter_context(TemporaryDirectory(prefix="lab-enforcement-")))
            self.studio = self._open.enter_context(
                Studio(
                    "logins",
                    rate=rate / speed,
                    ask=self._ask,
                    burst_every_s=0,
                    clock=clock,
                    wall=lambda: began_ms + int(1000 * clock()),
                )
            )
            self.player, logs = self.studio.player, self.studio.logs
            port = ports.free_port()
            token = new_token()
            self.enforcer = self._open.enter_context(serving(logs.log("restrictions"), port, [token]))
            self.shop = self._open.enter_context(closing(Enforcement(f"http://{HOST}:{port}", token)))
            url = f"sqlite:///{folder / 'rules.db'}"
            self.store = RuleStore(url, LOGINS)
            self._run(capture.run_capture, url, LOGINS, logs, self._stopped, lambda _: None)
            self._run(self._decide, logs)
        except BaseException:
            self.close()
            raise

    def _ask(self, events: list[dict]) -> list[bool]:
        return self.shop.allowed(events) if self.shop_asks and self.shop else [True] * len(events)

    def _run(self, function, *arguments: object) -> None:
        thread = Thread(target=function, args=arguments, daemon=True, name=f"enforcement {function.__name__}")
        self._open.callback(thread.join)
        self._open.callback(self._stopped.set)
        thread.start()

    def _decide(self, logs) -> None:
        with Decider(logs, LOGINS) as decider:
            while not self._stopped.wait(POLL_S):
                decider.write_new_restrictions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops all of it and removes what it wrote; a second time does nothing."""
        self._open.close()
