"""JupyterHub for a class on one server: each person has a container of the workshop's image, and nothing in common but the machine.

docker build -f docker/workshop.Dockerfile -t lab-workshop .
pip install jupyterhub dockerspawner && npm install --global configurable-http-proxy
LAB_CLASS=class.txt jupyterhub --config docker/jupyterhub_config.py

`class.txt` has a name in each line. Each person gets a password at random; they are in `class.txt.passwords`, for you to hand out.

Without Docker, where each person is a user of this machine: LAB_HUB=local (run by root, the kit in a folder that all may read,
passwords those of the machine; root may not log in).
It listens on the loopback: put a server that speaks TLS in front of it, or reach it through ssh -L 8000:127.0.0.1:8000.
"""

import os
import secrets
from pathlib import Path

from jupyterhub.auth import Authenticator

KIT = Path("/opt/lab")  # in the image, and with LAB_HUB=local on this machine
# as the user: a link in their home leads root nowhere. The lessons appear whole, or not at all
COPY = 'cd && test -e lab/notebooks || { rm -rf lab/.notebooks; mkdir -p lab && cp -R "$0/notebooks" lab/.notebooks && mv lab/.notebooks lab/notebooks; }'
COPY_S = 60
PASSWORDS: dict[str, str] = {}
c = get_config()  # noqa: F821  (JupyterHub defines it)

c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.Spawner.default_url = "/lab/tree/notebooks/00-start-here.ipynb"
# measured with tools/bench/heads.py; docs/teaching/server.md has the table
c.Spawner.mem_limit = "3G"
c.Spawner.cpu_limit = 2
c.Spawner.start_timeout = 120


def lessons(spawner) -> None:
    """Each person's own copy of the notebooks, made at the first log-in."""
    import pwd
    import subprocess

    user = pwd.getpwnam(spawner.user.name)
    environment = {"HOME": user.pw_dir, "PATH": "/usr/bin:/bin"}
    rights = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "umask": 0o077}
    command = ["sh", "-c", COPY, str(KIT)]
    subprocess.run(command, check=True, cwd="/", env=environment, timeout=COPY_S, **rights)


def passwords(names: Path) -> dict[str, str]:
    """The password of each person of a class; those who have none yet get one."""
    file = names.with_name(f"{names.name}.passwords")
    words = dict(line.rsplit(" ", 1) for line in file.read_text().splitlines()) if file.exists() else {}
    people = [" ".join(name.split()).lower() for name in names.read_text().splitlines() if name.strip()]
    words = {name: words.get(name) or secrets.token_urlsafe(12) for name in people}
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.writelines(f"{name} {word}\n" for name, word in words.items())
    print(f"passwords of {len(words)} people: {file}")
    return words


class OfClass(Authenticator):
    """Lets the people of the class in."""

    async def authenticate(self, handler, data):
        word = PASSWORDS.get(data["username"], "")
        right = word and secrets.compare_digest(word.encode(), data["password"].encode())
        return data["username"] if right else None


if os.environ.get("LAB_HUB") == "local":
    c.Authenticator.allow_all = True
    c.Authenticator.blocked_users = {"root"}
    c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
    c.Spawner.cmd = [str(KIT / ".venv/bin/jupyterhub-singleuser")]
    # a copy of the lessons of one's own; the kit itself is shared
    c.Spawner.notebook_dir = "~/lab"
    c.Spawner.environment = {"LAB_CACHE": str(KIT / ".cache"), "PATH": f"{KIT}/.venv/bin:/usr/bin:/bin"}
    c.Spawner.pre_spawn_hook = lessons
else:
    if not Path(os.environ.get("LAB_CLASS", "")).is_file():
        raise SystemExit("LAB_CLASS names no file; expected one with a person's name in each line")
    PASSWORDS = passwords(Path(os.environ["LAB_CLASS"]))
    c.JupyterHub.authenticator_class = OfClass
    c.Authenticator.allowed_users = set(PASSWORDS)
    c.JupyterHub.spawner_class = "dockerspawner.DockerSpawner"
    # this machine, as the containers of Docker's own network see it
    c.JupyterHub.hub_connect_ip = c.JupyterHub.hub_ip = "172.17.0.1"
    c.DockerSpawner.image = "lab-workshop"
    c.DockerSpawner.cmd = ["jupyterhub-singleuser"]
    c.DockerSpawner.notebook_dir = str(KIT)
    c.DockerSpawner.extra_host_config = {"shm_size": "1g"}
    # what somebody wrote is there again after a new start of the container
    c.DockerSpawner.volumes = {"lab-{username}": str(KIT / "notebooks")}
    c.DockerSpawner.remove = True
