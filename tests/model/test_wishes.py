"""The rules of docs/wishes.md alert where the wish says so, and not otherwise."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.model.field import Field
from lab.model.reference import evaluate_log
from lab.model.schema import Schema
from lab.model.schemafile import schema_from_toml, schema_to_toml
from lab.stream.accounts import ACCOUNT_EVENTS

PAGE = Path(__file__).parents[2] / "docs" / "wishes.md"
ROW = re.compile(r"\| (\d+) \| (.*?) \| (.*) \|")
DERIVED = re.compile(r"""\w+ = ("[^"]*"|'[^']*')""")
LEG = re.compile(r"""(legs\.\w+)\.(\w+ = "[^"]*")""")
LIST = re.compile(r"add .* to @\w+")
MORE = (
    *(Field("old_balance", "decimal(12,2)"), Field("new_balance", "decimal(12,2)"), Field("stars", "long")),
    *(Field("email", "string"), Field("opened", "time", unit="ms")),
    *(Field("lat", "decimal(9,6)"), Field("lon", "decimal(9,6)")),
    *(Field("item", "string"), Field("planned", "decimal(12,2)")),
    *(Field("begins", "time", unit="ms"), Field("ends", "time", unit="ms")),
)
S, MIN, H, D = 1_000, 60_000, 3_600_000, 86_400_000
T0 = 400 * D


def rows() -> dict[int, tuple[str, str]]:
    """Number -> the wish, and what stands beside it."""
    found = map(ROW.fullmatch, PAGE.read_text(encoding="utf-8").splitlines())
    return {int(row[1]): (row[2], row[3]) for row in found if row}


def codes(*numbers: int) -> list[str]:
    """What stands as code in the rows of wishes."""
    return [code for number in numbers for code in re.findall(r"`([^`]+)`", rows()[number][1])]


def rule_of(number: int) -> str:
    """The rule of a wish: what stands in its row as code and is no field that it needs, nor a list."""
    return next(
        code
        for code in reversed(codes(number))
        if not any(other.fullmatch(code) for other in (DERIVED, LEG, LIST))
    )


def schema_of(number: int) -> Schema:
    """The fields of the page, with the derived ones of all its wishes, and the legs of this one."""
    expressions = "\n".join(filter(DERIVED.fullmatch, codes(*rows())))
    legs = "\n".join(f"[{found[1]}]\n{found[2]}" for found in map(LEG.fullmatch, codes(number)) if found)
    of = replace(ACCOUNT_EVENTS, fields=(*ACCOUNT_EVENTS.fields, *MORE))
    return schema_from_toml(f"{schema_to_toml(of)}[derived]\n{expressions}\n{legs}")


def each(count: int, action: str, apart: int = S, after: int = 0, **more) -> list[tuple[int, dict]]:
    return [(after + n * apart, {"action": action, **more}) for n in range(count)]


def accounts(count: int, action: str, **more) -> list[tuple[int, dict]]:
    return [(n * MIN, {"action": action, "account": n + 1, **more}) for n in range(count)]


def steps(*actions: str) -> list[tuple[int, dict]]:
    return [(place * 5 * MIN, {"action": action}) for place, action in enumerate(actions)]


def readings(*values: float, apart: int = MIN) -> list[tuple[int, dict]]:
    return [
        (n * apart, {"action": "reading", "amount": value, "device": "s"}) for n, value in enumerate(values)
    ]


def reviews(count: int, age_ms: int) -> list[tuple[int, dict]]:
    return [
        (n * MIN, {"action": "review", "account": n, "stars": 5, "opened": T0 + n * MIN - age_ms})
        for n in range(count)
    ]


FAR = (100 * D, {"action": "login", "account": 99, "device": "other"})  # so that time goes on
MONTH = each(40, "pay", 12 * H, amount=10)
RISING = [*each(3, "pay", 12 * H, amount=30), *each(37, "pay", 12 * H, 36 * H, amount=10)]
ORDERS = each(10, "order")
AT_HOME = each(5, "pay", D, amount=10, country="KR")
ABROAD = (10 * D + 40 * MIN, {"action": "pay", "amount": 31, "country": "US"})
# number -> events of which the last one raises an alert, and events that raise none
CASES = {
    1: (each(3, "pay", 30 * S), each(3, "pay", 31 * S)),
    2: (each(2, "pay", 29 * D, amount=10_000_000.01), each(2, "pay", 31 * D, amount=10_000_000.01)),
    3: (
        [*MONTH, (40 * 12 * H, {"action": "pay", "amount": 50.01})],
        [*MONTH, (40 * 12 * H, {"action": "pay", "amount": 50})],
    ),
    4: (
        [*each(1, "pay", amount=1, payee=7), (D, {"action": "pay", "amount": 10_001, "payee": 8})],
        [*each(1, "pay", amount=1, payee=8), (D, {"action": "pay", "amount": 10_001, "payee": 8})],
    ),
    5: (
        each(4, "deposit", D, amount=9_500),
        [*each(3, "deposit", H, amount=9_500), *each(3, "deposit", H, amount=10_000)],
    ),
    6: (
        [*each(5, "login_failed", MIN), (6 * MIN, {"action": "login"})],
        [*each(4, "login_failed", MIN), (6 * MIN, {"action": "login"})],
    ),
    7: (accounts(11, "login", ip="192.0.2.7"), accounts(11, "login", ip="10.0.2.7")),
    8: (
        [*each(1, "login", country="KR"), (2 * H, {"action": "login", "country": "US"})],
        [*each(1, "login", country="KR"), (2 * H + 1, {"action": "login", "country": "US"})],
    ),
    9: ([*each(1, "reset"), (15 * MIN, {"action": "pay"})], [*each(1, "pay"), (MIN, {"action": "reset"})]),
    11: ([*ORDERS, *each(3, "return", after=H)], [*ORDERS, *each(2, "return", after=H)]),
    12: ([*each(4, "lose"), *each(46, "win", after=H)], [*each(5, "lose"), *each(45, "win", after=H)]),
    13: (
        accounts(5, "login", device="one"),
        [*accounts(4, "login", device="one"), *accounts(4, "login", device="one")],
    ),
    14: ([*each(1, "login"), (61 * D, {"action": "pay", "amount": 101})], each(1, "pay", amount=101)),
    15: (each(10, "cancel", MIN), each(9, "cancel", MIN)),
    17: (readings(99, 80, 81, 82, 83, apart=H), readings(81, 82, 79, 83, 84, 80)),
    18: (readings(20, 21, 25.01), readings(26, 20, 25)),
    19: (
        [
            (16 * H, {"action": "withdraw"}),
            (21 * H + 59 * MIN, {"action": "pay"}),
            (22 * H, {"action": "withdraw"}),
        ],
        [(6 * H, {"action": "withdraw"}), (22 * H - 1, {"action": "withdraw"}), (23 * H, {"action": "pay"})],
    ),
    20: (readings(*[20, 22] * 3, 24.01, apart=H), readings(*[20, 22] * 3, 24, apart=H)),
    21: (
        [
            *each(1, "pay", amount=1_001, country="KR"),
            *each(1, "pay", amount=1_000, country="KP"),
            *each(1, "pay", after=1, amount=1_001, country="KP"),
        ],
        [*each(1, "login", country="KP"), *each(1, "pay", amount=1_001)],
    ),
    22: (
        steps("email_changed", "new_device", "email_changed", "withdraw"),
        [*steps("email_changed", "new_device", "withdraw"), (38 * MIN, {"action": "withdraw"})],
    ),
    23: (
        [*each(3, "pay", amount=200), *each(1, "pay", after=H - S, amount=12_300)],
        [
            *each(3, "pay", amount=200),
            *each(1, "pay", after=MIN, amount=550),
            *each(1, "pay", after=2 * H, amount=100),
        ],
    ),
    24: (
        [*RISING, (40 * 12 * H, {"action": "pay", "amount": 30.01})],
        [*RISING, (40 * 12 * H, {"action": "pay", "amount": 30})],
    ),
    25: (readings(20, 30, 20, 9.99), readings(20, 30, 20, 10)),
    # midnight in Berlin is 23:00 UTC
    27: (
        [
            (22 * H, {"action": "deposit", "amount": 9_000}),
            (23 * H - 1, {"action": "deposit", "amount": 1_001}),
        ],
        [(22 * H, {"action": "deposit", "amount": 9_000}), (23 * H, {"action": "deposit", "amount": 9_000})],
    ),
    28: (
        each(1, "pay", amount="0.10", old_balance="1.00", new_balance="0.91"),
        [
            *each(1, "pay", amount="0.10", old_balance="1.00", new_balance="0.90"),
            *each(1, "pay", amount=1, old_balance=5),
        ],
    ),
    29: (
        [
            (n * MIN, {"action": "pay", "account": 1 + 4 * (n % 2), "payee": 5 - 4 * (n % 2)})
            for n in range(5)
        ],
        [(n * MIN, {"action": "pay", "account": 1, "payee": 5 + n % 2}) for n in range(8)],
    ),
    30: (reviews(5, 7 * D - 1), [*reviews(4, D), *reviews(3, 7 * D)]),
    31: (
        accounts(3, "signup", email="x@Mail.example"),
        [*accounts(3, "signup", email="x@GMAIL.com"), (D, {"action": "signup", "email": "x@mail.example"})],
    ),
    32: (each(21, "call", MIN), each(40, "call", MIN, 40 * MIN)),
    26: (
        [*each(1, "buy"), *each(5, "add", 30 * MIN, after=H), *each(1, "add", after=3 * H)],
        [
            *each(5, "add", 30 * MIN),
            *each(1, "add", after=2 * H + 30 * MIN + 1),
            *each(1, "buy", after=3 * H),
            *each(5, "add", MIN, after=3 * H),
        ],
    ),
    33: (
        [*each(1, "login", device="HeadlessChrome"), *each(1, "pay", after=S, device="HeadlessChrome/1")],
        [*each(1, "login", device="a bot"), *each(1, "pay", after=S, device="headless Bot")],
    ),
    34: ([*each(2, "pay", 100), (199, {"action": "login"})], each(3, "pay", 100)),
    35: (
        [*each(1, "pay", amount=501, country="KR"), *each(1, "pay", after=H, amount=501, country="KP")],
        each(1, "pay", amount=500, country="KP"),
    ),
    36: (
        [*each(1, "pay", amount=6_000), *each(1, "pay", after=H, account=5, payee=7, amount=5_400)],
        [*each(1, "pay", amount=6_000), *each(1, "pay", after=H, account=5, payee=7, amount=5_399)],
    ),
    37: (
        [*each(3, "declined", MIN), *each(1, "pay", after=10 * MIN)],
        [*each(3, "declined", MIN), *each(1, "pay", after=10 * MIN + 1)],
    ),
    38: (
        [(n * MIN, {"action": "pay", "device": f"card {n}", "ip": "192.0.2.1"}) for n in range(5)],
        [(n * MIN, {"action": "pay", "device": f"card {n % 4}", "ip": "192.0.2.1"}) for n in range(9)],
    ),
    39: (
        [*each(1, "pay", amount="0.99"), *each(1, "pay", after=MIN, amount="500.01")],
        [*each(1, "pay", amount=501), *each(1, "pay", after=S, amount="0.99")],
    ),
    40: (
        [*each(9, "pay"), *each(11, "declined", after=MIN)],
        [*each(8, "pay"), *each(10, "declined", after=MIN), *each(5, "pay", after=2 * MIN)],
    ),
    41: (
        each(3, "deposit", 12 * H, amount=8_000),
        [*each(2, "deposit", 12 * H, amount=10_000), *each(2, "deposit", H, 13 * H, amount="10000.01")],
    ),
    42: (
        [*each(2, "pay", D, amount=1_001_000), *each(1, "pay", after=30 * D, amount=3_000)],
        [*each(2, "pay", D, amount=1_000), *each(2, "pay", D, 2 * D, amount=2_500)],
    ),
    43: (
        [*each(1, "pay", amount=2, payee=8), *each(1, "pay", after=H, amount=1_001, payee=9)],
        [*each(1, "pay", amount=2, payee=8), *each(1, "pay", after=180 * D, amount=1_001, payee=8)],
    ),
    44: (
        [(n * S, {"action": "login_failed", "account": n, "ip": "192.0.2.1"}) for n in range(10)],
        [(n * S, {"action": "login_failed", "account": n % 9, "ip": "192.0.2.1"}) for n in range(20)],
    ),
    # Tokyo and New York are 10,850 km apart: 10 h 51 min with 1,000 km/h; Berlin and Hamburg 255 km
    45: (
        [
            *each(1, "login", lat=40.7128, lon=-74.006),
            *each(1, "pay", after=H),
            *each(1, "login", after=2 * H),
            *each(1, "login", after=10 * H + 50 * MIN, lat=35.6762, lon=139.6503),
        ],
        [
            *each(1, "login", lat=40.7128, lon=-74.006),
            *each(1, "login", after=10 * H + 52 * MIN, lat=35.6762, lon=139.6503),
            *each(1, "login", after=40 * H, lat=52.52, lon=13.405),
            *each(1, "login", after=40 * H + MIN, lat=53.55, lon=9.993),
        ],
    ),
    46: (
        [*each(2, "login", 29 * D, country="KR"), *each(1, "login", after=30 * D, country="US")],
        [*each(1, "login", country="US"), *each(2, "login", 14 * D, D, country="US")],
    ),
    47: (
        [*each(1, "click"), *each(1, "login", after=S), *each(1, "install", after=10 * S - 1)],
        [*each(1, "click"), *each(1, "install", after=10 * S)],
    ),
    48: (each(100, "click", MIN), [*each(2, "install", MIN), *each(120, "click", MIN, H)]),
    49: ([*readings(1, *[2] * 10, apart=D)], [*readings(*[2] * 9, 3, *[2] * 9, apart=MIN)]),
    50: ([*readings(22.9, 24, 25.1)], [*readings(23, 26, 24, 23, 27)]),
    51: (
        [*each(68, "call"), *each(1, "error", after=2 * MIN)],
        [*each(69, "call"), *each(1, "error", after=2 * MIN)],
    ),
    52: (
        [*each(99, "call", amount=10), *each(2, "call", after=2 * MIN, amount=1_001)],
        [*each(99, "call", amount=10), *each(1, "call", after=2 * MIN, amount=9_000)],
    ),
    53: (
        [*each(3, "pay", D, amount=20), *each(1, "refund", after=4 * D, amount="30.01")],
        [*each(3, "pay", D, amount=20), *each(1, "refund", after=4 * D, amount=30)],
    ),
    # 1:00 and 5:00 in Berlin are 0:00 and 4:00 UTC in winter
    54: (
        [*each(2, "pay", D, H), *each(1, "pay", after=7 * D)],
        [*each(2, "pay", D, 4 * H), *each(2, "pay", 2 * D, 24 * H - 1), *each(1, "pay", after=6 * D)],
    ),
    55: (
        [*each(1, "login", device="Mozilla/5.0 (X11)"), *each(1, "login", after=S, device="curl/8.1")],
        [*each(1, "login", device="curl"), *each(1, "login", after=S, device="Curl/8.1")],
    ),
    # warm for a moment less than ten minutes, and once not in between
    56: (
        readings(*[-20], *[-9] * 3, apart=5 * MIN),
        [*readings(-9, -9, apart=10 * MIN - 1), *readings(-9, -10, -9, -9, apart=5 * MIN)],
    ),
    57: ([*each(70, "call", MIN), *each(1, "call", after=77 * MIN)], each(70, "call", MIN)),
    58: (each(20, "move", 500), each(40, "move", 600)),
    59: (
        [
            *each(1, "reset"),
            *each(1, "pay", after=MIN, amount=501),
            *each(1, "login", after=H, device="other"),
        ],
        [*each(1, "reset"), *each(1, "pay", after=MIN, amount=501)],
    ),
    60: (
        [*each(1, "pay"), *each(1, "pay", after=24 * H, account=5, payee=1)],
        [
            *each(1, "pay"),
            *each(1, "pay", after=H, account=5, payee=7),
            *each(1, "pay", after=2 * H, account=7, payee=1),
        ],
    ),
    61: (
        steps("reset", "email_changed", "payee_added", "withdraw"),
        [
            *steps("email_changed", "payee_added", "reset", "email_changed", "withdraw"),
            *each(1, "payee_added", after=61 * MIN),
            *each(1, "withdraw", after=76 * MIN),
        ],
    ),
    62: (
        [*AT_HOME, *each(1, "pay", after=10 * D, amount=10, country="US"), ABROAD],
        [*AT_HOME, *each(1, "pay", after=9 * D, amount=10, country="US"), ABROAD],
    ),
}
# the same of the wishes of other trades
CASES |= {
    63: (
        [
            (2 * D, {"action": "treatment", "amount": 720, "begins": T0 - H}),
            (40 * D, {"action": "treatment", "amount": 721, "begins": T0 + 23 * H - 1}),
        ],
        [
            (2 * D, {"action": "treatment", "amount": 1440, "begins": T0 - H}),
            (40 * D, {"action": "treatment", "amount": 1440, "begins": T0 - H - 1}),
        ],
    ),
    64: (
        [(n * 15 * D, {"action": "prescription", "item": "d", "payee": n}) for n in range(3)],
        [
            *[(n * H, {"action": "prescription", "item": "d", "payee": n % 2}) for n in range(6)],
            (7 * H, {"action": "prescription", "item": "e", "payee": 7}),
            (31 * D, {"action": "prescription", "item": "d", "payee": 7}),
        ],
    ),
    65: (
        each(2, "operation", 3000 * D, item="appendectomy"),
        [
            *each(1, "operation", item="appendectomy"),
            *each(3, "operation", D, item="filling"),
            *each(1, "operation", after=D, item="appendectomy", account=2),
        ],
    ),
    66: (
        [(n * 6 * S, {"action": "call", "payee": n, "amount": 2.99}) for n in range(100)],
        [
            *[(n * S, {"action": "call", "payee": n % 99, "amount": 2}) for n in range(150)],
            *[(H + n * S, {"action": "call", "payee": n, "amount": 3}) for n in range(100)],
            *[(3 * H + n * 6_061, {"action": "call", "payee": n, "amount": 1}) for n in range(100)],
        ],
    ),
    67: (
        [(n * MIN, {"action": "call", "payee": 1_000 + max(n, 20)}) for n in range(200)],
        [
            (0, {"action": "call", "account": 9, "payee": 1}),
            *[(n * MIN, {"action": "call", "payee": 1_000 + n}) for n in range(200)],
            *[(n * MIN, {"action": "call", "account": 2, "payee": 1_000 + max(n, 21)}) for n in range(200)],
            *[(n * MIN, {"action": "call", "account": 3, "payee": 1_000 + n}) for n in range(199)],
            *[(3 * D + n * 8 * MIN, {"action": "call", "account": 4, "payee": n}) for n in range(200)],
        ],
    ),
    68: (
        [
            *each(2, "login", D),
            *each(1, "swap", after=20 * D),
            *each(1, "password", after=21 * D, device="new"),
        ],
        [
            *each(2, "login", D),
            *each(1, "swap", after=20 * D),
            *each(1, "password", after=20 * D + H),
            *each(1, "password", after=21 * D + 1, device="new"),
        ],
    ),
    69: (readings(10, 11, 12, apart=30 * H), [*readings(10, 12, 11, 11, 10, 10, apart=30 * H)]),
    70: (
        [
            *each(1, "service", amount=1_000),
            *each(1, "reading", after=D, amount=1_500),
            *each(1, "reading", after=D + 1, amount="1500.01"),
        ],
        [
            *each(1, "reading", amount=900),
            *each(1, "service", after=D, amount=1_000),
            *each(1, "service", after=20 * D, amount=1_450),
            *each(1, "reading", after=40 * D, amount=1_900),
        ],
    ),
    71: (
        [
            *readings(20, 40, apart=10 * MIN),
            *each(1, "reading", after=10 * MIN + 500, device="s", amount="40.02"),
        ],
        [*readings(20, 22, 24, 0), *each(1, "reading", after=D, device="s", amount=500)],
    ),
    72: (
        [(D, {"action": "claim", "begins": T0 - 13 * D})],
        [(D, {"action": "claim", "begins": T0 - 13 * D - 1}), (D, {"action": "pay", "begins": T0})],
    ),
    73: (
        [(n * 365 * D, {"action": "claim", "account": n, "item": "car"}) for n in range(2)],
        [
            *each(2, "claim", D, item="car"),
            *each(1, "claim", after=2 * D, item="other", account=2),
            (367 * D, {"action": "claim", "account": 2, "item": "car"}),
        ],
    ),
    74: (
        [(n * 45 * D, {"action": "estimate", "amount": 1_900 + 50 * n, "planned": 2_000}) for n in range(3)],
        [
            *each(2, "estimate", D, amount=2_000, planned=2_000),
            *each(2, "estimate", D, 3 * D, amount="1899.99", planned=2_000),
            *each(2, "estimate", D, 5 * D, amount="2000.01", planned=2_000),
            *each(2, "bill", D, 7 * D, amount=1_950, planned=2_000),
            *each(1, "estimate", after=90 * D + H, amount=1_950, planned=2_000),
        ],
    ),
    76: (
        [
            *each(1, "place", lat=52.52, lon=13.4),
            *each(3, "place", H, H, lat=52.52, lon=13.41),
        ],
        each(5, "place", H, lat=53.55, lon=9.994),
    ),
    77: (each(31, "reading", MIN, item="s", amount=9), each(40, "reading", MIN, item="s", amount=8)),
    78: (
        [(n * 30 * S, {"action": "message", "item": "hello", "payee": n}) for n in range(5)],
        [
            *[(n * S, {"action": "message", "item": "hello", "payee": n % 4}) for n in range(9)],
            (10 * S, {"action": "message", "item": "Hello", "payee": 7}),
            (2 * MIN + 9 * S, {"action": "message", "item": "hello", "payee": 7}),
        ],
    ),
    79: (
        [(n * H, {"action": "report", "account": n, "opened": T0 - 6 * D}) for n in range(3)],
        [
            *[(n * H, {"action": "report", "account": n % 2, "opened": T0 - 6 * D}) for n in range(6)],
            (7 * H, {"action": "report", "account": 4, "opened": T0 + 7 * H - 7 * D}),
            (D + 5 * H, {"action": "report", "account": 4, "opened": T0}),
        ],
    ),
    80: (
        [*each(10, "message"), *each(4, "removed", after=H)],
        [
            *each(10, "message"),
            *each(3, "removed", after=H),
            *each(10, "message", account=7),
            *each(9, "removed", after=H, account=7),
            *each(9, "message", account=8),
            *each(9, "removed", after=H, account=8),
        ],
    ),
    81: (
        [
            *each(2, "error", MIN),
            *each(1, "deploy", after=10 * MIN),
            *each(3, "error", S, 12 * MIN),
            *each(1, "error", after=20 * MIN),
        ],
        [
            *each(2, "error", MIN),
            *each(1, "deploy", after=10 * MIN),
            *each(2, "error", S, 12 * MIN),
            *each(1, "error", after=20 * MIN),
            *each(9, "error", S, 40 * MIN),
        ],
    ),
    82: (
        [*each(9, "restart", MIN, device="billing"), *each(5, "restart", 150 * S)],
        [*each(9, "restart", MIN, device="billing"), *each(5, "restart", 151 * S)],
    ),
    84: (
        [
            *each(1, "output", amount=100, planned=100),
            *each(1, "login", after=MIN),
            *each(2, "output", 15 * MIN, 15 * MIN, amount="105.01", planned=100),
            *each(2, "output", 15 * MIN, 45 * MIN, amount="94.99", planned=100),
        ],
        [
            *each(3, "output", 15 * MIN, amount=90, planned=100),
            *each(1, "output", after=45 * MIN, amount=95, planned=100),
            *each(3, "output", 15 * MIN, H, amount=110, planned=100),
        ],
    ),
    85: (
        [
            *each(20, "order"),
            *[(MIN + n, {"action": "cancel", "begins": T0 + MIN + n - 1_000}) for n in range(19)],
        ],
        [
            *each(20, "order"),
            *[(MIN + n, {"action": "cancel", "begins": T0 + MIN + n - 1_000}) for n in range(18)],
            *[(MIN + n, {"action": "cancel", "begins": T0 + MIN + n - 1_001}) for n in range(20)],
            *each(19, "order", account=2),
            *each(19, "cancel", account=2, after=MIN, begins=T0 + 2 * MIN),
        ],
    ),
    86: (
        [
            *[(n * MIN, {"action": "lose", "amount": 2**n}) for n in range(4)],
            *each(1, "login", after=3 * MIN + 1, amount=1),
            *each(1, "win", after=4 * MIN, amount=16),
        ],
        [
            *[(n * MIN, {"action": "win" if n == 2 else "lose", "amount": 2**n}) for n in range(6)],
            *[
                (H + n * MIN, {"action": "lose", "amount": amount})
                for n, amount in enumerate((1, 2, 4, 9, 16))
            ],
        ],
    ),
    # whoever has lost nothing before loses more with the first loss
    87: (each(1, "lose", amount=1), each(3, "win", D, amount=9)),
}
# number -> events after the first of which what is awaited does not come, and events after which it does
ABSENT = {
    10: ([*each(1, "order"), FAR], [*each(1, "order"), (30 * MIN, {"action": "pay"}), FAR]),
    16: (
        [*readings(20), (11 * MIN, {"action": "reading", "device": "t"})],
        readings(*[20] * 9, apart=9 * MIN),
    ),
    75: (
        [*each(1, "scan", item="p"), FAR],
        [*each(2, "scan", 48 * H, item="p"), *each(1, "delivered", after=96 * H, item="p"), FAR],
    ),
    83: (
        [
            *each(1, "check", item="c", ends=T0 + 14 * D - 1),
            *each(1, "check", after=H, item="c", ends=T0 + 99 * D),
            FAR,
        ],
        [
            *each(1, "check", item="c", ends=T0 + 13 * D),
            *each(1, "renewed", after=D, item="c"),
            *each(1, "check", after=2 * D, item="c", ends=T0 + 16 * D),
            FAR,
        ],
    ),
}


def log_of(number: int, events: Iterable[tuple[int, dict]]) -> list[tuple[str, bytes]]:
    """The rule of a wish and what its lists have, and then events."""
    said = (f"1: {rule_of(number)}", *filter(LIST.fullmatch, codes(number)))
    log = [("control", message.encode()) for message in said]
    for place, (time, event) in enumerate(events):
        given = {"eventId": place, "eventTime": T0 + time, "account": 1, "payee": 5, "device": "phone"}
        log.append(("event", json.dumps(given | event).encode()))
    return log


def alerts(number: int, events: Iterable[tuple[int, dict]]) -> list[int]:
    """Places of the events at which the rule alerts."""
    reference = evaluate_log(schema_of(number), log_of(number, events))
    assert not reference.dead_letters
    assert {ack["status"] for ack in reference.acks} == {"accepted"}, reference.acks
    ids = (alert.event_id for alert in reference.alerts)
    return [int(id[0] if isinstance(id, tuple) else id) for id in ids]


@pytest.mark.parametrize("number", CASES)
def test_a_rule_alerts_where_its_wish_says_so_and_not_otherwise(number):
    found, not_found = CASES[number]
    assert alerts(number, found) == [len(found) - 1]
    assert alerts(number, not_found) == []


@pytest.mark.parametrize("number", ABSENT)
def test_what_does_not_come_is_told(number):
    absent, comes = ABSENT[number]
    assert alerts(number, absent) == [0]
    assert alerts(number, comes) == []


@pytest.mark.parametrize("apart", [0, 1, S])
def test_the_value_of_an_event_is_not_that_of_one_a_moment_before(apart):
    large, small = ({"action": "pay", "amount": amount} for amount in (200, 10))
    assert alerts(3, [*MONTH, (40 * 12 * H, large), (40 * 12 * H + apart, small)]) == [40]


def test_losses_of_a_week_are_compared_with_those_of_the_three_weeks_before():
    losses = [*each(2, "lose", 8 * D, amount=10), *each(1, "lose", after=8 * D + H, amount="0.01")]
    assert alerts(87, losses) == [0, 2]


def test_the_page_says_how_many_wishes_can_be_said():
    assert sorted(rows()) == list(range(1, 88))
    rules = [rule for _, rule in rows().values()]
    assert len([rule for rule in rules if "Not sayable" in rule]) == 8
    text = PAGE.read_text(encoding="utf-8").replace("\n", " ")
    assert "Seventy-nine can be said exactly" in text and "other eight" in text
    assert {*CASES, *ABSENT} == set(range(1, 88))
