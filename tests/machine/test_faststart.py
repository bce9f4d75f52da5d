"""Sessions use the archive of Spark's classes when there is one, and only then."""

import os
import subprocess
import sys

import pytest

from lab.machine import faststart


def test_without_an_archive_java_is_told_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "a cache"))
    assert faststart.java_option() == ""


def test_the_path_of_an_archive_may_have_spaces(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "a cache"))
    faststart.class_archive_path().touch()
    assert faststart.java_option() == f'"-XX:SharedArchiveFile={faststart.ensure_spark_home()}/classes.jsa"'
    assert faststart.ensure_spark_home().parent == tmp_path / "a cache"


def test_homes_of_clones_that_are_gone_are_swept(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    gone = tmp_path / "spark-00000000"
    gone.mkdir()
    (gone / "jars").symlink_to(tmp_path / "clone" / "jars")
    (gone / "classes.jsa").touch()
    faststart.class_archive_path().touch()
    faststart.remove_stale_archives()
    assert not gone.exists() and faststart.class_archive_path().exists()


USES_IT = """
import sys
from lab.machine import session
conf = {"spark.driver.extraJavaOptions": f"{session.faststart.java_option()} -Xlog:class+load:file={sys.argv[1]}"}
with session.session(conf=conf) as spark:
    assert spark.range(3).count() == 3
"""


@pytest.mark.slow
def test_a_session_takes_its_classes_from_the_archive_that_was_made(tmp_path):
    """By `make setup` in this clone, whatever other clones there are."""
    environment, classes = dict(os.environ), tmp_path / "classes"
    environment.pop("SPARK_HOME", None)  # that of this process's session
    done = subprocess.run(
        [sys.executable, "-c", USES_IT, str(classes)],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert classes.read_text().count("source: shared objects file (top)") > 3_000


def test_a_home_that_an_earlier_version_made_gets_what_is_new(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    script = faststart.ensure_spark_home() / faststart.LOADED_FIRST
    text = script.read_text()
    script.write_text("trap '' TERM\n")
    faststart.ensure_spark_home()
    assert script.read_text() == text and not list(script.parent.glob(".*"))


def test_spark_has_a_home_whose_scripts_pass_over_sigterm_and_sighup_and_whose_settings_are_empty(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    home = faststart.ensure_spark_home()
    assert faststart.ensure_spark_home() == home and [path.name for path in tmp_path.iterdir()] == [home.name]
    assert list((home / "conf").iterdir()) == []
    script = f"export SPARK_HOME={home}; . {home}/bin/load-spark-env.sh; kill -TERM $$; kill -HUP $$; echo $SPARK_SCALA_VERSION"
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "2.13\n"
