"""`make lite`: lessons and control room as a static site that runs in the browser, without a server and without any other host.

    pyodide (npm) ─┐
    pure wheels   ─┼─► static/pyodide, one lock file ─┐
    lab as wheel  ─┘                                  ├─ JupyterLite ─► build/lite
    lessons/source ─► notebooks with a first cell ────┘

The lock file names exactly the wheels that lie beside it, and the kernel loads all of them when it starts.
"""

import gzip
import json
import re
import shutil
import sys
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from zipfile import ZIP_DEFLATED, ZipFile

import nbformat
from nbformat import NotebookNode

from lab.model.language import ENGLISH, say, speak
from lab.teach import pyodide, translations
from lab.teach.lessons import build_notebook, languages_of, lesson_sources
from lab.teach.recorded import RECORDED, native_only_cells

ROOT = Path(__file__).parents[2]
LESSONS = ("00", "01", "03", "05", "09", "11", "control")  # what the names of the sources begin with
RECORDING = str(RECORDED.relative_to(ROOT))
KERNEL = "@jupyterlite/pyodide-kernel-extension:kernel"
SHOWN = {  # of JupyterLab: all cells are in the page, so that widgets stay as they are when it is scrolled
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"}
}
LEXERS = "_css_builtins|_lilypond_builtins|_mapping|_scheme_builtins|css|data|html|javascript|jvm|lilypond|lisp|markup|perl|python|ruby|shell"
ABSENT = re.compile(  # of wheels: what no lesson reads
    rf"""plotly/(labextension|matplotlylib|figure_factory|express|package_data/(plotly\.min\.js|datasets))
    |pygments/lexers/(?!({LEXERS}|__init__)\.)
    |jedi/third_party/(django-stubs|typeshed/(stubs|stdlib/(distutils|encodings|lib2to3|tkinter)))/
    |anywidget/(labextension|nbextension)/
    |.*/flights/.*\.gz
    |[^/]+\.data/
    |[^/]+\.dist-info/RECORD""",
    re.VERBOSE,
)
# packed, because a server that compresses nothing sends three times as much; the suffix means nothing to servers
PACKED_WASM = f"{pyodide.WASM}.packed"
REPLACED = {  # in files of Pyodide and JupyterLite: text, and what takes its place
    "static/pyodide/pyodide.mjs": (
        '_(e+"pyodide.asm.wasm")',
        f'{{binary:fetch(e+"{PACKED_WASM}").then((packed)=>new Response(packed.body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer())}}',
    ),
    # the browser asks whether a file is still the newest; after an update it would mix old files with new ones
    "service-worker.js": (
        "if(!enableCache)return await fetch(t);",
        'if(!enableCache)return await fetch(t,{cache:"no-cache"});',
    ),
}
SAID = (
    "**This notebook runs in your browser.** Nothing is installed, and nothing leaves this page. Run the cell below first. Cells that need "
    "Spark or compiled packages show what they gave on a computer. Your changes are kept in this browser only: *File*, *Download* saves them."
)
# the kernel's files come while JupyterLab starts, but not before its own largest file
AHEAD = """<script>
  new PerformanceObserver((list, observer) => {
    if (!list.getEntries().some(({ name }) => name.includes("/jlab_core."))) return;
    observer.disconnect();
    for (const name of $names) {
      document.head.append(Object.assign(document.createElement("link"), { rel: "prefetch", href: `../static/pyodide/${name}` }));
    }
  }).observe({ type: "resource", buffered: true });
</script>"""
TITLE = "Rules that change at run time, on event streams"
WELCOME = "These lessons run in your browser. Nothing is installed, and nothing that you do leaves it. Python starts in about twenty seconds."
# the script holds no settings, but JupyterLite reads it in each folder up to this one
FIRST_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$title</title>
<style>
  :root { color-scheme: light dark; }
  body { font: 18px/1.6 system-ui, sans-serif; max-width: 38rem; margin: 3rem auto; padding: 0 1rem; background: Canvas; }
  a { color: light-dark(#0b57d0, #8ab4f8); }
</style>
<main>
$languages
</main>
<script id="jupyter-config-data" type="application/json" data-jupyter-lite-root=".">{}</script>
</html>
"""
IN_LANGUAGE = """\
<section lang="$language">
<h1>$title</h1>
<p>$welcome</p>
<ul>
$links
</ul>
</section>"""


def main(site: Path) -> None:
    """Builds the site, and says how large it is."""
    parts = site.with_name(f"{site.name}-parts")
    # into a folder that is not empty, JupyterLite writes the address of a host
    for folder in (site, parts / "site"):
        shutil.rmtree(folder, ignore_errors=True)
    kernel = parts / "site" / "static" / "pyodide"
    kernel.mkdir(parents=True)
    for name, data in pyodide.pyodide_files(parts).items():
        (kernel / name).write_bytes(data)
    names = _write_lock_file(_wheels(parts, kernel), kernel)
    (parts / "site" / "files").mkdir()
    lessons = site_notebooks()
    for path, notebook in lessons:
        (parts / "site" / "files" / path).parent.mkdir(exist_ok=True)
        nbformat.write(notebook, parts / "site" / "files" / path)
    (parts / "site" / "overrides.json").write_text(json.dumps(SHOWN))
    (parts / "site" / "jupyter-lite.json").write_text(json.dumps(_settings(names), indent=1))
    pyodide.run(
        ROOT / "build" / "tools" / "bin" / "jupyter",
        "lite",
        "build",
        "--contents",
        "files",
        "--output-dir",
        site.resolve(),
        cwd=parts / "site",
    )
    _finish(site)
    (site / "index.html").write_text(_first_page(lessons))
    files = [file for file in site.rglob("*") if file.is_file()]
    print(f"{site}: {sum(file.stat().st_size for file in files) / 1e6:.0f} MB in {len(files):,} files")


def _finish(site: Path) -> None:
    """Makes the site start faster, and an update of it show at once."""
    for file in site.rglob("*"):
        if file.suffix == ".map":  # for debuggers, a third of the site
            file.unlink()
        else:
            file.touch()  # JupyterLite's files say 1985, so that browsers would keep them for years
    wasm = site / "static" / "pyodide" / pyodide.WASM
    wasm.with_name(PACKED_WASM).write_bytes(gzip.compress(wasm.read_bytes(), mtime=0))
    wasm.unlink()
    for name, (text, other) in REPLACED.items():
        content = (site / name).read_text()
        if content.count(text) != 1:
            raise SystemExit(f"{name} does not have {text!r} once: is it another version?")
        (site / name).write_text(content.replace(text, other))
    kernel = sorted(path.name for path in (site / "static" / "pyodide").iterdir())
    page = site / "lab" / "index.html"
    script = AHEAD.replace("$names", json.dumps(kernel))
    page.write_text(page.read_text().replace("<head>", f"<head>\n{script}", 1))


def site_notebooks() -> list[tuple[str, NotebookNode]]:
    """Path and notebook of each lesson of the site, in each language that it has; the first cells are for the browser."""
    found = []
    for language in (ENGLISH, *translations.languages()):
        has_words = _speak(language)
        for source in lesson_sources():
            translated = language in languages_of(source) or has_words and source.stem == "control-room"
            if not source.stem.startswith(LESSONS) or not translated:
                continue
            notebook = build_notebook(source, language=language)
            notebook.metadata.kernelspec = {"name": "python", "display_name": "Python (Pyodide)"}
            of = ", ".join(f'"{part}"' for part in (source.stem, language) if part != ENGLISH)
            begin = f"from lab.teach.recorded import use_recorded_outputs\n\nuse_recorded_outputs({of})"
            first = [
                nbformat.v4.new_markdown_cell(f"> {say(SAID)}", id="said"),
                nbformat.v4.new_code_cell(begin, id="begin"),
            ]
            notebook.cells[:0] = first
            folder = "" if language == ENGLISH else f"{language}/"
            found.append((f"{folder}{source.stem}.ipynb", notebook))
    speak(ENGLISH)
    return found


def _speak(language: str) -> bool:
    """Has `say` speak a language, if it has a catalog; else English."""
    has_words = language == ENGLISH or bool(translations.read_translations(language, "words"))
    speak(language if has_words else ENGLISH)
    return has_words


def _first_page(lessons: list[tuple[str, NotebookNode]]) -> str:
    """A page with a link to each lesson in each language, in place of JupyterLab's empty desk."""
    links: dict[str, list[str]] = {}
    for path, notebook in lessons:
        title = notebook.cells[2].source.partition("\n")[0].removeprefix("# ")
        language = path.rpartition("/")[0] or ENGLISH
        links.setdefault(language, []).append(f'<li><a href="lab/?path={path}">{escape(title)}</a></li>')
    parts = []
    for language, items in links.items():
        _speak(language)
        said = {"language": language, "title": say(TITLE), "welcome": say(WELCOME), "links": "\n".join(items)}
        parts.append(Template(IN_LANGUAGE).substitute(said))
    speak(ENGLISH)
    return Template(FIRST_PAGE).substitute(title=TITLE, languages="\n".join(parts))


def site_recording() -> str:
    """What cells gave on a computer, with the source of each cell in each language."""
    recorded = json.loads(RECORDED.read_text())
    for source in lesson_sources():
        for language in languages_of(source)[1:]:
            translated = native_only_cells(
                build_notebook(source, with_solutions=True, language=language).cells
            )
            for cell, same in zip(recorded.get(source.stem, ()), translated, strict=True):
                cell[language] = same.source
    return json.dumps(recorded, ensure_ascii=False)


def _wheels(parts: Path, to: Path) -> list[Path]:
    """All wheels that the page loads, without what it never reads."""
    downloaded, own = parts / "wheels", parts / "own"
    for folder in (own, ROOT / "build" / "lib"):
        shutil.rmtree(folder, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    pure = ("--no-deps", "--only-binary=:all:", "--platform=any", "--python-version=3.14")
    pinned = ("--require-hashes", "--requirement", ROOT / "requirements-page.lock")
    pyodide.run(*pip, "download", *pure, "--dest", downloaded, *pinned)
    pyodide.run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", own, ROOT)
    wheels = []
    for wheel in sorted([*downloaded.glob("*.whl"), *own.glob("*.whl")]):
        wheels.append(to / wheel.name)
        with ZipFile(wheel) as old, ZipFile(wheels[-1], "w", ZIP_DEFLATED, compresslevel=9) as new:
            for name in old.namelist():
                if not ABSENT.match(name):
                    new.writestr(name, site_recording() if name == RECORDING else old.read(name))
    return wheels


def _write_lock_file(wheels: list[Path], kernel: Path) -> list[str]:
    """Writes the lock file of these wheels alone, and returns their names."""
    lock = kernel / pyodide.LOCK
    whole = json.loads(lock.read_text())
    packages = {}
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        name = re.sub("[-_.]+", "-", name).lower()
        packages[name] = {
            "name": name,
            "version": version,
            "file_name": wheel.name,
            "sha256": sha256(wheel.read_bytes()).hexdigest(),
            "install_dir": "site",
            "package_type": "package",
            "imports": [],
            "depends": [],
            "unvendored_tests": False,
        }
    lock.write_text(json.dumps({"info": whole["info"], "packages": packages}))
    return list(packages)


def _settings(names: list[str]) -> dict:
    kernel = {"disablePyPIFallback": True, "loadPyodideOptions": {"packages": names}}
    data = {"appName": "Rules lab", "exposeAppInBrowser": True, "litePluginSettings": {KERNEL: kernel}}
    return {"jupyter-lite-schema-version": 0, "jupyter-config-data": data}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
