"""Rescaling keyed state."""

from random import Random
from types import SimpleNamespace
from typing import Any

from lab.model.keygroups import flink_default_key_groups
from lab.model.language import say
from lab.teach.judge import AnswerRefused, FunctionExercise, Mistake, ValueExercise

OFFSETS = [(0, 170), (1, 401), (2, 83), (3, 52), (4, 8)]
MIXED = [(4, 8), (1, 401), (7, 52), (2, 83)]


def _rows_after() -> list[tuple[list[int]]]:
    """The plan's table, as far as exercise 5 reads it."""
    return [([group for group in range(16) if group * 4 // 16 == task],) for task in range(4)]


def _key_groups_of_task_3(plan: Any) -> list[int]:
    rows = plan.after.rows()
    if len(rows) <= 3:
        raise AnswerRefused(
            say(
                "plan has {count} tasks, so there is no task 3: run the cell with its dry run again",
                count=len(rows),
            )
        )
    return rows[3][0]


def _entries_task_parallelism(random: Random, size: int) -> tuple:
    partitions = random.sample(range(2 + size // 4), random.randint(1, 2 + size // 4))
    parallelism = random.randint(1, 2 + size // 20)
    return [(p, random.randint(0, 500)) for p in partitions], random.randrange(parallelism), parallelism


def _task_key_groups_parallelism(random: Random, size: int) -> tuple:
    parallelism = random.randint(1, 3 + size // 10)
    return random.randrange(parallelism), random.randint(1, 4 + size), parallelism


def _bytes_read(files: list[dict[int, int]], first: int, last: int) -> tuple[int, int]:
    everything = sum(sum(file.values()) for file in files)
    return everything, sum(n for file in files for g, n in file.items() if first <= g <= last)


def _files_first_last(random: Random, size: int) -> tuple:
    """Files of several parallelisms, so that some overlap; the range begins and ends anywhere."""
    key_groups, files = 2 + size // 4, []
    for parallelism in random.choices((1, 2, 3, 8), k=random.randint(1, 2 + size // 25)):
        for task in range(parallelism):
            groups = [g for g in range(key_groups) if g * parallelism // key_groups == task]
            files.append({g: random.randint(0, 50) for g in groups if random.random() < 0.9})
    first = random.randrange(key_groups)
    return files, first, random.randint(first, key_groups)


EXERCISES = {
    "5.1": FunctionExercise(
        cases=(
            ((OFFSETS, 0, 4), [(0, 170), (4, 8)], "partitions 0 and 4 are 0 modulo 4"),
            ((OFFSETS, 3, 4), [(3, 52)]),
            ((OFFSETS, 5, 6), [], "with more tasks than partitions, some tasks have nothing to read"),
            (([], 0, 4), []),
            (([(n, 7 * n) for n in range(150)], 1, 100), [(1, 7), (101, 707)]),
            (
                (MIXED, 1, 3),
                [(4, 8), (1, 401), (7, 52)],
                "the partition's number decides, not its place in the list",
            ),
        ),
        right=lambda entries, task, parallelism: [e for e in entries if e[0] % parallelism == task],
        draw=_entries_task_parallelism,
        because="Exactly one task reads each partition, whatever the order of the list.",
        hints=(
            "Use a list comprehension with a condition on partition % parallelism.",
            "[… for partition, offset in entries if …]: what do you compare with the task's number?",
        ),
        mistakes=(
            Mistake(
                lambda entries, task, parallelism: [
                    e for i, e in enumerate(entries) if i % parallelism == task
                ],
                "That uses the place in the list, but the list may be in any order. The partition's own number decides.",
            ),
            Mistake(
                lambda entries, task, parallelism: [e for e in entries if e[0] == task],
                "A task may have several partitions: all those whose number modulo the parallelism is the task's number.",
            ),
            Mistake(
                lambda entries, task, parallelism: [p for p, _ in entries if p % parallelism == task],
                "These are the right partitions. Keep their offsets, too: the task has to know where to continue.",
            ),
            Mistake(
                lambda entries, task, parallelism: [e for e in entries if e[1] % parallelism == task],
                "That uses the offset, which changes with every record. The partition's number decides.",
            ),
        ),
    ),
    "5.2": FunctionExercise(
        cases=(
            ((0, 10, 3), [0, 1, 2, 3]),
            ((1, 10, 4), [3, 4], "10 × 4: 3·4÷10 = 1 and 4·4÷10 = 1, but 5·4÷10 = 2"),
            ((3, 10, 4), [8, 9]),
            ((6, 128, 7), list(range(110, 128))),
        ),
        right=lambda task, G, p: [g for g in range(G) if g * p // G == task],
        draw=_task_key_groups_parallelism,
        any_order=True,
        because="Each task has neighbouring key-groups, and together the tasks have all of them.",
        hints=(
            "Try every key-group in range(G), and keep those that the formula gives to the task.",
            "g * p // G is the task of key-group g; // rounds down.",
        ),
        mistakes=(
            Mistake(
                lambda task, G, p: [g for g in range(G) if g % p == task],
                "That deals them out like cards. Here a task has neighbouring key-groups: g · p ÷ G, rounded down.",
            ),
            Mistake(
                lambda task, G, p: list(range(task * (G // p), (task + 1) * (G // p))),
                "If G ÷ p is rounded down for every task, no task has the last key-groups.",
            ),
            Mistake(
                lambda task, G, p: list(range(task * G // p, (task + 1) * G // p)),
                "A task's first key-group is rounded up, not down: of 10 key-groups on 3 tasks, key-group 3 has 3·3÷10 = 0.9, so it is still on task 0.",
            ),
            Mistake(
                lambda task, G, p: [g for g in range(G) if round(g * p / G) == task],
                "The formula rounds down: 2.6 means task 2.",
            ),
            Mistake(
                lambda task, G, p: [g for g in range(1, G + 1) if g * p // G == task],
                "Key-groups count from 0 to G − 1.",
            ),
        ),
    ),
    "5.3": FunctionExercise(
        cases=(
            ((16, 3, 4), [3, 4, 5, 6, 7, 8, 9, 10, 11, 15], "0, 1 and 2 stay, and so do 12, 13 and 14"),
            ((8, 4, 2), [2, 3, 6, 7], "halving: those of tasks 2 and 3 move"),
            ((5, 2, 2), []),
        ),
        right=lambda G, p, q: [g for g in range(G) if g % p != g % q],
        draw=lambda random, size: (
            random.randint(1, 4 + size),
            random.randint(1, 3 + size // 10),
            random.randint(1, 3 + size // 10),
        ),
        any_order=True,
        because="With modulo, most of the state moves when a task is added.",
        hints=(
            "A key-group moves if its old task is not its new task.",
            "The old task is g % p, the new task is g % q.",
        ),
        mistakes=(
            Mistake(
                lambda G, p, q: [g for g in range(G) if g % p == g % q],
                "Those are the key-groups that stay. Which ones move?",
            ),
            Mistake(
                lambda G, p, q: [g for g in range(G) if g % q >= p],
                "Those are the key-groups of the new tasks. Others move between the old tasks.",
            ),
            Mistake(
                lambda G, p, q: [g for g in range(G) if g * p // G != g * q // G],
                "Those move if tasks own ranges. Here key-group g is on task g mod p.",
            ),
        ),
    ),
    "5.4": ValueExercise(
        right=flink_default_key_groups(100),
        unit="tasks",
        because="Flink takes half as much again, rounds up to a power of two, and never goes below 128.",
        hints=(
            "100 · 1.5 = 150. What is the next power of two?",
            "Compare lab.keygroups.flink_default_key_groups.",
        ),
        mistakes=(
            Mistake(150, "Half as much again is 150, but Flink then rounds up to a power of two."),
            Mistake(
                128,
                "128 is a power of two, but it is below 150. First take half as much again, then round up.",
            ),
            Mistake(100, "That is the parallelism at the start. Flink leaves room to grow."),
        ),
    ),
    "5.5": ValueExercise(
        right=_key_groups_of_task_3,
        needs={"plan": "after"},
        given_on_recheck=(SimpleNamespace(after=SimpleNamespace(rows=_rows_after)),),
        any_order=True,
        because="Task 3 gets the last quarter: neighbouring key-groups, like every task.",
        hints=(
            "Find the row of task 3 in the plan's table for after the rescale.",
            "plan.after.rows()[3] is that row; its first entry is the list.",
        ),
        mistakes=(
            Mistake([3, 7, 11, 15], "That would be modulo. The engine assigns ranges, as Flink does."),
            Mistake(
                [11, 12, 13, 14, 15],
                "Those are the key-groups of task 2 before the rescale. Look at task 3 after it.",
            ),
            Mistake(4, "That is how many key-groups it gets. Which ones are they?"),
        ),
    ),
    "5.6": FunctionExercise(
        cases=(
            (([{0: 5, 1: 7}, {2: 4, 3: 6}], 1, 2), (22, 11), "7 bytes of the first file and 4 of the second"),
            (([{0: 5, 1: 7}, {0: 2, 1: 1}], 0, 0), (15, 7), "both files have key-group 0"),
            (([{0: 5, 1: 7}, {2: 4, 3: 6}], 4, 9), (22, 0), "nothing is stored for these key-groups yet"),
            (([], 0, 15), (0, 0)),
            (([{0: 1, 1: 2}] * 120, 1, 1), (360, 240)),
        ),
        right=_bytes_read,
        draw=_files_first_last,
        because="Without key-groups each new task reads the whole state; with them, its own part of it.",
        hints=(
            "The first number does not depend on first and last: it is the sum of all bytes of all files.",
            "For the second number, go through file.items() of each file, and add the bytes of the key-groups from first to last.",
        ),
        mistakes=(
            Mistake(
                lambda files, first, last: _bytes_read(files, first, last - 1),
                "The last key-group belongs to the task, too.",
            ),
            Mistake(
                lambda files, first, last: (
                    _bytes_read(files, first, last)[0],
                    sum(sum(f.values()) for f in files if any(first <= g <= last for g in f)),
                ),
                "That reads each file that overlaps with the range as a whole. The key-groups of a file are in order, so the task reads only its own stretch.",
            ),
            Mistake(
                lambda files, first, last: (
                    _bytes_read(files, first, last)[0],
                    sum(sum(f.values()) for f in files if all(first <= g <= last for g in f)),
                ),
                "A file that lies only partly in the task's range counts, too: with the bytes of the key-groups in the range.",
            ),
            Mistake(
                lambda files, first, last: _bytes_read(files, first, last)[::-1],
                "These are the right numbers in the wrong order: first without key-groups, then with them.",
            ),
            Mistake(
                lambda files, first, last: _bytes_read(files, first, last)[1],
                "That is the second number. The first is what the task reads without key-groups.",
            ),
        ),
    ),
}
