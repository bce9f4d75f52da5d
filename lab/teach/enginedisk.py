"""The disk and the alert log of a learner's engine, which can kill it before and after each step."""

from lab.model.language import say


class Killed(BaseException):
    """The engine's process ends here; its memory is gone."""


class Disk:
    """Files that outlive the engine, and an alert log that takes the alerts of a cut once.

    `kill_at`: the moment of the kill, counted from 0: each step has one before it and one after it. `story`: what happened.

    >>> disk = Disk()
    >>> disk.write("state", "{}"); disk.read("state")
    '{}'
    """

    def __init__(self, kill_at: int | None = None):
        self.kill_at, self.moments, self.kills = kill_at, 0, 0
        self.files: dict[str, str] = {}
        self.delivered: dict[int, list] = {}  # the alerts by cut
        self.conflict: int | None = None  # a cut that came again with other alerts
        self.story: list[str] = []

    @property
    def steps(self) -> int:
        """How many steps there were so far."""
        return self.moments // 2

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none."""
        return self.files.get(name)

    def write(self, name: str, text: str) -> None:
        """Writes a file, all of it or nothing."""
        if not isinstance(text, str):
            raise TypeError(f"write({name!r}, …) takes a text, such as json.dumps(…)")
        self._moment(f"write({name!r})")
        self.files[name] = text
        self.story.append(f"write({name!r})")
        self._moment("")

    def deliver(self, cut: int, alerts: list) -> None:
        """Appends the alerts of a cut to the alert log; a cut that is there already is not appended again."""
        self._moment(f"deliver({cut})")
        if cut in self.delivered and self.delivered[cut] != list(alerts) and self.conflict is None:
            self.conflict = cut
        self.delivered.setdefault(cut, list(alerts))
        self.story.append(f"deliver({cut})")
        self._moment("")

    def _moment(self, before: str) -> None:
        self.moments += 1
        if self.kill_at is not None and self.moments - 1 == self.kill_at:
            self.kills += 1
            self.story.append(say("✗ killed before {step}", step=before) if before else say("✗ killed"))
            raise Killed

    def told(self) -> str:
        """What happened, in one line."""
        return " → ".join(self.story)
