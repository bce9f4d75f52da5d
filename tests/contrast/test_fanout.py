"""Copies for each rule and for each route are counted, on the engine's own routing."""

import gzip

import pytest

from lab.contrast.fanout import more_rules, route_batch
from lab.engine.checkpoint.settings import Settings
from lab.model.rules import RuleBook
from lab.model.schema import PAYMENTS
from lab.past.replay import read_rules
from lab.stream.datasets import dataset

SETTINGS = Settings(PAYMENTS)
LINES = gzip.decompress((dataset("payments") / "payments.jsonl.gz").read_bytes()).splitlines()[:500]


@pytest.fixture
def book() -> RuleBook:
    book = RuleBook(PAYMENTS)
    for message in read_rules(dataset("payments") / "rules.json") + more_rules(5, 20):
        assert book.apply(message)["status"] == "accepted"
    return book


def test_each_rule_without_a_filter_gets_a_copy_of_each_event_unless_they_are_merged(book):
    book.rules = {rule.rule_id: rule for rule in book.sorted() if not rule.filter}
    assert route_batch(LINES, book, SETTINGS, merged=False).copies == 500 * len(book.rules)
    assert route_batch(LINES, book, SETTINGS).copies == 500 * len(book.routes())


def test_a_filtered_rule_gets_a_copy_of_the_events_that_match_only():
    book = RuleBook(PAYMENTS)
    message = more_rules(1, 1)[0].replace("{", '{"filter": {"paymentType": "CSH"}, ', 1)
    assert book.apply(message)["status"] == "accepted"
    cash = sum(PAYMENTS.parse(line)["paymentType"] == "CSH" for line in LINES)
    assert 0 < cash < 500
    assert route_batch(LINES, book, SETTINGS, merged=False).copies == cash


def test_merging_saves_copies_and_trimming_saves_bytes(book):
    whole = route_batch(LINES, book, SETTINGS, merged=False, trimmed=False)
    merged = route_batch(LINES, book, SETTINGS, trimmed=False)
    trimmed = route_batch(LINES, book, SETTINGS)
    assert whole.bytes > 2 * merged.bytes > 2 * trimmed.bytes
    assert whole.copies > merged.copies == trimmed.copies
    assert {each.events for each in (whole, merged, trimmed)} == {500}


def test_more_rules_are_the_same_every_time_and_all_differ_in_their_id():
    assert more_rules(5, 20) == more_rules(5, 20) != more_rules(5, 20, seed=2)
    assert more_rules(5, 20)[:3] == more_rules(5, 3)
