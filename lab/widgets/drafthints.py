"""What a draft of a rule hardly means as it is written."""

import ipywidgets as widgets

from lab.model.conditions import quote_if_needed
from lab.model.language import say, translated
from lab.model.rules import Rule, RuleBook
from lab.past.backtest import Past
from lab.widgets.look import sentence_html

SHOWN_ABSENT = 2  # values that never occurred
ABSENT = "{condition} occurs in none of the {events} events in memory"
ABSENT_FREQUENT = "{condition} occurs in none of the {events} events in memory; frequent values: {frequent}"


class DraftHints(widgets.HTML):
    """Hints about a draft and values in it that no past event has; the draft can be published all the same.

    >>> from lab.model.rules import parse_message
    >>> from lab.model.schema import PAYMENTS
    >>> hints = DraftHints(RuleBook(PAYMENTS), Past(PAYMENTS))
    >>> hints.show(parse_message("7: COUNT(events) over 1 h = 0", PAYMENTS).rule)
    >>> "COUNT = 0 is never true" in hints.value
    True
    """

    def __init__(self, book: RuleBook, past: Past):
        super().__init__()
        self._book, self._past = book, past
        self._about: tuple = ()  # what the hint that is shown is about

    def show(self, rule: Rule | None) -> None:
        """Shows the hints about a draft, if they are not those that are shown."""
        said = self._book.hints(rule) if rule else []
        absent = self._past.absent_filter_values(rule.filter)[:SHOWN_ABSENT] if rule else []
        about = (*said, *((name, value) for name, value, _ in absent))
        if about == self._about:
            return
        self._about = about
        said = list(map(translated, said))
        for name, value, frequent in absent:
            there = {"frequent": ", ".join(map(quote_if_needed, frequent)), "events": f"{len(self._past):,}"}
            condition = f"{name} = {quote_if_needed(value)}"
            said.append(say(ABSENT_FREQUENT if frequent else ABSENT, condition=condition, **there))
        self.value = sentence_html(say("Hint: {hint}.", hint=". ".join(said)), "warning") if said else ""
