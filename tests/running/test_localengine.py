"""The engine in a thread of this process."""

import time
from threading import Thread

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.epochs import Epoch
from lab.engine.loop.filelogs import FileLogs
from lab.running.localengine import LocalEngine
from tests.waiting import wait_until


def test_it_stops_while_events_keep_coming(tmp_path, monkeypatch):
    logs, step, took = FileLogs(tmp_path), Epoch.step, []

    def step_after_an_event(epoch: Epoch) -> bool:
        logs.log("events").append([b"{}"])
        time.sleep(0.002)  # so it was logged before the cut
        took.append(step(epoch))
        return took[-1]

    monkeypatch.setattr(Epoch, "step", step_after_an_event)
    logs.create()
    engine = LocalEngine(logs, Settings(), 0.01)
    engine.start()
    try:
        wait_until(lambda: len(took) > 3, alive=engine.is_alive, said=lambda: engine.error)
        Thread(target=engine.stop, daemon=True).start()
        engine.join(10)
        assert not engine.is_alive() and all(took)
    finally:
        monkeypatch.undo()
        engine.join(10)
