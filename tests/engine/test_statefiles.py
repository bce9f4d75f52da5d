"""Which state files hold what, by a model that looks at one key-group at a time."""

import itertools
from random import Random

import numpy as np

from lab.engine.durable import Durable
from lab.engine.settings import Settings
from lab.engine.stages import Stages
from lab.engine.statefiles import StateFile, StateFiles, chosen, table
from lab.model.reference import run
from lab.model.schema import LOGINS
from tests.engine.test_stages import assert_same, count_rule, login

KEY_GROUPS = 6


def random_files(rng: Random) -> list[StateFile]:
    """What tasks leave behind that merge now and then, of parallelisms that change, some of them twice."""
    files = []
    for batch in range(rng.randrange(1, 8)):
        tasks = rng.randint(1, 4)
        bounds = [-(-task * KEY_GROUPS // tasks) for task in range(tasks + 1)]
        for low, high in itertools.pairwise(bounds):
            if rng.random() < 0.8:
                files.append(StateFile(batch, rng.randint(max(batch - 3, 0), batch), low, high - 1))
    return files


def serving(files: list[StateFile], upto: int, key_group: int, own: tuple[int, int]) -> list[str]:
    """The files of one key-group, newest first: the newest, of those the one that reaches furthest back, then what was before."""
    names, wanted = [], upto
    while mine := [file for file in files if file.last <= wanted and file.low <= key_group <= file.high]:
        best = min(mine, key=lambda file: (-file.last, file.first, (file.low, file.high) != own, file.low))
        names.append(best.name)
        wanted = best.first - 1
    return names


def test_each_key_group_is_read_from_the_files_that_hold_it_and_from_no_other():
    rng = Random(5)
    for _ in range(2000):
        files, upto = random_files(rng), rng.randrange(8)
        low = rng.randrange(KEY_GROUPS)
        high = rng.randrange(low, KEY_GROUPS)
        found, idle = chosen([file.name for file in files], upto, low, high)
        for key_group in range(KEY_GROUPS):
            wanted = serving(files, upto, key_group, (low, high))
            assert not set(wanted) & set(idle)
            got = [file.name for file in found[::-1] if key_group in file.serves]
            assert got == (wanted if low <= key_group <= high else [])


def test_of_a_file_that_another_has_replaced_in_part_only_the_rest_is_read(tmp_path):
    def rows(batch: int, key_groups: list[int]):
        seq = np.arange(len(key_groups)) + (batch << 32)
        events = {"time": seq, "id": seq, "seq": seq, "keyGroup": np.array(key_groups)}
        none = np.empty(0, np.int64)
        return table([(0, events, {"rule": none, "seq": none, "keyGroup": none, "joined": none})])

    whole, half = StateFiles(Durable(tmp_path), 0, 3), StateFiles(Durable(tmp_path), 0, 1)
    whole.write(0, 0, 0, rows(0, [0, 1, 2, 3]))
    half.write(
        1, 0, 1, rows(0, [0, 1])
    )  # after a rescale: of two key-groups, with what batch 0 stored of them
    held = [whole.read(file)["keyGroup"].to_pylist() for file in whole.find(1)]
    assert held == [[2, 3], [0, 1]]


def test_one_task_after_two_holds_each_event_once():
    """
    parallelism  1          2           1
    files        0…1 ▪      0 ▬ (merged)
                            1 nothing
    """
    rule = count_rule(">", 0, "5m")
    log = [rule, *(login(number, 100 + number, user=number % 7) for number in range(7))]
    log += [login(10 + number, 110 + number) for number in range(3)]
    log += [login(20 + number, 120 + number, user=number % 7) for number in range(7)]
    with Stages(Settings(LOGINS, key_groups=2)) as stages:
        stages.batch(log[:8])
        for number, entries in enumerate((log[8:9], log[9:10], log[10:11], log[11:])):
            of = Settings(LOGINS, key_groups=2, parallelism=1 if number == 3 else 2)
            stages.settings, stages.job = (
                of,
                type(stages.job)(of, stages.logs, stages.job.checkpoint, f"{stages.job.start}{number}"),
            )
            stages.planner.settings = of
            stages.batch(entries)
        assert_same(stages, run(LOGINS, log, key_groups=2))
