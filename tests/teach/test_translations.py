"""Translations are complete, of the lessons as they are now, and keep links, code, figures and terms."""

import json
import re
from decimal import Decimal
from functools import cache
from html import escape

import nbformat
import pytest
from markdown_it import MarkdownIt

import lab
from lab.contrast.restore import RestoreCosts
from lab.machine.doctor import Checks
from lab.model import language as speaking
from lab.model.alerts import Alert, AlertTable
from lab.teach import NoExercise, exercise_of, lesson_and_exercise_titles, pages, translations
from lab.teach.lessons import (
    ENGLISH,
    FOLDER,
    SENTENCES,
    build_notebook,
    kinds_of_translatable_texts,
    languages_of,
    lesson_sources,
    notebook_path,
    parse_prediction,
)
from lab.teach.sentences import shape
from tests.teach.translationfaults import LINK, translation_faults

LESSONS = [
    "00-start-here",
    "01-dynamic-partitioning",
    "02-broadcast-rules",
    "03-custom-windows",
    "04-latency-of-sliding-windows",
    "05-rescaling-keyed-state",
    "06-making-it-fast",
    "07-live",
    "08-from-data-to-policy",
    "09-attack-my-engine",
    "10-rules-that-say-more",
    "11-the-desk",
]
NUMBERS = {str(int(name.partition("-")[0])) for name in LESSONS}
COMPLETED = [*LESSONS, "words", "messages", "control-room", "glossary", *pages.PAGES]
COMPLETE = {"ko": COMPLETED, "zh": COMPLETED}
DOUBLE_PARTICLE = re.compile(r"(을\(를|를\(을|은\(는|는\(은|이\(가|가\(이|와\(과|과\(와|\(으|\(이)\)")
HAN, WIDE = "[\u4e00-\u9fff]", "[\uff01-\uff1f\u3001\u3002]"
kinds_of = cache(kinds_of_translatable_texts)
UNCHINESE = re.compile(
    f"{HAN}[A-Za-z0-9`]|[A-Za-z0-9`]{HAN}|{HAN}[,;:?!()]|[,;:?!()]{HAN}| {WIDE}|{WIDE} (?![ |*`])"
)
files = pytest.mark.parametrize(
    "language, name",
    [
        (language, path.stem)
        for language in translations.languages()
        for path in sorted((translations.FOLDER / language).glob("*.po"))
        if path.stem not in ("terms", "words", "messages", "page")
    ],
)


@files
def test_each_cell_with_words_has_its_translation_and_no_translation_is_stale(language, name):
    """After a change of the source: python -m lab.teach.lessons LANGUAGE NAME, then fill what is empty."""
    expected, pairs = kinds_of(name), translations.read_translations(language, name)
    assert list(pairs) == list(expected)
    terms = translations.read_translations(language, "terms")
    wrong = {
        text[:70]: found
        for text, translation in pairs.items()
        if (found := list(translation_faults(text, translation, terms, expected[text])))
    }
    assert not wrong


@files
def test_emphasis_in_a_translation_is_rendered(language, name):
    """Markdown leaves *값(value)*은 as it is: behind punctuation, a closing asterisk needs a space."""
    for text, translation in translations.read_translations(language, name).items():
        if kinds_of(name)[text] == "markdown":
            html = MarkdownIt().enable("table").render(translation)
            assert "*" not in re.sub(r"<code.*?</code>", "", html, flags=re.DOTALL)


@pytest.mark.parametrize("name", [*LESSONS, "control-room", "glossary", *pages.PAGES])
def test_chinese_has_a_space_beside_latin_letters_and_its_own_punctuation(name):
    for text, translation in translations.read_translations("zh", name).items():
        if kinds_of(name)[text] == "code":
            parts = re.findall(r"\"[^\"\n]*\"|#.*", translation)
        else:
            parts = [translations.FENCED.sub("", translation)]
        assert not [found[0] for part in parts for found in UNCHINESE.finditer(part)]


@pytest.mark.parametrize(
    "path", sorted((translations.FOLDER / "ko").glob("*.po")), ids=lambda path: path.stem
)
def test_no_korean_sentence_leaves_the_choice_of_a_particle_to_the_reader(path):
    """Where a value stands, no 을(를): a noun after it, or a sentence without."""
    said = translations.read_translations("ko", path.stem).values()
    assert not [text for text in said if DOUBLE_PARTICLE.search(text)]


def test_what_must_be_translated_is():
    there = {
        (language, name)
        for language, names in COMPLETE.items()
        for name in names
        if translations.read_translations(language, name)
    }
    assert there == {(language, name) for language, names in COMPLETE.items() for name in names}


@pytest.mark.parametrize(
    "text, translation, kind, fault",
    [
        ("a rule", " ", "markdown", "no translation"),
        ("see [this](there.md)", "[이것](here.md) 참고", "markdown", "link there.md is missing"),
        ("set `x` and `y`", "`x`를 정합니다", "markdown", "code `y` is missing"),
        ("20 of 1,000", "1,000개 중 2개", "markdown", "figure 20 is missing"),
        ("two rules", "룰 두 개", "markdown", "'rule' is not translated as '규칙'"),
        ('f("a", 1)', 'f("가", 2)', "code", "the code differs in more than strings and comments"),
        ('f"{a} of {b}"', 'f"{b} 중 {c}"', "code", "the code differs in more than strings and comments"),
    ],
)
def test_a_fault_of_a_translation_is_named(text, translation, kind, fault):
    assert list(translation_faults(text, translation, {"rule": "규칙"}, kind)) == [fault]


def test_a_word_beside_a_value_is_translated_and_a_name_is_not():
    assert translations.has_words('f"{count:4} alerts"', "code")
    assert translations.has_words('print("Monday: ", total)', "code")
    assert not translations.has_words('lab.dataset("payments") / "rules.json"', "code")


def test_strings_comments_and_the_order_within_a_sentence_are_the_translators():
    code = 'x = f"{a} of {b}"  # all'
    assert not list(translation_faults(code, 'x = f"{b} 중 {a}"  # 모두', {}, "code"))
    terms = {"window": "윈도우", "sliding window": "슬라이딩 구간"}
    assert not list(translation_faults("Sliding windows: `window` 5", "슬라이딩 구간: `window` 5", terms))


@pytest.mark.parametrize("translation, faults", [("算子", 0), ("运算符", 0), ("操作员", 1)])
def test_a_term_with_two_senses_has_two_translations(translation, faults):
    assert len(list(translation_faults("an operator", translation, {"operator": "算子 / 运算符"}))) == faults


def test_a_file_brought_up_to_date_keeps_what_it_has_and_forgets_what_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(translations, "FOLDER", tmp_path)
    translations.update_po_file("ko", "lesson", ["one\ntwo", '100 % \\ "three"'])
    path = tmp_path / "ko" / "lesson.po"
    path.write_text(path.read_text().replace('"two"\nmsgstr ""', '"two"\nmsgstr "하나"'))
    translations.update_po_file("ko", "lesson", ["new", "one\ntwo"])
    assert translations.read_translations("ko", "lesson") == {"new": "", "one\ntwo": "하나"}


@pytest.mark.parametrize(
    "source, language",
    [(path, language) for path in lesson_sources() for language in languages_of(path) if language != ENGLISH],
    ids=lambda value: getattr(value, "stem", value),
)
def test_a_translated_notebook_is_what_the_translation_makes(source, language):
    committed = nbformat.read(notebook_path(source, language), as_version=4)
    assert committed == build_notebook(source, language=language), "run: make lessons"
    for cell in committed.cells:
        assert "because=" not in cell.source
        for link in LINK.findall(cell.source):
            if link[0].endswith(".ipynb"):
                assert (notebook_path(source, language).parent / link[0]).exists()


def test_every_translated_notebook_has_a_source():
    made = [notebook_path(path, language) for path in lesson_sources() for language in languages_of(path)]
    assert sorted(FOLDER.glob("[a-z]*/*.ipynb")) == sorted(set(made) - set(FOLDER.glob("*.ipynb")))


@pytest.mark.parametrize("name", pages.PAGES)
@pytest.mark.parametrize("language", translations.languages())
def test_a_page_of_a_language_is_what_its_translation_makes_with_the_commands_and_figures_of_the_source(
    language, name
):
    page = pages.in_language(pages.PAGES[name], language).read_text()
    assert page == pages.translated_page(name, language), "run: make lessons"
    assert translations.FENCED.findall(page) == translations.FENCED.findall(pages.PAGES[name].read_text())
    for target in re.findall(r"\]\(#([\w-]+)\)", page):
        assert f'<a id="{target}"></a>' in page


@pytest.mark.parametrize("language", translations.languages())
def test_the_readme_of_a_language_calls_lessons_as_their_own_pages_do(language):
    page = pages.in_language(pages.PAGES["README"], language).read_text()
    named = dict(re.findall(r"^\| (\d+) ([^|]+) \|", page, re.MULTILINE))
    for source in lesson_sources():
        if language in languages_of(source) and (number := re.match(r"\d+", source.stem)):
            cells = build_notebook(source, language=language).cells
            assert f"# {int(number[0])} · {named[str(int(number[0]))]}" == cells[0].source.splitlines()[0]


def test_a_prediction_keeps_its_options():
    """As many, and the same one right: the answers are looked up by the translated question."""
    for source in lesson_sources():
        for language in languages_of(source)[1:]:
            for text, translation in translations.read_translations(language, source.stem).items():
                if kinds_of(source.stem)[text] == "code" and (asked := parse_prediction(text)):
                    answered = parse_prediction(translation)
                    assert len(answered["options"]) == len(asked["options"])
                    assert answered["right"] == asked["right"]


@pytest.mark.parametrize("language", translations.languages())
@pytest.mark.parametrize("name", ["words", "messages"])
def test_the_sentences_of_the_kit_are_translated_with_their_placeholders(language, name):
    """After a change of a sentence: python -m lab.teach.lessons LANGUAGE words (or messages), then fill what is empty."""
    pairs, terms = (
        translations.read_translations(language, name),
        translations.read_translations(language, "terms"),
    )
    made, known = ([shape(text, name) for text in texts] for texts in (SENTENCES[name](), pairs))
    assert set(known) == set(made)
    assert name == "words" or known == made  # of messages the first that fits counts
    for text, translation in pairs.items():
        code_aside = {term: said for term, said in terms.items() if term not in translation.lower()}
        assert not list(translation_faults(text, translation, code_aside)), text
        placeholders = (sorted(speaking.PLACEHOLDER.findall(each)) for each in (text, translation))
        assert len(set(map(tuple, placeholders))) == 1, text
    folder = {"words": speaking.CATALOGS, "messages": speaking.MESSAGES}[name]
    assert json.loads((folder / f"{language}.json").read_text()) == pairs, "run: make lessons"


@pytest.mark.parametrize("language", translations.languages())
def test_the_page_speaks_each_language_with_its_placeholders(language):
    """After a change of a sentence: python -m lab.teach.lessons LANGUAGE page, then fill what is empty."""
    pairs, terms = (
        translations.read_translations(language, "page"),
        translations.read_translations(language, "terms"),
    )
    assert list(pairs) == translations.page_catalog_texts(language)
    for text, translation in pairs.items():
        words, said = (re.sub(r"\{\w+\}", "", each) for each in (text, translation))
        code_aside = {term: meant for term, meant in terms.items() if term not in said.lower()}
        assert not list(translation_faults(words, said, code_aside)), text
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", translation)), text


def test_a_variable_of_another_name_changes_no_translation(tmp_path, monkeypatch):
    monkeypatch.setattr(translations, "FOLDER", tmp_path)
    path = translations.update_po_file("ko", "messages", ["{name} takes one field"])
    path.write_text(path.read_text().replace('msgstr ""\n\n', 'msgstr "{name}의 필드는 하나"\n\n'))
    translations.update_po_file("ko", "messages", ["new", "{function} takes one field"])
    assert (
        translations.read_translations("ko", "messages")["{name} takes one field"] == "{name}의 필드는 하나"
    )


def test_checks_and_widgets_speak_the_language_of_the_cell_or_the_environment(monkeypatch):
    monkeypatch.setattr(speaking, "_chosen", [])
    assert "not answered yet" in lab.check("0.1", ...).text
    monkeypatch.setenv("LAB_LANGUAGE", "ko")
    assert "아직 답하지 않았습니다" in lab.check("0.1", ...).text
    assert lab.RuleDesk().publish.description == "게시"
    lab.speak("en")
    assert lab.RuleDesk().publish.description == "Publish"
    known = ", ".join(sorted(path.stem for path in speaking.CATALOGS.glob("*.json")))
    with pytest.raises(ValueError, match=f"no catalog of 'xx', expected one of en, {known}$"):
        lab.speak("xx")
    lab.speak("zh")
    assert lab.RuleDesk().publish.description == "发布"
    monkeypatch.setattr(speaking, "_chosen", ["../ko"])
    assert speaking.say("Publish") == "Publish"


class Unreadable(list):
    def __iter__(self):
        raise ValueError


def endless(*arguments):
    return endless(*arguments)


class Silent:
    def __repr__(self):
        raise ValueError


CARDS = "COUNT(events where action = pay and amount <= 2) per account over"
LARGE = ">= 4, when action = pay and amount > 200"
CHECKED = [  # the exercises of translated lessons; 5.5 looks at more than the answer
    name
    for name in lesson_and_exercise_titles()
    if name.partition(".")[0] in NUMBERS and "." in name and name != "5.5"
]
UNUSUAL = (
    *(3, -1, 0.5, 10**5_000, True, "three", b"3", [], [None], {"a": 1}, {1, 2}),
    *(len, object, Silent(), Unreadable(), lambda: 3, lambda *given: None, lambda *given: "3"),
    *(
        lambda *given: 1 / 0,
        lambda *given: Silent(),
        lambda *given: {"a": given},
        lambda *given: [[]],
        lambda *given: given,
    ),
)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        *(("3.5", answer) for answer in ([4], [1, 2, 3, 8], [8, 4], [4, 8, 4], {1, 2}, "[4")),
        *(("0.1", answer) for answer in (5, "1,(active)", '{"ruleId": 1, "ruleState": "DELETE"}')),
        ("0.1", "1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(49),(21)"),
        ("3.1", lambda time, window, slide: [time] * 9),
        ("3.1", lambda time, window, slide: []),
        ("3.1", lambda time, window, slide: [1, 2, 3, 4, 5]),
        ("3.3", endless),
        ("3.3", lambda *given: given[9]),
        ("10.1", f"{CARDS} 29 min {LARGE}"),
        ("10.1", f"1 PAUSE: {CARDS} 30 min {LARGE}"),
    ],
)
def test_a_verdict_is_in_the_readers_language_alone(monkeypatch, exercise, answer):
    """But for names, and what Python says of an error."""
    monkeypatch.setattr(speaking, "_chosen", ["ko"])
    exercise = exercise_of(exercise)
    text = exercise.judge(answer).text.replace("tuple index out of range", "")
    assert not re.search("[A-Za-z]{2,} [A-Za-z]{2,}", text), text
    assert re.search("[가-힣]", text)


@pytest.mark.parametrize("exercise", CHECKED)
@pytest.mark.parametrize("language, script", [("ko", "[가-힣]"), ("zh", HAN)])
def test_a_verdict_on_an_unusual_answer_is_in_the_readers_language_alone(
    monkeypatch, exercise, language, script
):
    monkeypatch.setattr(speaking, "_chosen", [language])
    for answer in UNUSUAL:
        text = re.sub(r"Error: [ -~]*|<[^<>]*>|\bSUM\([^>]*>", "", exercise_of(exercise).judge(answer).text)
        assert re.search(script, text) and not re.search("[A-Za-z]{2,} [A-Za-z]{2,}", text), text


def test_a_typical_mistake_that_raises_is_known_again_in_another_language(monkeypatch):
    exercise = exercise_of("8.3")
    raises = next(mistake for mistake in exercise.mistakes if mistake.says.startswith("Without alerts"))
    for language in ("ko", "zh", "en"):
        monkeypatch.setattr(speaking, "_chosen", [language])
        assert exercise.judge(raises.answer).text.startswith(speaking.say(raises.says))


@pytest.mark.parametrize("name", ["3.9", "33.1"])
def test_an_exercise_that_does_not_exist_is_named_in_the_readers_language(monkeypatch, name):
    with pytest.raises(NoExercise, match="no lesson has it") as refused:
        lab.check(name, 1)
    monkeypatch.setattr(speaking, "_chosen", ["ko"])
    (line,) = refused.value._render_traceback_()
    assert re.search("[가-힣]", line) and not re.search("[A-Za-z]{2,} [A-Za-z]{2,}", line), line


@pytest.mark.parametrize("language", translations.languages())
def test_the_titles_in_the_table_of_progress_are_those_of_the_translated_lessons(monkeypatch, language):
    monkeypatch.setattr(speaking, "_chosen", [language])
    tables = [lab.progress().table.value, *(lab.progress(number).table.value for number in NUMBERS)]
    shown = {title: speaking.say(title) for title in lesson_and_exercise_titles().values()}
    assert not [title for title in shown if f">{title}<" in "".join(tables) or f" {title}:" in tables[0]]
    assert all(f">{escape(title)}<" in "".join(tables) for title in shown.values())
    for name in LESSONS:
        for text, translation in translations.read_translations(language, name).items():
            if kinds_of(name)[text] == "markdown":
                headings = (re.findall("^#+ (.+)$", each, re.MULTILINE) for each in (text, translation))
                for english, said in zip(*headings, strict=True):
                    (number, *title), (_, *spoken) = (
                        re.split(": |：| · ", each, maxsplit=1) for each in (english, said)
                    )
                    if re.fullmatch(r"(Exercise )?\d+", number) and shown.keys() >= {*title}:
                        assert [shown[text] for text in title] == spoken


def test_heads_of_tables_are_in_the_readers_language(monkeypatch):
    monkeypatch.setattr(speaking, "_chosen", ["ko"])
    tables = [
        lab.RuleBook(lab.PAYMENTS)._repr_html_(),
        lab.PAYMENTS._repr_html_(),
        AlertTable([Alert(1, 1, "{}", Decimal(4), "GREATER", Decimal(3), 7, 0)] * 51)._repr_html_(),
        Checks([])._repr_html_(),
        RestoreCosts()._repr_html_(),
        lab.progress(0).table.value,
        lab.progress().table.value,
    ]
    for table in tables:
        heads = re.findall("<th(?: [^>]*)?>([^<]*)<", table)
        assert heads and not [
            head for head in heads if head not in ("id", "ID") and not re.search("[가-힣]", head)
        ]
    assert "not shown" not in tables[2] and "1" in tables[2]
    assert "not yet" not in tables[5] and not re.search("[0-9] of [0-9]", tables[6])
    assert [
        button.description for button in lab.progress().children[1].children if hasattr(button, "icon")
    ] == ["새로 고침", "파일 불러오기", "초기화…", "예, 진도를 지웁니다"]
