"""The rule desk: rules with state and version, a form and a text for a new one, tried on past events while it is written.

form ◄──► draft ◄──► text                 rules in force ──► table ──► chosen: load, pause, activate, delete
            │ valid?
            ├──► backtest                 acknowledgements ──► said
            └──► publish ──► control log ──► engine
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from html import escape
from typing import TYPE_CHECKING

import ipywidgets as widgets
import traitlets

from lab.past import Past
from lab.rules import FUNCTIONS, BadRule, Rule, RuleBook, parse_message
from lab.schema import PAYMENTS, Schema, plain
from lab.widgets.backtest import Backtest
from lab.widgets.table import Table

if TYPE_CHECKING:
    from lab.studio import Studio

SYMBOLS = (">", ">=", "<", "<=", "=", "!=")
EXAMPLE = '1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)   or JSON: {"ruleId": 1, …}'
SHOWN_ACKS = 4
BACKTEST_EVERY = 4  # updates


class RuleDesk(widgets.VBox):
    """Rules of a book, and what changes them: `publish(message)` sends a control message; without it the desk's own book
    answers, so that it works on recorded data.

    >>> desk = RuleDesk(PAYMENTS)
    >>> desk.text.value = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
    >>> desk.publish.click()
    >>> desk.table.rows
    [['1', '1', '1', 'ACTIVE', 'SUM(paymentAmount) per payeeId over 20 min > 50', '0']]
    """

    def __init__(
        self,
        schema: Schema = PAYMENTS,
        *,
        book: RuleBook | None = None,
        past: Past | None = None,
        publish: Callable[[str], str] | None = None,
    ):
        self.schema, self.book = schema, RuleBook(schema) if book is None else book
        self._to_engine = publish or self._apply
        self._acks_seen, self._acks, self._fired, self._updates = 0, [], Counter(), 0
        self._following = False
        self.table = Table(
            ("rule", "version", "state", "meaning", "alerts"), "Rules", (0, 1, 4), (3,), "no rule is in force"
        )
        self.table.observe(self._chosen, "selected")
        self.backtest = Backtest(Past(schema) if past is None else past, self._tuned)
        self.said, self.acks = widgets.HTML(), widgets.HTML()
        self._make_controls()
        super().__init__(
            [
                self.table,
                widgets.HBox([self.activate, self.pause, self.delete, self.new]),
                self.editor,
                self.said,
                widgets.HBox([self.publish]),
                self.acks,
                self.backtest,
            ]
        )
        self.add_class("lab")
        self.show()
        self._propose()

    def _make_controls(self) -> None:
        numeric = [field.name for field in self.schema.fields if field.numeric]
        names = [n for n in self.schema.names if n not in (self.schema.id_field, self.schema.time_field)]
        style = {"style": {"description_width": "6em"}, "layout": {"width": "24em"}}
        self.rule_id = widgets.BoundedIntText(
            min=1, max=(1 << 53) - 1, value=1, description="rule id", **style
        )
        self.group_by = Picks("grouped by", names)
        self.function = widgets.Dropdown(options=FUNCTIONS, description="function", **style)
        self.field = widgets.Dropdown(
            options=[("events", None), *zip(numeric, numeric)], description="of", **style
        )
        self.unique = Picks("unique", names)
        self.filter = widgets.Text(description="only where", placeholder="paymentType=CSH", **style)
        self.operator = widgets.Dropdown(options=SYMBOLS, description="alert if", **style)
        self.limit = widgets.Text(description="limit", **style)
        self.window = widgets.Text(description="window", placeholder="10s, 20m, 24h, 30d", **style)
        self.text = widgets.Textarea(
            placeholder=EXAMPLE,
            rows=5,
            description="text",
            layout={"width": "98%"},
            style={"description_width": "3em"},
        )
        self._form = (self.rule_id, self.group_by, self.function, self.field, self.unique, self.filter)
        self._form += (self.operator, self.limit, self.window)
        for control in self._form:
            control.observe(self._form_changed, "value")
        self.text.observe(self._text_changed, "value")
        left = widgets.VBox([self.rule_id, self.group_by, self.filter, self.function, self.field])
        right = widgets.VBox([self.operator, self.limit, self.window, self.unique])
        self.editor = widgets.Tab(
            [widgets.HBox([left, right], layout={"flex_flow": "row wrap"}), self.text],
            titles=["Form", "Text"],
        )
        button = {"layout": {"width": "auto"}}
        self.publish = widgets.Button(
            description="Publish", icon="paper-plane", button_style="primary", **button
        )
        self.new = widgets.Button(description="New rule", icon="plus", **button)
        self.activate = widgets.Button(description="Activate", icon="play", **button)
        self.pause = widgets.Button(description="Pause", icon="pause", **button)
        self.delete = widgets.Button(description="Delete", icon="trash", **button)
        self.publish.on_click(lambda _: self._publish(self.text.value))
        self.new.on_click(lambda _: self._propose())
        for control, state in ((self.activate, "ACTIVE"), (self.pause, "PAUSE"), (self.delete, "DELETE")):
            control.on_click(lambda _, state=state: self._change(state))

    # -- what came ---------------------------------------------------------------------------------------------------

    def update(self, studio: "Studio") -> None:
        """Shows the rules of a studio, its acknowledgements, and how often each rule fired."""
        self._fired = studio.fired
        self._answered(studio.acks.since(self._acks_seen))
        self._acks_seen = studio.acks.total
        self.show()
        self._updates += 1
        if self._updates % BACKTEST_EVERY == 1:
            self.backtest.again()

    def show(self) -> None:
        """Shows the book as it is now."""
        rows = [
            [
                str(r.rule_id),
                str(r.rule_id),
                str(r.version),
                r.state,
                r.describe(),
                f"{self._fired[r.rule_id]:,}",
            ]
            for r in self.book.sorted()
        ]
        if rows != self.table.rows:
            self.table.rows = rows
        chosen = self.table.selected in {row[0] for row in rows}
        for button in (self.activate, self.pause, self.delete):
            button.disabled = not chosen

    def _answered(self, acks: Sequence[Mapping]) -> None:
        if not acks:
            return
        self._acks = [*self._acks, *acks][-SHOWN_ACKS:]
        lines = []
        for ack in reversed(self._acks):
            good = ack["status"] == "accepted"
            what = (
                f"rule {ack.get('ruleId')} version {ack.get('version')}: {ack.get('ruleState')}"
                if "ruleId" in ack
                else str(ack.get("controlType", ""))
            )
            text = f"accepted {what}" if good else f"rejected: {ack['reason']}"
            lines.append(f'<div class="lab-said {"good" if good else "bad"}">{escape(text)}</div>')
        self.acks.value = f'<div role="log" aria-label="Acknowledgements">{"".join(lines)}</div>'

    def _apply(self, message: str) -> str:
        """Without an engine: the desk's own book answers."""
        self._answered([self.book.apply(message)])
        self.show()
        return ""

    # -- the chosen rule -----------------------------------------------------------------------------------------------

    def _chosen(self, change: dict) -> None:
        if rule := self.book.rules.get(int(self.table.selected or 0)):
            self._load(rule)
        self.show()

    def _change(self, state: str) -> None:
        """The whole rule is sent: a compacted topic keeps only the last message of each."""
        rule = self.book.rules.get(int(self.table.selected or 0))
        if rule:
            message = {"ruleId": rule.rule_id} if state == "DELETE" else rule.to_dict()
            self._publish(json.dumps(message | {"ruleState": state}))

    # -- the draft -------------------------------------------------------------------------------------------------------

    def _propose(self) -> None:
        """A new rule to begin with: the next free id, and what the schema offers."""
        key = next(n for n in self.schema.names if n not in (self.schema.id_field, self.schema.time_field))
        number = max(self.book.versions, default=0) + 1
        message = {
            "ruleId": number,
            "ruleState": "ACTIVE",
            "groupingKeyNames": [key],
            "aggregatorFunctionType": "COUNT",
            "limitOperatorType": ">",
            "limit": 10,
            "window": "1m",
        }
        self.table.selected = ""
        self._load(parse_message(json.dumps(message), self.schema).rule)

    def _load(self, rule: Rule) -> None:
        message = {name: value for name, value in rule.to_dict().items() if name != "version"}
        self.text.value = json.dumps(message, indent=1)
        self._judge()

    def _tuned(self, rule: Rule) -> None:
        """The sliders of the backtest moved."""
        self._following = True
        self.limit.value = plain(rule.limit)
        self.window.value = rule.to_dict()["window"]
        self._following = False
        self.text.value = self._form_text()

    def _form_changed(self, change: dict) -> None:
        if not self._following:
            self.text.value = self._form_text()

    def _form_text(self) -> str:
        """The form as a control message; what is wrong in it is for `parse_message` to say."""
        filter: dict[str, list] = {}
        for part in filter_parts(self.filter.value):
            name, values = part
            numeric = name in self.schema.names and self.schema.field(name).numeric
            filter[name] = [_number(value) if numeric else value for value in values]
        message = {
            "ruleId": self.rule_id.value,
            "ruleState": self._draft.state if self._draft else "ACTIVE",
            "groupingKeyNames": list(self.group_by.value),
            "filter": filter or None,
            "aggregateFieldName": self.field.value,
            "aggregatorFunctionType": self.function.value,
            "unique": list(self.unique.value) or None,
            "limitOperatorType": self.operator.value,
            "limit": _number(self.limit.value),
            "window": self.window.value,
        }
        return json.dumps({name: value for name, value in message.items() if value is not None}, indent=1)

    def _text_changed(self, change: dict) -> None:
        if not self._following:
            self._judge()

    _draft: Rule | None = None

    def _judge(self) -> None:
        """Says whether the draft is a rule, and tries it on past events."""
        try:
            message = parse_message(self.text.value, self.schema)
            self._draft, problem = message.rule, ""
        except BadRule as error:
            self._draft, problem = None, str(error)
        if problem:
            self._say(f"Not a rule yet: {problem}", "bad")
        elif self._draft:
            self._say(self._draft.describe(), "good")
            self._fill_form(self._draft)
        else:
            self._say(f"A {message.kind} message", "good")
        self.publish.disabled = bool(problem)
        self.backtest.show(self._draft)

    def _fill_form(self, rule: Rule) -> None:
        self._following = True
        try:
            self.rule_id.value = rule.rule_id
            self.group_by.value, self.unique.value = rule.keys, rule.unique
            self.function.value, self.field.value, self.operator.value = (
                rule.function,
                rule.field,
                rule.symbol,
            )
            parts = (f"{name}={'|'.join(plain(value) for value in values)}" for name, values in rule.filter)
            self.filter.value = "; ".join(parts)
            self.limit.value, self.window.value = plain(rule.limit), rule.to_dict()["window"]
        finally:
            self._following = False

    def _publish(self, message: str) -> None:
        try:
            self._to_engine(message)
            self._say("Published; the engine's answer appears below.", "good")
        except Exception as error:  # noqa: BLE001  (a bad rule, a broker that is away)
            self._say(f"Not published: {error}", "bad")

    def _say(self, text: str, kind: str) -> None:
        self.said.value = (
            f'<div class="lab-said {kind}" role="status" aria-live="polite">{escape(text)}</div>'
        )


class Picks(widgets.VBox):
    """Buttons that stay down, in the order in which they were pressed: `value`.

    >>> picks = Picks("grouped by", ["payeeId", "beneficiaryId"])
    >>> picks.buttons["beneficiaryId"].value = picks.buttons["payeeId"].value = True
    >>> picks.value
    ('beneficiaryId', 'payeeId')
    """

    value = traitlets.Tuple()

    def __init__(self, label: str, names: Sequence[str]):
        look = {"layout": {"width": "auto"}, "tooltip": f"{label} this field"}
        self.buttons = {name: widgets.ToggleButton(description=name, **look) for name in names}
        for name, button in self.buttons.items():
            button.observe(lambda change, name=name: self._pressed(name, change["new"]), "value")
        row = widgets.HBox(list(self.buttons.values()), layout={"flex_flow": "row wrap"})
        super().__init__([widgets.Label(label), row])

    def _pressed(self, name: str, down: bool) -> None:
        if down != (name in self.value):
            others = tuple(other for other in self.value if other != name)
            self.value = (*others, name) if down else others

    @traitlets.observe("value")
    def _set(self, change: dict) -> None:
        for name, button in self.buttons.items():
            button.value = name in self.value


def filter_parts(text: str) -> list[tuple[str, list[str]]]:
    """The filter of the form: `field=value|value; field=value`.

    >>> filter_parts("action=login|payment; country=KR")
    [('action', ['login', 'payment']), ('country', ['KR'])]
    """
    parts = [part.partition("=") for part in text.split(";") if part.strip()]
    return [(name.strip(), [value.strip() for value in values.split("|")]) for name, _, values in parts]


def _number(text: str) -> int | str:
    """A number as JSON has it, with every digit; other text stays as it is, to be refused with its reason."""
    try:
        value = Decimal(text.replace(",", "").replace("_", ""))
        return int(value) if value == value.to_integral_value() else str(value)
    except (InvalidOperation, ValueError, OverflowError):
        return text
