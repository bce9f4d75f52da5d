"""Sixty accounts and some sensors: a month of ordinary days, and the steps of which unusual ones are made."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from random import Random
from typing import Any

from lab.model.field import Field
from lab.model.schema import Schema
from lab.model.times import DAY_MS, HOUR_MS, MINUTE_MS

DAYS, ACCOUNTS, SENSORS, CASES = 30, 60, 4, 5
COMPANIES = range(10, ACCOUNTS + 1, 10)  # accounts that pay ten times as much as others
COUNTRIES = ("KR", "JP", "US", "DE", "BR")
ACCOUNT_EVENTS = Schema(
    "accounts",
    (
        Field("eventId", "long"),
        Field("eventTime", "time", unit="ms"),
        Field("account", "long", doc="whose event it is; none for a sensor"),
        Field(
            "action",
            "string",
            doc="login, login_failed, reset, pay, deposit, withdraw, refund, signup, reading",
        ),
        Field("payee", "long", doc="who is paid"),
        Field("amount", "decimal(12,2)", doc="paid, or what a sensor reads"),
        Field("ip", "string"),
        Field("device", "string"),
        Field("country", "string"),
    ),
    ("eventId",),
    "eventTime",
)
Event = dict[str, Any]
Steps = list[tuple[int, Event]]  # ms after the case begins, the event


class SimulatedAccounts:
    """What the accounts of a seed are like."""

    def __init__(self, seed: int):
        self.rng, self.slips = Random(seed), Random(seed)
        self.homes = {account: self.rng.choice(COUNTRIES) for account in range(1, ACCOUNTS + 1)}
        self.scale = {account: 10 if account in COMPANIES else 1 for account in self.homes}

    def event(self, account: int, action: str, amount: float | None = None, **other: Any) -> Event:
        """An event of an account at home."""
        event = {
            "account": account,
            "action": action,
            "ip": f"198.18.0.{account}",
            "device": f"phone-{account}",
        }
        event |= {"country": self.homes.get(account, "KR")}
        if amount is not None:
            event["amount"] = str(Decimal(round(amount * 100)).scaleb(-2))
        return event | other

    def ordinary_month_steps(self) -> Iterator[tuple[int, Event]]:
        """A month of ordinary days, account by account: ms after the month begins, the event."""
        rng = self.rng
        for account in self.homes:
            payees = [rng.randint(500, 800) for _ in range(3)]
            for day in range(DAYS):
                time = day * DAY_MS + rng.randint(8 * HOUR_MS, 20 * HOUR_MS)
                if rng.choice((False, False, False, True)):
                    for slip in range(self.slips.choice((1, 1, 1, 1, 2, 2, 3))):
                        yield time - (slip + 1) * MINUTE_MS, self.event(account, "login_failed")
                yield time, self.event(account, "login")
                for _ in range(rng.randint(0, 3)):
                    time += rng.randint(5, 90) * MINUTE_MS
                    payee = rng.choice(payees) if rng.random() < 0.9 else rng.randint(500, 800)
                    amount = self.scale[account] * rng.lognormvariate(3.7, 0.8)
                    yield time, self.event(account, "pay", amount, payee=payee)
                if rng.random() < 0.1:
                    yield time + HOUR_MS, self.event(account, "deposit", rng.uniform(500, 3000))
                if rng.random() < 0.05:
                    yield time + 2 * HOUR_MS, self.event(account, "withdraw", rng.uniform(50, 400))
                if rng.random() < 0.02:
                    yield time + 3 * HOUR_MS, self.event(account, "refund", rng.uniform(5, 60))
        for sensor in range(SENSORS + 3 * CASES):
            for hour in range(DAYS * 24 // 3):
                yield 3 * hour * HOUR_MS, self.sensor_reading(sensor, rng.gauss(20, 0.5))

    def sensor_reading(self, sensor: int, value: float) -> Event:
        amount = Decimal(round(value * 100)).scaleb(-2)
        return {"action": "reading", "device": f"sensor-{sensor}", "amount": str(amount)}

    def payments(self, account: int, amounts: Sequence[float], interval_ms: int, payee: int = 900) -> Steps:
        """Payments one after the other."""
        return [
            (n * interval_ms, self.event(account, "pay", amount, payee=payee))
            for n, amount in enumerate(amounts)
        ]

    def repeated_events(self, account: int, action: str, count: int, interval_ms: int, **other: Any) -> Steps:
        """Events of one action, one after the other."""
        return [(n * interval_ms, self.event(account, action, **other)) for n in range(count)]
