"""What is told of the events of each route."""

import json
from collections import Counter

from lab.model.formatting import escape_control_characters
from lab.model.routestats import (
    NAME_CHARS,
    ROUTES_TOLD,
    RULES_TOLD,
    WARNINGS,
    RouteTallies,
    bounded_route_id,
    largest_counts_and_other,
    make_duplicate_example,
    make_late_example,
)
from lab.model.rules import Route

EXAMPLE = make_duplicate_example(
    17, 1_356_998_400_000, "{payeeId=25}", {"paymentAmount": "30.00"}, {"paymentAmount": "20.00"}
)


def test_more_than_one_in_a_hundred_is_told_with_two_records():
    tallies = RouteTallies()
    tallies.add("payeeId", 1, 1, {"evaluated": 99, "duplicates": 1}, EXAMPLE)
    assert list(tallies.warnings()) == []
    tallies.add("payeeId", 1, 1, {"duplicates": 1})
    assert list(tallies.warnings()) == [
        (
            "rule 1 (route payeeId) did not count 2.0 % of 101 events: 2 duplicates, 0 dropped late; for example two records have id 17 and "
            "time 2013-01-01 00:00:00.000 in group {payeeId=25}, with paymentAmount 30.00 and then paymentAmount 20.00: "
            "is the schema's id unique for each event?"
        )
    ]


def test_a_route_that_kept_an_event_has_not_lost_100_percent():
    tallies = RouteTallies()
    tallies.add("payeeId", 1, 1, {"evaluated": 1, "droppedLate": 9_999})
    tallies.add("ip", 2, 1, {"droppedLate": 9_999})
    assert [warning.partition(" did not count ")[2] for warning in tallies.warnings()] == [
        "99.9 % of 10,000 events: 0 duplicates, 9,999 dropped late",
        "100.0 % of 9,999 events: 0 duplicates, 9,999 dropped late",
    ]


def test_dropped_late_is_told_without_an_example_of_duplicates():
    tallies = RouteTallies()
    tallies.add("payeeId", 7, 3, {"evaluated": 100, "duplicates": 1, "droppedLate": 1}, EXAMPLE)
    assert list(tallies.warnings()) == [
        "rule 7 and 2 more (route payeeId) did not count 2.0 % of 102 events: 1 duplicate, 1 dropped late"
    ]


def test_records_that_took_back_nothing_are_a_warning_with_the_reason():
    tallies = RouteTallies()
    tallies.add("payeeId", 7, 3, {"evaluated": 100, "takenBack": 99, "notHeld": 1})
    assert list(tallies.warnings()) == []
    tallies.add("payeeId", 7, 3, {"notHeld": 2})
    assert list(tallies.warnings()) == [
        (
            "3 of 102 records on route payeeId took back no event: none with their id, time and group is stored, "
            "because it never came, had another time or group, was late or filtered out, or has expired"
        )
    ]


def test_the_newest_event_is_named_by_its_time_alone_if_ids_are_texts():
    tallies, example = RouteTallies(), make_late_example(("a", 0), "{ip=x}", ("b", 60_000))
    tallies.add("ip", 7, 1, {"evaluated": 90, "droppedLate": 10}, None, example)
    told = RouteTallies()
    told.add_stats(tallies.to_stats())
    (warning,) = told.warnings()
    assert warning.endswith(
        "10 dropped late; for example the event with id a and time 1970-01-01 00:00:00.000 in group {ip=x}; "
        "the newest event beside it is the one with time 1970-01-01 00:01:00.000: is that time right?"
    )


def test_a_line_names_the_routes_that_lost_most_and_sums_up_the_others():
    tallies = RouteTallies(at_most=20_000)
    long = Route(("payeeId",), (("paymentType", ("x" * 60_000,)),))
    for number in range(10_000):
        tallies.add(
            Route((f"field{number}",), ()),
            number,
            1,
            {"evaluated": 9, "duplicates": number % 7 == 0},
            EXAMPLE,
        )
    tallies.add(long, 10_000, 1, {"evaluated": 1, "droppedLate": 50})
    stats = tallies.to_stats()
    assert len(stats["routes"]) == ROUTES_TOLD and len(json.dumps(stats)) < 60_000
    assert (
        next(iter(stats["routes"])) == bounded_route_id(long)
        and len(bounded_route_id(long)) < NAME_CHARS + 20
    )
    read = RouteTallies()
    read.add_stats(stats)
    told = sum((tally.counts for tally in read.by_route.values()), Counter()) + read.others
    assert told == {"evaluated": 90_001, "duplicates": 1429, "droppedLate": 50}
    assert len(list(read.warnings())) == WARNINGS + 1 and read.to_stats().keys() == stats.keys()
    assert bounded_route_id(long) in read.to_stats()["routes"]


def test_a_reader_keeps_so_many_routes_and_sums_up_the_others():
    tallies = RouteTallies(at_most=2)
    for name in ("a", "b", "c", "a"):
        tallies.add_stats(
            {"routes": {name: {"rule": 1, "rules": 1, "routed": 2, "evaluated": 1, "duplicates": 1}}}
        )
    assert {name: tally.record_count for name, tally in tallies.by_route.items()} == {"a": 4, "b": 2}
    assert +tallies.others == {"evaluated": 1, "duplicates": 1}


def test_a_line_from_before_there_were_counts_of_routes_tells_none():
    tallies = RouteTallies()
    tallies.add_stats({"batch": 0, "records": 5, "evaluated": 4, "duplicates": 1})
    assert tallies.by_route == {} and list(tallies.warnings()) == []


def test_an_example_is_bounded_and_does_nothing_to_a_terminal():
    many = {f"field{number}": "\x1b[31m" * 100 for number in range(50)}
    example = make_duplicate_example("\x1b" * 10_000, 0, "{ip=" + "\x9b" * 10_000, many, many)
    assert len(json.dumps(example)) < 10_000
    tallies = RouteTallies()
    tallies.add("ip|country=\x1b[2J", 1, 1, {"duplicates": 1}, example)
    (warning,) = tallies.warnings()
    assert escape_control_characters(warning) == warning and len(warning) < 20_000


def test_of_many_rules_a_line_names_those_that_alerted_most():
    counts = Counter({f"{number}.1": number + 1 for number in range(10_000)})
    told = largest_counts_and_other(counts)
    assert len(told) == RULES_TOLD + 1 and told.total() == counts.total() and "9999.1" in told
