"""The rule desk: rules with state and version, a form and a text for a new one, tried on past events while it is written.

form ◄──► draft ◄──► text                 rules in force ──► table ──► chosen: load, pause, activate, delete
            │ valid?
            ├──► backtest                 acknowledgements ──► said
            └──► publish ──► control log ──► engine
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, cast

import ipywidgets as widgets

from lab.model.examples import example_sentence, group_fields
from lab.model.language import say, translated
from lab.model.lists import MUTED
from lab.model.messages import lacks_id
from lab.model.rules import (
    BadRule,
    Rule,
    RuleBook,
    parse_message,
    readable_rule_sentence,
    readable_rule_summary,
    rule_message,
)
from lab.model.schema import PAYMENTS, Schema
from lab.model.statuslines import ALERT_COUNTS
from lab.past.backtest import Past
from lab.widgets.backtest import Backtest
from lab.widgets.drafthints import DraftHints
from lab.widgets.look import button, sentence_html, styled
from lab.widgets.panel import Panel
from lab.widgets.ruleform import RuleForm
from lab.widgets.table import SelectableTable

if TYPE_CHECKING:
    from lab.studio.studio import Studio

MAX_ID = (1 << 63) - 1
BACKTEST_EVERY = 4  # updates
MESSAGES = {
    "state": "A message about the state of a rule",
    "delete": "A message that deletes a rule",
    "control": "A control message",
}
IN_FORCE = "Rule {id} is in force: {rule}. Replace it? The next free id is {free}."
NO_RULE = "No rule is in force. Press New rule to create one."


class RuleDesk(Panel):
    """Rules of a book, and what changes them: `publish(message)` sends a control message; without it `answer(message)` gives
    the acknowledgement at once, by default the desk's own book, so that it works on recorded data.

    >>> desk = RuleDesk(PAYMENTS)
    >>> desk.text.value = "SUM(paymentAmount) per payeeId over 20 min > 50"
    >>> desk.publish.click()
    >>> desk.table.rows
    [['1', '1 v1', 'ACTIVE', 'SUM(paymentAmount) per payeeId over 20 min > 50']]
    """

    def __init__(
        self,
        schema: Schema = PAYMENTS,
        *,
        book: RuleBook | None = None,
        past: Past | None = None,
        publish: Callable[[str], str] | None = None,
        answer: Callable[[str], Mapping] | None = None,
    ):
        self.schema, self.book = schema, RuleBook(schema) if book is None else book
        self._to_engine, self._answer = publish or self._apply, answer or self.book.apply
        self._acks_seen, self._fired, self._updates = 0, Counter(), 0
        self._counted = {name: Counter[int]() for name in ALERT_COUNTS}  # each by rule id
        self._place = ""  # of what was published here last
        self._draft: Rule | None = None
        # rule id -> the newest version that was chosen or published here since a new rule was begun: to replace it needs no question
        self._known: Counter[int] = Counter()
        columns = [say("rule"), say("state"), say("alerts when")]
        columns += [say("alerts")] * bool(publish)  # nothing fires without an engine
        self.table = SelectableTable(columns, say("Rules"), (3,), (2,), say(NO_RULE))
        self.table.observe(self._on_selected, "selected")
        self.backtest = Backtest(
            Past(schema) if past is None else past, lambda rule: self._load(rule, self._is_new)
        )
        self.hints = DraftHints(self.book, self.backtest.past)
        self.said, self.acks = widgets.HTML(), widgets.HTML()
        self._make_controls()
        change = (self.publish, self.replace, self.keep, self.activate, self.pause, self.delete)
        foot = styled(
            widgets.VBox([self.said, styled(widgets.HBox(change), "lab-tools"), self.acks]), "lab-foot"
        )
        detail = widgets.VBox([self.editor, self.hints, self.backtest, foot])
        super().__init__([self.new], [self.table], detail)
        self.redraw()
        self._propose()

    def _make_controls(self) -> None:
        self.form = RuleForm(self.schema, self._form_changed)
        self.text = widgets.Textarea(
            placeholder=say(
                "{text}   or JSON: {json}", text=example_sentence(self.schema), json='{"ruleId": 1, …}'
            ),
            rows=5,
            description=say("text"),
        )
        self.text.add_class("lab-text")
        self.text.observe(self._written, "value")
        self.editor = widgets.Tab([self.form, self.text], titles=[say("Form"), say("Text")])
        self.publish = button(say("Publish"), "paper-plane", self._publish_draft, button_style="primary")
        self.new = button(say("New rule"), "plus", self._new)
        self.activate = button(say("Activate"), "play", lambda: self._change("ACTIVE"))
        self.pause = button(say("Pause"), "pause", lambda: self._change("PAUSE"))
        self.delete = button(say("Delete"), "trash", lambda: self._change("DELETE"))
        self.replace = button(say("Replace it"), "", self._replace, button_style="warning")
        self.keep = button(say("Keep it"), "", self._judge)

    # -- what came ---------------------------------------------------------------------------------------------------

    def update(self, studio: "Studio") -> None:
        """Shows the rules of a studio, its acknowledgements, and how often each rule fired."""
        self._fired, self._counted = studio.fired, studio.report.alerts
        self._answered(studio.acks.since(self._acks_seen))
        self._acks_seen = studio.acks.total
        self.redraw()
        self._updates += 1
        if self._updates % BACKTEST_EVERY == 1 and self.detail and self.detail.layout.display != "none":
            self.backtest.recompute_if_due()
            self.hints.show(self._draft)

    def _alerts_of(self, rule_id: int) -> str:
        """How many alerts a rule gave, and how many more it gave in the shadow, or would have given without `atMost` and mutes."""
        count = f"{self._fired[rule_id]:,}"
        if shadow := self._counted["shadowAlerts"][rule_id]:
            count = say("{count} (+ {more} in the shadow)", count=count, more=f"{shadow:,}")
        if suppressed := self._counted["suppressed"][rule_id]:
            count = say("{count} (+ {more} suppressed)", count=count, more=f"{suppressed:,}")
        if muted := self._counted["muted"][rule_id]:
            count = say("{count} (+ {more} muted)", count=count, more=f"{muted:,}")
        return count

    def redraw(self) -> None:
        """Shows the book as it is now."""
        self.form.offer_lists([name for name in sorted(self.book.lists) if name != MUTED])
        rows = [
            [
                str(r.rule_id),
                f"{r.rule_id} v{r.version}",
                r.state,
                readable_rule_summary(r),
                self._alerts_of(r.rule_id),
            ]
            for r in self.book.sorted()
        ]
        rows = [row[: 1 + len(self.table.columns)] for row in rows]
        if rows != self.table.rows:
            self.table.rows = rows
        if self._is_new and self._draft and self._draft.rule_id in self.book.versions:
            self._judge()  # somebody else took its id
        rule = self.book.rules.get(int(self.table.selected or 0))
        for control, state in ((self.activate, "ACTIVE"), (self.pause, "PAUSE"), (self.delete, "DELETE")):
            control.disabled = rule is None or rule.state == state
            control.layout.display = "none" if control.disabled else ""

    def _answered(self, acks: Sequence[Mapping]) -> None:
        """Shows the answer to what was published here last."""
        for ack in acks:
            if ack["place"] == self._place:
                good = ack["status"] == "accepted"
                self.acks.value = sentence_html(_answer(ack), "good" if good else "bad")

    def _apply(self, message: str) -> str:
        """Without an engine."""
        self._answered([{**self._answer(message), "place": ""}])
        self.redraw()
        return ""

    # -- the chosen rule -----------------------------------------------------------------------------------------------

    def _on_selected(self, change: dict) -> None:
        if rule := self.book.rules.get(int(self.table.selected or 0)):
            self.acks.value = ""
            self._known[rule.rule_id] = rule.version
            self._load(rule)
            self.opens(say("Rule {id}", id=rule.rule_id))
        self.redraw()

    def clear_selection(self) -> None:
        """Clears the selection of a rule; the draft stays."""
        self.table.selected = ""

    def _change(self, state: str) -> None:
        """The whole rule is sent: a compacted topic keeps only the last message of each. A draft of it gets the state, too."""
        rule = self.book.rules.get(int(self.table.selected or 0))
        if rule:
            if state != "DELETE" and self._draft and self._draft.rule_id == rule.rule_id:
                self._load(replace(self._draft, state=state))
            message = {"ruleId": rule.rule_id} if state == "DELETE" else rule.to_dict()
            # else the draft is of an older version, and stays so
            is_known = rule.version <= self._known[rule.rule_id]
            if self._publish(json.dumps(message | {"ruleState": state})) and is_known:
                self._known[rule.rule_id] += 1

    # -- the draft -------------------------------------------------------------------------------------------------------

    def _new(self) -> None:
        self.acks.value = ""
        self._known.clear()  # a new rule is no next version of one that was looked at before
        self._propose()
        self.opens(say("New rule"))

    def _propose(self) -> None:
        """A new rule to begin with: the next free id, and what the schema offers."""
        keys = group_fields(self.schema)[:1]
        message = rule_message(self._free_id(), keys, None, "COUNT", ">", 10, "1m")
        self.table.selected = ""
        self._load(cast(Rule, parse_message(json.dumps(message), self.schema).rule), is_new=True)

    def _free_id(self) -> int:
        """The number after the highest one used, or a gap if that is the last there is."""
        used = self.book.versions
        after = max(used, default=0) + 1
        return after if after <= MAX_ID else next(number for number in count(1) if number not in used)

    @property
    def _is_new(self) -> bool:
        """Whether the draft has no id of its own: it gets the next free one."""
        return lacks_id(self.text.value)

    def _load(self, rule: Rule, is_new: bool = False) -> None:
        """Makes a rule the draft: one that was chosen, or that the form or the backtest's sliders made."""
        said = rule.describe()
        state = f" {rule.state}" if rule.state != "ACTIVE" else ""  # which takes an id before it
        text = said if is_new and not state else f"{rule.rule_id}{state}: {said}"
        if self.text.value == text:
            self._judge()
        self.text.value = text

    def _form_changed(self) -> None:
        message = self.form.message()
        try:
            self._load(cast(Rule, parse_message(message, self.schema).rule), self.form.is_new)
        except BadRule:
            self.text.value = message

    def _written(self, change: dict) -> None:
        """Judges another draft; the answer to the one before would be read as its own."""
        self.acks.value = ""
        self._judge()

    def _judge(self) -> None:
        """Says whether the draft is a rule, and tries it on past events."""
        self.form.rule_id.placeholder = str(self._free_id())
        try:
            message = parse_message(self.text.value, self.schema, self._free_id())
            self._draft, problem = message.rule, ""
        except BadRule as error:
            self._draft, problem = None, str(error)
        if not self.text.value.strip():
            self._say(say("Write a rule, such as {example}", example=example_sentence(self.schema)), "bad")
        elif problem:
            self._say(say("Not a rule yet: {problem}", problem=translated(problem)), "bad")
        elif self._draft:
            self._say(self._means(self._draft), "good")
            self.form.fill(self._draft, self._is_new)
        else:
            self._say(say(MESSAGES[message.kind]), "good")
        self.publish.disabled = bool(problem)
        self.hints.show(self._draft)
        self._ask(False)
        self.backtest.show(self._draft)

    def _means(self, draft: Rule) -> str:
        """What the draft says, and which rule it would become or replace."""
        said = readable_rule_sentence(draft)
        if self._is_new:
            return say("{rule} · becomes rule {id}", rule=said, id=draft.rule_id)
        if before := self.book.rules.get(draft.rule_id):
            replaced = {"id": before.rule_id, "version": before.version}
            return say("{rule} · replaces rule {id} version {version}", rule=said, **replaced)
        return said

    def _publish_draft(self) -> None:
        """Asks before a version of a rule is replaced that was neither chosen nor published here."""
        rule = self._draft
        before = self.book.rules.get(rule.rule_id) if rule else None
        if rule and before and before.version > self._known[rule.rule_id]:
            self._say(
                say(IN_FORCE, id=rule.rule_id, rule=readable_rule_sentence(before), free=self._free_id()),
                "bad",
            )
            self._ask(True)
        else:
            self._replace()

    def _replace(self) -> None:
        """Publishes the draft, which has its id from then on."""
        rule = self._draft
        before = self.book.versions.get(rule.rule_id, 0) if rule else 0
        if rule and self._is_new:
            self.text.value = f"{rule.rule_id}: {self.text.value.lstrip()}"
            self.opens(say("Rule {id}", id=rule.rule_id))
        if self._publish(self.text.value) and rule:
            self._known[rule.rule_id] = max(before, self._known[rule.rule_id]) + 1

    def _ask(self, asked: bool) -> None:
        self.replace.layout.display = self.keep.layout.display = "" if asked else "none"
        self.publish.layout.display = "none" if asked else ""

    def _publish(self, message: str) -> bool:
        """Whether a message was published; says why not."""
        self._ask(False)
        self.acks.value = ""  # the answer to what was published before
        try:
            self._place = self._to_engine(message)
        except Exception as error:  # noqa: BLE001  (a bad rule, a broker that is away)
            self._say(say("Not published: {error}", error=translated(str(error))), "bad")
            return False
        self._say(say("Published; the engine's answer appears below."), "good")
        return True

    def _say(self, text: str, kind: str) -> None:
        self.said.value = sentence_html(text, kind)


def _answer(ack: Mapping) -> str:
    """An acknowledgement, for people; engines write theirs in English."""
    if ack["status"] != "accepted":
        return say("rejected: {reason}", reason=translated(ack["reason"]))
    if "ruleId" not in ack:
        return say("accepted {control}", control=ack.get("controlType", ""))
    of_rule = {"id": ack["ruleId"], "version": ack.get("version"), "state": ack.get("ruleState")}
    accepted = say("accepted rule {id} version {version}: {state}", **of_rule)
    if "hint" not in ack:
        return accepted
    hint = "; ".join(map(translated, ack["hint"].split("; ")))
    return say("{accepted}. Hint: {hint}", accepted=accepted, hint=hint)
