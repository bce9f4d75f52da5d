"""Events that are taken back: the engine gives what the reference gives, from memory, from state files, in long groups."""

import json
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.loop.task import task_windows
from lab.engine.records.decode import decode_records
from lab.engine.records.feeds import LooseLines
from lab.engine.windows.statefiles import first_seq
from lab.model.alerts import parse_alert_line
from lab.model.horizon import WITNESSES
from lab.model.reference import Reference
from lab.model.schema import LOGINS
from lab.model.whenreader import parse_filter
from lab.past import plainpast
from lab.past.columnpast import Past
from lab.state.read import events_not_taken_back
from tests.engine.drawn import agreed
from tests.engine.test_absence import Clocked
from tests.engine.test_statefiles import rescaled
from tests.model.test_absence import ORDER
from tests.model.test_taken_back import MINUTE, RETURNS, ROWS, SUM, T0, event, row, standing, withdrawn

TWO_ROUTES = (
    SUM,
    b"2: MAX(amount) per userId, country over 5 min > 3",
    b"3: MAX(amount) per country, userId over 5 min > 3",
    b"4: COUNT(events) per userId over 1 h >= 1, of action = pay or amount > 2",
    b'5: NO(events where action = "pay") per userId within 1 min after, when amount > 4',
)


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 6))])
def test_the_last_line_about_an_event_says_whether_its_alerts_stand_wherever_the_cuts_fall(seed, tasks):
    """Also between the routes of a cut, where all is logged in the same millisecond."""
    rng, at = random.Random(seed), T0
    reference = Reference(RETURNS)
    with Clocked(Settings(RETURNS, parallelism=tasks, key_groups=4)) as stages:
        for rule in TWO_ROUTES:
            stages.log("control", rule, at)
            reference.control(rule, at)
        seen, cuts = 0, 0
        for _ in range(30):
            lines = []
            at += rng.choice([1, 1, 20_000, 61_000])
            for _ in range(rng.choice([1, 2, 8])):
                number, user = rng.randrange(4), rng.randrange(2)
                of = {"userId": user, "country": "KR", "at": T0 + number}
                action = rng.choice(["pay", "returned", "returned", "order"])
                lines.append(event(number, str(rng.randint(1, 9)), action, **of))
                reference.event(lines[-1], log_time=at)
            stages.logs.log("events").append(lines, at)
            if rng.random() < 0.6:
                stages.now = at + 1
                stages.step()
                reference.advance_to(at + 1)
                told = list(map(parse_alert_line, stages.out["alerts"]))
                assert standing(told) == standing(reference.alerts_and_withdrawals)
                seen, cuts = len(told), cuts + 1
            if rng.random() < 0.2:
                stages.lose_memory()
        assert len({told.alert_id for told in reference.alerts}) < len(reference.alerts)
        assert seen > 40 and cuts > 10


@pytest.mark.parametrize("apart_ms", [0, 1])
@pytest.mark.parametrize("returned", [{0, 4, 6}, {1, 2, 3}])
def test_after_a_rescale_only_the_wait_of_the_event_that_was_taken_back_ends(returned, apart_ms):
    """The tasks of before gave their events the same numbers: user 0 and 1 have 0, 4 and 2 have 1, 6 and 3 have 2."""
    users = range(8)
    with Clocked(Settings(RETURNS, parallelism=2, key_groups=8)) as stages:
        stages.log("control", ORDER, T0)
        for user in users:
            order = event(user, None, "order", at=5, userId=user)
            stages.logs.log("events").append([order], T0 + 1 + apart_ms * user)
        stages.now = T0 + 10
        stages.step()
        rescaled(stages, 1, "a")
        records = [event(user, None, "returned", at=5, userId=user) for user in sorted(returned)]
        stages.logs.log("events").append(records, T0 + 11)
        stages.now = T0 + 2 * MINUTE
        stages.step()
        alerted = [json.loads(line)["eventId"] for line in stages.out["alerts"]]
        assert sorted(alerted) == sorted({*users} - returned)


@pytest.mark.parametrize("after", ["memory kept", "memory lost", "a rescale"])
@pytest.mark.parametrize("files", [2, 20])
def test_an_alert_of_absence_is_withdrawn_long_after_its_event_was_saved(after, files):
    """`files`: how many epochs there are between the alert and the record that takes its event back; files are merged.

    The ids of users 1 to 3 are also the numbers by which the engine knows these events.
    """
    users, returned = range(8), [0, 1, 4, 7]
    ids = [first_seq(1) + user - 1 for user in users]
    with Clocked(Settings(RETURNS, parallelism=2, key_groups=8)) as stages:
        stages.log("control", ORDER, T0)
        orders = [event(ids[user], None, "order", at=T0, userId=user) for user in users]
        stages.logs.log("events").append(orders, T0 + 1)
        stages.now = T0 + 2
        stages.step()
        stages.now = T0 + 2 * MINUTE
        stages.step()
        assert len(stages.out["alerts"]) == len(users)
        for n in range(files):
            stages.log("events", event(100 + n, None, "search", userId=n % 8), stages.now)
        if after == "memory lost":
            stages.lose_memory()
        elif after == "a rescale":
            rescaled(stages, 1, "a")
        records = [event(ids[user], None, "returned", at=T0, userId=user) for user in [*returned, 0]]
        stages.logs.log("events").append(records, stages.now)
        stages.now += 1
        stages.step()
        lines = [json.loads(line) for line in stages.out["alerts"]]
        assert sorted(line["eventId"] for line in lines if "withdrawn" in line) == [
            ids[user] for user in returned
        ]
        tasks = [task_windows(stages.job, task) for task in range(stages.settings.parallelism)]
        tables = [each.files.read(file) for each in tasks for file in each.chain]
        rows = pa.concat_tables(tables, promote_options="default")
        held = events_not_taken_back(rows.filter(rows["time"].is_valid()))
        assert len(held) == len(users) + files - len(returned)


def test_one_cut_may_have_the_alert_of_an_absence_and_what_takes_its_event_back():
    """The wait of order 1 is found to have ended at a payment that comes too late, that of order 2 at its return."""
    lines = {
        1: [event(1, None, "order", at=T0), event(2, None, "order", at=T0, userId=2)],
        MINUTE + 2: [event(3, None, at=T0)],
        MINUTE + 3: [event(n, None, "returned", at=T0, userId=n) for n in (1, 2)],
    }
    reference = Reference(RETURNS)
    with Clocked(Settings(RETURNS)) as stages:
        stages.log("control", ORDER, T0)
        reference.control(ORDER, T0)
        for at, some in lines.items():
            stages.logs.log("events").append(some, T0 + at)
            for line in some:
                reference.event(line, log_time=T0 + at)
        stages.now = T0 + 2 * MINUTE
        stages.step()
        told = [parse_alert_line(line) for line in stages.out["alerts"]]
    assert [(type(each), each.event_id) for each in told] == [
        (type(each), each.event_id) for each in reference.alerts_and_withdrawals
    ]
    assert [each.event_id for each in withdrawn(reference)] == [1, 2]


def test_events_that_came_before_the_schema_said_so_can_be_taken_back(tmp_path):
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch([("control", SUM), ("event", event(1, "4"))])
        stages.settings = stages.planner.settings = Settings(RETURNS)
        stages.job = replace(stages.job, settings=stages.settings, start_id=f"{stages.job.start_id}-again")
        stages.run_batch(
            [("event", event(1, "4", "returned")), ("event", event(2, "4")), ("event", event(3, "2"))]
        )
        assert [json.loads(line)["eventId"] for line in stages.out["alerts"]] == [3]


@pytest.mark.parametrize(
    "function", ["MAX", *(pytest.param(more, marks=pytest.mark.slow) for more in ("SUM", "UNIQUE_COUNT"))]
)
def test_to_take_back_costs_a_walk_over_the_group_at_most_once(function):
    """The largest event of a long group comes and goes again and again: see `tests.engine.test_blocks` for the steps."""
    rule = f"1: {function}(amount) per userId over 1 h > 1".encode()
    log = [("control", rule)]
    log += [("event", event(n, f"{3_000 - n}", at=T0 + n)) for n in range(1_000)]
    for n in range(200):
        at = T0 + 2_000 + n
        log += [
            ("event", event(5_000 + n, "9999", at=at)),
            ("event", event(5_000 + n, "0", "returned", at=at)),
        ]
        log += [("event", event(9_000 + n, f"{n}", at=at))]
    assert withdrawn(agreed(log, RETURNS))


def test_a_delete_is_read_as_the_row_before_even_if_the_record_has_a_row_after():
    """Debezium gives none, but a record may have one: it is another row."""
    delete = row("d", {"id": 1, "at": T0, "amount": "4"}, {"id": 2, "at": T0 + 1, "amount": "7"})
    columns, _, bad = decode_records(LooseLines(delete), ROWS)
    (event,) = ROWS.events(delete)
    assert not bad and [columns[name].to_pylist() for name in ("op", "id", "at")] == [["d"], [1], [T0]]
    assert (event["op"], event["id"], event["at"]) == ("d", 1, T0)


@pytest.mark.parametrize("kind", [Past, plainpast.Past])
def test_a_value_that_no_event_has_is_absent_though_events_are_taken_back(kind):
    """A route gets every record that takes an event back, whatever its filter."""
    past = kind(RETURNS)
    past.add([event(1, "4"), event(1, "4", "returned")])
    assert past.absent_filter_values(parse_filter("action = login", RETURNS))[0][:2] == ("action", "login")


@pytest.mark.parametrize("seed", range(5))
def test_many_updates_among_other_rows_are_decoded_in_the_order_of_their_records(seed):
    """Of each update the row before comes first; what is read at once and one by one is put together in order."""
    rng = random.Random(seed)
    lines = []
    for n in range(400):
        before, now = ({"id": n, "at": T0 + n, "amount": amount} for amount in ("4", "7"))
        bad = (b"{", row("d", None, None))
        lines.append(
            rng.choice(
                [
                    row("c", None, now),
                    row("u", before, now),
                    row("u", None, now),
                    row("d", before, None),
                    *bad,
                ]
            )
        )
    columns, kept, found = decode_records(LooseLines(b"\n".join(lines)), ROWS)
    read = zip(*(columns[name].to_pylist() for name in ("op", "id", "amount")), strict=True)
    expected = []
    for n, line in enumerate(lines):
        for each in [] if line in bad else ROWS.events(line):
            expected.append((n, each["op"], each["id"], int(each["amount"] * 100)))
    assert [(at, *of) for at, of in zip(np.asarray(kept).tolist(), read, strict=True)] == expected
    assert len(found) == sum(map(lines.count, bad)) > 0


@pytest.mark.parametrize("behind_ms", [-1, 0, 1])
@pytest.mark.parametrize("loses", [False, True])
def test_an_event_as_old_as_a_stored_one_may_be_can_be_taken_back(behind_ms, loses):
    """
          the widest window + max_out_of_orderness
    ────┤━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┤
        1 (and returned, last)                     2, 3, 4, 5
    """
    rule, late_ms = b"1: COUNT(events) per userId over 1 min >= 1", 30_000
    log = [
        event(1, "9"),
        *(event(2 + n, "9", at=T0 + MINUTE + late_ms + behind_ms) for n in range(WITNESSES)),
        event(1, "9", "returned"),
    ]
    reference = Reference(RETURNS, max_out_of_orderness_ms=late_ms)
    reference.control(rule)
    for line in log:
        reference.event(line)
    assert reference.counts["takenBack"] == (behind_ms <= 0)
    with InProcessEngine(Settings(RETURNS, max_out_of_orderness_ms=late_ms)) as stages:
        stages.run_batch([("control", rule)])
        for line in log:
            if loses:
                stages.lose_memory()
            stages.run_batch([("event", line)])
        counts = [json.loads(line) for line in stages.out["stats"]]
        for name in ("takenBack", "notHeld", "evaluated"):
            assert sum(line.get(name, 0) for line in counts) == reference.counts[name]
