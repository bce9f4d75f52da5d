"""Rescaling keyed state."""

from lab.model.keygroups import flink_default_key_groups
from lab.teach.judge import Function, Mistake, Value

OFFSETS = [(0, 170), (1, 401), (2, 83), (3, 52), (4, 8)]
MIXED = [(4, 8), (1, 401), (7, 52), (2, 83)]

EXERCISES = {
    "5.1": Function(
        cases=(
            ((OFFSETS, 0, 4), [(0, 170), (4, 8)], "partitions 0 and 4 are 0 modulo 4"),
            ((OFFSETS, 3, 4), [(3, 52)]),
            ((OFFSETS, 5, 6), [], "with more tasks than partitions some have nothing to read"),
            (
                (MIXED, 1, 3),
                [(4, 8), (1, 401), (7, 52)],
                "the partition's number counts, not its place in the list",
            ),
        ),
        because="Every partition is read by one task, whatever the order of the list.",
        hints=(
            "A list comprehension with a condition on partition % parallelism.",
            "[… for partition, offset in entries if …]: what is compared with the task's number?",
        ),
        mistakes=(
            Mistake(
                lambda entries, task, parallelism: [
                    e for i, e in enumerate(entries) if i % parallelism == task
                ],
                "That goes by the place in the list, which may be in any order. The partition's own number decides.",
            ),
            Mistake(
                lambda entries, task, parallelism: [e for e in entries if e[0] == task],
                "A task may have several partitions: all whose number modulo the parallelism is its own.",
            ),
            Mistake(
                lambda entries, task, parallelism: [p for p, _ in entries if p % parallelism == task],
                "These are the right partitions. Keep their offsets, too: the task has to know where to read on.",
            ),
            Mistake(
                lambda entries, task, parallelism: [e for e in entries if e[1] % parallelism == task],
                "That goes by the offset, which changes with every record. The partition's number decides.",
            ),
        ),
    ),
    "5.2": Function(
        cases=(
            ((0, 10, 3), [0, 1, 2, 3]),
            ((1, 10, 4), [3, 4], "10 × 4: 3·4÷10 = 1 and 4·4÷10 = 1, but 5·4÷10 = 2"),
            ((3, 10, 4), [8, 9]),
            ((6, 128, 7), list(range(110, 128))),
        ),
        because="Neighbours, and together all of them.",
        hints=(
            "Try every key-group: range(G), and keep those that the formula gives to the task.",
            "g * p // G is the task of key-group g: // rounds down.",
        ),
        mistakes=(
            Mistake(
                lambda task, G, p: [g for g in range(G) if g % p == task],
                "That deals them out like cards. Here a task has neighbours: g · p ÷ G, rounded down.",
            ),
            Mistake(
                lambda task, G, p: list(range(task * (G // p), (task + 1) * (G // p))),
                "With G ÷ p rounded down for every task, the last key-groups belong to nobody.",
            ),
            Mistake(
                lambda task, G, p: list(range(task * G // p, (task + 1) * G // p)),
                "A border is rounded up, not down: of 10 on 3 tasks, key-group 3 has 3·3÷10 = 0.9, so it is still on task 0.",
            ),
            Mistake(
                lambda task, G, p: [g for g in range(G) if round(g * p / G) == task],
                "The formula rounds down: 2.6 is task 2.",
            ),
            Mistake(
                lambda task, G, p: [g for g in range(1, G + 1) if g * p // G == task],
                "Key-groups count from 0 to G − 1.",
            ),
        ),
    ),
    "5.3": Function(
        cases=(
            ((16, 3, 4), [3, 4, 5, 6, 7, 8, 9, 10, 11, 15], "0, 1 and 2 stay, and so do 12, 13 and 14"),
            ((8, 4, 2), [2, 3, 6, 7], "halving: those of tasks 2 and 3 move"),
            ((5, 2, 2), []),
        ),
        because="With modulo most of the state moves when a task is added.",
        hints=(
            "A key-group moves if its task before is not its task after.",
            "The task before is g % p, the task after is g % q.",
        ),
        mistakes=(
            Mistake(
                lambda G, p, q: [g for g in range(G) if g % p == g % q],
                "Those are the key-groups that stay. Which ones move?",
            ),
            Mistake(
                lambda G, p, q: [g for g in range(G) if g % q >= p],
                "Those are the key-groups of the new tasks. Others change between the old ones.",
            ),
            Mistake(
                lambda G, p, q: [g for g in range(G) if g * p // G != g * q // G],
                "That is what moves with ranges. Here key-group g is on task g mod p.",
            ),
        ),
    ),
    "5.4": Value(
        right=flink_default_key_groups(50),
        unit="tasks",
        because="Half as much again, then up to a power of two, and never less than 128.",
        hints=(
            "50 · 1.5 = 75. What is the next power of two?",
            "Compare lab.keygroups.flink_default_key_groups.",
        ),
        mistakes=(
            Mistake(75, "Half as much again is 75, but Flink then goes up to a power of two."),
            Mistake(64, "64 is a power of two below 75. Flink rounds up."),
            Mistake(50, "That is the parallelism with which it was started. Flink leaves room to grow."),
        ),
    ),
    "5.5": Value(
        right=lambda plan: plan.after.rows()[3][0],
        because="The last quarter: neighbours, as everywhere.",
        hints=(
            "Find the row of task 3 in the table of the plan, after the rescale.",
            "plan.after.rows()[3] is that row; its first entry is the list.",
        ),
        mistakes=(
            Mistake([3, 7, 11, 15], "That would be modulo. The engine gives out ranges, as Flink does."),
            Mistake(
                [11, 12, 13, 14, 15], "Those are of task 2, before the rescale. Look at task 3, after it."
            ),
            Mistake(4, "That is how many it gets. Which ones are they?"),
        ),
    ),
}
