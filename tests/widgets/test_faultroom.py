"""The fault room shows what its drill does."""

import re

import pytest

from lab.widgets.faultroom import BREAK, REPAIR, FaultRoom


@pytest.fixture
def room():
    room = FaultRoom()
    yield room
    room.end()


def test_each_button_does_what_it_says(room):
    for name in list(room.buttons):
        room.buttons[name].click()
    assert "Killed before" in room.story.value and "good" in room.said.value
    room.buttons["Let it arrive" if "Let it arrive" in room.buttons else "Delay partition 1"].click()
    assert "catches up" in room.story.value


def test_records_files_memory_and_alerts_are_shown(room):
    room.buttons["Send 4 payments"].click()
    assert room.lanes.value.count(">waiting<") == 5  # the rule, too
    for _ in range(3):
        room.buttons["Step"].click()
    assert room.lanes.value.count(">batch 0<") == 5 and "▶ commit" in room.steps.value
    assert "The windows, as batch 0 left them" in room.sides.value and "commits/" not in room.sides.value
    room.buttons["Kill"].click()
    assert "▶ evaluate" in room.steps.value and "Nothing; the next batch reads" in room.sides.value
    room.buttons["Whole batch"].click()
    assert "commits/" in room.sides.value and "4 records: 4 evaluated, 0 duplicates sent" in room.sides.value


def test_the_end_leaves_nothing(room):
    folder = room.drill.folder
    room.end()
    assert not folder.exists() and all(button.disabled for button in room.buttons.values())


def test_payer_times_and_kills_are_drawn(room):
    room.buttons["Send 4 payments"].click()
    room.buttons["Kill"].click()
    room.buttons["Reorder"].click()
    assert re.search(r">1: \d+ by \d+<", room.lanes.value) and ", paid " in room.lanes.value
    assert room.lanes.value.count("✗ killed") == 3  # one in each lane


def test_from_batch_10_on_the_newest_files_are_shown(room):
    for _ in range(11):
        room.drill.send_payments(1)
        room.drill.run_batch()
    room.buttons["Step"].click()
    assert "offsets/ … 3, 4, 5, 6, 7, 8, 9, 10" in room.sides.value


def test_a_loss_is_red(room):
    room.buttons[BREAK].click()
    assert room.buttons[BREAK].description == REPAIR
    room.drill.send_payments(8)
    for _ in range(3):
        room.buttons["Step"].click()
    room.drill.send_payments(8)
    room.buttons["Kill"].click()
    room.buttons["Whole batch"].click()
    assert "lab-said bad" in room.said.value and "are missing" in room.said.value
