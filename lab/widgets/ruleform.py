"""The form of a rule: a control for each attribute, and the control message that they make."""

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from lab.model.aggregates import AGGREGATES
from lab.model.attributes import ATTRIBUTES, carried_attributes
from lab.model.conditions import BadConditions, quote_if_needed
from lab.model.examples import example_conditions, example_further_conditions, example_limits, example_when
from lab.model.kinds import Carried, Text, Word
from lab.model.language import say, translated
from lab.model.rules import ACTIONS, FUNCTIONS, BadRule, Rule, parse_message
from lab.model.schema import Schema
from lab.model.sentence import (
    POINTS_BETWEEN_THOUSANDS,
    TIMES,
    parse_at_most,
    parse_carried,
    parse_further_conditions,
    parse_limit,
    parse_window,
)
from lab.model.times import DURATION_UNITS, duration_text
from lab.model.when import Steps, When, filter_json_value, filter_text, when_text
from lab.model.whenreader import parse_filter, parse_steps, parse_when
from lab.widgets.look import styled
from lab.widgets.orderedtoggles import OrderedToggles

CONTEXT = 80  # characters shown around a mistake
SEES = "which events the rule sees at all: {examples}"
WHICH_EVENT = "which event may alert, whichever events count: {examples}"
ONLY = "only events with {examples}"
ABSENCE = "such as no payment within 15 min after an order: the function is COUNT of events, alert if = 0"
COUNTING = "which events count for the aggregate, all if this is empty; “{filter}” keeps events from the rule altogether"
MORE = "further conditions: {example}, {other}"
STEPS = "conditions in their order, and perhaps “without” and what must not come in between: {examples}"
IN_LIST = "adds a condition to “{when}”: the value of this field is in this named list"
AT_MOST = "how many alerts of a group the rule gives at events within how long; the others are counted as suppressed"
MULTIPLE = "a number, or what another aggregate says: {example}, {other}"
SYMBOLS = (">", ">=", "<", "<=", "=", "!=")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")  # commas where a sentence has them; 1,5 is no number


EVENTS = ""  # instead of a field; with None a dropdown shows nothing
NO_ACTION = ""
TYPES = {name: row.argument_kind for name, row in AGGREGATES.items()}


class RuleForm(widgets.VBox):
    """Controls for all attributes of a rule on events of a schema; `on_change` is called when somebody changes one.

    >>> from lab.model.schema import PAYMENTS
    >>> form = RuleForm(PAYMENTS, lambda: None)
    >>> form.limit.value, form.window.value, form.group_by.value = "20", "5m", ("payeeId",)
    >>> json.loads(form.message())["window"]
    '5m'
    """

    def __init__(self, schema: Schema, on_change: Callable[[], None]):
        self.schema, self._notify, self._filling = schema, on_change, True
        self._make_what_it_counts(schema)
        self._make_conditions_on_events(schema)
        self._make_limit(schema)
        self._make_what_follows(schema)
        self._observe()
        self._fit()
        self._lay_out()
        self._filling = False

    def _make_what_it_counts(self, schema: Schema) -> None:
        roles = (schema.time_field, schema.id_fields[-1])
        # a number of the browser has 53 bits only; its placeholder is the id of a new rule, which counts if this is empty
        self.rule_id = widgets.Text(description=say("rule id"), placeholder="1")
        self.rule_id.tooltip = say("empty: the next free id")
        self.state = widgets.Dropdown(options=["ACTIVE", "PAUSE", "SHADOW"], description=say("state"))
        self.state.tooltip = say(
            "PAUSE: the rule keeps its events but does not alert; SHADOW: its alerts go to a log of their own"
        )
        self.group_by = OrderedToggles(say("grouped by"), say("group by this field"), schema.names, roles)
        self.unique = OrderedToggles(
            say("unique"), say("count distinct values of this field"), schema.names, roles
        )

    def _make_conditions_on_events(self, schema: Schema) -> None:
        self.filter = widgets.Text(description=say("only where"), placeholder=example_conditions(schema))
        examples = example_when(schema)
        self.filter.tooltip, self.filter_said = say(SEES, examples=examples), widgets.HTML()
        self.when = widgets.Text(description=say("and when"), placeholder=examples)
        self.when.tooltip, self.when_said = say(WHICH_EVENT, examples=examples), widgets.HTML()
        texts_first = sorted(schema.names, key=lambda name: schema.field(name).type != "string")
        self.list_field = widgets.Dropdown(options=texts_first, description=say("value of"))
        self.list_name = widgets.Dropdown(description=say("in the list"))
        self.list_name.tooltip = say(IN_LIST, when=say("and when"))
        self.in_list = widgets.HBox((self.list_field, self.list_name), layout={"display": "none"})
        self.list_name.observe(self._add_list, "value")
        self.where = widgets.Text(description=say("counting"), placeholder=say(ONLY, examples=examples))
        self.where.tooltip, self.where_said = say(COUNTING, filter=say("only where")), widgets.HTML()
        self.exclude = widgets.Checkbox(description=say("without the current event"), indent=False)
        self.absence = widgets.Checkbox(
            description=say("alert if none comes within that time after it"), indent=False
        )
        self.absence.tooltip = say(ABSENCE)
        and_example, or_example = example_further_conditions(schema)
        more = say(MORE, example=and_example, other=or_example)
        self.more = widgets.Text(description=say("and / or"), placeholder=more)
        self.more.tooltip, self.more_said = more, widgets.HTML()

    def _make_limit(self, schema: Schema) -> None:
        self.function = widgets.Dropdown(options=FUNCTIONS, description=say("function"))
        self.field = widgets.Dropdown(options=[(say("events"), EVENTS)], description=say("of"))
        examples = example_when(schema)
        self.steps = widgets.Text(description=say("steps"), placeholder=examples)
        self.steps.tooltip, self.steps_said = say(STEPS, examples=examples), widgets.HTML()
        self.operator = widgets.Dropdown(options=SYMBOLS, description=say("alert if"))
        multiple, and_more = example_limits(schema)
        self.limit = widgets.Text(
            description=say("limit"), tooltip=say(MULTIPLE, example=multiple, other=and_more)
        )
        self.limit_said = widgets.HTML()
        self.window = widgets.Text(description=say("within"), placeholder="10s, 20m, 24h, 30d")

    def _make_what_follows(self, schema: Schema) -> None:
        roles = (schema.time_field, schema.id_fields[-1])
        actions = [(say("no action"), NO_ACTION), *zip(ACTIONS, ACTIONS)]
        self.action = widgets.Dropdown(options=actions, description=say("then"))
        self.action.tooltip = say("what happens to the group of an alert: `lab restrict run` restricts it")
        self.ttl = widgets.Text(description=say("for"), placeholder="30m, 24h, 7d")
        self.at_most = widgets.Text(description=say("at most"), placeholder="1 per 10 min")
        self.at_most.tooltip, self.at_most_said = say(AT_MOST), widgets.HTML()
        self.carried = {name: _carried_control(name, kind) for name, kind in carried_attributes()}
        self.carried_said = {name: widgets.HTML() for name in self.carried}
        self.event_fields = OrderedToggles(
            say("alerts tell"), say("alerts carry this field of their event"), schema.names, roles
        )

    def _observe(self) -> None:
        for control in (
            *(self.rule_id, self.state, self.group_by, self.filter, self.function, self.field, self.unique),
            *(self.steps, self.where, self.exclude, self.absence, self.operator, self.limit, self.window),
            *(self.more, self.when, self.at_most, self.action, self.ttl),
            *(*self.carried.values(), self.event_fields),
        ):
            control.observe(self._on_change, "value")

    def _lay_out(self) -> None:
        pairs = (
            (self.rule_id, self.state),
            (self.function, self.field),
            (self.operator, self.limit),
            (self.window, self.action),
        )
        name, what, when, within = (widgets.HBox(pair) for pair in pairs)
        rare = [self.where, self.where_said, self.exclude, self.absence, self.more, self.more_said]
        rare += [self.at_most, self.at_most_said]
        rare += [
            each for name, control in self.carried.items() for each in (control, self.carried_said[name])
        ]
        rare += [self.event_fields]
        self.rare = styled(widgets.VBox(rare, layout={"display": "none"}), "lab-form")
        self.say_more = widgets.ToggleButton(description=say("Say more"), icon="chevron-down")
        self.say_more.tooltip = say(
            "which events count, further conditions, how often it alerts, what its alerts carry"
        )
        self.say_more.observe(self._open, "value")
        rows = [name, self.group_by, self.filter, self.filter_said, what, self.unique]
        rows += [self.steps, self.steps_said, when, self.limit_said]
        rows += [within, self.ttl, self.when, self.when_said, self.in_list, self.say_more, self.rare]
        super().__init__(rows)
        self.add_class("lab-form")

    def _fit(self) -> None:
        """Offers the fields that the function takes, and shows the controls that mean something."""
        kind = TYPES[self.function.value]
        numeric = map(self.schema.field, self.schema.number_names)
        names = [field.name for field in sorted(numeric, key=lambda field: not field.scale)]  # amounts first
        options = list(zip(names, names))
        if kind != "field":
            options = [(say("events"), EVENTS)]
            options += [(say("events with {field}", field=name), name) for name in self.schema.names]
        if tuple(options) != tuple(self.field.options):
            self.field.options = options
        for control, shown in (
            (self.field, kind in ("events", "field")),
            (self.unique, kind == "unique"),
            (self.steps, kind == "steps"),
            (self.steps_said, kind == "steps"),
            (self.ttl, self.action.value != NO_ACTION),
        ):
            control.layout.display = "" if shown else "none"

    def offer_lists(self, names: Sequence[str]) -> None:
        """Offers these named lists for conditions."""
        options = [("–", ""), *((f"@{name}", name) for name in names)]
        if tuple(options) != tuple(self.list_name.options):
            self.list_name.options = options
            self.in_list.layout.display = "" if names else "none"

    def _add_list(self, change: dict) -> None:
        """Adds that the event's value is in the list that somebody chose."""
        if name := change["new"]:
            before = self.when.value.strip()
            if " or " in before.lower():  # which binds less than the `and`
                before = f"({before})"
            self.list_name.value = ""
            self.when.value = (
                f"{before} and " * bool(before) + f"{quote_if_needed(self.list_field.value)} in @{name}"
            )

    def _open(self, change: dict) -> None:
        self.rare.layout.display = "" if change["new"] else "none"

    def _on_change(self, change: dict) -> None:
        filling, self._filling = self._filling, True
        self._fit()
        self._filling = filling
        if not filling:
            self._notify()

    def fill(self, rule: Rule, is_new: bool = False) -> None:
        """Shows a rule, unless the form already means this rule; does not call `on_change`. `is_new`: it has no id of its own."""
        if self._means(rule) and self.is_new == is_new:
            return
        for said in (
            *(self.filter_said, self.steps_said, self.where_said, self.limit_said, self.more_said),
            *(self.when_said, self.at_most_said, *self.carried_said.values()),
        ):
            said.value = ""
        self._filling = True
        try:
            attributes = rule.to_dict()
            self.rule_id.value, self.state.value = "" if is_new else str(rule.rule_id), rule.state
            self.group_by.value, self.unique.value = rule.keys, rule.aggregation.unique
            self.function.value, self.operator.value = rule.aggregation.function, rule.first.symbol
            self.field.value = (
                self.field.options[0][1] if rule.aggregation.unique else rule.aggregation.field or EVENTS
            )
            self.filter.value = filter_text(rule.filter)
            self.steps.value = attributes.get("steps", "")
            self.when.value = attributes.get("when", "")
            first, *more = rule.conditions
            self.where.value, self.exclude.value = (
                attributes.get("where", ""),
                rule.aggregation.says_without_current,
            )
            self.absence.value = rule.absence
            self.limit.value = first.describe_limit()
            self.window.value = rule.aggregation.describe_window(duration_text)
            self.at_most.value = rule.describe_at_most()
            self.more.value = " ".join(f"{rule.joined_by} {each.describe()}" for each in more)
            self.action.value, self.ttl.value = rule.action or NO_ACTION, attributes.get("ttl", "")
            for name, kind in carried_attributes():
                value = rule.carries(name)
                self.carried[name].value = "" if value is None else kind.to_form_value(value)
            self.event_fields.value = rule.event_fields
            texts = (self.where, self.more, self.at_most, *self.carried.values(), self.event_fields)
            if self.exclude.value or self.absence.value or any(control.value for control in texts):
                self.say_more.value = True
        finally:
            self._filling = False

    @property
    def is_new(self) -> bool:
        """Whether nobody gave the rule an id."""
        return not self.rule_id.value.strip()

    def _means(self, rule: Rule) -> bool:
        try:
            return parse_message(self.message(), self.schema).rule == rule
        except BadRule:
            return False

    def message(self) -> str:
        """The form as a control message; what is wrong in it is for `parse_message` to say, of conditions this form as well."""
        filter = self._read(self.filter, self.filter_said, parse_filter)
        for control, said in ((self.when, self.when_said), (self.where, self.where_said)):
            self._read(control, said, parse_when)
        self._read(self.steps, self.steps_said, parse_steps)
        more = self._read(self.more, self.more_said, parse_further_conditions)
        if more is None:  # for `parse_message` to refuse, unless it is empty
            more = {"and": self.more.value.strip() or None}
        at_most = self._read(self.at_most, self.at_most_said, parse_at_most)
        if at_most is None:
            at_most = {"atMost": self.at_most.value.strip() or None}
        carried: dict[str, Any] = {}
        for name, kind in carried_attributes():
            control = self.carried[name]
            carried[name] = control.value.strip(" ") or None
            if kind.sql_type == "document":  # what cannot be read is for `parse_message` to refuse
                read = partial(parse_carried, name)
                carried |= self._read(control, self.carried_said[name], read) or {}
        limit, self.limit_said.value = {"limit": _number(self.limit.value)}, ""
        in_words = "(" in self.limit.value or any(sign in self.limit.value.split() for sign in TIMES)
        if in_words or POINTS_BETWEEN_THOUSANDS.fullmatch(self.limit.value.strip()):
            limit = self._read(self.limit, self.limit_said, parse_limit) or {"limit": None}
        message = {
            "ruleId": _number(self.rule_id.placeholder if self.is_new else self.rule_id.value),
            "ruleState": self.state.value,
            "groupingKeyNames": list(self.group_by.value),
            "filter": filter_json_value(filter) if filter else self.filter.value.strip() or None,
            "aggregateFieldName": self.field.value or None,
            "aggregatorFunctionType": self.function.value,
            "unique": list(self.unique.value) or None,
            "steps": self.steps.value.strip() or None if TYPES[self.function.value] == "steps" else None,
            "limitOperatorType": self.operator.value,
            **limit,
            **(self._window() if AGGREGATES[self.function.value].has_window else {}),
            "where": self.where.value.strip() or None,
            "excludeCurrent": self.exclude.value or None,
            "absence": self.absence.value or None,
            **more,
            "when": self.when.value.strip() or None,
            **at_most,
            "action": self.action.value or None,
            "ttl": _duration(self.ttl.value) if self.action.value else None,
            **carried,
            "eventFields": list(self.event_fields.value) or None,
        }
        if TYPES[self.function.value] in ("unique", "steps"):
            message["aggregateFieldName"] = None
        return json.dumps(
            {name: value for name, value in message.items() if value is not None}, indent=1, default=_text_of
        )

    def _window(self) -> dict[str, Any]:
        """The attributes that the window means; what is none is for `parse_message` to refuse."""
        try:
            return parse_window(self.window.value, self.schema)
        except BadConditions:
            return {"window": _duration(self.window.value)}

    def _read(self, control: widgets.Text, said: widgets.HTML, read: Callable[[str, Schema], Any]) -> Any:
        """What a text means, None for an empty one and one that cannot be read: then its mistake is marked."""
        said.value = ""
        try:
            return read(control.value, self.schema) if control.value.strip() else None
        except BadConditions as error:
            said.value = mark_errors(control.value, error)
            if control is self.limit:  # of the others, the rule itself says what is wrong
                said.value += f'<p class="lab-marked">{escape(translated(str(error)))}</p>'
            return None


def _text_of(part: When | Steps) -> str:
    return part.text if isinstance(part, Steps) else when_text(part)


def _carried_control(name: str, kind: Carried) -> widgets.Dropdown | widgets.Text:
    """The control of an attribute that alerts carry."""
    if isinstance(kind, Word):
        options = [(say("none"), ""), *zip(kind.words, kind.words)]
        return widgets.Dropdown(options=options, description=say(name))
    clause = ATTRIBUTES[name].clause
    example = clause.example.removeprefix(f"{clause.begins} ") if clause else ""
    placeholder = say(kind.example) if isinstance(kind, Text) else example
    tooltip = say("each alert carries severity, title and labels")
    return widgets.Text(description=say(name), placeholder=placeholder, tooltip=tooltip)


def mark_errors(text: str, error: BadConditions) -> str:
    """Conditions as HTML, with what cannot be read marked.

    >>> from lab.model.schema import LOGINS
    >>> try:
    ...     parse_when("action = login, country = KR", LOGINS)
    ... except BadConditions as error:
    ...     print(mark_errors("action = login, country = KR", error))
    <p class="lab-marked">action = login<mark>,</mark> country = KR</p>
    """
    before = text[max(error.start - CONTEXT, 0) : error.start]
    wrong, after = text[error.start : error.end][:CONTEXT] or "…", text[error.end : error.end + CONTEXT]
    return f'<p class="lab-marked">{escape(before)}<mark>{escape(wrong)}</mark>{escape(after)}</p>'


def _duration(text: str) -> str:
    """A duration such as 90 min in the form of JSON, 90m; returns other text unchanged, so that it is refused with a reason."""
    match = re.fullmatch(r"([0-9]{1,12})\s*([a-z]+)", text.strip().lower())
    times, unit = DURATION_UNITS.get(match[2], (1, "")) if match else (1, "")
    return f"{int(match[1]) * times}{unit}" if match and unit else text


def _number(text: str) -> int | str:
    """A number as JSON has it, with every digit; other text stays as it is, to be refused with its reason."""
    digits = text.replace(",", "") if THOUSANDS.fullmatch(text.strip()) else text
    try:
        value = Decimal(digits.replace("_", ""))
        return int(value) if value == value.to_integral_value() else str(value)
    except (InvalidOperation, ValueError, OverflowError):
        return text
