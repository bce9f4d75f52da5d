// Compiles the Python sources in zip files, with the Python that will run them: node compile.mjs PYODIDE OPTIMIZE ZIP OUT …
// OPTIMIZE 2 leaves out docstrings and assertions, 0 nothing. The zip files that come out are not packed.
import { readFileSync, writeFileSync } from "node:fs";

const [folder, ...jobs] = process.argv.slice(2);
const { loadPyodide } = await import(`${folder}/pyodide.mjs`);
const python = await loadPyodide();
for (let job = 0; job < jobs.length; job += 3) {
  const [optimize, from, to] = jobs.slice(job, job + 3);
  python.FS.writeFile("/from.zip", readFileSync(from));
  python.globals.set("optimize", Number(optimize));
  python.runPython(`
from importlib._bootstrap_external import _code_to_timestamp_pyc
from zipfile import ZipFile
with ZipFile("/from.zip") as old, ZipFile("/to.zip", "w") as new:
    for name in old.namelist():
        if name.endswith(".py"):
            code = compile(old.read(name), name, "exec", dont_inherit=True, optimize=optimize)
            new.writestr(f"{name}c", _code_to_timestamp_pyc(code))
        elif not name.endswith("/"):
            new.writestr(name, old.read(name))
`);
  writeFileSync(to, python.FS.readFile("/to.zip"));
}
