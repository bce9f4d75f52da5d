"""`make page`: the control room as one file, build/control-room.html, that opens from a disk and connects to nothing."""

import base64
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from lab.model.schema import LOGINS, PAYMENTS, Schema
from lab.page.layout import page_layout
from lab.page.python import python_parts
from lab.page.reader import described
from lab.page.wasm import cached_module
from lab.past.replay import read_rules
from lab.stream.datasets import dataset
from lab.studio.demo import first_rules
from lab.teach import translations
from lab.widgets.look import CSS

HERE = Path(__file__).parent
WIDGETS = HERE.parent / "widgets"
ENGINE = (
    *("packed.js", "exact.js", "truth.js", "rules.js", "columns.js", "store.js", "waits.js"),
    *("past.js", "engine.js", "stream.js"),
)
RATE = 200  # that the first rules' limits suit
OPTIONAL = ("ingestionTimestamp", "amount")  # fields that files of the built-in schemas may lack


def whole_page(folder: Path) -> str:
    """The page as HTML; `folder` keeps what takes long to compile."""
    engine = f"const LAYOUT = {json.dumps(page_layout())};\n" + _joined(ENGINE)
    room = _widget("table.js", "renderTable") + _widget("slider.js", "renderSlider")
    room += _joined(("language.js", "room.js", "alertwindow.js", "lists.js", "form.js"))
    css = CSS + (HERE / "page.css").read_text() + _dark(CSS)
    parts = {
        "css": css,
        "data": _data(cached_module(folder)),
        "python": json.dumps(python_parts(folder)),
        "engine": engine,
        "worker": (HERE / "worker.js").read_text(),
        "room": room,
        "policy": _policy(engine, room),
    }
    return Template((HERE / "page.html").read_text()).substitute(parts)


def _data(wasm: bytes) -> str:
    rules: dict[str, Sequence] = {
        "payments": first_rules(RATE),
        "logins": read_rules(dataset("logins") / "rules.json"),
    }
    texts = {
        name: [each if isinstance(each, str) else json.dumps(each) for each in of]
        for name, of in rules.items()
    }
    schemas = [_schema(schema) for schema in (PAYMENTS, LOGINS)]
    words = {language: _words(language) for language in translations.languages()}
    messages = {
        language: translations.page_refusal_translations(language) for language in translations.languages()
    }
    data: dict[str, Any] = {"wasm": base64.b64encode(wasm).decode(), "layout": page_layout()}
    data |= {"schemas": schemas, "rules": texts, "words": words, "messages": messages}
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")


def _words(language: str) -> dict[str, str]:
    """The page's sentences in a language."""
    said = translations.read_translations(language, "words") | translations.read_translations(
        language, "page"
    )
    return {text: said[text] for text in translations.page_sentences()}


def _schema(schema: Schema) -> dict:
    return described(schema.to_dict() | {"optional": OPTIONAL})


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join((HERE / name).read_text().replace('"use strict";\n', "", 1) for name in names)


def _widget(name: str, called: str) -> str:
    """A widget's own script as a function."""
    source = (WIDGETS / name).read_text().replace("export default { render };", "return render;")
    return f"const {called} = (() => {{\n{source}}})();\n"


def _dark(css: str) -> str:
    """Jupyter's dark theme where the system asks for a dark one."""
    rules = re.findall(r"^body\[data-jp-theme-light=\"false\"\][^{]*\{[^}]*\}", css, re.MULTILINE)
    plain = "\n".join(rule.replace('body[data-jp-theme-light="false"]', "body") for rule in rules)
    return f"@media (prefers-color-scheme: dark) {{\n{plain}\n}}\n"


def _policy(*scripts: str) -> str:
    """What the page may do: its own scripts, WebAssembly, a worker made of them, and no connection to anywhere."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes} 'wasm-unsafe-eval' blob:; worker-src blob:; style-src 'unsafe-inline'; "
        "connect-src 'none'; form-action 'none'; base-uri 'none'"
    )


def main(folder: Path) -> None:
    """Writes the page and says how large it is."""
    text = whole_page(folder / "page").encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "control-room.html").write_bytes(text)
    print(f"{folder / 'control-room.html'}: {len(text):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
