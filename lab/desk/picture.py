"""The window behind an alert as pictures show it: the events in its first condition's window, and how its value builds up.

Judge.of_alert ──► Verdict ──► AlertPicture ──► lab.widgets.alertwindow, lab.page.windows
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from lab.desk.verdict import Verdict, WindowEvent
from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import Condition, MeasuredCondition
from lab.model.alerts import Alert, event_id_text
from lab.model.formatting import escape_control_characters
from lab.model.rule import Rule
from lab.model.schema import Schema


@dataclass(frozen=True)
class AlertPicture:
    """What a picture of an alert shows. `verdict`: on its event, with a rule and a window, as far as the events in memory tell."""

    alert: Alert
    verdict: Verdict

    @property
    def rule(self) -> Rule:
        """The rule as it was when the event came."""
        assert self.verdict.rule, "a window is of a rule"
        return self.verdict.rule

    @cached_property
    def events(self) -> list[WindowEvent]:
        """Those in the window of the first condition, whether they count or not, in order of time."""
        return [each for each in self.verdict.window if each.is_in_first]

    @cached_property
    def counted(self) -> list[WindowEvent]:
        """Those over which the first aggregate is computed."""
        return [each for each in self.events if each.counts[0]]

    @property
    def adds_up(self) -> Decimal | None:
        """The first aggregate over these; None if they have no value."""
        return self.verdict.conditions[0].measured.aggregate if self.verdict.conditions else None

    @property
    def first(self) -> MeasuredCondition:
        """What the alert tells of the rule's first condition: its own value and limit may be those of another one."""
        has_all = len(self.alert.conditions) == len(self.rule.conditions)
        return self.alert.conditions[0] if has_all else self.alert.own_condition

    @property
    def other_condition(self) -> Condition | None:
        """The condition whose value the alert shows; None if it is the rule's first."""
        of, own = self.alert.conditions, self.alert.own_condition
        place = of.index(own) if own in of else 0
        return self.rule.conditions[place] if 0 < place < len(self.rule.conditions) else None

    @cached_property
    def amount_field(self) -> str | None:
        """The field that the first aggregate is of, if it is a number."""
        row = AGGREGATES[self.rule.aggregation.function]
        return self.rule.aggregation.field if row.argument_kind == "field" and not row.of_place else None

    def height(self, event: WindowEvent) -> float:
        """How high an event stands in a picture."""
        return float(event.fields[self.amount_field] or 0) if self.amount_field else 1.0

    def is_own(self, event: WindowEvent) -> bool:
        """Whether it is the event at which the alert was raised."""
        return (event.id, event.time) == (event_id_text(self.alert.event_id), self.alert.event_time)

    def shown_fields(self, schema: Schema) -> list[str]:
        """The columns of a table of events: what the rule looks at comes first; the id and the time have their own."""
        names = self.rule.field_names
        known = {*schema.id_fields, schema.time_field} - {*names}
        return [name for name in dict.fromkeys((*names, *schema.names)) if name not in known]


def shown_value(value: object) -> str:
    """A field's value: amounts as people write them, ids as they are."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, Decimal) else escape_control_characters(str(value))
