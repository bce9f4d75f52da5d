"""Derived fields in columns, and the engine with them, against the reference."""

import json
from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.engine.records import derived as columns_of
from lab.engine.records.decode import decode_records
from lab.engine.records.feeds import LooseLines
from lab.model.derived import stored_form
from lab.model.jsontext import BadRecord
from lab.model.reference import evaluate_log
from tests.engine.drawn import drawn, first_difference
from tests.model.test_derived import BASE, BIG
from tests.strategies import DERIVED

SCHEMA = replace(
    BASE,
    derived=(
        ("sum", "n + fee * 2 - 1"),
        ("left", "amount - fine"),
        ("product", "amount * fine"),
        ("rest", "n % 1000"),
        ("small", "amount % 0.7"),
        ("age", "ts - created"),
        ("day", 'date(ts, "Europe/Berlin")'),
        ("old_day", 'date(created, "America/New_York")'),
        ("at", 'hour(created, "Australia/Lord_Howe") * 10 + weekday(ts)'),
        ("pair", "sorted(giver, taker)"),
        ("numbers", "sorted(n, fee, 7)"),
        ("domain", 'lower(after(email, "@"))'),
        ("size", "length(domain) + length(email)"),
        ("known", 'coalesce(country, before(email, "@"), "-")'),
        ("first", "coalesce(amount, fine, n, 0)"),
        ("when", "coalesce(created, ts)"),
        ("label", 'concat(giver, "/", n, "/", amount, flag)'),
    ),
)
NUMBERS = st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([BIG, -BIG - 1, BIG // 2, 10**17]))
TEXTS = st.sampled_from([None, "", "a", "B@x.org", "é@Ä@", "\U0001f600", 'q"', "x" * 1_999])
TIMES = st.integers(0, 4_000_000_000).map(
    lambda s: f"{1970 + s % 200}-03-{1 + s % 31:02}T{s % 24:02}:{s % 60:02}:59Z"
)
RECORDS = st.fixed_dictionaries(
    {"id": st.integers(0, 9), "ts": TIMES},
    optional={
        **dict.fromkeys(["n", "fee", "quantity"], NUMBERS),
        "amount": st.sampled_from([None, "0.10", "-9999999.99", "9999999.99", 3, float("nan")]),
        "fine": st.sampled_from([None, "0.000001", "-999999999999.999999", 1, float("nan")]),
        **dict.fromkeys(["giver", "taker", "email", "country"], TEXTS),
        "flag": st.sampled_from([True, False, None]),
        "created": TIMES,
    },
)


@given(st.lists(RECORDS, max_size=12))
def test_columns_have_the_values_and_dead_letters_of_the_reference(records):
    lines = [json.dumps(record).encode() for record in records]
    good, bad, nan = [], [], Counter[str]()
    for line in lines:
        more = Counter[str]()
        try:
            good.append(SCHEMA.parse(line, more))
            nan += more
        except BadRecord as error:
            bad.append(str(error))
    counted = Counter[str]()
    columns, _, found_bad = decode_records(LooseLines(b"\n".join(lines)), SCHEMA, nan_as_null=counted)
    assert [each.reason for each in found_bad] == bad and counted == nan
    for name in SCHEMA.names:
        assert columns[name].to_pylist() == [stored_form(event[name]) for event in good], name


def test_signs_and_clocks_are_computed_for_whole_columns_where_64_bits_are_enough(monkeypatch):
    fast = ("sum", "left", "product", "rest", "small", "age", "day", "old_day", "at")
    schema = replace(SCHEMA, derived=SCHEMA.derived[: len(fast)])
    assert tuple(name for name, _ in schema.derived) == fast
    record = {"id": 1, "ts": "2024-03-31T01:30:00Z", "created": "2024-01-01T00:00:00Z"}
    lines = [
        json.dumps(record | {"n": n, "fee": 2, "amount": "1.5", "fine": "-2"}).encode() for n in range(50)
    ]
    data = LooseLines(b"\n".join(lines))
    expected = [schema.parse(line) for line in lines]
    monkeypatch.setattr(columns_of, "call_value", None)  # the truth of one row is not asked
    columns, *_ = decode_records(data, schema)
    for name in fast:
        assert columns[name].to_pylist() == [stored_form(event[name]) for event in expected]


def test_without_derived_fields_nothing_more_is_done():
    with patch("lab.engine.records.decode.derived_columns", side_effect=AssertionError):
        decode_records(LooseLines(b'{"id": 1, "ts": "2024-03-31T01:30:00Z"}'), BASE)


@pytest.mark.parametrize(
    "seeds",
    [
        range(40),
        pytest.param(range(40, 800), marks=pytest.mark.slow),
        pytest.param(range(800, 2_000), marks=pytest.mark.soak),
    ],
)
def test_the_engine_gives_the_alerts_of_the_reference_with_derived_fields(seeds):
    assert not (different := first_difference(each for each in seeds if drawn(each, True).schema.derived)), (
        different
    )


def test_rules_of_random_logs_use_every_derived_field_and_alert():
    said, alerts, letters = b"", 0, Counter[str]()
    for seed in range(300):
        if (of := drawn(seed, short=True)).schema.derived:
            reference = evaluate_log(of.schema, of.log, **of.settings)
            said += b" ".join(text for kind, text in of.log if kind == "control")
            alerts += bool(reference.alerts)
            letters.update(letter["reason"].split(":")[0] for letter in reference.dead_letters)
    assert alerts > 20 and min(said.count(name.encode()) for name, _ in DERIVED) > 5
    assert letters["twice"] and letters["next"]  # some are out of range
