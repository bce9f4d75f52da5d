"""Asks why a rule did not alert at an event: `lab why-not`, of the events in memory."""

from typing import TYPE_CHECKING

import ipywidgets as widgets

from lab.desk.world import World
from lab.model.language import say, translated
from lab.model.times import now_ms
from lab.past.backtest import Past
from lab.widgets.look import StylesAndAccessibility, button, sentence_html, styled

if TYPE_CHECKING:
    from lab.studio.studio import Studio

ASK = "Give an event's id, or its record as JSON, and choose a rule: the answer is the first thing that was false."


class WhyNot(widgets.VBox):
    """A form for an event and a rule, and below it the verdict. `past`: the events and the history of the rules.

    >>> from lab.model.schema import PAYMENTS
    >>> asked = WhyNot(Past(PAYMENTS))
    >>> asked.event.value = "7"
    >>> asked.ask.click()
    >>> "Event 7 is not in memory" in asked.verdict.value
    True
    """

    def __init__(self, past: Past):
        self.past = past
        self.event = widgets.Text(description=say("event"), placeholder="7", continuous_update=False)
        # after Enter, or when one leaves the field
        self.event.observe(lambda change: self._answer(), "value")
        self.rule = styled(widgets.Dropdown(description=say("rule"), options=[0]), "lab-short")
        self.ask = button(say("Why not?"), "", self._answer, tooltip=say("show what was false"))
        self.verdict = styled(widgets.HTML(sentence_html(say(ASK))), "lab-why")
        row = styled(widgets.HBox([self.event, self.rule, self.ask]), "lab-tools")
        super().__init__([row, self.verdict, StylesAndAccessibility()])
        self.add_class("lab")
        self._show_rules()

    def update(self, studio: "Studio") -> None:
        """Offers the rules of a studio."""
        self.past = studio.past
        self._show_rules()

    def _show_rules(self) -> None:
        known = sorted(self.past.history.book.rules) or [0]
        if list(self.rule.options) != known:
            chosen = self.rule.value
            self.rule.options = known
            self.rule.value = chosen if chosen in known else known[0]

    def _answer(self) -> None:
        if not self.event.value.strip():
            self.verdict.value = sentence_html(say(ASK))
            return
        try:
            verdict = World.of_past(self.past, now_ms()).why_not(self.event.value.strip(), self.rule.value)
        except ValueError as reason:
            self.verdict.value = sentence_html(translated(str(reason)), "bad")
        else:
            self.verdict.value = sentence_html(verdict.said) + verdict.html()
