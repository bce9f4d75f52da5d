"""Dynamic partitioning."""

from lab.teach.judge import Function, Mistake, Value

PAYMENT = {"transactionId": 1, "payeeId": 25, "beneficiaryId": 12, "paymentType": "CSH", "paymentAmount": 30}


def _joined(event: dict, names: list[str], between: str = ";") -> str:
    return between.join(f"{name}={event[name]}" for name in names)


def _dealt(events: list[int], parallelism: int) -> float:
    """Key-groups dealt out like cards, instead of side by side."""
    return max(sum(events[task::parallelism]) for task in range(parallelism)) / sum(events)


def _share(events: list[int], parallelism: int) -> float:
    """The fullest task's share, a number from 0 to 1."""
    tasks = [0] * parallelism
    for key_group, count in enumerate(events):
        tasks[key_group * parallelism // len(events)] += count
    return max(tasks) / sum(events)


EXERCISES = {
    "1.1": Function(
        cases=(
            ((PAYMENT, ["payeeId", "beneficiaryId"]), "{payeeId=25;beneficiaryId=12}"),
            (
                (PAYMENT, ["beneficiaryId", "payeeId"]),
                "{beneficiaryId=12;payeeId=25}",
                "the rule's order counts",
            ),
            ((PAYMENT, []), "{}", "no keys: one group for all"),
        ),
        because="This is what the demo's KeysExtractor writes.",
        hints=(
            'Join one text for each name, f"{name}={event[name]}", with ";".join(…).',
            "In an f-string, {{ is a curly bracket. Or put the brackets around the joined text with +.",
        ),
        mistakes=(
            Mistake(_joined, "The curly brackets around it are missing."),
            Mistake(
                lambda event, names: "{" + _joined(event, sorted(names)) + "}",
                "The fields stand in the rule's order, not in that of the alphabet.",
            ),
            Mistake(
                lambda event, names: "{" + _joined(event, names, ",") + "}",
                "Between two fields there is a semicolon, not a comma.",
            ),
            Mistake(
                lambda event, names: "{" + "".join(f"{name}={event[name]};" for name in names) + "}",
                "A semicolon stands between two fields: there is none behind the last.",
            ),
            Mistake(
                lambda event, names: "{" + ";".join(str(event[name]) for name in names) + "}",
                "Each value stands behind the name of its field: name=value.",
            ),
        ),
    ),
    "1.2": Function(
        cases=(
            (([(["payeeId"], ""), (["payeeId"], "")],), 1, "same keys, same filter"),
            (
                ([(["payeeId", "beneficiaryId"], ""), (["beneficiaryId", "payeeId"], "")],),
                1,
                "the order of keys",
            ),
            (([(["payeeId"], ""), (["payeeId"], "CSH")],), 2, "another filter is another route"),
            (([(["payeeId"], ""), (["beneficiaryId"], ""), ([], "")],), 3, "no keys are a route, too"),
        ),
        because="A copy for each route: the set of keys and the filter.",
        hints=(
            "Two rules share a copy if their keys are the same set, and their filter is the same.",
            "len(set(…)) counts different ones; a member can be (frozenset(keys), filter).",
        ),
        mistakes=(
            Mistake(len, "That is a copy for each rule. Rules with the same keys and filter share one."),
            Mistake(
                lambda rules: len({frozenset(keys) for keys, _ in rules}),
                "Rules with the same keys and another filter need other events: the filter counts, too.",
            ),
            Mistake(
                lambda rules: len({(tuple(keys), filter) for keys, filter in rules}),
                "The order in which a rule names its keys makes no other group: compare sets of keys.",
            ),
            Mistake(
                lambda rules: len({(frozenset(keys), filter) for keys, filter in rules if keys}),
                "A rule without keys needs a copy as well: one group for all events.",
            ),
        ),
    ),
    "1.3": Function(
        cases=(
            (([10, 10, 10, 10], 2), 0.5),
            (([70, 10, 10, 10], 4), 0.7, "the task with the heavy key-group"),
            (([70, 10, 10, 10], 2), 0.8, "key-groups 0 and 1 are on task 0"),
            (([40, 10, 40, 10], 2), 0.5, "key-groups 0 and 1 are on task 0, 2 and 3 on task 1"),
            (([1] * 9 + [11], 4), 0.6, "of 10 key-groups the last two are on task 3"),
            (([0, 0, 5, 5], 4), 0.5, "two key-groups have all the work"),
        ),
        because="The micro-batch waits for this task.",
        hints=(
            "Add each key-group's events to its task: g * parallelism // len(events) is the task of key-group g.",
            "A list with a number for each task, filled in a loop over enumerate(events); then max(…) / sum(events).",
        ),
        mistakes=(
            Mistake(
                lambda events, parallelism: max(events) / sum(events),
                "That is the share of the fullest key-group. A task may have several of them.",
            ),
            Mistake(
                _dealt,
                "That deals the key-groups out like cards. A task has neighbours: g * parallelism // G.",
            ),
            Mistake(
                lambda events, parallelism: sum(events) * _share(events, parallelism),
                "That is the number of events on the fullest task. Its share is asked for.",
            ),
            Mistake(
                lambda events, parallelism: 100 * _share(events, parallelism),
                "That is in percent. A share is a number from 0 to 1.",
            ),
            Mistake(
                lambda events, parallelism: 1 / parallelism, "That is the share if all tasks had the same."
            ),
        ),
    ),
    "1.4": Value(
        right=9,
        unit="tasks",
        because="Nine groups are in nine key-groups at most, on nine tasks at most; some may share one.",
        hints=(
            "A group is in one key-group, a key-group is on one task.",
            "What is the smallest number on the way from the countries to the tasks?",
        ),
        mistakes=(
            Mistake(
                12, "There are 12 tasks, but events of 9 countries only: at least three have nothing to do."
            ),
            Mistake(
                16,
                "16 is the number of key-groups. A task is needed for each group that has events, at most.",
            ),
            Mistake(1, "One task has all events of one country, but another country may be on another task."),
        ),
    ),
}
