"""Does the steps of a Dockerfile in a bare root of the system it starts from, where there is no Docker engine. As root:

    debootstrap --variant=minbase trixie ROOT
    python -m tools.imageroot docker/workshop.Dockerfile ROOT

RUN, COPY, WORKDIR, USER and ENV are done as Docker does them, but without layers, and in the network of this machine; ENTRYPOINT and CMD
are written to ROOT/command.json, as an environment and a list of words.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")


def steps(dockerfile: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile: word, rest.

    >>> steps("FROM a\\n# no\\nRUN b \\\\\\n  c\\n")
    [('FROM', 'a'), ('RUN', 'b    c')]
    """
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n", " ", "\n".join(lines))
    pairs = (line.split(maxsplit=1) for line in whole.splitlines() if line.strip())
    return [(word, rest.strip()) for word, rest in pairs]


def build(dockerfile: Path, root: Path) -> None:
    """Raises CalledProcessError when a RUN fails."""
    folder, user, environment = "/", "root", {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    words: dict[str, list[str]] = {}

    def chroot(*command: str) -> None:
        # HOME is the user's, as Docker sets it
        within = ["chroot", f"--userspec={user}", str(root), "sh", "-c"]
        script = 'cd "$0" && export HOME=$(getent passwd "$(id -u)" | cut -d: -f6) && exec "$@"'
        subprocess.run([*within, script, folder, *command], check=True, env=environment)

    for word, rest in steps(dockerfile.read_text()):
        print(f"{word} {rest}", flush=True)
        if word == "RUN":
            chroot("sh", "-c", rest)
        elif word == "ENV":
            name, value = rest.split("=", 1)
            environment[name] = re.sub(r"\$(\w+)", lambda found: environment[found[1]], value)
        elif word == "USER":
            user = rest
        elif word == "WORKDIR":
            folder = rest
            (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            _copy(rest, root, root / folder.lstrip("/"))
        elif word in ("ENTRYPOINT", "CMD"):
            words[word] = json.loads(rest)
    command = words.get("ENTRYPOINT", []) + words.get("CMD", [])
    said = {"environment": environment, "user": user, "folder": folder, "command": command}
    (root / "command.json").write_text(json.dumps(said, indent=1))


def _copy(rest: str, root: Path, folder: Path) -> None:
    *names, target = [word for word in rest.split() if not word.startswith("--")]
    owner = re.search(r"--chown=(\w+)", rest)
    for name in names:
        source, place = SOURCE / name, folder / target
        if source.is_dir():
            shutil.copytree(source, place, ignore=LEFT_OUT, dirs_exist_ok=True)
        else:
            place.mkdir(parents=True, exist_ok=True)
            place = Path(shutil.copy(source, place / source.name))
        if owner:
            subprocess.run(
                ["chroot", root, "chown", "-R", owner[1], "/" + str(place.relative_to(root))], check=True
            )


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
