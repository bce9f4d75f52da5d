"""The sheet for each learner's table: commands, what a cell can be asked, a rule, and the words of the lessons, on one printed page.

`make sheet` writes slides/sheet.html, the same in each other language, slides/ko/sheet.html, and PDFs beside them where there is a
Chromium to print them.
"""

import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path

from lab.model.formatting import html_with_code
from lab.model.language import ENGLISH, say, speak
from lab.teach import glossary, translations
from lab.teach.lessons import lesson_sources

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PRINT_S = 120
WORDS_OF = ("00", "01", "02", "03", "07")  # the lessons of half a day, and those that they lean on
COMMANDS = {
    "make setup": "run once: installs packages and jars",
    "make lab": "the lessons, in the browser",
    "make room": "only the control room; needs no Java",
    "make demo": "45 s of payments with planted fraud",
    ".venv/bin/lab doctor": "checks this machine and names the fix",
    ".venv/bin/lab reset": "restores the initial state; asks first",
}
CELLS = {
    "Shift-Enter": "run a cell and go to the next",
    "lab.hint(&quot;3.2&quot;)": "the next hint for exercise 3.2",
    "lab.solution(&quot;3.2&quot;)": "a solution",
    "lab.doctor.run(quick=True)": "the doctor, in a notebook",
    "Kernel → Shut Down Kernel": "frees the memory; do so after each lesson",
}
RULE = "1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(20000000),(43200)"
TITLE = "Rules that change at run time, on event streams"
PARTS = "number, state, keys, unique fields, field, aggregate, comparison, limit, window in minutes."
STYLE = """
@page { size: A4; margin: 9mm; }
body { font: 8.6pt/1.22 system-ui, sans-serif; margin: 0; color: #111; }
h1 { font-size: 16pt; margin: 0 0 1mm; } h2 { font-size: 11.5pt; margin: 2.5mm 0 .8mm; border-bottom: .4pt solid #888; }
code { font: 8pt ui-monospace, monospace; } dl { margin: 0; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 6mm; }
.pair dl { display: grid; grid-template-columns: max-content 1fr; gap: .3mm 2.5mm; }
.words { columns: 3; column-gap: 4.5mm; } .words div { break-inside: avoid; margin-bottom: .7mm; }
.words dt, .words dd { display: inline; margin: 0; } dt { font-weight: bold; } dd { margin: 0; }
"""


def cheat_sheet_html(language: str = ENGLISH) -> str:
    """The sheet as HTML."""
    speak(language)
    chosen = [source for source in lesson_sources() if source.stem[:2] in WORDS_OF]
    explained = glossary.first_explanations(chosen, language)
    words = sorted(explained.items(), key=lambda pair: pair[0].lower())
    listed = "".join(
        f"<div><dt>{escape(word)}</dt> <dd>{_marked(entry.meaning)}</dd></div>" for word, entry in words
    )
    commands = _list({command: say(COMMANDS[command]) for command in COMMANDS})
    cells = _list({cell: say(CELLS[cell]) for cell in CELLS})
    both_ends = say("The window ends with each event, and both ends count.")
    return (
        f'<!DOCTYPE html><html lang="{language}"><head><meta charset="utf-8"><title>{say(TITLE)}</title><style>{STYLE}</style></head><body>'
        f"<h1>{say(TITLE)}</h1><div class=pair><div><h2>{say('In a terminal')}</h2>{commands}</div>"
        f"<div><h2>{say('In a notebook')}</h2>{cells}</div></div>"
        f"<h2>{say('A rule')}</h2><code>{escape(RULE)}</code><br>{say(PARTS)} {both_ends}"
        f"<h2>{say('Words')}</h2><dl class=words>{listed}</dl></body></html>"
    )


def _list(pairs: dict[str, str]) -> str:
    rows = "".join(f"<dt><code>{said}</code></dt><dd>{meaning}</dd>" for said, meaning in pairs.items())
    return f"<dl>{rows}</dl>"


def _marked(text: str) -> str:
    """Markdown's code and emphasis as HTML.

    >>> _marked("the *fields* `a & b`")
    'the <i>fields</i> <code>a &amp; b</code>'
    """
    return re.sub(r"\*(.+?)\*", r"<i>\1</i>", html_with_code(text))


def print_to_pdf(html: Path) -> Path | None:
    """The PDF of a page, beside it; None where there is no Chromium."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return None
    pdf = html.with_suffix(".pdf").resolve()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={pdf}"]
    subprocess.run(
        [browser, *flags, html.resolve().as_uri()], check=True, capture_output=True, timeout=PRINT_S
    )
    return pdf


def main(folder: Path) -> None:
    """Writes the sheet into a folder, and that of each other language into a folder below it."""
    for language in (ENGLISH, *translations.languages()):
        sheet = folder / ("" if language == ENGLISH else language) / "sheet.html"
        sheet.parent.mkdir(parents=True, exist_ok=True)
        sheet.write_text(cheat_sheet_html(language))
        print(sheet, print_to_pdf(sheet) or "(no Chromium here: print it from a browser)")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
