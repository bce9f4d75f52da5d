"""What an alert carries, beside the window behind it: its severity, title and labels, what was measured, and fields of its event."""

from html import escape

from lab.model.aggregation import MeasuredCondition, operator_symbol
from lab.model.alerts import Alert
from lab.model.attributes import carried_attributes
from lab.model.formatting import escape_control_characters, shorten
from lab.model.language import say
from lab.model.rule import Rule
from lab.model.times import duration_words

MAX_TEXT = 200  # characters of a text that is shown; as many as a title or a label has
MAX_OF_A_KIND = 16  # labels, conditions or fields: as many as a rule has
NOTHING = "nothing came within {time}"
NOTHING_COUNTS = "nothing that counts came within {time}"


def alert_facts_html(alert: Alert, rule: Rule | None) -> str:
    """A list for an `ipywidgets.HTML`. `rule`: the alert's, as it is now; None if it was deleted.

    >>> from decimal import Decimal
    >>> from lab.model.attributes import carried
    >>> alert = Alert(1, 2, "{}", Decimal(51), "GREATER", Decimal(50), 7, 0, carried=carried(title="<b>Too much"), event=(("ip", None),))
    >>> alert_facts_html(alert, None)
    '<dl class="lab-carried"><dt>title</dt><dd>&lt;b&gt;Too much</dd><dt>value</dt><dd>51 &gt; 50</dd><dt>event fields</dt><dd>ip = –</dd></dl>'
    """
    rows = [
        *(_row(say(name), kind.lines(alert.carries(name))) for name, kind in carried_attributes()),
        _row(say("conditions") if alert.conditions else say("value"), _measured(alert, rule)),
        _row(
            say("event fields"), [f"{name} = {'–' if text is None else text}" for name, text in alert.event]
        ),
    ]
    return f'<dl class="lab-carried">{"".join(rows)}</dl>'


def value_text(alert: Alert, rule: Rule | None) -> str:
    """What the alert's rule measured, in a few words: of several conditions the first that holds."""
    if rule and rule.absence and alert.own_condition == (0, "EQUAL", 0):
        time = duration_words(rule.aggregation.window_ms)
        return (
            say(NOTHING_COUNTS, time=time)
            if rule.aggregation.where or rule.filter
            else say(NOTHING, time=time)
        )
    return _comparison(alert.own_condition)


def shown(text: str, at_most: int = MAX_TEXT) -> str:
    """Untrusted text for one line of a page: without control characters, and not longer than `at_most`.

    >>> shown("\\u202eabc", at_most=8)
    '\\\\u202ea…'
    """
    return shorten(escape_control_characters(text[: at_most + 1]), at_most)


def _measured(alert: Alert, rule: Rule | None) -> list[str]:
    if not alert.conditions:
        return [value_text(alert, rule)]
    texts = [_comparison(each) for each in alert.conditions]
    if rule is None or rule.version != alert.rule_version or len(rule.conditions) != len(texts):
        return texts
    named = zip(rule.conditions, texts)
    return [f"{condition.aggregation.describe()}: {text}" for condition, text in named]


def _comparison(condition: MeasuredCondition) -> str:
    aggregate, limit = (
        say("no value") if value is None else f"{value:,f}"
        for value in (condition.aggregate, condition.limit)
    )
    return shown(f"{aggregate} {operator_symbol(condition.operator)} {limit}")


def _row(name: str, texts: list[str]) -> str:
    if not any(texts):
        return ""
    left_out = ["…"] * (len(texts) > MAX_OF_A_KIND)
    cells = (f"<dd>{escape(shown(text))}</dd>" for text in [*texts[:MAX_OF_A_KIND], *left_out])
    return f"<dt>{escape(name)}</dt>{''.join(cells)}"
