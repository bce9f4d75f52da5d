"""A room for a duel: thieves pay from stolen accounts and see only refusals, defenders write rules at the desk.

clock ──► round, second by second ──┬──► thieves: accounts, mules, paid or refused
                                    ├──► defenders: desk, alerts, claims
                                    └──► everybody: time left, how many payments; at the end the judge's score
"""

import time
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from html import escape
from pathlib import Path

import ipywidgets as widgets

from lab.model.formatting import escape_control_characters, plain_text
from lab.model.language import say, translated
from lab.model.schema import PAYMENTS
from lab.past.backtest import Past
from lab.stream.background import HAS_THREADS
from lab.stream.simulate import START_MS, to_json
from lab.studio.duel import SECONDS, THEFTS_A_SECOND, DuelRound, DuelScore, judge
from lab.studio.duelbranch import duel_branch
from lab.studio.duelists import Players, check_names
from lab.widgets.look import StylesAndAccessibility, button, facts_html, sentence_html, styled
from lab.widgets.refreshingstatus import GOOD, WARNING, RefreshingStatus, State
from lab.widgets.ruledesk import RuleDesk
from lab.widgets.table import SelectableTable

SHOWN = 50  # of the newest alerts and claims, and answers to thieves
THIEVES_DO = "Choose an account and a mule, and pay: at most {count} payments a second. You see whether a payment is refused, and nothing of the rules."
DEFENDERS_DO = "Write rules: a payment at which one alerts is refused. Choose a claim to add who was paid to the list @mules, which a rule may name."
TRY_FIRST = "A rule in SHADOW, such as 2 SHADOW: SUM(paymentAmount) per payeeId over 1 min > 500, refuses nothing: try it on customers and thieves first, then activate it."
BY_PROGRAM = "A program plays this side: {name}."


class DuelRoom(widgets.VBox):
    """Rounds of a duel between people, or against programs (`lab.studio.duelists` has them by name).

    `folder`: keeps the logs of each round, in round-1, round-2 and so on, for `lab.judge`. `thieves`, `defenders`: one side alone with
    the clock, for a screen of its own; what thieves see names no rule.

    >>> room = DuelRoom(thief="burst", seconds=20, clock=iter(range(0, 100, 5)).__next__)
    >>> room.start.click()
    >>> room.desk.text.value = "SUM(paymentAmount) per payeeId over 1 min > 1500"
    >>> room.desk.publish.click()
    >>> for _ in range(5):
    ...     room.status.refresh_now()
    >>> len(room.scores), room.scores[0].used > 0
    (1, True)
    """

    def __init__(
        self,
        thief: str | None = None,
        defender: str | None = None,
        seconds: int = SECONDS,
        seed: int = 0,
        folder: str | Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        check_names(thief, defender)
        self._names, self._folder = (thief, defender), folder
        self.seconds, self.seed, self._clock = seconds, seed, clock
        self.scores: list[DuelScore] = []
        self.duel: DuelRound | None = None
        self.start = button(say("Start"), "play", self._begin, button_style="primary")
        self.status = RefreshingStatus([self._refresh], self._state)
        self.facts, self.said, self.results = widgets.HTML(), widgets.HTML(), widgets.HTML()
        head = styled(widgets.HBox([self.status, self.start]), "lab-head")
        thieves, defenders = self._make_thieves(), self._make_defenders()
        sides = widgets.Tab([thieves, defenders], titles=[say("Thieves"), say("Defenders")])
        self._make_branch()
        for_both = [self.said, self.results]
        self.thieves = widgets.VBox([head, *for_both, thieves, StylesAndAccessibility()])
        self.defenders = widgets.VBox([head, self.facts, *for_both, defenders, StylesAndAccessibility()])
        parts = [head, self.facts, *for_both, self.other_rules, sides]
        super().__init__([*parts, StylesAndAccessibility()])
        for screen in (self, self.thieves, self.defenders):
            screen.add_class("lab")

    def _make_thieves(self) -> widgets.VBox:
        self.accounts = SelectableTable([say("account"), say("left")], say("Stolen accounts"), (1,))
        self.mule = widgets.Dropdown(description=say("mule"))
        self.amount = widgets.Text(value="500", description=say("amount"))
        self.pay = button(say("Pay"), "money", self._steal, disabled=True)
        self.paid = widgets.HTML()
        self.answers = SelectableTable(
            [say("second"), say("account"), say("mule"), say("amount"), say("answer")], say("Answers"), (0, 3)
        )
        form = styled(widgets.HBox([self.mule, self.amount, self.pay]), "lab-tools")
        told = widgets.HTML(sentence_html(say(THIEVES_DO, count=THEFTS_A_SECOND)))
        moves = widgets.VBox([form, self.paid, self.answers], layout={"flex": "2 1 28em"})
        parts = [told, _beside(_titled("Stolen accounts", self.accounts), moves)]
        return widgets.VBox(self._of_program(self._names[0]) or parts)

    def _make_defenders(self) -> widgets.VBox:
        columns = [say("second"), say("payer"), say("paid"), say("amount")]
        self.claims = SelectableTable(columns, say("Claims"), (0, 3))
        self.claims.observe(self._list_mule, "selected")
        self.alerts = SelectableTable(
            [say("second"), say("rule"), say("group"), say("value")], say("Alerts"), (0, 3), (2,)
        )
        self.desk = RuleDesk()
        self._desk_box = widgets.VBox([self.desk])
        self.listed, self.trials = widgets.HTML(), widgets.HTML()
        known = _beside(_titled("Claims", self.claims), _titled("Alerts", self.alerts))
        told = widgets.HTML(sentence_html(say(DEFENDERS_DO)) + sentence_html(say(TRY_FIRST)))
        parts = [told, known, self.listed, self.trials, self._desk_box]
        return widgets.VBox(self._of_program(self._names[1]) or parts)

    def _make_branch(self) -> None:
        """What is asked after a round: the same once more, with other rules."""
        self.rules = styled(widgets.Textarea(rows=4, layout={"width": "100%"}), "lab-code")
        self.from_s = widgets.BoundedIntText(max=self.seconds, description=say("from second"))
        self.try_rules = button(say("Try"), "code-fork", self._branch)
        self.branch = widgets.HTML()
        told = widgets.HTML(f"<b>{say('The same round with other rules, one on each line')}</b>")
        form = widgets.HBox([self.from_s, self.try_rules])
        self.other_rules = widgets.VBox([told, self.rules, form, self.branch], layout={"display": "none"})

    def _of_program(self, name: str | None) -> list[widgets.Widget]:
        return [widgets.HTML(sentence_html(say(BY_PROGRAM, name=name)))] if name else []

    # -- a round ---------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begins the next round, with customers and accounts of its own and no rule."""
        self.end()
        number = len(self.scores)
        folder = Path(self._folder, f"round-{number + 1}") if self._folder else None
        self.duel = DuelRound(self.seed + number, self.seconds, folder)
        self._players, self._began, self._seen = Players(self.duel, *self._names), self._clock(), 0
        self._past, self._answered = Past(PAYMENTS), list[list[str]]()
        self.desk = RuleDesk(book=self.duel.book, past=self._past, answer=self.duel.tell)
        self._desk_box.children = [self.desk]
        self.mule.options, self.mule.value = self.duel.mules, self.duel.mules[0]
        self.answers.rows, self.claims.rows, self.alerts.rows, self.claims.selected = [], [], [], ""
        self.paid.value = self.listed.value = self.said.value = self.results.value = self.branch.value = ""
        self.other_rules.layout.display = "none"
        self.start.disabled, self.pay.disabled = True, False
        self._show_accounts()
        self.status.start()

    def _refresh(self) -> None:
        duel = self.duel
        if duel is None or duel.is_over:
            return
        self._players.advance(min(self._clock() - self._began, self.seconds))
        self._show()
        if duel.is_over:
            self._finish(duel)

    def _finish(self, duel: DuelRound) -> None:
        """The score, and the judge's, which counts the logs again with the engine."""
        self.scores.append(duel.score)
        self.start.description, self.start.disabled, self.pay.disabled = say("Next round"), False, True
        if HAS_THREADS:  # where there are none, there is no compiled engine either
            same = judge(duel.folder) == duel.score
            self.said.value = sentence_html(
                say(
                    "The engine has judged the logs again: the same."
                    if same
                    else "The engine has judged the logs again, and not the same: the logs have been changed."
                ),
                "good" if same else "bad",
            )
        items = "".join(f"<li>{escape(score.describe())}</li>" for score in self.scores)
        total = say("The bill of all rounds: {bill}", bill=f"{sum(score.bill for score in self.scores):,.2f}")
        self.results.value = f"<ol>{items}</ol><p><b>{total}</b></p>"
        judged = [rule for rule in duel.book.sorted() if rule.is_judged]
        self.rules.value = "\n".join(f"{rule.rule_id}: {rule.describe()}" for rule in judged)
        self.from_s.value, self.other_rules.layout.display = 0, None
        self.status.stop()

    def _branch(self) -> None:
        """The round that has ended, with the rules of the field from a second on."""
        duel = self.duel
        assert duel is not None
        # as bytes, which name no file
        rules = [line.encode() for line in map(str.strip, self.rules.value.splitlines()) if line]
        try:
            self.branch.value = duel_branch(duel.folder, rules, self.from_s.value)._repr_html_()
        except ValueError as error:
            self.branch.value = sentence_html(translated(str(error)), "bad")

    def end(self) -> None:
        """Ends the round and removes its logs, unless they are in a folder that was named."""
        self.status.stop()
        if self.duel:
            self.duel.close()

    def _state(self) -> State:
        if self.duel is None:
            return WARNING, say("not started")
        left = max(self.seconds - int(self.duel.now_s), 0)
        number = len(self.scores) + (not self.duel.is_over)
        return GOOD, say("round {number}: {time} left", number=number, time=f"{left // 60}:{left % 60:02}")

    # -- what is seen ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        duel = self.duel
        assert duel is not None
        new = duel.events[self._seen :]
        self._past.add([to_json(event) for event in new], [event["eventTime"] for event in new])
        self._seen = len(duel.events)
        self.desk.backtest.recompute_if_due()
        if self._names[1]:  # a program changes the rules
            self.desk.redraw()
        self.facts.value = facts_html(
            {
                say("payments"): (f"{len(duel.events):,}", say("by customers and by thieves")),
                say("refused"): (f"{len(duel.refused):,}", say("of both")),
                say("rules"): (f"{len(duel.book.rules):,}", say("in force")),
            }
        )
        self.claims.rows = [
            [str(claim["transactionId"]), _second(claim["eventTime"])]
            + [str(claim["payeeId"]), str(claim["beneficiaryId"]), f"{claim['paymentAmount']:,}"]
            for claim in reversed(duel.claims[-SHOWN:])
        ]
        self._show_alerts(duel)
        self._show_accounts()

    def _show_alerts(self, duel: DuelRound) -> None:
        """The newest alerts, those of the shadow among them, and what rules in SHADOW would have refused."""
        rows = [(alert, str(alert.rule_id)) for alert in duel.alerts[-SHOWN:]]
        rows += [(alert, say("{rule}, shadow", rule=alert.rule_id)) for alert in duel.shadow_alerts[-SHOWN:]]
        rows.sort(key=lambda row: row[0].event_time)
        self.alerts.rows = [
            [alert.alert_id, _second(alert.event_time), rule]
            + [escape_control_characters(alert.key), plain_text(alert.aggregate)]
            for alert, rule in rows[: -SHOWN - 1 : -1]
        ]
        self.trials.value = "".join(
            sentence_html(
                say(
                    "In SHADOW, rule {rule} would have refused {count} payments; {thefts} of them are known to be thefts.",
                    rule=rule_id,
                    count=f"{count:,}",
                    thefts=f"{thefts:,}",
                )
            )
            for rule_id, (count, thefts) in duel.shadow_trials().items()
        )

    def _show_accounts(self) -> None:
        assert self.duel is not None
        self.accounts.rows = [
            [str(account), str(account), f"{left:,}"] for account, left in self.duel.balances.items()
        ]

    def _steal(self) -> None:
        duel = self.duel
        assert duel is not None
        if not self.accounts.selected:
            self.paid.value = sentence_html(say("Choose an account first."), "bad")
            return
        try:
            account, amount = int(self.accounts.selected), Decimal(self.amount.value.strip())
            paid = duel.steal(account, self.mule.value, amount)
        except InvalidOperation:
            self.paid.value = sentence_html(say("The amount is no number, such as 500 or 12.50."), "bad")
            return
        except ValueError as error:
            self.paid.value = sentence_html(translated(str(error)), "bad")
            return
        answer = say("paid") if paid else say("refused")
        self.paid.value = sentence_html(answer, "good" if paid else "bad")
        row = [f"{duel.now_s:,.0f}", str(account), str(self.mule.value), f"{amount:,}", answer]
        self._answered.append([str(len(self._answered)), *row])
        self.answers.rows = self._answered[: -SHOWN - 1 : -1]
        self._show_accounts()

    def _list_mule(self, change: dict) -> None:
        """Adds who was paid in the claim that was chosen to the list @mules."""
        duel = self.duel
        number = next((row[3] for row in self.claims.rows if row[0] == change["new"]), "")
        if duel and number and not duel.is_over:
            duel.tell(f"add {number} to @mules")
            self.listed.value = sentence_html(say("Added {number} to @mules.", number=number), "good")


def _second(time_ms: int) -> str:
    return f"{(time_ms - START_MS) / 1000:,.0f}"


def _titled(name: str, table: SelectableTable) -> widgets.VBox:
    return widgets.VBox([widgets.HTML(f"<b>{say(name)}</b>"), table], layout={"flex": "1 1 20em"})


def _beside(*boxes: widgets.Widget) -> widgets.HBox:
    """Boxes side by side, below each other where there is no room."""
    return widgets.HBox(boxes, layout={"flex_flow": "row wrap", "align_items": "flex-start"})
