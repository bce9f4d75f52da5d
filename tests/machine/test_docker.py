"""Broker and database for people with Docker: the same as ours, and on this machine's loopback only."""

from pathlib import Path

import yaml

from lab.machine import broker, database

COMPOSE = Path(__file__).parents[2] / "docker" / "compose.yaml"


SERVICES = yaml.safe_load(COMPOSE.read_text())["services"]


def test_the_settings_of_the_database_are_those_of_our_own_and_it_is_on_the_loopback():
    service = SERVICES["database"]
    assert service["ports"] == [f"127.0.0.1:{database.PORT}:5432"] and service["profiles"] == ["database"]
    ours = dict(line.split("#")[0].strip().split(" = ") for line in database.SETTINGS.splitlines())
    for setting in service["command"][1::2]:
        name, value = setting.split("=")
        assert ours[name] == value


def test_every_port_is_bound_to_the_loopback_and_the_settings_are_those_of_our_own_broker():
    service = SERVICES["broker"]
    assert service["image"].endswith("kafka:4.3.1") and service["ports"] == ["127.0.0.1:9092:9092"]
    given = {key: str(value).lower() for key, value in service["environment"].items()}
    ours = dict(
        line.split("=") for line in broker.PROPERTIES.splitlines() if "{" not in line and line[0] != "#"
    )
    del ours["log.dirs"], ours["log.cleaner.dedupe.buffer.size"]
    assert {name: given["KAFKA_" + name.upper().replace(".", "_")] for name in ours} == {
        name: value.lower() for name, value in ours.items()
    }
