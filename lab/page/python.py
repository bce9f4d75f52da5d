"""The page's Python: Pyodide, those modules of the standard library that it needs, and `lab.model` with `lab.page.front`, compiled.

npm ──► Pyodide ──► stdlib, lab ──compile.mjs──► bytecode ──gzip──► base64 in the page
"""

import base64
import gzip
import hashlib
import io
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from zipfile import ZipFile

from lab.teach import pyodide

HERE = Path(__file__).parent
LAB = HERE.parent
# of `lab`, whose own names a page does not need
OWN = (
    "model/**/*.py",
    "engine/__init__.py",
    "engine/compiled/**/*.py",
    *(f"engine/records/{name}.py" for name in ("__init__", "expected")),
    *(f"engine/checkpoint/{name}.py" for name in ("__init__", "ledger")),
    *(
        f"sources/{name}.py"
        for name in (
            "__init__",
            "infer",
            "inferredfields",
            "idandtime",
            "inferwords",
            "order",
            "sampledrecords",
        )
    ),
    *(f"sources/{name}.py" for name in ("csvcolumns", "csvfile", "csvrows", "records")),
    *(f"page/{name}.py" for name in ("__init__", "front", "conditions", "routes", "windows", "withoutnumpy")),
    *(f"page/{name}.py" for name in ("reader", "derivation", "inference")),
    *(f"past/{name}.py" for name in ("__init__", "fastreference", "routehistory")),
    *(f"desk/{name}.py" for name in ("__init__", "explain", "judging", "picture", "verdict", "witness")),
)
# of the standard library: what neither Pyodide nor `lab.model` imports
ABSENT = re.compile(
    r"""(_pyrepl|ctypes|curses|dbm|email|ensurepip|http|multiprocessing|pydoc_data|sqlite3|unittest|venv|wsgiref|xml|xmlrpc)/
    |encodings/(?!(__init__|aliases|ascii|cp437|latin_1|utf_8)\.)
    |(_pydatetime|_pyio|_sysconfigdata\w*|argparse|bdb|configparser|doctest|ftplib|getopt|imaplib|mailbox|mimetypes|nntplib)\.
    |(optparse|pdb|pickletools|platform|plistlib|poplib|profile|pstats|pyclbr|pydoc|smtplib|statistics|tabnanny|tarfile|timeit|trace|turtle)\.""",
    re.VERBOSE,
)
REPLACED = {  # in Pyodide's scripts: they are one script here, and its files come with it
    "import.meta.url": '""',
    "export default _createPyodideModule;": "",
    "export{dt as loadPyodide,U as version};": "return dt;",
    "//# sourceMappingURL=pyodide.mjs.map": "",
    "function fe(e,t){let n=new URL(e,location);return{response:fetch(n,t?{integrity:t}:{})}}": (
        'function fe(e){return{binary:FILES[e.split("/").pop()]}}'
    ),
}


def python_parts(folder: Path) -> dict[str, str]:
    """What a worker makes its Python of, each packed and as text; `folder` keeps what takes long, as long as its sources are the same."""
    files = pyodide.pyodide_files(folder)
    lab = {
        f"lab/{path.relative_to(LAB)}": path.read_bytes() for each in OWN for path in sorted(LAB.glob(each))
    }
    stdlib = _compiled(folder, "stdlib", dict(_unpacked(files[pyodide.STDLIB])), 2)
    parts = {
        "script": _script(files).encode(),
        pyodide.WASM: files[pyodide.WASM],
        pyodide.STDLIB: stdlib,
        pyodide.LOCK: json.dumps({"info": json.loads(files[pyodide.LOCK])["info"], "packages": {}}).encode(),
        "kit.zip": _compiled(folder, "lab", {"lab/__init__.py": b"", **lab, **_time_zones()}, 0),
    }
    return {name: base64.b64encode(gzip.compress(data, mtime=0)).decode() for name, data in parts.items()}


def _unpacked(packed: bytes) -> Iterator[tuple[str, bytes]]:
    with ZipFile(io.BytesIO(packed)) as whole:
        yield from ((name, whole.read(name)) for name in whole.namelist() if not ABSENT.match(name))


def _time_zones() -> dict[str, bytes]:
    """The package tzdata, which `lab.model.times` reads."""
    root = Path(str(resources.files("tzdata")))
    return {
        f"tzdata/{path.relative_to(root)}": path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }


def _compiled(folder: Path, name: str, files: dict[str, bytes], optimize: int) -> bytes:
    """Python sources as a zip file of bytecode, and other files as they are."""
    sources = hashlib.sha256((HERE / "compile.mjs").read_bytes() + pyodide.VERSION.encode())
    for path, data in files.items():
        sources.update(f"{path} {len(data)} ".encode() + data)
    made = folder / f"{name}-{sources.hexdigest()[:12]}.zip"
    if not made.exists():
        with tempfile.TemporaryDirectory() as temporary:
            work = Path(temporary)
            for each, data in pyodide.pyodide_files(folder).items():
                (work / each).write_bytes(data)
            with ZipFile(work / "from.zip", "w") as whole:
                for path, data in files.items():
                    whole.writestr(path, data)
            pyodide.run("node", HERE / "compile.mjs", work, str(optimize), work / "from.zip", work / "to.zip")
            shutil.copy(work / "to.zip", made)
    return made.read_bytes()


def _script(files: dict[str, bytes]) -> str:
    """Pyodide's own JavaScript, as a script that needs nothing beside it."""
    module, loader = (files[name].decode() for name in reversed(pyodide.SCRIPTS))
    for text, other in REPLACED.items():
        if text not in module + loader:
            raise SystemExit(f"Pyodide's scripts do not have {text!r}: are they another version?")
        module, loader = module.replace(text, other), loader.replace(text, other)
    return f"{module}\nconst loadPyodide = (() => {{\n{loader}\n}})();\n"
