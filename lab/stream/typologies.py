"""Patterns of fraud and of failing sensors: each a rule as one sentence, and a seeded generator of cases.

background of 60 accounts, a month  +  5 cases of each typology  ──►  events in order of time, each with the case that it is of
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from lab.model.times import DAY_MS, HOUR_MS, MINUTE_MS
from lab.stream.accounts import ACCOUNTS, CASES, DAYS, SENSORS, Event, SimulatedAccounts, Steps

START_MS = 1_704_067_200_000  # 2024-01-01
FIRST_CASE = 21 * DAY_MS  # before it there is only background, so that histories exist


class LabelledEvent(NamedTuple):
    """An event, and the typology and the number of the case that it is of; "" and 0 of the background."""

    event: Event
    typology: str
    case: int


@dataclass(frozen=True)
class Typology:
    """A pattern: what it means, the rule that finds it, and how a case of it comes about. `number`: of the case, from 0."""

    name: str
    meaning: str
    rule: str
    case_steps: Callable[[SimulatedAccounts, int, int], Steps]  # world, account, number of the case


def _then(steps: Steps, *more: tuple[int, Event]) -> Steps:
    """Steps, and more steps, whose times count from the last of the first ones."""
    end = steps[-1][0]
    return [*steps, *((end + after, event) for after, event in more)]


def _of_sensor(
    sensor: int, values: list[float], interval_ms: int
) -> Callable[[SimulatedAccounts, int, int], Steps]:
    return lambda world, account, number: [
        (n * interval_ms, world.sensor_reading(SENSORS + sensor + number, value))
        for n, value in enumerate(values)
    ]


TYPOLOGIES = (
    Typology(
        "sum to one beneficiary",
        "the articles' first rule: a payer pays one beneficiary very much within a month",
        "SUM(amount where action = pay) per account, payee over 30 d > 20000",
        lambda w, a, n: w.payments(a, [4200] * 5, 2 * HOUR_MS),
    ),
    Typology(
        "failed logins",
        "the articles' login rule: five wrong passwords within ten minutes",
        "COUNT(events where action = login_failed) per account over 10 min >= 5",
        lambda w, a, n: w.repeated_events(a, "login_failed", 6, 20_000),
    ),
    Typology(
        "account takeover",
        "a login that follows five wrong passwords",
        "COUNT(events where action = login_failed) per account over 10 min >= 5, when action = login",
        lambda w, a, n: _then(
            w.repeated_events(a, "login_failed", 5 + 2 * n, 15_000 + 10_000 * n),
            (30_000, w.event(a, "login")),
        ),
    ),
    Typology(
        "credential stuffing",
        "one address tries stolen passwords of many accounts",
        "UNIQUE_COUNT(account where action = login_failed) per ip over 10 min >= 8",
        lambda w, a, n: [
            (i * 5_000, w.event(1 + (a + i) % ACCOUNTS, "login_failed", ip=f"203.0.113.{n + 1}"))
            for i in range(12)
        ],
    ),
    Typology(
        "card testing",
        "some tiny payments, then a large one",
        "COUNT(events where action = pay and amount <= 2) per account over 30 min >= 4, when amount > 200",
        lambda w, a, n: _then(
            w.payments(a, [1.0] * 5, MINUTE_MS), (2 * MINUTE_MS, w.event(a, "pay", 480, payee=901))
        ),
    ),
    Typology(
        "velocity",
        "many payments within minutes",
        "COUNT(events where action = pay) per account over 10 min >= 8",
        lambda w, a, n: w.payments(a, [30.0] * 10, 40_000),
    ),
    Typology(
        "structuring",
        "deposits just below the sum that has to be reported",
        "COUNT(events where action = deposit and amount >= 9000 and amount < 10000) per account over 7 d >= 4, "
        "when action = deposit",
        lambda w, a, n: [(i * DAY_MS, w.event(a, "deposit", 9_400 + 50 * i)) for i in range(5)],
    ),
    Typology(
        "smurfing",
        "many accounts pay one payee small sums within a day",
        "UNIQUE_COUNT(account where action = pay and amount < 1000) per payee over 1 d >= 10",
        lambda w, a, n: [
            (i * 20 * MINUTE_MS, w.event(1 + (a + i) % ACCOUNTS, "pay", 600, payee=910 + n))
            for i in range(12)
        ],
    ),
    Typology(
        "mule account",
        "what comes in goes out at once",
        "SUM(amount where action = withdraw) per account over 1 d > 0.9 × SUM(amount where action = deposit) over 1 d "
        "and SUM(amount where action = deposit) over 1 d > 5000, when action = withdraw",
        lambda w, a, n: [
            (0, w.event(a, "deposit", 8_000)),
            (HOUR_MS, w.event(a, "withdraw", 4_000)),
            (2 * HOUR_MS, w.event(a, "withdraw", 3_800)),
        ],
    ),
    Typology(
        "new payee and high amount",
        "the first payment to a payee, and it is large",
        "COUNT(events where action = pay) per account, payee over 365 d without the current event = 0, "
        "when action = pay and amount > 3000",
        lambda w, a, n: [(0, w.event(a, "pay", 3_200 + 800 * n, payee=920 + n))],
    ),
    Typology(
        "impossible travel",
        "logins from two countries within two hours",
        "UNIQUE_COUNT(country where action = login) per account over 2 h >= 2",
        lambda w, a, n: [
            (0, w.event(a, "login")),
            (30 * MINUTE_MS, w.event(a, "login", country="BR" if w.homes[a] != "BR" else "KR")),
        ],
    ),
    Typology(
        "dormant account",
        "an account wakes up after three weeks, and pays much",
        "COUNT(events) per account over 20 d without the current event = 0, when action = pay and amount > 1000",
        lambda w, a, n: [
            (0, w.event(1_000 + n, "login")),
            (21 * DAY_MS - n * HOUR_MS, w.event(1_000 + n, "pay", 2_000, payee=930)),
        ],
    ),
    Typology(
        "refund abuse",
        "many refunds within a week",
        "COUNT(events where action = refund) per account over 7 d >= 4, when action = refund",
        lambda w, a, n: [(i * DAY_MS, w.event(a, "refund", 40)) for i in range(5)],
    ),
    Typology(
        "bot registration",
        "one address opens many accounts within an hour",
        "COUNT(events where action = signup) per ip over 1 h >= 6",
        lambda w, a, n: [
            (i * 3 * MINUTE_MS, w.event(2_000 + 10 * n + i, "signup", ip=f"203.0.113.{50 + n}"))
            for i in range(8)
        ],
    ),
    Typology(
        "far above the usual",
        "an hour's payments are ten times an average day's",
        "SUM(amount where action = pay) per account over 1 h > 10 × SUM(amount where action = pay) over 20 d "
        "without the current event ÷ 20 and COUNT(events where action = pay) over 20 d >= 10",
        lambda w, a, n: w.payments(a, [700 + 350 * n] * 3, 10 * MINUTE_MS, payee=940),
    ),
    Typology(
        "first payment of a device",
        "a device that the account never used pays at once",
        "COUNT(events) per account, device over 365 d without the current event = 0, when action = pay and amount > 500",
        lambda w, a, n: [(0, w.event(a, "pay", 800, payee=941, device=f"other-{n}"))],
    ),
    Typology(
        "reset, then payment",
        "a large payment within a quarter of an hour after the password was reset",
        "COUNT(events where action = reset) per account over 15 min >= 1, when action = pay and amount > 1000",
        lambda w, a, n: [(0, w.event(a, "reset")), (6 * MINUTE_MS, w.event(a, "pay", 1_800, payee=942))],
    ),
    Typology(
        "shared device",
        "one device is used by many accounts within a day",
        "UNIQUE_COUNT(account) per device over 1 d >= 5",
        lambda w, a, n: [
            (i * HOUR_MS, w.event(1 + (a + i) % ACCOUNTS, "login", device=f"farm-{n}")) for i in range(7)
        ],
    ),
    Typology(
        "gift cards",
        "payments of round amounts, one after the other",
        "COUNT(events where action = pay and amount in (50, 100, 200, 500)) per account over 1 h >= 4",
        lambda w, a, n: w.payments(a, [100, 200, 100, 500, 500], 5 * MINUTE_MS, payee=943),
    ),
    Typology(
        "fan-in",
        "many accounts pay one payee within an hour",
        "UNIQUE_COUNT(account where action = pay) per payee over 1 h >= 6",
        lambda w, a, n: [
            (i * 4 * MINUTE_MS, w.event(1 + (a + i) % ACCOUNTS, "pay", 1_200, payee=950 + n))
            for i in range(8)
        ],
    ),
    Typology(
        "fan-out",
        "one account pays many payees within an hour",
        "UNIQUE_COUNT(payee where action = pay) per account over 1 h >= 6",
        lambda w, a, n: [(i * 4 * MINUTE_MS, w.event(a, "pay", 90, payee=960 + i)) for i in range(8)],
    ),
    Typology(
        "attack from one network",
        "many actions out of one network, reported once an hour",
        "COUNT(events where ip in 192.0.2.0/24) over 1 h >= 10, at most 1 per 1 h",
        lambda w, a, n: [
            (i * 10_000, w.event(1 + (a + i) % ACCOUNTS, "login_failed", ip=f"192.0.2.{i + 1}"))
            for i in range(15)
        ],
    ),
    Typology(
        "sensor drift",
        "the last hours read a fifth more than the week",
        "AVG(amount where action = reading) per device over 3 h > 1.2 × AVG(amount where action = reading) over 7 d "
        "without the current event and COUNT(events where action = reading) over 3 h >= 5",
        _of_sensor(0, [24.5, 25.0, 25.5, 26.0, 26.5, 27.0, 27.5, 28.0], 20 * MINUTE_MS),
    ),
    Typology(
        "sensor stuck",
        "a sensor reads the same to the last digit",
        "VARIANCE(amount where action = reading) per device over 1 h = 0 "
        "and COUNT(events where action = reading) over 1 h >= 4",
        _of_sensor(CASES, [20.17] * 9, 14 * MINUTE_MS),
    ),
    Typology(
        "sensor spike",
        "one reading is twice the average of a day",
        "MAX(amount where action = reading) per device over 10 min > 2 × AVG(amount where action = reading) over 1 d "
        "without the current event",
        _of_sensor(2 * CASES, [55.0, 20.4], 20 * MINUTE_MS),
    ),
    Typology(
        "sensor silent",
        "a sensor that reads every hour has not read for four",
        "NO(events where action = reading) per device within 4 h after, when action = reading",
        lambda w, a, n: [
            (hour * HOUR_MS, w.sensor_reading(SENSORS + 3 * CASES + n, w.rng.gauss(20, 0.5)))
            for hour in (0, 1, 2, 7 + n)
        ],
    ),
    Typology(
        "takeover step by step",
        "a wrong password, a reset, a login, and then a payment within an hour",
        "SEQUENCE(action = login_failed, action = reset, action = login) per account over 1 h = 3, "
        "when action = pay and amount > 500",
        lambda w, a, n: _then(
            w.repeated_events(3_000 + n, "login_failed", 1 + n, MINUTE_MS),
            (2 * MINUTE_MS, w.event(3_000 + n, "reset")),
            (5 * MINUTE_MS, w.event(3_000 + n, "login")),
            ((9 + n) * MINUTE_MS, w.event(3_000 + n, "pay", 900, payee=970)),
        ),
    ),
    Typology(
        "far above one's own average",
        "a payment is twenty times what the account pays on average",
        "VALUE(amount where action = pay) per account > 20 × AVG(amount where action = pay) over 20 d "
        "without the current event and COUNT(events where action = pay) over 20 d >= 10",
        lambda w, a, n: w.payments(
            3_100 + n, [30 + 2 * i for i in range(12)] + [1_200 + 300 * n], DAY_MS, payee=971
        ),
    ),
    Typology(
        "browser without a window",
        "a program instead of a person logs in",
        "COUNT(events where device contains headless) per ip over 1 h >= 3",
        lambda w, a, n: [
            (i * MINUTE_MS, w.event(3_200 + i, "login", ip=f"203.0.113.{90 + n}", device=f"headless-{n}.{i}"))
            for i in range(4)
        ],
    ),
    Typology(
        "rising withdrawals",
        "a withdrawal is much larger than the one before",
        "CHANGE(amount where action = withdraw) per account over 7 d > 500",
        lambda w, a, n: [(i * HOUR_MS, w.event(3_300 + n, "withdraw", 300 + 700 * i)) for i in range(3)],
    ),
    Typology(
        "withdrawals in one go",
        "many withdrawals with no pause between them, however long that takes",
        "COUNT(events where action = withdraw) per account over a session with gaps up to 15 min within 1 d >= 5, "
        "when action = withdraw",
        lambda w, a, n: [(i * (8 + n) * MINUTE_MS, w.event(3_400 + n, "withdraw", 200)) for i in range(7)],
    ),
    Typology(
        "money that rested",
        "a large sum came in, lay there for half a day, and leaves",
        "SUM(amount where action = deposit) per account over 3 d ending 12 h before > 6000, "
        "when action = withdraw and amount > 5000",
        lambda w, a, n: [
            (0, w.event(3_500 + n, "deposit", 7_500)),
            ((14 + 6 * n) * HOUR_MS, w.event(3_500 + n, "withdraw", 7_000)),
        ],
    ),
)


def labelled_typology_events(seed: int = 1) -> list[LabelledEvent]:
    """A month of events in order of time, with `CASES` of each typology, the same for the same seed.

    >>> events = labelled_typology_events()
    >>> len(events) > 10_000, {each.typology for each in events} == {"", *(each.name for each in TYPOLOGIES)}
    (True, True)
    """
    world = SimulatedAccounts(seed)
    timed = [(time, event, "", 0) for time, event in world.ordinary_month_steps()]
    for place, typology in enumerate(TYPOLOGIES):
        for number in range(CASES):
            # an account and half a day of its own for each case
            account = 1 + (place * CASES + number) % ACCOUNTS
            start = FIRST_CASE + (place * CASES + number) % 16 * DAY_MS // 4 + place * HOUR_MS
            steps = typology.case_steps(world, account, number)
            start -= max(steps[-1][0] - (DAYS * DAY_MS - start), 0)  # it ends within the month
            timed += [(start + after, event, typology.name, number + 1) for after, event in steps]
    timed.sort(key=lambda each: each[0])
    return [
        LabelledEvent({"eventId": number, "eventTime": START_MS + time, **event}, typology, case)
        for number, (time, event, typology, case) in enumerate(timed, 1)
    ]
