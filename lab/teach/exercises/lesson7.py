"""Live."""

from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace
from typing import Any

from lab.model.language import say, translated
from lab.teach.exercises.given import canonical_rule_text, control_message_text, rule_from_message
from lab.teach.judge import AnswerRefused, FunctionExercise, Mistake, ValueExercise

RULE = "6,(active),(payeeId),,(paymentAmount),(MAX),(>=),(15),(1)"
SAME_AS_LIMIT = [
    rule_from_message(
        f"MAX(paymentAmount) per payeeId over 1 min >= 15, when paymentAmount {limit}", "it"
    ).when
    for limit in (">= 15", "> 14.99")
]
A, B, AGAIN = {"alertId": "1.1.7", "n": 1}, {"alertId": "1.1.8", "n": 2}, {"alertId": "1.1.7", "n": 3}


def _once(alerts: list[dict]) -> list[dict]:
    first: dict[str, dict] = {}
    for alert in alerts:
        first.setdefault(alert["alertId"], alert)
    return list(first.values())


def publish_rule_6(message: object, studio: Any) -> str:
    """Publishes rule 6 and returns its canonical text if the engine accepts it. It never sends a rule that would replace another one.

    A `when` that lets the payments alert that reach the limit themselves is right, too.
    """
    rule = rule_from_message(message, "rule_6", rule_id=6)
    if rule.rule_id != 6:
        raise AnswerRefused(say("rule_6 must have the id 6, not {answer}", answer=rule.rule_id))
    answer = studio.ask(control_message_text(message, "rule_6", 6))
    if answer["status"] != "accepted":
        raise AnswerRefused(say("the engine rejected it: {reason}", reason=translated(str(answer["reason"]))))
    if rule.when in SAME_AS_LIMIT:
        rule = replace(rule, when=None)
    return canonical_rule_text(rule)


EXERCISES = {
    "7.1": ValueExercise(
        right=canonical_rule_text(rule_from_message(RULE, "rule_6")),
        read=publish_rule_6,
        needs={"studio": "ask"},
        given_on_recheck=(SimpleNamespace(ask=lambda message: {"status": "accepted"}),),
        because="The rule is in force.",
        hints=(
            "The parts are: id, (active), (keys), (unique), (field), (function), (operator), (limit), (minutes).",
            "A group is a payer. The payer's largest payment is compared with 15, and a payment of exactly 15 must alert.",
        ),
        mistakes=(
            Mistake(15, "15 is the limit. rule_6 must be a whole rule: a string or a dictionary."),
            Mistake(RULE.replace("6", "5", 1), "That id belongs to rule 5, which is in force. Use 6."),
            Mistake(
                RULE.replace(">=", ">"), "A payment of exactly 15 must alert, too: the rule says 15 or more."
            ),
            Mistake(
                RULE.replace("MAX", "SUM"),
                "That sums a payer's payments of one minute. The rule is about a single payment of 15 or more.",
            ),
            Mistake(
                RULE.replace("payeeId", "beneficiaryId"), "That groups by the receiver. The payer is payeeId."
            ),
            Mistake(
                RULE.replace("(active)", "(pause)"),
                "That rule is paused, so it never alerts. It must be active.",
            ),
            Mistake(
                RULE.replace("(1)", "(60)"), "A number without a unit means minutes, so that is an hour."
            ),
        ),
    ),
    "7.2": FunctionExercise(
        cases=(((200,), 300, "half of the running cut, and all of its own"), ((100,), 150), ((0,), 0)),
        right=lambda cut_ms: cut_ms / 2 + cut_ms,
        draw=lambda random, size: (random.randint(0, 20 * size) / random.choice((1, 4)),),
        because="The wait is half of the running cut, plus all of its own.",
        hints=(
            "The payment arrives at some point during a running cut, and the next one takes it.",
            "On average, half of the running cut is still left.",
        ),
        mistakes=(
            Mistake(lambda ms: ms / 2, "That is the wait for the next cut. The next cut takes time, too."),
            Mistake(
                lambda ms: ms,
                "That is the payment's own cut. Before that, the payment waits for the running one to end.",
            ),
            Mistake(lambda ms: 2 * ms, "That is the worst case: the payment came just as a cut began."),
        ),
    ),
    "7.3": FunctionExercise(
        cases=(
            (([A, B],), [A, B]),
            (([A, B, AGAIN],), [A, B], "keep the first one"),
            (([A, AGAIN, B],), [A, B], "keep the first one"),
            (([],), []),
        ),
        right=_once,
        draw=lambda random, size: (
            [
                {"alertId": f"1.1.{random.randint(0, 1 + size // 3)}", "n": n}
                for n in range(random.randint(size // 8, 2 + size // 4))
            ],
        ),
        because="At-least-once delivery plus an id gives exactly once.",
        hints=(
            "Remember the ids that have already come, in a set or a dictionary.",
            "first.setdefault(alert['alertId'], alert) keeps the first alert of each id; a dictionary keeps the order.",
        ),
        mistakes=(
            Mistake(lambda alerts: alerts, "Repeated alerts are still in the list."),
            Mistake(
                lambda alerts: list({alert["alertId"]: alert for alert in alerts}.values()),
                "That keeps the last alert of each id. Keep the first.",
            ),
            Mistake(
                lambda alerts: [next(same) for _, same in groupby(alerts, lambda alert: alert["alertId"])],
                "An alert may repeat at any later place, not only directly after the first.",
            ),
            Mistake(
                lambda alerts: [a for a in alerts if [b["alertId"] for b in alerts].count(a["alertId"]) == 1],
                "Keep one copy of an alert that came twice.",
            ),
        ),
    ),
}
