"""A cell that takes long says so while it runs."""

import time

from lab.teach import clock
from lab.teach.clock import CellTimer


class Shown:
    """What was displayed, and its updates."""

    def __init__(self):
        self.texts = []

    def __call__(self, text, display_id):
        self.texts.append(text)
        return self

    def update(self, text):
        self.texts.append(text)


def test_a_long_cell_tells_that_it_runs_and_in_the_end_what_it_took(monkeypatch):
    monkeypatch.setattr(clock, "QUIET_S", 0.0)
    monkeypatch.setattr(clock, "EVERY_S", 60.0)
    shown = Shown()
    cell = CellTimer(shown)
    cell.before_cell()
    while not shown.texts:
        time.sleep(0.01)
    assert shown.texts == ["Running for 0 s …"] and "<small" in shown.texts[0]._repr_html_()
    cell.after_cell()
    assert shown.texts[-1].startswith("This cell took")


def test_a_short_cell_says_nothing(monkeypatch):
    monkeypatch.setattr(clock, "QUIET_S", 60.0)
    shown = Shown()
    cell = CellTimer(shown)
    cell.before_cell()
    cell.after_cell()
    assert not shown.texts
