"""Rules that say more."""

from decimal import Decimal
from random import Random
from typing import Any

from lab.model.times import DAY_MS, HOUR_MS, MINUTE_MS
from lab.stream.accounts import ACCOUNT_EVENTS
from lab.teach.exercises.choosing import CHOOSE_NUMBER
from lab.teach.judge import FunctionExercise, Mistake
from lab.teach.rulejudge import AlertsOnRandomLogs, Log, RuleExercise

ACTIONS = (*["pay"] * 7, "deposit")
LAST = {"account": 9, "action": "signup"}
CARD_TESTING = (
    "COUNT(events where action = pay and amount <= 2) per account over 30 min >= 4, "
    "when action = pay and amount > 200"
)
NO_PAYMENT = "COUNT(events where action = pay) per account, payee over 365 d without the current event = 0"
LITTLE = "SUM(amount where action = pay) over 365 d without the current event < 10"
LARGE = "when action = pay and amount > 3000"
NEW_PAYEE = f"{NO_PAYMENT} or {LITTLE}, {LARGE}"
NO_LOGIN = "NO(events where action = login) per account within 15 min after, when action = reset"
TAKEN_OVER = (
    "SEQUENCE(action = reset, action = login without action = login_failed) per account over 30 min = 2, "
    "when action = withdraw"
)


def _event(account: int, action: str, amount: str = "", payee: int | None = None) -> dict[str, Any]:
    event: dict[str, Any] = {"account": account, "action": action, "payee": payee}
    return event | ({"amount": Decimal(amount)} if amount else {})


def _cards(random: Random, size: int) -> Log:
    """Small payments, and large ones about half an hour after the first of them."""
    steps = []
    for _ in range(random.choice((3, 4, 4, 5))):
        minute = random.choice((0, 0, 1, 5, 9, 20))
        steps.append(
            (
                minute * MINUTE_MS,
                _event(1, random.choice(ACTIONS), random.choice(("0.50", "1.00", "2.00", "2.00")), 901),
            )
        )
    for _ in range(size // 8):
        amount = random.choice(("1.00", "2.00", "2.01", "3.00", "150.00", "200.00", "300.00"))
        event = _event(
            random.choice((1, 1, 2)), random.choice(("pay", "pay", "deposit", "withdraw")), amount, 902
        )
        steps.append((random.randrange(30) * MINUTE_MS, event))
    after = random.choice((29 * MINUTE_MS, 30 * MINUTE_MS, 30 * MINUTE_MS, 30 * MINUTE_MS + 1_000))
    large = _event(
        1,
        random.choice(("pay", "pay", "pay", "withdraw")),
        random.choice(("200.00", "200.01", "480.00")),
        random.choice((901, 903)),
    )
    return [*steps, (after, large)]


def _payees(random: Random, size: int) -> Log:
    """Small payments to a payee, or none, and a large one up to a year after the first of them."""
    steps = []
    amounts = random.choice(
        ((), (), ("1.00",), ("9.99",), ("10.00",), ("5.00", "5.00"), ("4.00", "5.00"), ("3500.00",))
    )
    for number, amount in enumerate(amounts):
        steps.append((number * random.choice((MINUTE_MS, DAY_MS)), _event(1, "pay", amount, 901)))
    for _ in range(size // 10):
        amount = random.choice(("1.00", "50.00", "3500.00", "5000.00"))
        event = _event(
            random.choice((1, 2)), random.choice(("pay", "refund")), amount, random.choice((901, 902))
        )
        steps.append((random.randrange(300) * DAY_MS, event))
    after = random.choice((HOUR_MS, 364 * DAY_MS, 365 * DAY_MS, 365 * DAY_MS + 1_000, 366 * DAY_MS))
    action = random.choice(("pay", "pay", "pay", "refund"))
    return [
        *steps,
        (after, _event(1, action, random.choice(("3000.00", "3000.01", "3001.00", "3500.00")), 901)),
    ]


def _resets(random: Random, size: int) -> Log:
    """Resets, and what comes about a quarter of an hour after the first of them."""
    steps = [(0, _event(1, "reset"))]
    after = random.choice((0, 14 * MINUTE_MS, 15 * MINUTE_MS, 15 * MINUTE_MS + 1_000, 16 * MINUTE_MS))
    who = random.choice((1, 1, 2))
    steps.append(
        (
            after + random.choice((0, 1_000)) * (after == 0),
            _event(who, random.choice(("login", "login", "login_failed", "pay"))),
        )
    )
    for _ in range(size // 10):
        event = _event(random.choice((1, 2)), random.choice(("login", "login_failed", "reset", "pay")))
        steps.append((random.randrange(40) * MINUTE_MS, event))
    return steps


def _far_above(amounts: list, factor: int, least: int, current: int = 0, equal: bool = False) -> list[int]:
    found = []
    for n, amount in enumerate(amounts):
        history = amounts[: n + current]
        if history and len(history) >= least:
            usual = factor * sum(history)
            found += (
                [n] if amount * len(history) > usual or (equal and amount * len(history) == usual) else []
            )
    return found


def _amounts(random: Random, size: int) -> tuple:
    amounts = [random.choice((1, 2, 4, 10, 20, 50, 200)) for _ in range(2 + size // 4)]
    if size % 3 == 0:
        amounts.sort()  # each is above what was usual
    return amounts, random.choice((1, 2, 3, 5, 10)), random.choice((1, 2, 3, 5))


def _resets_and_logins(random: Random, size: int) -> Log:
    """A reset, a login and perhaps a wrong password, and a withdrawal about half an hour after the reset."""
    login, wrong = random.sample(range(1, 25), 2)
    reset = random.choice((0, 0, 0, 0, 12))
    steps = [
        (reset * MINUTE_MS, _event(1, random.choice(("reset", "reset", "reset", "reset", "pay")))),
        (login * MINUTE_MS, _event(1, random.choice(("login", "login", "login", "pay")))),
    ]
    if random.random() < 0.35:
        steps.append((wrong * MINUTE_MS, _event(random.choice((1, 1, 2)), "login_failed")))
    for _ in range(size // 10):
        event = _event(random.choice((1, 2)), random.choice(("login", "reset", "pay", "withdraw")))
        steps.append((random.randrange(40) * MINUTE_MS + 7_000, event))
    after = random.choice((26, 29, 30, 30, 31)) * MINUTE_MS + random.choice((0, 0, 0, 1_000))
    last = random.choice((*["withdraw"] * 5, "pay"))
    return [
        *steps,
        (after, _event(random.choice((1, 1, 1, 1, 1, 2)), last, "300.00", random.choice((None, 901)))),
    ]


_of_cards = AlertsOnRandomLogs("card_testing", ACCOUNT_EVENTS, _cards, LAST)
_of_payees = AlertsOnRandomLogs("new_payee", ACCOUNT_EVENTS, _payees, LAST)
_of_resets = AlertsOnRandomLogs("no_login", ACCOUNT_EVENTS, _resets, LAST)
_of_logins = AlertsOnRandomLogs("taken_over", ACCOUNT_EVENTS, _resets_and_logins, LAST)

EXERCISES = {
    "10.1": RuleExercise(
        right=lambda: _of_cards(CARD_TESTING),
        read=_of_cards,
        because="Small payments count, and only a large one may alert.",
        hints=(
            "Which events count goes into the brackets: COUNT(events where …). Which event may alert goes to the end: , when …",
            "COUNT(events where action = … and amount <= …) per … over … >= …, when action = … and amount > …",
        ),
        mistakes=(
            Mistake(
                CARD_TESTING.partition(",")[0],
                "Without when, the rule alerts at every event after the fourth small payment. Only a large payment may alert.",
            ),
            Mistake(
                CARD_TESTING.replace(" where action = pay and amount <= 2", ""),
                "That counts every event of the account. Only small payments count: COUNT(events where …).",
            ),
            Mistake(
                CARD_TESTING.replace(
                    " where action = pay and amount <= 2)", ") where action = pay and amount <= 2"
                ),
                "After the brackets, where is a filter: the rule does not see the large payment at all, and never alerts.",
            ),
            Mistake(
                CARD_TESTING.replace(">= 4", "> 4"),
                "That asks for five small payments. Four are enough: >= 4.",
            ),
            Mistake(
                CARD_TESTING.replace("action = pay and amount <= 2", "amount <= 2"),
                "A small deposit is not a payment: where must also ask for the action.",
            ),
            Mistake(
                CARD_TESTING.replace("when action = pay and amount", "when amount"),
                "A large withdrawal is not a payment: when must also ask for the action.",
            ),
            Mistake(CARD_TESTING.replace("> 200", ">= 200"), "A payment of exactly 200 is not above 200."),
            Mistake(CARD_TESTING.replace("<= 2)", "< 2)"), "A payment of exactly 2 is small, too."),
            Mistake(
                CARD_TESTING.replace("per account", "per account, payee"),
                "With the payee as a key, the small payments and the large one are in different groups. Group by account alone.",
            ),
        ),
    ),
    "10.2": FunctionExercise(
        cases=(
            (([10, 10, 10, 60], 5, 3), [3], "60 is more than five times 10"),
            (([10, 10, 10, 50], 5, 3), [], "exactly five times is not more"),
            (([], 5, 3), [], "no payments"),
            (([1] * 150 + [2**32], 2, 3), [150]),
            (([10, 10, 60, 10], 5, 3), [], "when 60 comes, there are only two earlier payments"),
            (
                ([1, 1, 1, 100, 101], 3, 2),
                [3, 4],
                "the first large payment raises the average for the second",
            ),
        ),
        right=_far_above,
        draw=_amounts,
        any_order=True,
        because="Each payment is compared with what was usual before it.",
        hints=(
            "The payments before payment n are amounts[:n]. If there are fewer than `least` of them, there is no alert.",
            "Alert if amount > factor * sum(earlier) / len(earlier). Collect the places n in a list.",
        ),
        mistakes=(
            Mistake(
                lambda amounts, factor, least: _far_above(amounts, factor, least + 1, current=1),
                "The average must not contain the payment itself: a large payment would raise its own limit.",
            ),
            Mistake(
                lambda amounts, factor, least: _far_above(amounts, factor, least, current=1),
                "Neither the average nor the number of payments may contain the payment itself.",
            ),
            Mistake(
                lambda amounts, factor, least: _far_above(amounts, factor, least, equal=True),
                "Exactly `factor` times the average is not more than it.",
            ),
            Mistake(
                lambda amounts, factor, least: _far_above(amounts, factor, 1),
                "A payment with fewer than `least` payments before it raises no alert.",
            ),
            Mistake(
                lambda amounts, factor, least: _far_above(amounts, factor, least + 1),
                "Exactly `least` earlier payments are enough.",
            ),
        ),
    ),
    "10.3": RuleExercise(
        right=lambda: _of_payees(NEW_PAYEE),
        read=_of_payees,
        because="A sum over nothing has no value, so the count says the first half of the sentence.",
        hints=(
            "Two conditions joined by or, both over 365 d without the current event: a COUNT that is 0, a SUM that is below 10.",
            "COUNT(events where …) per account, payee over … = 0 or SUM(amount where …) over … < 10, when …. Only the first condition names the keys.",
        ),
        mistakes=(
            Mistake(
                f"{NO_PAYMENT}, {LARGE}",
                "That is the rule of the text. A test payment of 1.00 is enough to get past it.",
            ),
            Mistake(
                f"{LITTLE.replace(' over', ' per account, payee over')}, {LARGE}",
                "If the account has paid this payee nothing, there is nothing to sum: the SUM has no value, and the condition does not hold.",
            ),
            Mistake(
                f"{NO_PAYMENT} and {LITTLE}, {LARGE}",
                "That never alerts. With and, no payment meets both conditions.",
            ),
            Mistake(
                NEW_PAYEE.replace(" without the current event", ""),
                "That never alerts. The current event counts as well: its own amount is part of the sum, and the count is never 0.",
            ),
            Mistake(
                NEW_PAYEE.replace("account, payee", "account"),
                "Per account, the rule asks for the account's first payment to anybody. The payee must be a key, too.",
            ),
            Mistake(NEW_PAYEE.replace("< 10", "<= 10"), "Exactly 10 is not less than 10."),
            Mistake(
                NEW_PAYEE.replace(f", {LARGE}", ""),
                "Without when, small payments alert, too. Only a payment above 3,000 may alert.",
            ),
            Mistake(
                NEW_PAYEE.replace("(events where action = pay)", "(events)").replace(
                    "(amount where action = pay)", "(amount)"
                ),
                "A refund is not a payment: where must ask for the action, in both conditions.",
            ),
        ),
    ),
    "10.4": RuleExercise(
        right=lambda: _of_resets(NO_LOGIN),
        read=_of_resets,
        because="A reset begins to wait, and only a login ends the wait.",
        hints=(
            "A rule about absence begins with NO(events where …): here stands what does not come.",
            "NO(events where action = …) per … within … after, when action = …. The condition after when says which events begin to wait.",
        ),
        mistakes=(
            Mistake(
                NO_LOGIN.replace(" where action = login", ""),
                "That waits for any event. Only a login ends the wait: NO(events where …).",
            ),
            Mistake(
                NO_LOGIN.partition(",")[0],
                "Without when, every event of the account begins to wait. Only a reset should.",
            ),
            Mistake(
                "NO(events where action = reset) per account within 15 min after, when action = login",
                "That is the other way round: a login after which no reset comes.",
            ),
            Mistake(
                NO_LOGIN.replace("action = login)", "action in (login, login_failed))"),
                "A wrong password is not a login: it does not end the wait.",
            ),
            Mistake(
                NO_LOGIN.replace(" per account", ""),
                "Without a key, the login of any account ends the wait. Group by account.",
            ),
            Mistake(
                NO_LOGIN.replace("15 min", "15 h"),
                "That waits for hours. The rule should wait for 15 minutes: 15 min.",
            ),
        ),
    ),
    "10.5": RuleExercise(
        right=lambda: _of_logins(TAKEN_OVER),
        read=_of_logins,
        because="The steps are taken in their order, and a wrong password ends them.",
        hints=(
            "The steps stand in the brackets, in their order: SEQUENCE(…, … without …). Which event may alert goes to the end: , when …",
            "SEQUENCE(action = …, action = … without action = …) per … over … = 2, when action = …",
        ),
        mistakes=(
            Mistake(
                TAKEN_OVER.replace(" without action = login_failed", ""),
                "A wrong password after the reset ends the steps: name it after without.",
            ),
            Mistake(
                TAKEN_OVER.replace("reset, action = login w", "login, action = reset w"),
                "That is the other order: a login, and then the reset.",
            ),
            Mistake(
                "COUNT(events where action = reset) per account over 30 min >= 1 and COUNT(events where action = login) over 30 min >= 1 "
                "and COUNT(events where action = login_failed) over 30 min = 0, when action = withdraw",
                "Counts do not know what came first: they also alert at a login before the reset.",
            ),
            Mistake(
                TAKEN_OVER.replace("= 2,", ">= 1,"),
                "The reset alone makes the value 1. Both steps make it 2.",
            ),
            Mistake(
                TAKEN_OVER.replace(", when action = withdraw", ""),
                "Without when, any event after the two steps alerts, and the login itself. Only a withdrawal may.",
            ),
            Mistake(
                TAKEN_OVER.replace(" per account", ""),
                "Without a key, the reset of one account and the login of another are a sequence. Group by account.",
            ),
            Mistake(
                TAKEN_OVER.replace("30 min", "30 h"),
                "That looks back for hours. The steps must be taken within 30 minutes: 30 min.",
            ),
        ),
    ),
    "10.6": CHOOSE_NUMBER,
}
