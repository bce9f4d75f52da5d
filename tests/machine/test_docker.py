"""Broker and database for people with Docker: the same as ours, and on this machine's loopback only."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from lab.cli.main import build_parser
from lab.machine import broker, database, ports
from tests.waiting import PATIENCE_S, wait_until
from tools.imageroot import steps

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker" / "compose.yaml"


SERVICES = yaml.safe_load(COMPOSE.read_text())["services"]
WORKSHOP = yaml.safe_load((ROOT / "docker" / "workshop.yaml").read_text())


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
    options = build_parser().parse_args(words)
    assert Path(program).name == "lab" and options.metrics == 9464 and options.metrics_host == "127.0.0.1"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_takes_the_unit_and_the_loop_is_compiled_where_it_may_write(tmp_path):
    text = (ROOT / "docker" / "lab.service").read_text()
    assert "NUMBA_CACHE_DIR=/var/cache/lab/" in text and "\nCacheDirectory=lab\n" in text
    (code,) = re.findall(r'^ExecStartPre=\S+ -c "(.*)"$', text, re.MULTILINE)
    compile(code, "ExecStartPre", "exec")
    unit = tmp_path / "lab.service"
    unit.write_text(re.sub(r"^(ExecStart(Pre)?)=\S+", r"\1=/bin/true", text, flags=re.MULTILINE))
    done = subprocess.run(["systemd-analyze", "verify", unit], check=False, capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if str(unit) in line or "lab.service" in line]
    assert not ours, done.stderr


@pytest.mark.parametrize("name", ["Dockerfile", "workshop.Dockerfile"])
def test_an_image_is_made_of_files_that_there_are_and_does_not_run_as_root(name):
    did = steps((ROOT / "docker" / name).read_text())
    copied = [word for step, rest in did if step == "COPY" for word in rest.split()[:-1] if word[:2] != "--"]
    assert copied and all((ROOT / word).exists() for word in copied)
    assert [rest for step, rest in did if step == "USER"][-1] == "lab"
    for module in re.findall(r"python -m (lab[.\w]+)", (ROOT / "docker" / name).read_text()):
        assert (
            'if __name__ == "__main__":' in (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()
        )


def test_the_image_of_the_engine_says_how_it_is_used():
    words = dict(steps((ROOT / "docker" / "Dockerfile").read_text()))["CMD"]
    with pytest.raises(SystemExit) as exit:
        build_parser().parse_args(yaml.safe_load(words))
    assert exit.value.code == 0


# -- a workshop --------------------------------------------------------------------------------------------------------


def of_profile(profile: str) -> dict[str, dict]:
    return {name: each for name, each in WORKSHOP["services"].items() if profile in each["profiles"]}


def test_each_profile_has_what_its_services_need():
    assert set(of_profile("solo")) == {"workshop"}
    assert set(of_profile("live")) == {"workshop", "broker", "database", "engine", "prometheus", "grafana"}
    assert set(of_profile("cluster")) == {
        "workshop",
        "broker",
        "secret",
        "spark",
        "worker",
        "engine-on-cluster",
    }
    for profile in ("solo", "live", "cluster"):
        there = of_profile(profile)
        assert {need for each in there.values() for need in each.get("depends_on", ())} <= set(there)
        kept = {volume.split(":")[0] for each in there.values() for volume in each.get("volumes", ())}
        assert {name for name in kept if name[0] != "."} <= WORKSHOP["volumes"].keys()
    assert WORKSHOP["services"]["worker"]["deploy"]["replicas"] == 2


def test_a_workshop_s_ports_are_bound_to_the_loopback_and_its_images_pinned():
    for name, service in WORKSHOP["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert "extends" in service or re.fullmatch(r"lab-workshop|.+:v?\d+\.\d+\.\d+", service["image"]), (
            name
        )


def test_the_engines_of_a_workshop_are_commands_that_there_are():
    for name in ("engine", "engine-on-cluster"):
        program, *words = WORKSHOP["services"][name]["command"]
        assert program == "lab" and build_parser().parse_args(words)


def test_the_broker_of_a_workshop_tells_each_side_an_address_that_it_reaches():
    given = WORKSHOP["services"]["broker"]["environment"]
    told = dict(each.split("://") for each in given["KAFKA_ADVERTISED_LISTENERS"].split(","))
    assert told == {"PLAINTEXT": "127.0.0.1:9092", "INSIDE": "broker:29092"}
    listens = dict(each.split("://") for each in given["KAFKA_LISTENERS"].split(","))
    kinds = dict(each.split(":") for each in given["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert kinds.keys() == listens.keys() == told.keys() | {"CONTROLLER"}
    addresses = {
        word.removeprefix("kafka://")
        for word in WORKSHOP["services"]["engine"]["command"]
        if "kafka:" in word
    }
    assert addresses == {told["INSIDE"]}


def test_what_prometheus_and_grafana_are_given_is_there_and_fits():
    for service in ("prometheus", "grafana"):
        mounted = [volume.split(":")[0] for volume in WORKSHOP["services"][service]["volumes"]]
        assert all((ROOT / "docker" / place).is_file() for place in mounted)
    scraped = yaml.safe_load((ROOT / "docker" / "prometheus.yaml").read_text())["scrape_configs"][0]
    words = WORKSHOP["services"]["engine"]["command"]
    assert scraped["static_configs"][0]["targets"] == [f"engine:{words[words.index('--metrics') + 1]}"]
    (source,) = yaml.safe_load((ROOT / "docker" / "grafana" / "datasources.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090" and source["type"] == "prometheus"


def test_all_of_a_workshop_s_cluster_share_a_secret():
    for name in ("spark", "worker", "engine-on-cluster"):
        service = WORKSHOP["services"][name]
        assert service["environment"]["SPARK_CONF_DIR"] == WORKSHOP["services"]["secret"]["command"][-1]
        assert service["depends_on"]["secret"] == {"condition": "service_completed_successfully"}
        assert "shared:/home/lab" in service["volumes"]


@pytest.mark.slow
def test_the_workshop_s_jupyterlab_wants_a_token_and_a_host_s_own_name(tmp_path):
    """The image's command, on a port of its own; what a web page may do from a name that leads to this machine is nothing."""
    given = WORKSHOP["services"]["workshop"]["environment"]["JUPYTER_TOKEN"]
    assert given == "${LAB_TOKEN:-}"  # empty, if nobody sets it: JupyterLab draws one
    command = yaml.safe_load(dict(steps((ROOT / "docker" / "workshop.Dockerfile").read_text()))["CMD"])
    words = [word for word in command if "root_dir" not in word and "default_url" not in word][1:]
    port = ports.free_port()
    words += [f"--ServerApp.root_dir={tmp_path}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    words += ["--allow-root"] if os.getuid() == 0 else []
    env = {
        **os.environ,
        "JUPYTER_TOKEN": "",
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "HOME": str(tmp_path),
    }

    def ask(host: str, token: str = "") -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/contents", headers={"Host": host})
        if token:
            request.add_header("Authorization", f"token {token}")
        try:
            return urllib.request.urlopen(request, timeout=PATIENCE_S).status
        except urllib.error.HTTPError as error:
            return error.code

    program = Path(sys.executable).with_name("jupyter")
    with subprocess.Popen(
        [program, *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as lab:
        try:
            wait_until(
                lambda: [*(tmp_path / "runtime").glob("jpserver-*.json")] and not ports.is_free(port),
                alive=lambda: lab.poll() is None,
            )
            (file,) = (tmp_path / "runtime").glob("jpserver-*.json")
            token = json.loads(file.read_text())["token"]
            assert len(token) >= 40
            for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
                assert (ask(host, token), ask(host), ask(host, "workshop")) == (200, 403, 403)
            assert ask(f"evil.example:{port}", token) == 403
        finally:
            lab.terminate()


def test_the_hub_starts_the_workshop_s_image():
    text = (ROOT / "docker" / "jupyterhub_config.py").read_text()
    ast.parse(text)
    assert WORKSHOP["services"]["workshop"]["image"] in text
    assert "jupyterhub==" in (ROOT / "docker" / "workshop.Dockerfile").read_text()


# -- dev container, Binder, forge --------------------------------------------------------------------------------------


def test_dev_container_and_binder_name_files_and_modules_that_there_are():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).is_file()
    assert container["postCreateCommand"] == "make setup"
    binder = ROOT / ".binder"
    named = binder / (binder / "requirements.txt").read_text().split()[1]
    assert named.resolve() == ROOT / "requirements-build.lock"
    locks = re.findall(r"-r (\S+)", (binder / "postBuild").read_text())
    assert locks == ["requirements.lock"] and (ROOT / locks[0]).is_file()
    for module in re.findall(r"python -m (lab\.[\w.]+)", (binder / "postBuild").read_text()):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


def test_the_forge_runs_actions_by_their_commit():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used and all(
        re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", each) for each in used
    ), used


def test_the_forge_tries_each_python_and_java_that_the_readme_names():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    matrix = jobs["quick"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13"] and matrix["java"] == ["17", "21"]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    asked = [
        word
        for job in jobs.values()
        for step in job["steps"]
        for word in re.findall(r"make (\w+)", step.get("run", ""))
    ]
    assert asked and set(asked) <= set(targets)
