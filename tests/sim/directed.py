"""Short histories, each of the rare shape in which one planted fault shows: random ones have it in less than one of thousands."""

import json
from collections.abc import Callable

from lab.model.keygroups import key_group_of
from tests.sim.history import BEGIN, Action, History
from tests.sim.machines import KINDS
from tests.sim.shrink import SIMPLEST

DIRECTED: dict[str, History] = {}  # by the name of the planted fault

# an event is too old as soon as one newer one is there, so a history needs few of them
CALM = (
    SIMPLEST
    | dict.fromkeys(("pairs", "returns", "rows", "derived", "lists", "loop", "disk"), False)
    | {"witnesses": 1}
)
A_MS_AHEAD: Action = ("skew", 1)  # so each batch takes all that was logged before it
RESTART: Action = ("restart", 1)
RESUME: Action = ("resume", False)


def directed(history: Callable[[], History]) -> Callable[[], History]:
    """Adds a history for the planted fault of the same name."""
    DIRECTED[history.__name__.replace("_", " ")] = history()
    return history


def users(key_groups: int) -> list[int]:
    """A user of each key-group."""
    found = {key_group_of((user,), key_groups): user for user in range(16)}
    return [found[key_group] for key_group in range(key_groups)]


def append(log: str, at_s: int, given: dict, source: int = 0) -> Action:
    return "append", log, source, BEGIN + 1000 * at_s, json.dumps(given).encode()


def rule(at_s: int, window: str, rule_id: int = 1, reset_at: int | None = None) -> Action:
    """Counts the events of each user, and fires at every one; `reset_at`: at so many, and then counts anew."""
    function = "COUNT" if reset_at is None else "COUNT_WITH_RESET"
    given = {"ruleId": rule_id, "ruleState": "ACTIVE", "aggregatorFunctionType": function, "window": window}
    given |= {"groupingKeyNames": ["userId"], "limitOperatorType": ">=", "limit": str(reset_at or 1)}
    return append("control", at_s, given)


def event(at_s: int, user: int | None = 1, source: int = 0, dated_s: int | None = None) -> Action:
    """An event whose id is its time, in s; that is `dated_s`, or when it is logged."""
    time_s = at_s if dated_s is None else dated_s
    given = {"eventId": time_s, "eventTime": BEGIN + 1000 * time_s, "userId": user}
    return append("events", at_s, given, source)


def batch(*faults: tuple[int, str, int], seed: int = 0, die: int | None = None, how: str = "") -> Action:
    return "batch", seed, faults, die, how


@directed
def a_first_batch_that_runs_again_begins_at_what_is_left() -> History:
    """Its driver dies when it is planned, then a record of it expires. The engine has to say so."""
    planned = batch(die=4, how="kill")
    return History(CALM, (A_MS_AHEAD, rule(0, "5m"), event(1), event(2), planned, ("expire", "events", 0, 1)))


@directed
def resets_are_not_filtered_by_when_a_rule_joined() -> History:
    """A rule that came back counts from the beginning, also after the windows are read from a file with its reset of before."""
    counting = rule(0, "5m", 2, reset_at=2)
    gone = append("control", 3, {"ruleId": 2, "ruleState": "DELETE"})
    back = rule(4, "5m", 2, reset_at=2)
    actions = (rule(0, "5m"), counting, event(1), event(2), batch(), gone, back, batch(), RESTART, event(5))
    return History(CALM, (A_MS_AHEAD, *actions))


@directed
def the_next_epoch_is_begun_whoever_has_it() -> History:
    """An attempt stands still between two epochs; when it goes on, the next start has begun the second one."""
    actions = (rule(0, "5m"), batch(seed=1), event(2), batch(die=18, how="suspend"), event(3), batch(seed=1))
    return History(CALM | {"loop": True}, actions)


@directed
def an_attempt_that_stood_still_makes_a_removed_file_anew() -> History:
    """An attempt stands still between two epochs; when it goes on, the file of the second one has been there and is gone."""
    actions = (event(1), batch(die=23, how="suspend"), event(3), batch())
    return History(CALM | {"loop": True}, (A_MS_AHEAD, rule(0, "5m"), *actions))


def away_for_a_moment(gone: dict) -> History:
    """Rule 1 fires at two events, then goes, as a message says, and comes back before the next event: it counts all again.

    Another rule keeps the route and its events.
    """
    first, away = rule(0, "5m", reset_at=2), append("control", 3, gone)
    actions = (first, rule(0, "5m", rule_id=2), event(1), event(2), batch(), away)
    return History(CALM, (A_MS_AHEAD, *actions, rule(4, "5m", reset_at=2), event(5)))


@directed
def a_rule_that_left_for_a_moment_keeps_its_resets() -> History:
    return away_for_a_moment({"ruleId": 1, "ruleState": "DELETE"})


@directed
def a_rule_that_had_another_filter_for_a_moment_keeps_its_resets() -> History:
    return away_for_a_moment(json.loads(rule(0, "5m", reset_at=2)[-1]) | {"filter": {"action": "login"}})


@directed
def the_note_is_written_before_the_state_file() -> History:
    """Another host wrote the file of the first batch; on this one a note vouches for memory and a chain without it."""
    actions = (event(1), batch((0, "kill", 6)), event(2), batch(), event(3))
    return History(CALM | {"hosts": 2}, (A_MS_AHEAD, rule(0, "5m"), *actions))


@directed
def a_file_of_other_tasks_goes_when_mine_replaces_it() -> History:
    """After a rescale one task merges the file of before; the other needs it, as together with its own it is too large."""
    mine, other = users(2)
    before = (rule(0, "5m"), event(1, mine), event(2, other), event(3, mine), batch(), ("rescale", 2))
    after = [event(4, other)]
    for at_s in range(5, 12):
        after += [event(at_s, other), batch()]
    settings = CALM | {"key_groups": 2, "merged": 3, "merged_events": 4}
    return History(settings, (A_MS_AHEAD, *before, *after))


@directed
def a_task_knows_the_newest_event_of_the_first_share_only() -> History:
    """An event of another key-group and share is so new that the first one goes when the window grows."""
    mine, other = users(2)
    actions = (rule(0, "1s"), event(1, mine), batch(), event(2, other, 0), event(100, other, 1), batch())
    settings = CALM | {"key_groups": 2, "parallelism": 2, "events": 2, "sharing": 0}
    return History(settings, (A_MS_AHEAD, *actions, rule(101, "5m"), event(102, mine)))


def let_go_and_expired(user: int | None) -> tuple[Action, ...]:
    """The window is narrow for a moment, so what was counted before counts no more; the file that says so expires unless `user` has events."""
    narrow, wide = rule(101, "1s"), rule(201, "5m")
    forgets = (narrow, event(200, None), batch(), wide, event(201, user), batch())
    return (*forgets, event(202, None), batch(), event(203, None))


@directed
def a_state_file_does_not_tell_which_epochs_it_needs() -> History:
    """The first start stands still before it writes the file of batch 0, and goes on when no other hides that any more."""
    first = (rule(0, "5m"), event(100), batch(die=7, how="suspend"), batch())
    return History(
        CALM, (A_MS_AHEAD, *first, *let_go_and_expired(None), batch(), RESUME, RESTART, event(210))
    )


@directed
def a_file_that_expires_goes_from_the_chain_after_the_next_is_written() -> History:
    """As before, and the driver of the batch that removes the other file dies before the commit."""
    first = (rule(0, "5m"), event(100), batch(die=7, how="suspend"), batch())
    dies = batch(die=8, how="kill")
    return History(CALM, (A_MS_AHEAD, *first, *let_go_and_expired(None), dies, RESUME, event(210)))


@directed
def a_state_file_tells_one_first_epoch_for_all_its_key_groups() -> History:
    """As before with two tasks, of which only the first no longer needs old files; then one task has both key-groups."""
    mine, other = users(2)
    first = (rule(0, "5m"), event(100, mine), event(100, other), batch(die=16, how="suspend"), batch())
    last = (batch(), RESUME, ("rescale", 1), event(210, mine), batch(), RESTART, event(211, mine))
    settings = CALM | {"key_groups": 2, "parallelism": 2}
    return History(settings, (A_MS_AHEAD, *first, *let_go_and_expired(other), *last))


@directed
def waits_of_several_tasks_lie_in_the_order_of_their_numbers() -> History:
    """The second wait of the first task ends before the first one of the other task, and the rule changes in between."""
    mine, other = users(2)
    absent = {
        "ruleId": 1,
        "ruleState": "ACTIVE",
        "absence": True,
        "window": "1m",
        "groupingKeyNames": ["userId"],
    }
    waits = (append("control", 0, absent), event(2, mine), event(4, mine), event(6, other), batch())
    settings = CALM | {"key_groups": 2, "parallelism": 2}
    return History(settings, (A_MS_AHEAD, *waits, ("rescale", 1), append("control", 65, absent)))


def on_a_disk(*then: Action, loop: bool = False, kind: str = KINDS[0], hosts: int = 1) -> History:
    """Windows of three routes on a disk, and what happens when an event between two others and the first ones of two groups have come; then more come."""
    everywhere = {"ruleId": 2, "groupingKeyNames": [], "aggregatorFunctionType": "COUNT", "window": "5m"}
    everywhere |= {"ruleState": "ACTIVE", "limitOperatorType": ">=", "limit": "1"}
    rules = (
        rule(0, "5m"),
        append("control", 1, everywhere),
        append("control", 2, everywhere | {"ruleId": 3, "filter": {"action": "pay"}}),
    )
    pays = {"eventId": 17, "eventTime": BEGIN + 17_000, "userId": 1, "action": "pay"}
    before = (*rules, event(10, 1), event(12, 2), batch(), event(13, 2), batch())
    epoch = (event(14, 1), event(15, 1, dated_s=11), event(16, 3), append("events", 17, pays))
    after = (event(18, 3), batch(), event(19, 1), append("events", 20, pays | {"eventId": 20}))
    settings = CALM | {"disk": kind, "loop": loop, "hosts": hosts}
    return History(settings, (A_MS_AHEAD, *before, *epoch, *then, *after))


# stopped, and something happens; killed at each step: the driver with its task, the task alone, the next start with the windows that
# it takes over; or all stand still there, and go on after the next start
ON_A_DISK = [
    *(
        on_a_disk(batch(), then, kind=kind)
        for then in (RESTART, ("lose", 0), ("upgrade",), ("disk_fails", 0), ("cut_short", 0, 1))
        for kind in KINDS
    ),
    # a host has windows of the same epoch as the checkpoint, which was put back and went on elsewhere with other events
    on_a_disk(
        *(
            ("copy",),
            batch(seed=2),
            ("put_back",),
            event(18, 3),
            batch(seed=0),
            RESTART,
            event(19, 3),
            batch(seed=2),
        ),
        hosts=2,
    ),
    *(on_a_disk(batch(die=step, how="kill")) for step in range(18, 44)),
    *(on_a_disk(batch(die=step, how="kill"), loop=True) for step in range(18, 110, 6)),
    *(on_a_disk(batch((0, "kill", step))) for step in range(2, 30)),
    *(on_a_disk(batch(die=28, how="kill"), batch(die=step, how="kill")) for step in range(2, 30)),
    *(on_a_disk(batch(die=step, how="suspend"), batch(), RESUME) for step in range(18, 44)),
]


def in_files_that_merge(*last: Action, reset_at: int | None = None) -> History:
    """Two events that expire in the fourth batch, in the first of four files, where the event of another key-group does not expire."""
    mine, other = users(2)
    first = (rule(0, "1m", reset_at=reset_at), event(10, mine), event(11, mine), event(12, other), batch())
    more = (event(13, other), batch(), event(14, other), batch(), event(60, mine), event(75, mine))
    return History(CALM | {"key_groups": 2, "hosts": 2, "merged": 2}, (A_MS_AHEAD, *first, *more, *last))
