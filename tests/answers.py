"""What an engine has answered to control messages, without what it announces of itself."""

from collections.abc import Iterable

from lab.model.statuslines import SCHEMA_STATUS


def only_answers(acks: Iterable[str]) -> list[str]:
    """The lines of the log of answers that answer a message."""
    return [line for line in acks if not line.startswith(f'{{"status": "{SCHEMA_STATUS}"')]
