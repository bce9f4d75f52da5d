"""Live."""

from itertools import groupby

from lab.teach.exercises.given import rule_of, text_of
from lab.teach.judge import Function, Mistake, Refused, Value

RULE = "6,(active),(payeeId),,(paymentAmount),(MAX),(>=),(15),(1)"
A, B, AGAIN = {"alertId": "1.1.7", "n": 1}, {"alertId": "1.1.8", "n": 2}, {"alertId": "1.1.7", "n": 3}


def in_force(message: object, studio) -> str:
    """What the engine has made of rule 6. Nothing is sent that would replace another rule."""
    rule = rule_of(message, "rule_6")
    if rule.rule_id != 6:
        raise Refused(f"rule_6 is to have the id 6, not {rule.rule_id}")
    answer = studio.ask(text_of(message, "rule_6"))
    if answer["status"] != "accepted":
        raise Refused(f"the engine rejected it: {answer['reason']}")
    return rule.describe()


EXERCISES = {
    "7.1": Value(
        right=rule_of(RULE, "rule_6").describe(),
        read=in_force,
        because="The engine has it.",
        hints=(
            "Cells: id, (active), (keys), (unique), (field), (function), (operator), (limit), (minutes).",
            "A group is a payer. Its largest payment is compared with 15, which is to alert itself.",
        ),
        mistakes=(
            Mistake(15, "15 is the limit. rule_6 is a whole rule: a text or a dictionary."),
            Mistake(RULE.replace("6", "5", 1), "That id belongs to rule 5, which is in force. Yours is 6."),
            Mistake(RULE.replace(">=", ">"), "A payment of exactly 15 is to alert, too: 15 or more."),
            Mistake(
                RULE.replace("MAX", "SUM"),
                "That sums up a payer's minute. One payment of 15 or more is meant.",
            ),
            Mistake(
                RULE.replace("payeeId", "beneficiaryId"), "That groups by who receives. Who pays is payeeId."
            ),
            Mistake(RULE.replace("(1)", "(60)"), "A number alone is minutes: that is an hour."),
        ),
    ),
    "7.2": Function(
        cases=(((200,), 300, "half of the running one, and all of its own"), ((100,), 150), ((0,), 0)),
        because="Half of the running one, and all of its own.",
        hints=(
            "It arrives somewhere in a running micro-batch, and is taken by the next one.",
            "On average half of the running micro-batch is still to come.",
        ),
        mistakes=(
            Mistake(lambda ms: ms / 2, "That is the wait for the next micro-batch. It also takes its time."),
            Mistake(
                lambda ms: ms,
                "That is its own micro-batch. Before that it waits for the end of the running one.",
            ),
            Mistake(lambda ms: 2 * ms, "That is the worst case: it came just as a micro-batch began."),
        ),
    ),
    "7.3": Function(
        cases=(
            (([A, B],), [A, B]),
            (([A, B, AGAIN],), [A, B], "the first one counts"),
            (([A, AGAIN, B],), [A, B], "the first one counts"),
            (([],), []),
        ),
        because="At least once and an id make exactly once.",
        hints=(
            "Remember the ids that have come. A set or a dictionary knows them.",
            "first.setdefault(alert['alertId'], alert) keeps the first of each; a dictionary keeps the order.",
        ),
        mistakes=(
            Mistake(lambda alerts: alerts, "Alerts that come again are still there."),
            Mistake(
                lambda alerts: list({alert["alertId"]: alert for alert in alerts}.values()),
                "Of each id the last one is left. The first is to be kept.",
            ),
            Mistake(
                lambda alerts: [next(same) for _, same in groupby(alerts, lambda alert: alert["alertId"])],
                "An alert may come again later, not only directly after the first.",
            ),
            Mistake(
                lambda alerts: [a for a in alerts if [b["alertId"] for b in alerts].count(a["alertId"]) == 1],
                "An alert that came twice is to be kept once.",
            ),
        ),
    ),
}
