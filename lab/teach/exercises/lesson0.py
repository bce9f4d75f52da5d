"""Start here."""

from lab.model.field import Id
from lab.model.language import say
from lab.model.reference import Reference
from lab.model.rules import readable_rule_sentence
from lab.model.schema import PAYMENTS
from lab.teach.exercises.given import control_message_text, rule_from_message
from lab.teach.judge import AnswerRefused, Mistake, ValueExercise

PAID = [(0, 10), (1, 20), (11, 20), (21, 20)]  # minute, amount
RULE = "1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),({}),({})"
GIVEN = rule_from_message(RULE.format(50, 20), "the rule above")


def alerting_payments(rule: object) -> list[Id]:
    """The payments on which a rule alerts, counted from 1."""
    said = rule_from_message(rule, "rule_1")
    given = GIVEN.aggregation.window_ms
    numbers = (said.first.limit != GIVEN.first.limit) + (said.aggregation.window_ms != given)
    if numbers == 2:
        raise AnswerRefused(say("two numbers have changed, the limit and the window; change only one"))
    if said.with_first(limit=GIVEN.first.limit, window_ms=given) != GIVEN:
        raise AnswerRefused(
            say(
                "more than one number has changed. The rule above is {given}, rule_1 is {answer}",
                given=readable_rule_sentence(GIVEN),
                answer=readable_rule_sentence(said),
            )
        )
    engine = Reference(PAYMENTS)
    engine.control(control_message_text(rule, "rule_1"))
    for number, (minute, amount) in enumerate(PAID, 1):
        engine.event(f"{number},2013-01-01 00:{minute:02}:00,25,12,CSH,{amount}".encode())
    return [alert.event_id for alert in engine.alerts]


EXERCISES = {
    "0.1": ValueExercise(
        right=[3, 4],
        read=alerting_payments,
        because="Payments 3 and 4 alert, and no others.",
        hints=(
            "The third payment sees a sum of exactly 50. Which limit is less than 50, but not less than 30?",
            "Copy the text of RULE and change the number in the second-to-last pair of brackets.",
        ),
        mistakes=(
            Mistake(49, "49 is a limit. rule_1 must be the whole text of the rule, with this limit in it."),
            Mistake(RULE.format(50, 20), "That is still the rule above: only the fourth payment alerts."),
            Mistake(
                RULE.format(25, 20), "Now the second payment alerts, too: 10 + 20 = 30 is over that limit."
            ),
            Mistake(
                RULE.replace("(>)", "(>=)").format(50, 20),
                "More than one number has changed. The rule above is SUM(paymentAmount) per payeeId, beneficiaryId over 20 min > 50, "
                "rule_1 is SUM(paymentAmount) per payeeId, beneficiaryId over 20 min >= 50",
            ),
            Mistake(RULE.format(60, 20), "Now no payment alerts: no window holds more than 60."),
        ),
    ),
    "0.2": ValueExercise(
        right=21,
        unit="in minutes",
        because="The window reaches from minute 21 back to minute 0, and both ends count.",
        hints=(
            "At which minute is the first payment, and at which the last?",
            "A window of W minutes that ends at minute 21 begins at minute 21 − W. It holds every payment in between.",
        ),
        mistakes=(
            Mistake(
                20,
                "20 minutes before minute 21 is minute 1. The first payment, at minute 0, is outside the window.",
            ),
            Mistake(
                22,
                "That window reaches the first payment, but a shorter one does, too: both ends of a window count.",
            ),
            Mistake(
                4, "That is the number of payments. How far apart are the first and the last, in minutes?"
            ),
            Mistake(21 * 60, "That is in seconds. The answer is in minutes."),
        ),
    ),
    "0.3": ValueExercise(
        right=8,
        unit="in whole millions",
        because="At 8,000,000 there are 7 alerts, at 7,000,000 there are 11.",
        hints=(
            "Choose rule 3 in the rule desk above and move its limit: the sentence below says how many alerts it would raise.",
            "Lower the limit from 10,000,000, one million at a time, until there are more than ten alerts.",
        ),
        mistakes=(
            Mistake(8_000_000, "That is in single units. The answer is in millions."),
            Mistake(7, "A limit of 7 million raises 11 alerts, one more than the analyst can look at."),
            Mistake(9, "A limit of 9 million raises 5 alerts. A lower limit also stays within ten."),
            Mistake(10, "10 million is the rule's present limit: 4 alerts. How low can the limit go?"),
        ),
    ),
}
