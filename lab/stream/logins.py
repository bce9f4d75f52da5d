"""Seeded logins: ordinary sessions with planted attacks."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lab.model.times import MINUTE_MS
from lab.stream.simulate import (
    START_MS,
    EpisodeLabel,
    Event,
    Labelled,
    Script,
    amount_from_minor_units,
    assign_ids_and_times,
    merge_by_start,
    merge_scripts,
    random_generators,
    tick_times,
    to_json,
)

COUNTRIES = ("KR", "JP", "US", "DE", "BR", "IN", "FR", "VN")
DEVICES = ("android", "ios", "windows", "mac", "linux")
EPISODES = ("guessing_one_ip", "guessing_many_ips", "stuffing", "takeover", "traveller")  # the last: harmless


@dataclass(frozen=True)
class LoginPlace:
    """The address, device and country of a user's actions."""

    ip: str
    device: str
    country: str

    def event(self, user: int, action: str, minor_units: int | None = None) -> Event:
        paid = None if minor_units is None else amount_from_minor_units(minor_units)
        return {"userId": user, "action": action, **vars(self), "amount": paid}


class LoginScripts:
    """Makes the scripts of logins: ordinary sessions, and planted episodes."""

    id_field, time_field, kinds = "eventId", "eventTime", EPISODES
    to_line = staticmethod(to_json)

    def __init__(self, seed: int, users: int = 2_000):
        self.random, self._planted, self.disorder = random_generators(seed)
        self._homes = [self._home() for _ in range(users)]

    def _home(self) -> LoginPlace:
        rng = self.random
        ip = f"198.18.{rng.randrange(256)}.{rng.randrange(1, 255)}"
        return LoginPlace(ip, rng.choice(DEVICES), rng.choice(COUNTRIES))

    def ordinary_script(self, time: int) -> Script:
        """An ordinary session: sometimes a wrong password or a reset, a login, and up to three payments."""
        rng, homes = self.random, self._homes
        user = rng.randrange(len(homes))
        actions = ["login_failed"] * rng.choices((0, 1, 2), (88, 11, 1))[0]
        actions += ["password_reset"] * (len(actions) == 2) + ["login"]
        steps = [(i * 15_000, homes[user].event(user, action)) for i, action in enumerate(actions)]
        for i in range(1, 1 + rng.choices((0, 1, 2, 3), (40, 35, 20, 5))[0]):
            cents = rng.randint(5_00, 150_00)
            steps.append((i * 4 * MINUTE_MS, homes[user].event(user, "payment", cents)))
        return time, steps, None

    def planted_script(self, number: int, start: int, kind: str) -> Script:
        """The actions of an episode, from `start` on."""
        rng, users, homes = self._planted, len(self._homes), self._homes
        user = rng.randrange(users)
        who: dict[str, int | str] = {"userId": user}
        at_home, country = homes[user], rng.choice([c for c in COUNTRIES if c != homes[user].country])
        ips = [f"203.0.113.{host}" for host in rng.sample(range(1, 255), 20)]
        away, *others = [LoginPlace(ip, rng.choice(DEVICES), country) for ip in ips]
        if kind == "guessing_one_ip":  # 8-20 wrong passwords, one each 10 s, and then perhaps the right one
            steps = [(i * 10_000, away.event(user, "login_failed")) for i in range(rng.randint(8, 20))]
            steps += [(steps[-1][0] + 10_000, away.event(user, "login"))] * rng.randint(0, 1)
        elif kind == "guessing_many_ips":  # a botnet guesses, and logs in from six addresses when it knows
            steps = [(i * 12_000, bot.event(user, "login_failed")) for i, bot in enumerate(others)]
            steps += [(240_000 + i * 20_000, bot.event(user, "login")) for i, bot in enumerate(others[:6])]
        elif kind == "stuffing":  # one address tries a list of stolen passwords, one per user
            who, victims = {"ip": away.ip}, rng.sample(range(users), 15)
            steps = [(i * 8_000, away.event(victim, "login_failed")) for i, victim in enumerate(victims)]
        elif kind == "takeover":  # at home; then from abroad: login, new password, money gone
            later = rng.randint(10, 30) * MINUTE_MS
            steps = [(0, at_home.event(user, "login")), (later, away.event(user, "login"))]
            steps.append((later + 60_000, away.event(user, "password_reset")))
            for offset in (180_000, 240_000):
                steps.append((later + offset, away.event(user, "payment", rng.randint(400_00, 900_00))))
        elif kind == "traveller":  # harmless: the own device shows up in another country
            away = LoginPlace(away.ip, at_home.device, country)
            steps = [(0, at_home.event(user, "login")), (40 * MINUTE_MS, away.event(user, "login"))]
            steps.append((43 * MINUTE_MS, away.event(user, "payment", rng.randint(5_00, 150_00))))
        else:
            raise ValueError(f"unknown episode kind {kind!r}: one of {', '.join(EPISODES)}")
        return start, steps, EpisodeLabel(number, kind, tuple(who.items()), fraud=kind != "traveller")


def labelled_logins(
    seed: int,
    events: int | None,
    start_ms: int = START_MS,
    rate_per_s: float = 0.02,
    users: int = 2_000,
    planted_after_ms: Iterable[tuple[int, str]] = (),
) -> Iterator[Labelled]:
    """`logins`, each with the label of its episode (None: an ordinary session)."""
    make = LoginScripts(seed, users)
    scripts = merge_by_start(
        map(make.ordinary_script, tick_times(make.random, start_ms, rate_per_s, ())),
        (
            make.planted_script(number, start_ms + at, kind)
            for number, (at, kind) in enumerate(planted_after_ms, start=1)
        ),
    )
    return itertools.islice(
        assign_ids_and_times(make.disorder, merge_scripts(scripts), make.id_field), events
    )


def logins(seed: int, events: int | None, **settings) -> Iterator[Event]:
    """Login sessions, `rate_per_s` of them, with the episodes `planted_after_ms` among them: `(ms after start_ms, kind)`.

    `settings` are those of `labelled_logins`; `events=None` is endless; `planted_after_ms` is in order of time.
    Addresses are from ranges reserved for tests and documentation.
    """
    return (event for event, _ in labelled_logins(seed, events, **settings))
