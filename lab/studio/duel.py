"""A duel over one stream: thieves spend stolen money, defenders change rules, and an exact judge counts.

customers, thieves ──► events ──┐
                                ├──► rules judge each payment as it comes ──► paid, or refused ──► thieves see no more
defenders ──► control messages ─┘                                        └──► alerts ──► defenders; claims, later

A payment at which a rule alerts is refused. Both logs stay in a folder, so that `judge` can count the round again with the engine.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Self

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.model.alerts import Alert, parse_alert_line
from lab.model.formatting import expected_message
from lab.model.jsontext import parse_json_object
from lab.model.language import say
from lab.model.rules import RuleBook
from lab.model.schema import PAYMENTS
from lab.past.fastreference import FastReference
from lab.stream.simulate import START_MS, amount_from_minor_units, to_json

SECONDS, EVERY_MS = 300, 200  # of a round; between two payments of customers
CUSTOMERS, SHOPS, MULES, STOLEN = 200, range(1, 41), 10, 20
PEOPLE = range(1000, 1400)  # who is paid and is no shop; the thieves' own accounts are among them
BALANCE = Decimal(5_000)  # of a stolen account, when the round begins
CLAIM_S = 15  # after which the owner of an account claims a payment that was stolen
THEFTS_A_SECOND = 2
HURT = Decimal(500)  # what a customer of whom a payment is refused costs the defenders


@dataclass(frozen=True)
class DuelScore:
    """What a round came to. `stolen`: money out; `hurt`: customers, other than owners of stolen accounts, of whom a payment was refused.

    `used`: stolen accounts that thieves paid from, `caught`: those of them of which a theft was refused, `catch_s`: the median
    of the seconds from the first theft of such an account to the first refused one; None if there is none.
    """

    stolen: Decimal
    hurt: int
    used: int
    caught: int
    catch_s: float | None

    @property
    def bill(self) -> Decimal:
        """What the round costs the defenders; whose bill is lower over all rounds has won."""
        return self.stolen + HURT * self.hurt

    def describe(self) -> str:
        """The score as a sentence."""
        time = "–" if self.catch_s is None else f"{self.catch_s:,.0f} s"
        return say(
            "{stolen} stolen, {hurt} honest customers hurt, {caught} of {used} accounts caught, in {time} at the median: the bill is {bill}.",
            stolen=f"{self.stolen:,.2f}",
            hurt=f"{self.hurt:,}",
            caught=self.caught,
            used=self.used,
            time=time,
            bill=f"{self.bill:,.2f}",
        )


def score_of(events: Sequence[Mapping[str, Any]], thefts: Mapping[int, int], refused: set[int]) -> DuelScore:
    """The score of payments in order. `thefts`: ids of those that thieves made, with the account; `refused`: ids.

    An account cannot pay more than it has, whatever thieves tried.

    >>> payments = [{"transactionId": n, "eventTime": n * 1000, "payeeId": 7, "paymentAmount": 10} for n in range(3)]
    >>> score_of(payments, {0: 7, 2: 7}, {2})
    DuelScore(stolen=Decimal('10'), hurt=0, used=1, caught=1, catch_s=2.0)
    """
    spent, hurt, owners = dict.fromkeys(thefts.values(), Decimal(0)), set[int](), set(thefts.values())
    first, caught = dict[int, int](), dict[int, float]()
    for event in events:
        number, payer, time = event["transactionId"], event["payeeId"], event["eventTime"]
        if number not in thefts:
            if number in refused and payer not in owners:
                hurt.add(payer)
            continue
        first.setdefault(payer, time)
        if number in refused:
            caught.setdefault(payer, (time - first[payer]) / 1000)
        elif spent[payer] + event["paymentAmount"] <= BALANCE:
            spent[payer] += event["paymentAmount"]
    seconds = median(caught.values()) if caught else None
    return DuelScore(sum(spent.values(), Decimal(0)), len(hurt), len(first), len(caught), seconds)


class DuelRound:
    """One round, in time of its own that `advance` moves; the same seed and moves give the same round.

    >>> with DuelRound(seed=1) as duel:
    ...     duel.tell("1: SUM(paymentAmount) per payeeId over 1 min > 3000")["status"]
    ...     account = next(iter(duel.balances))
    ...     [duel.steal(account, duel.mules[0], 2000) for _ in range(2)], duel.balances[account]
    'accepted'
    ([True, False], Decimal('3000'))
    """

    def __init__(self, seed: int = 0, seconds: int = SECONDS, folder: str | Path | None = None):
        self._own = TemporaryDirectory(prefix="lab-duel-") if folder is None else None
        self.folder = Path(self._own.name if self._own else str(folder))
        logs = FileLogs(self.folder)
        self._events, self._control = logs.log("events"), logs.log("control")
        if self._events.end() or self._control.end():
            raise ValueError(f"{self.folder}: holds a round already, expected an empty folder")
        self._events.create()
        self._control.create()
        self._thefts_file = self.folder / "thefts.jsonl"
        self.seconds, self._time_ms = seconds, START_MS
        self.random = Random(f"{seed}/moves")
        world = Random(seed)
        self.balances = {100 + n: BALANCE for n in sorted(world.sample(range(CUSTOMERS), STOLEN))}
        self.mules = sorted(world.sample(PEOPLE, MULES))
        self._reference = FastReference(PAYMENTS)
        self._customers = self._customers_payments(world)
        self._next = next(self._customers, None)
        self.events: list[dict[str, Any]] = []  # every payment, in order
        self.alerts: list[Alert] = []
        self.shadow_alerts: list[Alert] = []  # of rules in state SHADOW, which refuse nothing
        self.refused: set[int] = set()  # ids of payments
        self._thefts: dict[int, int] = {}  # id -> account
        self._last_thefts: list[int] = []  # their times, ms

    @property
    def book(self) -> RuleBook:
        """The rules in force."""
        return self._reference.book

    @property
    def now_s(self) -> float:
        """Seconds since the round began."""
        return (self._time_ms - START_MS) / 1000

    @property
    def is_over(self) -> bool:
        return self.now_s >= self.seconds

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The stolen payments that owners have claimed by now: what defenders know of thefts."""
        known = self._time_ms - 1000 * CLAIM_S
        paid = (self.events[number - 1] for number in self._thefts if number not in self.refused)
        return [event for event in paid if event["eventTime"] <= known]

    def shadow_trials(self) -> dict[int, tuple[int, int]]:
        """By rule that alerted in SHADOW: how many payments it would have refused, and how many of them are known as thefts.

        Until the round is over, what owners have claimed is known.
        """
        known = {*self._thefts} if self.is_over else {claim["transactionId"] for claim in self.claims}
        trials: dict[int, set[int]] = {}
        for alert in self.shadow_alerts:
            trials.setdefault(alert.rule_id, set()).update(refused_by([alert]))
        return {rule_id: (len(refused), len(refused & known)) for rule_id, refused in trials.items()}

    @property
    def score(self) -> DuelScore:
        return score_of(self.events, self._thefts, self.refused)

    def advance(self, to_s: float) -> None:
        """Lets customers pay until then, at most until the round's end."""
        to_ms = START_MS + int(1000 * min(to_s, self.seconds))
        while self._next and self._next["eventTime"] <= to_ms:
            event, self._next = self._next, next(self._customers, None)
            self._time_ms = max(self._time_ms + 1, event.pop("eventTime"))
            self._pay(event)
        self._time_ms = max(self._time_ms, to_ms)

    def steal(self, account: int, mule: int, amount: int | Decimal) -> bool:
        """Pays from a stolen account to one of the thieves'; whether it was paid. Raises ValueError for what no thief can do."""
        amount = Decimal(amount)
        if self.is_over:
            raise ValueError(say("The round is over."))
        if account not in self.balances:
            raise ValueError(expected_message("account", account, "one of the stolen accounts"))
        if mule not in self.mules:
            raise ValueError(expected_message("mule", mule, "one of the thieves' own accounts"))
        if not (amount.is_finite() and 0 < amount <= self.balances[account] and amount == round(amount, 2)):
            left = self.balances[account]
            raise ValueError(
                expected_message("amount", amount, f"more than 0 and at most {left}, what is left")
            )
        self._last_thefts = [at for at in self._last_thefts if at > self._time_ms - 1000]
        if len(self._last_thefts) >= THEFTS_A_SECOND:
            raise ValueError(say("Too fast: at most {count} payments a second.", count=THEFTS_A_SECOND))
        self._time_ms += 1
        self._last_thefts.append(self._time_ms)
        number = len(self.events) + 1
        self._thefts[number] = account
        with self._thefts_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"transactionId": number, "account": account}) + "\n")
        paid = self._pay(
            {"payeeId": account, "beneficiaryId": mule, "paymentType": "CRD", "paymentAmount": amount}
        )
        if paid:
            self.balances[account] -= amount
        return paid

    def tell(self, message: str) -> dict[str, Any]:
        """Sends a control message of the defenders; returns the engine's answer."""
        if self.is_over:
            raise ValueError(say("The round is over."))
        self._time_ms += 1
        place = self._control.places_of_lines(self._control.append([message], self._time_ms), 1)[0]
        answer = self._reference.control(message, self._time_ms) | {"place": place}
        self._take_alerts()
        return answer

    def _pay(self, payment: dict[str, Any]) -> bool:
        """Judges a payment as it arrives."""
        event = {"transactionId": len(self.events) + 1, "eventTime": self._time_ms, **payment}
        line = to_json(event)
        self._events.append([line], self._time_ms)
        self.events.append(event)
        self._reference.event(line.encode(), "", self._time_ms)
        self._take_alerts()
        return event["transactionId"] not in self.refused

    def _take_alerts(self) -> None:
        new = list(self._reference.alerts)
        self.shadow_alerts += self._reference.shadow_alerts
        self._reference.alerts_and_withdrawals.clear()
        self._reference.shadow_alerts.clear()
        self.alerts += new
        self.refused |= refused_by(new)

    def _customers_payments(self, world: Random) -> Iterator[dict[str, Any]]:
        """What customers pay, in order: mostly to shops, sometimes more to a person."""
        for time in range(START_MS, START_MS + 1000 * self.seconds, EVERY_MS):
            to_shop = world.random() < 0.85
            minor_units = round(100 * world.lognormvariate(*((3.4, 0.9) if to_shop else (5.0, 0.9))))
            yield {
                "eventTime": time + world.randrange(EVERY_MS),
                "payeeId": 100 + world.randrange(CUSTOMERS),
                "beneficiaryId": world.choice(SHOPS if to_shop else PEOPLE),
                "paymentType": world.choice(("CRD", "CSH")),
                "paymentAmount": amount_from_minor_units(min(max(minor_units, 100), 500_000)),
            }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the logs, unless they are in a folder that was named."""
        if self._own:
            self._own.cleanup()


def refused_by(alerts: Sequence[Alert]) -> set[int]:
    """The ids of the payments at which rules alerted. An alert about what did not come is of a payment that was paid long ago."""
    return {
        alert.event_id
        for alert in alerts
        if isinstance(alert.event_id, int) and alert.log_time in (None, alert.event_time)
    }


def judge(folder: str | Path) -> DuelScore:
    """Counts a round again from its logs, with the engine: what the room showed must be that. Raises ValueError, OSError."""
    from lab.engine.loop.inprocess import InProcessEngine

    logs, played = FileLogs(Path(folder)), read_round(folder)
    with InProcessEngine(Settings(PAYMENTS), logs) as engine:
        while engine.step():
            pass
        alerts = [line for line in map(parse_alert_line, engine.out["alerts"]) if isinstance(line, Alert)]
    return score_of(*played, refused_by(alerts))


def read_round(folder: str | Path) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The payments of a round, in order, and the ids of the thefts among them, with the account. Raises ValueError, OSError."""
    logs = FileLogs(Path(folder))
    if not logs.log_folder("events").is_dir():
        raise ValueError(f"{folder}: no round is there, expected a folder that DuelRoom(folder=…) has kept")
    events = [PAYMENTS.events(line.encode())[0] for line in logs.log("events").read()]
    return events, _read_thefts(Path(folder, "thefts.jsonl"))


def _read_thefts(file: Path) -> dict[int, int]:
    thefts = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.exists() else (), 1):
        try:
            theft = parse_json_object(line)
            number_of, account = theft["transactionId"], theft["account"]
            if not type(number_of) is type(account) is int:
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{file}:{number}: expected transactionId and account") from None
        thefts[number_of] = account
    return thefts
