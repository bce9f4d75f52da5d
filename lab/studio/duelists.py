"""Programs that play a duel: thieves that learn from refusals, and defenders that learn from claims.

A program is a generator over its side of a round; each `yield` lets a second pass. A thief's side shows no rule, no alert and
no other payment; a defender's shows no stolen account until its owner claims a payment.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

from lab.model.formatting import unknown_name_message
from lab.studio.duel import SECONDS, DuelRound, DuelScore


class ThiefSide:
    """What a thief's program sees and does."""

    def __init__(self, duel: DuelRound):
        self.steal, self.mules, self.random = duel.steal, duel.mules, duel.random
        self._duel = duel

    @property
    def balances(self) -> dict[int, Decimal]:
        """What is left on each stolen account that is not empty."""
        return {account: left for account, left in self._duel.balances.items() if left}


class DefenderSide:
    """What a defender's program sees and does."""

    def __init__(self, duel: DuelRound):
        self.tell, self.events, self.alerts = duel.tell, duel.events, duel.alerts
        self.shadow_alerts, self.shadow_trials = duel.shadow_alerts, duel.shadow_trials
        self._duel = duel

    @property
    def claims(self) -> list[dict[str, Any]]:
        """Stolen payments that owners have claimed by now."""
        return self._duel.claims


def burst(side: ThiefSide) -> Iterator[None]:
    """Empties one account after the other to one mule, and leaves an account at the first refusal."""
    for account in side.balances:
        while (left := side.balances.get(account)) and side.steal(
            account, side.mules[0], min(left, Decimal(1_000))
        ):
            yield
        yield


def drip(side: ThiefSide) -> Iterator[None]:
    """Pays from all accounts in turn; an account of which a payment is refused goes on with half as much, after ten rounds."""
    amounts, rests = dict.fromkeys(side.balances, Decimal(400)), dict.fromkeys(side.balances, 0)
    while side.balances:
        for account, left in side.balances.items():
            if rests[account]:
                rests[account] -= 1
            elif not side.steal(account, side.random.choice(side.mules), min(left, amounts[account])):
                amounts[account], rests[account] = max(amounts[account] // 2, Decimal(20)), 10
            yield


def spread(side: ThiefSide) -> Iterator[None]:
    """Pays little from every account to every mule, and gives up a mule after three refusals."""
    refusals = dict.fromkeys(side.mules, 0)
    while side.balances and refusals:
        account, mule = side.random.choice([*side.balances]), side.random.choice([*refusals])
        if not side.steal(account, mule, min(side.balances[account], Decimal(250))):
            refusals[mule] += 1
            if refusals[mule] == 3:
                del refusals[mule]
        yield


def nobody(side: DefenderSide) -> Iterator[None]:
    """Gives no rule."""
    yield


def tighten(side: DefenderSide) -> Iterator[None]:
    """Bounds what an account pays within a minute, and less after each five claims."""
    limit, seen = 3_000, 0
    side.tell(f"1: SUM(paymentAmount) per payeeId over 1 min > {limit}")
    while True:
        if len(side.claims) >= seen + 5 and limit > 400:
            seen, limit = len(side.claims), limit * 3 // 4
            side.tell(f"1: SUM(paymentAmount) per payeeId over 1 min > {limit}")
        yield


def list_mules(side: DefenderSide) -> Iterator[None]:
    """Refuses payments to whoever got a claimed one, and large sums to one who is not a shop."""
    listed = set[int]()
    side.tell("1: COUNT(events where beneficiaryId in @mules) per beneficiaryId over 1 min >= 1")
    side.tell("2: SUM(paymentAmount where beneficiaryId >= 1000) per payeeId over 1 min > 2500")
    while True:
        for number in sorted({claim["beneficiaryId"] for claim in side.claims} - listed):
            side.tell(f"add {number} to @mules")
            listed.add(number)
        yield


THIEVES: dict[str, Callable[[ThiefSide], Iterator[None]]] = {"burst": burst, "drip": drip, "spread": spread}
DEFENDERS: dict[str, Callable[[DefenderSide], Iterator[None]]] = {
    "nobody": nobody,
    "tighten": tighten,
    "list mules": list_mules,
}


def check_names(thief: str | None, defender: str | None) -> None:
    """Raises ValueError for a name that no program has; None is people."""
    for what, name, programs in (("thief", thief, [*THIEVES]), ("defender", defender, [*DEFENDERS])):
        if name is not None and name not in programs:
            raise ValueError(unknown_name_message(what, name, programs))


class Players:
    """The programs of a round, each None if people play that side; `advance` has them play until a second."""

    def __init__(self, duel: DuelRound, thief: str | None = None, defender: str | None = None):
        check_names(thief, defender)
        self._duel, self._second, self._playing = duel, 0, list[Iterator[None]]()
        if defender is not None:
            self._playing.append(DEFENDERS[defender](DefenderSide(duel)))
        if thief is not None:
            self._playing.append(THIEVES[thief](ThiefSide(duel)))

    def advance(self, to_s: float) -> None:
        """Lets customers pay until then, and each program play in each second that begins before."""
        while self._second < min(to_s, self._duel.seconds):
            self._duel.advance(self._second)
            for program in self._playing:
                with suppress(StopIteration):
                    next(program)
            self._second += 1
        self._duel.advance(to_s)


def duel(
    thief: str = "drip", defender: str = "list mules", rounds: int = 3, seed: int = 0, seconds: int = SECONDS
) -> list[DuelScore]:
    """The scores of rounds between two programs.

    >>> with_rule, without = (duel("burst", name, rounds=1, seconds=30)[0] for name in ("tighten", "nobody"))
    >>> with_rule.stolen < without.stolen
    True
    """
    scores = []
    for number in range(rounds):
        with DuelRound(seed + number, seconds) as played:
            Players(played, thief, defender).advance(seconds)
            scores.append(played.score)
    return scores
