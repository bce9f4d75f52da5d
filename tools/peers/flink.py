"""PyFlink, in a virtual environment of its own: its pinned packages are others than the kit's."""

import json
import os
import subprocess
import sys
from pathlib import Path

from lab.machine import jars
from tools.bench.data import Payments
from tools.peers.data import RULES, Answer, Case

PACKAGE = "apache-flink==2.3.0"
HOME = jars.cache_folder().with_name(PACKAGE.replace("==", "-"))
PYTHON = HOME / "bin" / "python"
READY = HOME / ".ready"
JOB = Path(__file__).with_name("flinkjob.py")
WARM = 500  # events of a job before the measured one, in the same JVM


class NotInstalled(Exception):
    """Why PyFlink is not there."""


def install() -> None:
    """Makes the environment, once (minutes). Raises NotInstalled."""
    if READY.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", HOME], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
    done = subprocess.run(pip, check=False, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        raise NotInstalled((errors or done.stderr.splitlines() or ["pip failed"])[-1].strip())
    READY.touch()


def flink(payments: Payments, warm: int = WARM) -> Answer:
    """Its thread mode: Python inside the JVM. Seconds from the submission of the job to its last alert."""
    rules = [
        {"ruleId": number, "keys": keys, "windowMs": window_ms, "limit": limit}
        for number, keys, window_ms, limit in RULES
    ]
    packages = next(HOME.glob("lib/python*/site-packages"))
    environment = os.environ | {"PYTHONPATH": str(packages), "PATH": f"{HOME / 'bin'}:{os.environ['PATH']}"}
    command = [str(PYTHON), str(JOB), str(payments.file), json.dumps(rules), str(warm)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"PyFlink failed: {done.stderr[-2000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Answer({Case(*alert) for alert in told["alerts"]}, told["seconds"], payments.events)
