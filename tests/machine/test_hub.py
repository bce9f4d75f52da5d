"""The recipe of a JupyterHub: nothing is done as root in people's homes, and each person of a class has a password."""

import asyncio
import os
import pwd
import runpy
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
USER = 60_004
only_root = pytest.mark.skipif(
    os.getuid() != 0, reason="NOT TRIED AS ANOTHER USER: only root can be another user for a test"
)


class Anything(SimpleNamespace):
    """Stands for JupyterHub's settings: takes all that is set."""

    def __getattr__(self, name: str) -> "Anything":
        self.__dict__[name] = made = Anything()
        return made


def config(monkeypatch, **environment: str) -> dict[str, Any]:
    """The recipe, run as JupyterHub runs it."""
    for name in ("LAB_HUB", "LAB_CLASS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    auth: Any = ModuleType("jupyterhub.auth")
    auth.Authenticator = object
    monkeypatch.setitem(sys.modules, "jupyterhub", ModuleType("jupyterhub"))
    monkeypatch.setitem(sys.modules, "jupyterhub.auth", auth)
    return runpy.run_path(
        str(ROOT / "docker" / "jupyterhub_config.py"), init_globals={"get_config": Anything}
    )


@pytest.fixture
def home(request):
    """A home of another user, with lessons to copy beside it."""
    shelf = Path(tempfile.mkdtemp())  # pytest's own folders keep other users out
    request.addfinalizer(lambda: shutil.rmtree(shelf))
    shelf.chmod(0o755)
    (shelf / "kit" / "notebooks" / "source").mkdir(parents=True)
    (shelf / "kit" / "notebooks" / "source" / "00.md").write_text("hello")
    (shelf / "home").mkdir(mode=0o700)
    os.chown(shelf / "home", USER, USER)
    return shelf / "home"


def log_in(monkeypatch, home: Path) -> None:
    space = config(monkeypatch, LAB_HUB="local")
    monkeypatch.setitem(space["lessons"].__globals__, "KIT", home.parent / "kit")
    someone = pwd.struct_passwd(("someone", "x", USER, USER, "", str(home), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: someone)
    space["lessons"](
        SimpleNamespace(user=SimpleNamespace(name="someone"), log=SimpleNamespace(warning=print))
    )


@only_root
def test_the_first_log_in_copies_the_lessons_and_they_are_the_user_s(monkeypatch, home):
    for _ in range(2):
        log_in(monkeypatch, home)
        made = [home / "lab", *(home / "lab").rglob("*")]
        assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(USER, USER)}
        file = home / "lab" / "notebooks" / "source" / "00.md"
        assert file.read_text() in ("hello", "mine")
        file.write_text("mine")
    assert file.read_text() == "mine"
    assert len(made) == 4  # and nothing else is left behind


@only_root
@pytest.mark.parametrize("planted", ["lab", "lab/notebooks", "lab/.notebooks"])
def test_a_link_in_a_home_gives_nobody_a_folder_of_the_system(monkeypatch, home, planted):
    system = home.parent / "etc"
    system.mkdir(mode=0o755)
    (system / "shadow").write_text("secret")
    link = home / planted
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(system)
    for path in (link.parent, link):
        os.chown(path, USER, USER, follow_symlinks=False)
    with suppress(subprocess.CalledProcessError):  # who links their folder away has no lessons
        log_in(monkeypatch, home)
    assert [path.name for path in system.iterdir()] == ["shadow"]
    assert {path.stat().st_uid for path in (system, system / "shadow")} == {0}


def test_each_person_of_a_class_has_a_password_of_their_own(monkeypatch, tmp_path, capsys):
    names = tmp_path / "class.txt"
    names.write_text("ana\nBob\nann  lee\n\n")
    space = config(monkeypatch, LAB_CLASS=str(names))
    file = tmp_path / "class.txt.passwords"
    words = dict(line.rsplit(" ", 1) for line in file.read_text().splitlines())
    assert words.keys() == {"ana", "bob", "ann lee"} and len({*words.values()}) == 3
    assert min(map(len, words.values())) >= 16
    assert file.stat().st_mode & 0o777 == 0o600 and str(file) in capsys.readouterr().out
    names.write_text("ana\nbob\nAnn Lee\ncleo\n")
    space = config(monkeypatch, LAB_CLASS=str(names))
    later = dict(line.rsplit(" ", 1) for line in file.read_text().splitlines())
    assert later.keys() == {"ana", "bob", "ann lee", "cleo"} and {**later, **words} == later

    def enter(name: str, word: str) -> str | None:
        return asyncio.run(space["OfClass"]().authenticate(None, {"username": name, "password": word}))

    assert enter("ana", later["ana"]) == "ana"
    for name, word in (
        ("ana", later["bob"]),
        ("ana", ""),
        ("dora", later["ana"]),
        ("dora", ""),
        ("ana", "é"),
    ):
        assert enter(name, word) is None, (name, word)


def test_without_a_list_of_names_the_hub_does_not_start(monkeypatch):
    with pytest.raises(SystemExit, match="LAB_CLASS names no file"):
        config(monkeypatch)
