import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.cli.main import FAILED, main
from lab.engine import compiled as compiled_package
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled import codecache
from lab.engine.compiled.codecache import CodeCacheNotWritable, is_window_loop_cached, writable_code_cache
from lab.engine.loop.inprocess import compile_kernels
from tests.machine.test_access import as_stranger, only_root


@pytest.fixture
def closed(monkeypatch, tmp_path):
    """Modules and home that nobody can write to: files stand where folders would be."""
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(codecache, "__file__", str(file / "codecache.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    return file


def test_without_a_folder_for_compiled_code_the_message_says_where_it_looked_and_what_helps(closed):
    with pytest.raises(CodeCacheNotWritable) as error:
        writable_code_cache()
    assert f"{closed}/__pycache__ (" in str(error.value) and f"{closed}/numba (" in str(error.value)
    assert "set NUMBA_CACHE_DIR to a folder" in str(error.value)


def test_an_engine_does_not_start_without_one(closed, spark, tmp_path):
    from lab.engine.loop.filelogs import FileLogs
    from lab.engine.spark import pipeline

    with pytest.raises(CodeCacheNotWritable):
        pipeline.start(spark, FileLogs(tmp_path / "logs"), tmp_path / "checkpoint", Settings())


def test_the_folder_that_the_environment_names_is_enough(closed, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    writable_code_cache()
    assert not [*(tmp_path / "numba").iterdir()]


def test_it_is_known_whether_the_window_loop_has_been_compiled_for_this_python(monkeypatch):
    compile_kernels()
    assert is_window_loop_cached()
    other = SimpleNamespace(version_info=SimpleNamespace(major=4, minor=0))
    with monkeypatch.context() as patch:
        patch.setattr(codecache, "sys", other)
        assert not is_window_loop_cached()


def test_nothing_can_be_compiled_where_there_is_no_cache(closed):
    with pytest.raises(CodeCacheNotWritable):
        is_window_loop_cached()


def test_what_was_compiled_where_this_user_cannot_write_does_not_count_as_numba_passes_it_over(
    closed, monkeypatch, tmp_path
):
    compiled = Path(compiled_package.__file__).parent / "__pycache__"
    compile_kernels()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setattr(codecache, "_places", lambda: [closed / "numba", tmp_path / "numba", compiled])
    assert not is_window_loop_cached()


def test_a_command_that_needs_compiled_code_says_where_it_may_be(closed, capsys, monkeypatch):
    def fails(*_):
        raise RuntimeError("cannot cache function 'f': no locator available for file 'f.py'")

    monkeypatch.setattr("lab.past.typologies.typologies_table", fails)
    assert main(["typologies"]) == FAILED
    assert capsys.readouterr().err.startswith("lab: no folder for compiled code can be written to: ")


@only_root
def test_another_user_without_a_home_is_told(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/nonexistent")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)

    def told() -> str:
        try:
            writable_code_cache()
        except CodeCacheNotWritable as error:
            return str(error)
        return "fine"

    assert as_stranger(told).endswith("set NUMBA_CACHE_DIR to a folder of this user's own")


MORE_THAN_COMPILED = """
import sys
from numba.core.registry import CPUDispatcher
from lab.engine.loop.inprocess import compile_kernels
from tests.engine.drawn import check

def compiled():
    modules = [module for name, module in [*sys.modules.items()] if name.startswith("lab.engine")]
    return {
        (one.py_func.__module__, name, str(types))
        for module in modules
        for name, one in vars(module).items()
        if isinstance(one, CPUDispatcher)
        for types in one.signatures
    }

compile_kernels()
before = compiled()
assert before
for seed in range(60):
    check(seed)
print(*sorted(compiled() - before), sep="\\n")
"""


@pytest.mark.slow
def test_random_logs_need_nothing_that_setup_has_not_compiled():
    ran = subprocess.run(
        [sys.executable, "-c", MORE_THAN_COMPILED], check=False, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, ""), ran.stderr
