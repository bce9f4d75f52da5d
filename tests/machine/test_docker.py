"""Broker and database for people with Docker: the same as ours, and on this machine's loopback only."""

from pathlib import Path

import pytest
import yaml

from lab.cli.main import parser
from lab.machine import broker, database

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker" / "compose.yaml"


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


def test_the_unit_runs_a_command_that_there_is():
    lines = (ROOT / "docker" / "lab.service").read_text().splitlines()
    unit = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    program, *words = unit["ExecStart"].replace("BROKER", "127.0.0.1").split()
    options = parser().parse_args(words)
    assert Path(program).name == "lab" and options.metrics == 9464 and options.metrics_host == "127.0.0.1"


def test_the_image_is_made_of_files_that_there_are():
    lines = (ROOT / "docker" / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    copied = [name for line in lines if line.startswith("COPY") for name in line.split()[1:-1]]
    assert copied and all((ROOT / name).exists() for name in copied)
    words = next(line for line in lines if line.startswith("CMD"))
    with pytest.raises(SystemExit) as exit:
        parser().parse_args(yaml.safe_load(words.removeprefix("CMD")))
    assert exit.value.code == 0
