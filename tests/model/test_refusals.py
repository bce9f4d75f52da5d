"""Every text of `refusals.tsv` is refused with the sentence beside it, at the word that the sentence names."""

import json
import re

import pytest

from lab.model import language as speaking
from lab.model.conditions import BadConditions
from lab.model.kinds import BadRule
from lab.model.messages import parse_message
from lab.model.schema import PAYMENTS
from lab.model.whenreader import parse_when
from tests.model.refusals import READERS, refusal, table

REFUSED = [(reader, text, reason) for reader, some in table().items() for text, reason in some.items()]
PLACE = re.compile(r'.* \(at (".*"), character ([0-9]+)\)')


@pytest.mark.parametrize("reader, text, reason", REFUSED)
def test_what_cannot_be_read_is_refused_with_its_sentence_and_its_place(reader, text, reason):
    error = refusal(reader, text)
    assert str(error) == reason
    if isinstance(error, BadConditions):
        word, start = text[error.start : error.end], error.start
        place = PLACE.fullmatch(reason)
        assert (word, start) == ((json.loads(place[1]), int(place[2]) - 1) if place else ("", len(text)))


@pytest.mark.parametrize("text", [text for reader, text, _ in REFUSED if reader == "conditions"])
def test_a_condition_that_is_refused_is_refused_as_an_attribute_too(text):
    with pytest.raises(BadRule, match="^when: "):
        READERS["attributes of a count of logins"](json.dumps({"when": text}))


@pytest.mark.parametrize("language", ["ko", "zh"])
def test_nothing_english_stands_between_words_of_rules_in_another_language(language, monkeypatch):
    monkeypatch.setattr(speaking, "_chosen", [language])
    for _, _, reason in REFUSED:
        said = speaking.translated(reason)
        assert said != reason
        assert not re.search(r"[a-z] or [a-z]|expected|after|known:", re.sub(r'"[^"]*"', "", said)), said


WHOLE = [
    found[1]
    for reader, _, reason in REFUSED
    if reader == "conditions"
    and (found := re.match(r"write ((?!(?:and|or) between)[^…:]* [^…:]*) \(at", reason))
]


@pytest.mark.parametrize("suggested", WHOLE)
def test_a_whole_condition_that_is_suggested_can_be_read(suggested):
    assert parse_when(suggested, READERS["conditions"].keywords["schema"])


ODD = [
    ("\n no(events) within 1 h after, when paymentType = CSH", "expected the rule's id and a colon"),
    (b"1,(\xff)", "not UTF-8: byte 0xff at offset 3"),
    ("1,(\ud800)", "not UTF-8: byte 0xed at offset 3"),
    ("{}".ljust(65537), "message of 65537 bytes, at most 65536 are allowed"),
    ('{"ruleId": 1e999999999, "ruleState": "ACTIVE"}', "ruleId: 1E+999999999"),
    ('{"ruleId": NaN, "ruleState": "ACTIVE"}', "NaN is not a JSON number"),
]


@pytest.mark.parametrize(("text", "part"), ODD)
def test_a_message_that_stands_on_no_line_of_a_table_says_why_too(text, part):
    with pytest.raises(BadRule) as error:
        parse_message(text, PAYMENTS)
    assert part in str(error.value)


LONG = [
    ({"window": None, "windowMinutes": "9" * 5000}, 'windowMinutes: "999'),
    ({"title": "x" * 201}, "a text of 1 to 200 characters"),
    ({"labels": {f"n{number}": "" for number in range(17)}}, "at most 16"),
    ({"labels": {"x" * 65: "x"}}, "names of 1 to 64 letters"),
    ({"labels": {"team": "x" * 201}}, "at most 200"),
]


@pytest.mark.parametrize(("attributes", "part"), LONG)
def test_what_is_too_long_is_refused_and_the_longest_is_not(attributes, part):
    read = READERS["attributes of a sum of payments"]
    with pytest.raises(BadRule) as error:
        read(json.dumps(attributes))
    assert part in str(error.value) and len(str(error.value)) < 500
    longest = {"title": "x" * 200, "labels": {f"{number:_<64}": "y" * 200 for number in "abcdefghijklmnop"}}
    rule = read(json.dumps(longest)).rule
    assert (rule.carries("title"), dict(rule.carries("labels"))) == (longest["title"], longest["labels"])
