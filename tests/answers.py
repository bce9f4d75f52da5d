"""What an engine has answered to control messages, without what it announces of itself."""

from lab.model.answers import SCHEMA_STATUS


def only_answers(acks: list[str]) -> list[str]:
    """The lines of the log of answers that answer a message."""
    return [line for line in acks if not line.startswith(f'{{"status": "{SCHEMA_STATUS}"')]
