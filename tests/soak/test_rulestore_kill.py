"""Capture, database, engine, decider, enforcement service and broker killed in turn while rows are edited 1,000 times: the
engine's rules are the table's, and every restriction that the reference derives is enforced, no other. Run by `make soak`;
`EDITS=200` for a shorter one."""

import os

import pytest

from lab.machine import database, jars
from tests.rulestore.whole import whole_loop

EDITS, EDITS_A_KILL = int(os.environ.get("EDITS", "1000")), 25


@pytest.mark.soak
def test_whatever_is_killed_rules_and_restrictions_arrive(tmp_path):
    try:
        database.programs_folder(), jars.fetch_jars("broker")
    except (database.DatabaseError, jars.JarsError) as error:
        pytest.skip(str(error))
    print(whole_loop(tmp_path, EDITS, EDITS_A_KILL, os.environ.get("SEED", "1")))
