"""The form of a rule: a control for each attribute, and the control message that they make."""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

import ipywidgets as widgets
import traitlets

from lab.model.rules import FUNCTIONS, Rule
from lab.model.schema import Schema
from lab.model.words import plain

SYMBOLS = (">", ">=", "<", "<=", "=", "!=")


class Picks(widgets.HBox):
    """Buttons that stay down, in the order in which they were pressed: `value`.

    >>> picks = Picks("grouped by", ["payeeId", "beneficiaryId"])
    >>> picks.buttons["beneficiaryId"].value = picks.buttons["payeeId"].value = True
    >>> picks.value
    ('beneficiaryId', 'payeeId')
    """

    value = traitlets.Tuple()

    def __init__(self, label: str, names: Sequence[str]):
        tooltip = f"{label} this field"
        self.buttons = {name: widgets.ToggleButton(description=name, tooltip=tooltip) for name in names}
        for name, button in self.buttons.items():
            button.observe(lambda change, name=name: self._pressed(name, change["new"]), "value")
        row = widgets.HBox(list(self.buttons.values()))
        super().__init__([widgets.Label(label), row])
        self.add_class("lab-picks")

    def _pressed(self, name: str, down: bool) -> None:
        if down != (name in self.value):
            others = tuple(other for other in self.value if other != name)
            self.value = (*others, name) if down else others

    @traitlets.observe("value")
    def _set(self, change: dict) -> None:
        for name, button in self.buttons.items():
            button.value = name in self.value


EVENTS = ""  # instead of a field; with None a dropdown shows nothing


class RuleForm(widgets.VBox):
    """Controls for the attributes of a rule on events of a schema; `changed` is called when somebody changes one.

    >>> from lab.model.schema import PAYMENTS
    >>> form = RuleForm(PAYMENTS, lambda: None)
    >>> form.limit.value, form.window.value, form.group_by.value = "20", "5m", ("payeeId",)
    >>> json.loads(form.message("PAUSE"))["window"]
    '5m'
    """

    def __init__(self, schema: Schema, changed: Callable[[], None]):
        self.schema, self._changed, self._filling = schema, changed, False
        numeric = [field.name for field in schema.fields if field.numeric]
        names = [name for name in schema.names if name not in (schema.id_field, schema.time_field)]
        self.rule_id = widgets.BoundedIntText(1, min=1, max=(1 << 53) - 1, description="rule id")
        self.group_by, self.unique = Picks("grouped by", names), Picks("unique", names)
        self.filter = widgets.Text(description="only where", placeholder="paymentType=CSH")
        self.function = widgets.Dropdown(options=FUNCTIONS, description="function")
        of = [("events", EVENTS), *zip(numeric, numeric)]
        self.field = widgets.Dropdown(options=of, description="of")
        self.operator = widgets.Dropdown(options=SYMBOLS, description="alert if")
        self.limit = widgets.Text(description="limit")
        self.window = widgets.Text(description="within", placeholder="10s, 20m, 24h, 30d")
        controls = (self.rule_id, self.group_by, self.filter, self.function, self.field)
        for control in (*controls, self.operator, self.limit, self.window, self.unique):
            control.observe(self._on_change, "value")
        self._show_unique()
        pairs = ((self.rule_id, self.window), (self.function, self.field), (self.operator, self.limit))
        first, *others = (widgets.HBox(pair) for pair in pairs)
        super().__init__([first, self.group_by, self.filter, *others, self.unique])
        self.add_class("lab-form")

    def _show_unique(self) -> None:
        self.unique.layout.display = "" if self.function.value == "UNIQUE_COUNT" else "none"

    def _on_change(self, change: dict) -> None:
        self._show_unique()
        if not self._filling:
            self._changed()

    def fill(self, rule: Rule) -> None:
        """Shows a rule; `changed` is not called."""
        self._filling = True
        try:
            self.rule_id.value = rule.rule_id
            self.group_by.value, self.unique.value = rule.keys, rule.unique
            self.function.value, self.field.value, self.operator.value = (
                rule.function,
                rule.field or EVENTS,
                rule.symbol,
            )
            parts = (f"{name}={'|'.join(plain(value) for value in values)}" for name, values in rule.filter)
            self.filter.value = "; ".join(parts)
            self.limit.value, self.window.value = plain(rule.limit), rule.to_dict()["window"]
        finally:
            self._filling = False

    def message(self, state: str) -> str:
        """The form as a control message; what is wrong in it is for `parse_message` to say."""
        filter: dict[str, list] = {}
        for name, values in filter_parts(self.filter.value):
            numeric = name in self.schema.names and self.schema.field(name).numeric
            filter[name] = [_number(value) if numeric else value for value in values]
        message = {
            "ruleId": self.rule_id.value,
            "ruleState": state,
            "groupingKeyNames": list(self.group_by.value),
            "filter": filter or None,
            "aggregateFieldName": self.field.value or None,
            "aggregatorFunctionType": self.function.value,
            "unique": list(self.unique.value) or None,
            "limitOperatorType": self.operator.value,
            "limit": _number(self.limit.value),
            "window": self.window.value,
        }
        return json.dumps({name: value for name, value in message.items() if value is not None}, indent=1)


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
