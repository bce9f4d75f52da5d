"""Dynamic partitioning."""

from random import Random

from lab.teach.judge import FunctionExercise, Mistake, ValueExercise

PAYMENT = {"transactionId": 1, "payeeId": 25, "beneficiaryId": 12, "paymentType": "CSH", "paymentAmount": 30}


def _joined(event: dict, names: list[str], between: str = ";") -> str:
    return between.join(f"{name}={event[name]}" for name in names)


def _joined_all(count: int) -> str:
    """The text of the fields a, b, c, … with the values 0, 1, 2, …"""
    return "{" + ";".join(f"{chr(ord('a') + n)}={n}" for n in range(count)) + "}"


def _dealt(events: list[int], parallelism: int) -> float:
    """Key-groups dealt out like cards, instead of side by side."""
    return max(sum(events[task::parallelism]) for task in range(parallelism)) / sum(events)


def _share(events: list[int], parallelism: int) -> float:
    """The fullest task's share, a number from 0 to 1."""
    tasks = [0] * parallelism
    for key_group, count in enumerate(events):
        tasks[key_group * parallelism // len(events)] += count
    return max(tasks) / sum(events)


def _event_and_names(random: Random, size: int) -> tuple:
    event = PAYMENT | {"payeeId": random.randint(0, size), "paymentType": random.choice(("CSH", "CRD"))}
    return event, random.sample(list(PAYMENT), random.randint(0, len(PAYMENT)))


def _rules(random: Random, size: int) -> tuple:
    def rule() -> tuple:
        keys = random.sample(["payeeId", "beneficiaryId", "paymentType"], random.randint(0, 3))
        return keys, random.choice(("", "CSH", "CRD"))

    return ([rule() for _ in range(random.randint(0, 1 + size // 8))],)


def _events_of_key_groups(random: Random, size: int) -> tuple:
    counts = [random.choice((0, 1, 5, 10, 70)) for _ in range(random.randint(1, 2 + size // 6))]
    counts[random.randrange(len(counts))] += random.randint(1, 40)
    return counts, random.randint(1, 2 + size // 12)


EXERCISES = {
    "1.1": FunctionExercise(
        cases=(
            ((PAYMENT, ["payeeId", "beneficiaryId"]), "{payeeId=25;beneficiaryId=12}"),
            (
                (PAYMENT, ["beneficiaryId", "payeeId"]),
                "{beneficiaryId=12;payeeId=25}",
                "the fields stay in the rule's order",
            ),
            ((PAYMENT, []), "{}", "no keys: one group for all"),
            ((PAYMENT, ["paymentType"]), "{paymentType=CSH}", "string values have no quotes"),
            ((dict(zip("abcdefghijkl", range(12))), list("abcdefghijkl")), _joined_all(12)),
        ),
        right=lambda event, names: "{" + _joined(event, names) + "}",
        draw=_event_and_names,
        because="This is what the demo's KeysExtractor writes.",
        hints=(
            'Build f"{name}={event[name]}" for each name, and join these strings with ";".join(…).',
            "In an f-string, {{ gives one curly bracket. Or add the brackets to the joined string with +.",
        ),
        mistakes=(
            Mistake(_joined, "The curly brackets around the text are missing."),
            Mistake(
                lambda event, names: "{" + _joined(event, sorted(names)) + "}",
                "The fields come in the rule's order, not in alphabetical order.",
            ),
            Mistake(
                lambda event, names: "{" + _joined(event, names, ",") + "}",
                "The separator between fields is a semicolon, not a comma.",
            ),
            Mistake(
                lambda event, names: "{" + "".join(f"{name}={event[name]};" for name in names) + "}",
                "Semicolons only separate fields: there is none after the last one.",
            ),
            Mistake(
                lambda event, names: "{" + ";".join(str(event[name]) for name in names) + "}",
                "Each value follows the name of its field: name=value.",
            ),
        ),
    ),
    "1.2": FunctionExercise(
        cases=(
            (([(["payeeId"], ""), (["payeeId"], "")],), 1, "same keys, same filter"),
            (
                ([(["payeeId", "beneficiaryId"], ""), (["beneficiaryId", "payeeId"], "")],),
                1,
                "the same keys in another order",
            ),
            (([(["payeeId"], ""), (["payeeId"], "CSH")],), 2, "another filter is another route"),
            (([(["payeeId"], "CRD"), (["payeeId"], "CSH")],), 2, "two different filters are two routes"),
            (([(["payeeId"], f"{n}") for n in range(1_500)],), 1_500),
            (
                ([(["payeeId"], ""), (["beneficiaryId"], ""), ([], "")],),
                3,
                "an empty set of keys is a route, too",
            ),
        ),
        right=lambda rules: len({(frozenset(keys), filter) for keys, filter in rules}),
        draw=_rules,
        because="There is one copy for each route, that is, for each pair of a key set and a filter.",
        hints=(
            "Two rules share a copy if their keys are the same set, and their filter is the same.",
            "len(set(…)) counts distinct elements; an element can be (frozenset(keys), filter).",
        ),
        mistakes=(
            Mistake(len, "That is a copy for each rule. Rules with the same keys and filter share one."),
            Mistake(
                lambda rules: len({frozenset(keys) for keys, _ in rules}),
                "Rules with the same keys but different filters need different events: the filter matters, too.",
            ),
            Mistake(
                lambda rules: len({(tuple(keys), filter) for keys, filter in rules}),
                "The order in which a rule names its keys does not change its groups: compare the keys as sets.",
            ),
            Mistake(
                lambda rules: len({(frozenset(keys), filter) for keys, filter in rules if keys}),
                "A rule without keys also needs a copy: all events are one group.",
            ),
        ),
    ),
    "1.3": FunctionExercise(
        cases=(
            (([10, 10, 10, 10], 2), 0.5),
            (([70, 10, 10, 10], 4), 0.7, "the task with the heavy key-group"),
            (([70, 10, 10, 10], 2), 0.8, "key-groups 0 and 1 are on task 0"),
            (([40, 10, 40, 10], 2), 0.5, "key-groups 0 and 1 are on task 0, 2 and 3 on task 1"),
            (([1] * 9 + [11], 4), 0.6, "of 10 key-groups, the last two are on task 3"),
            (([0, 0, 5, 5], 4), 0.5, "two key-groups have all the work"),
            (([1] * 400, 200), 1 / 200),
            (([3_000_000_000, 1_000_000_000], 2), 0.75),
            (
                ([10, 10, 10], 2),
                2 / 3,
                "of 3 key-groups, 0 and 1 are on task 0, because 1 · 2 ÷ 3 rounds down to 0",
            ),
        ),
        right=_share,
        draw=_events_of_key_groups,
        because="The micro-batch waits for this task.",
        hints=(
            "Add each key-group's events to its task: g * parallelism // len(events) is the task of key-group g.",
            "Keep a list with one number per task and fill it in a loop over enumerate(events); then max(…) / sum(events).",
        ),
        mistakes=(
            Mistake(
                lambda events, parallelism: max(events) / sum(events),
                "That is the share of the fullest key-group. A task may have several of them.",
            ),
            Mistake(
                _dealt,
                "That deals the key-groups out like cards. A task has neighbouring key-groups: g * parallelism // G.",
            ),
            Mistake(
                lambda events, parallelism: sum(events) * _share(events, parallelism),
                "That is the number of events on the fullest task. The exercise asks for its share.",
            ),
            Mistake(
                lambda events, parallelism: 100 * _share(events, parallelism),
                "That is in percent. A share is a number from 0 to 1.",
            ),
            Mistake(
                lambda events, parallelism: 1 / parallelism,
                "That would be the share if all tasks had equally many events.",
            ),
        ),
    ),
    "1.4": ValueExercise(
        right=9,
        unit="tasks",
        because="Nine groups fall into at most nine key-groups, which are on at most nine tasks; some may share one.",
        hints=(
            "A group is in one key-group, a key-group is on one task.",
            "What is the smallest number on the way from the countries to the tasks?",
        ),
        mistakes=(
            Mistake(12, "There are 12 tasks, but only 9 countries: at least three tasks have nothing to do."),
            Mistake(
                16,
                "16 is the number of key-groups. At most one task per group that has events can have work.",
            ),
            Mistake(1, "One task has all events of one country, but another country may be on another task."),
        ),
    ),
}
