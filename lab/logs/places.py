"""Parses the places of logs: a folder, or kafka://HOST:PORT/TOPIC."""

KAFKA = "kafka://"
MAX_PORT = 65_535


def check_address(address: str) -> str:
    """Returns `host:port` unchanged. Raises ValueError; the message never shows credentials."""
    if "@" in address:
        raise ValueError(
            "an address with credentials in it, which everybody on this machine can read: expected HOST:PORT, "
            "and the user and password in lab.toml, see docs/kafka.md"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT or "/" in address:
        raise ValueError(f"{address!r}, expected HOST:PORT of a broker, such as 127.0.0.1:9092")
    return address


def split_kafka_place(where: str) -> tuple[str, str]:
    """Splits `kafka://host:port/topic` into address and topic ("" if there is none). Raises ValueError.

    Several addresses are separated by commas. No address, as in `kafka:///topic`, means the cluster of lab.toml.

    >>> split_kafka_place("kafka://127.0.0.1:9092/transactions")
    ('127.0.0.1:9092', 'transactions')
    """
    address, _, topic = where.removeprefix(KAFKA).partition("/")
    if "@" in where:
        check_address(where)
    try:
        if not where.startswith(KAFKA) or "/" in topic:
            raise ValueError
        return ",".join(check_address(each) for each in address.split(",") if address), topic
    except ValueError:
        raise ValueError(
            f"{where!r}, expected kafka://HOST:PORT/TOPIC, such as kafka://127.0.0.1:9092/events"
        ) from None
