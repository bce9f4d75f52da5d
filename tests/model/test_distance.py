"""Distances: those of a sphere, the same to the last bit in the reference, in the compiled loop and on other machines."""

import hashlib
import json
from math import atan2, cos, hypot, radians, sin
from random import Random

import pytest

from lab.engine.compiled.aggregates.pairs import _metres
from lab.model.distance import DEGREE, EARTH_M, QUARTER, metres_between, pack_place
from lab.model.field import Field
from lab.model.reference import Reference
from lab.model.schema import Schema

FIELDS = (
    *(Field("id", "long"), Field("at", "time", unit="ms"), Field("who", "string")),
    *(Field("lat", "decimal(18,10)"), Field("lon", "decimal(18,10)")),
)
PLACES = Schema(
    "places",
    FIELDS,
    id_fields=("id",),
    time_field="at",
    derived=(("spot", "place(lat, lon)"), ("far", "distance(lat, lon, 52.52, 13.405)")),
)


def pairs(count: int):
    """Pairs of places: anywhere, close to each other, nearly opposite, at poles and at the date line."""
    rng = Random(1)
    for number in range(count):
        latitude, longitude = rng.randint(-QUARTER, QUARTER), rng.randint(-2 * QUARTER, 2 * QUARTER)
        near = rng.choice([1, 1_000, DEGREE])
        other = [
            (rng.randint(-QUARTER, QUARTER), rng.randint(-2 * QUARTER, 2 * QUARTER)),
            (latitude + rng.randint(-near, near), longitude + rng.randint(-near, near)),
            (-latitude + rng.randint(-near, near), longitude + 2 * QUARTER + rng.randint(-near, near)),
            (rng.choice([-QUARTER, QUARTER]), rng.choice([-2 * QUARTER, 0, 2 * QUARTER])),
        ][number % 4]
        at = min(max(other[0], -QUARTER), QUARTER), (other[1] + 2 * QUARTER) % (4 * QUARTER) - 2 * QUARTER
        yield (latitude, longitude), at


def on_the_sphere(one: tuple, other: tuple) -> float:
    """Metres, by another formula."""
    vectors = []
    for latitude, longitude in ([radians(angle / DEGREE) for angle in each] for each in (one, other)):
        vectors.append((cos(latitude) * cos(longitude), cos(latitude) * sin(longitude), sin(latitude)))
    (a, b, c), (x, y, z) = vectors
    return atan2(hypot(b * z - c * y, c * x - a * z, a * y - b * x), a * x + b * y + c * z) * EARTH_M


def test_metres_are_those_of_the_sphere():
    for one, other in pairs(4_000):
        metres = metres_between(pack_place(*one), pack_place(*other))
        assert abs(metres - on_the_sphere(one, other)) < 0.5001
        assert metres == metres_between(pack_place(*other), pack_place(*one))
    assert [metres_between(pack_place(0, 0), pack_place(*to)) for to in ((0, 0), (0, 2 * QUARTER))] == [
        0,
        20015115,
    ]


def test_metres_are_the_same_everywhere():
    """As on the machine on which this was written, and where the loop is compiled."""
    found = [metres_between(pack_place(*one), pack_place(*other)) for one, other in pairs(2_000)]
    assert found == [_metres(pack_place(*one), pack_place(*other)) for one, other in pairs(2_000)]
    assert hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] == "9812919473832d63"


def test_what_is_no_place_on_the_earth_is_a_dead_letter():
    event = {"id": 1, "at": 0, "who": "a", "lat": "52.5199999996", "lon": "13.405"}
    assert PLACES.parse(json.dumps(event).encode())["far"] == 0
    for name, angle in (("lat", "90.0000001"), ("lon", "-180.0000001")):
        reference = Reference(PLACES)
        reference.event(json.dumps(event | {name: angle}).encode())
        (letter,) = reference.dead_letters
        assert letter["reason"].startswith(
            f"spot: {'latitude' if name == 'lat' else 'longitude'} {angle}, expected one from"
        )


@pytest.mark.parametrize("minutes, alerts", [(50, 1), (60, 0)])
def test_who_is_farther_away_than_one_can_fly_did_not_travel(minutes, alerts):
    """Berlin and Paris are 878 km apart."""
    reference = Reference(PLACES)
    text = (
        "1: DISTANCE(spot) per who over 1 d > 0.25 × CHANGE(at) over 1 d and DISTANCE(spot) over 1 d > 500000"
    )
    assert reference.control(text)["status"] == "accepted"
    for number, (minute, lat, lon) in enumerate([(0, "52.52", "13.405"), (minutes, "48.8566", "2.3522")]):
        event = {"id": number, "at": minute * 60_000, "who": "a", "lat": lat, "lon": lon}
        reference.event(json.dumps(event).encode())
    assert [alert.aggregate for alert in reference.alerts] == [877_465] * alerts
