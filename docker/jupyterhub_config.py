"""JupyterHub for a class on one server: each person has a container of the workshop's image, and nothing in common but the machine.

docker build -f docker/workshop.Dockerfile -t lab-workshop .
pip install jupyterhub dockerspawner && npm install --global configurable-http-proxy
LAB_CLASS_PASSWORD=… jupyterhub --config docker/jupyterhub_config.py

Without Docker, where each person is a user of this machine: LAB_HUB=local (run by root, the kit in a folder that all may read).
It listens on the loopback: put a server that speaks TLS in front of it, or reach it through ssh -L 8000:127.0.0.1:8000.
"""

import os
from pathlib import Path

KIT = Path("/opt/lab")  # in the image, and with LAB_HUB=local on this machine
c = get_config()  # noqa: F821  (JupyterHub defines it)

c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.Authenticator.allow_all = True
c.Spawner.default_url = "/lab/tree/notebooks/00-start-here.ipynb"
# measured with tests/bench/heads.py; docs/teaching/server.md has the table
c.Spawner.mem_limit = "3G"
c.Spawner.cpu_limit = 2
c.Spawner.start_timeout = 120

if os.environ.get("LAB_HUB") == "local":
    c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
    c.Spawner.cmd = [str(KIT / ".venv/bin/jupyterhub-singleuser")]
    # a copy of the lessons of one's own; the kit itself is shared
    c.Spawner.notebook_dir = "~/lab"
    c.Spawner.environment = {"LAB_CACHE": str(KIT / ".cache"), "PATH": f"{KIT}/.venv/bin:/usr/bin:/bin"}

    def lessons(spawner) -> None:
        """Each person's own copy of the notebooks, made at the first log-in."""
        import pwd
        import shutil

        user = pwd.getpwnam(spawner.user.name)
        folder = Path(user.pw_dir, "lab", "notebooks")
        if not folder.exists():
            shutil.copytree(KIT / "notebooks", folder)
            for path in (folder.parent, folder, *folder.rglob("*")):
                os.chown(path, user.pw_uid, user.pw_gid)

    c.Spawner.pre_spawn_hook = lessons
else:
    c.JupyterHub.spawner_class = "dockerspawner.DockerSpawner"
    c.JupyterHub.hub_connect_ip = (
        "172.17.0.1"  # this machine, as the containers of Docker's own network see it
    )
    c.JupyterHub.hub_ip = "172.17.0.1"
    c.JupyterHub.authenticator_class = "jupyterhub.auth.DummyAuthenticator"
    c.DummyAuthenticator.password = os.environ["LAB_CLASS_PASSWORD"]
    c.DockerSpawner.image = "lab-workshop"
    c.DockerSpawner.cmd = ["jupyterhub-singleuser"]
    c.DockerSpawner.notebook_dir = str(KIT)
    c.DockerSpawner.extra_host_config = {"shm_size": "1g"}
    # what somebody wrote is there again after a new start of the container
    c.DockerSpawner.volumes = {"lab-{username}": str(KIT / "notebooks")}
    c.DockerSpawner.remove = True
