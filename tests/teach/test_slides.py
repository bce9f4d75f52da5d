"""Slides and the printed sheet: complete in themselves, and no more on each than fits."""

import html
import re

import pytest

from lab.model import language as speaking
from lab.model.rules import parse_message
from lab.model.schema import PAYMENTS
from lab.teach import sheet, slides, translations
from lab.teach.lessons import languages_of, lesson_sources
from tests.browser.jupyter import CHROMIUM, Watched, chromium

SOURCE = """\
# 1 · A lesson

*Time needed: 5 minutes.*

**Words**

| word | meaning |
|---|---|
| *a* | b |

At the end you can say it. And more.

```python
lab.predict("Odd?", ["one", "two"], right=0, because="It is.")
```

## A picture

One sentence, and
its end. A second one.

```
  ├── picture

  └── of several lines
```

```python tags=["exercise"]
code = ...
```

## When you are done

Go.
"""


@pytest.fixture
def cells(tmp_path):
    (tmp_path / "01-a.md").write_text(SOURCE)
    deck = slides.slide_notebook(tmp_path / "01-a.md")
    return [(cell.metadata.slideshow.slide_type, cell.source) for cell in deck.cells]


def test_a_slide_has_pictures_and_first_sentences_and_the_notes_have_all(cells):
    assert cells[0] == ("slide", "## 1 · A lesson\n\nAt the end you can say it.")
    assert cells[1][0] == "notes" and "| *a* | b |" in cells[1][1] and "And more." in cells[1][1]
    kind, picture = cells[4]
    assert kind == "slide" and picture.startswith("## A picture\n\nOne sentence, and its end.\n\n```\n  ├──")
    assert "of several lines" in picture and "second" not in picture


def test_a_long_list_goes_on_as_many_slides_as_it_needs(tmp_path):
    (tmp_path / "01-a.md").write_text("# A\n\n" + "- an entry of a list\n" * 30)
    deck = slides.slide_notebook(tmp_path / "01-a.md")
    shown = [cell.source for cell in deck.cells if cell.metadata.slideshow.slide_type != "notes"]
    assert len(shown) > 1 and "".join(shown).count("- an entry") == 30
    assert shown[1].startswith("## A (more)")


def test_a_prediction_is_a_slide_and_its_answer_comes_at_the_next_key(cells):
    assert cells[2] == ("subslide", "### What do you think?\n\nOdd?\n\n- one\n- two")
    assert cells[3] == ("fragment", "**one** It is.")


def test_other_code_and_how_to_shut_down_are_no_slides(cells):
    assert len(cells) == 6 and not any("code" in text or "Go." in text for _, text in cells)


def deck_of(tmp_path, source: str) -> list[str]:
    (tmp_path / "01-a.md").write_text(source)
    deck = slides.slide_notebook(tmp_path / "01-a.md").cells
    return [cell.source for cell in deck if cell.metadata.slideshow.slide_type != "notes"]


def test_questions_are_on_the_slides_also_those_of_exercises(tmp_path):
    text = "A job has 50 tasks: many. It is long. On how many can it *run?*\nA sentence.\n\n*Goal*: find it. *Input*: none."
    shown = deck_of(
        tmp_path, f"# A\n\n{text}\n\n### Exercise 4 · The ceiling\n\n{text}\n\n<details>a hint</details>"
    )
    assert shown[0].endswith("A job has 50 tasks: many. On how many can it *run?*\n\n*Goal*: find it.")
    assert "It is long. On how many" in shown[1] and shown[1].endswith("*Goal*: find it. *Input*: none.")


def test_every_plot_has_a_slide(tmp_path):
    code = 'lab.pictures.bars({"": [1]}, "Alerts in January", y="alerts")\nlab.WindowScope()\nprint(1)'
    shown = deck_of(tmp_path, f"# A\n\n```python\n{code}\n```\n")
    assert (
        shown[1].startswith("### Alerts in January")
        and "data:image/png;base64," in shown[2]
        and len(shown) == 3
    )


LESSONS = [source for source in lesson_sources() if source.stem[0].isdigit()]


def test_the_rule_on_the_sheet_is_one():
    assert parse_message(sheet.RULE, PAYMENTS).kind == "rule"


TRANSLATED = [(source, language) for source in LESSONS for language in languages_of(source)[1:]]


@pytest.fixture(autouse=True)
def language_of_the_process(monkeypatch):
    monkeypatch.setattr(speaking, "_chosen", [])


@pytest.mark.parametrize("source, language", TRANSLATED, ids=lambda value: getattr(value, "stem", value))
def test_translated_slides_say_as_much_in_their_language(source, language):
    """As many exercises, predictions and pictures as the English ones, with nothing that says how to use the notebook."""
    decks = [slides.slide_notebook(source, spoken).cells for spoken in ("en", language)]
    kinds = [
        [
            cell.metadata.slideshow.slide_type
            for cell in deck
            if "fragment" in cell.metadata.slideshow.slide_type
        ]
        for deck in decks
    ]
    assert kinds[0] == kinds[1]
    shown = [cell.source for cell in decks[1] if cell.metadata.slideshow.slide_type != "notes"]
    assert not [text for text in shown if "Shut Down Kernel" in text or "What do you think" in text]
    assert all(re.search("[가-힣\u4e00-\u9fff]", text) or "<img" in text or "```" in text for text in shown)


@pytest.mark.parametrize("language", translations.languages())
def test_the_sheet_of_a_language_has_the_words_of_its_lessons(language):
    english, spoken = (sheet.cheat_sheet_html(each) for each in ("en", language))
    assert spoken.count("<dt><code>") == english.count("<dt><code>") and sheet.RULE in html.unescape(spoken)
    assert 0.8 < spoken.count("<div><dt>") / english.count("<div><dt>") < 1.2
    assert not re.search("<dd>[A-Za-z, ]+</dd>", spoken)


@pytest.mark.browser
@pytest.mark.parametrize(
    "source, language",
    [*((source, "en") for source in LESSONS), *TRANSLATED],
    ids=lambda value: getattr(value, "stem", value),
)
def test_every_slide_fits_a_small_projector_and_asks_nobody_for_anything(source, language, tmp_path):
    page_file = tmp_path / "slides.html"
    page_file.write_text(slides.slides_page(source, language))
    too_big = []
    with chromium() as browser:
        watched = Watched(browser, width=slides.WIDTH, height=slides.HEIGHT)
        page = watched.page
        page.goto(page_file.as_uri())
        page.wait_for_function("window.Reveal && Reveal.isReady()")
        total, seen = page.evaluate("Reveal.getTotalSlides()"), 1
        while True:
            *size, text = page.evaluate(
                "(() => { const s = Reveal.getCurrentSlide(); return [Math.max(s.scrollWidth,"
                " ...[...s.querySelectorAll('pre')].map(p => p.scrollWidth)), s.scrollHeight, s.innerText] })()"
            )
            if size[0] > slides.WIDTH or size[1] > slides.HEIGHT:
                too_big.append((size, text))
            if page.evaluate("Reveal.isLastSlide()"):
                break
            before = page.evaluate("Reveal.getSlidePastCount()")
            page.keyboard.press("ArrowRight")  # shows what is on the slide first
            seen += page.evaluate("Reveal.getSlidePastCount()") > before
    assert seen == total
    assert too_big == [] and watched.errors == []
    assert [address for address in watched.elsewhere if not address.startswith("file:")] == []


@pytest.mark.browser
@pytest.mark.parametrize("language", ["en", *translations.languages()])
def test_the_sheet_is_one_page(language, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    page = tmp_path / "sheet.html"
    page.write_text(sheet.cheat_sheet_html(language))
    pdf = sheet.print_to_pdf(page).read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
