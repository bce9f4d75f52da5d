"""The distance of two places on the Earth, the same to the last bit on every machine.

place(52.52, 13.405)                  ──►   one integer: both angles in units of 10⁻⁷ degrees
metres_between(place, other)          ──►   255240

The Earth is a sphere here, so a distance is up to 0.6 % away from that along its real surface. Each step is one of integers, or one
that IEEE 754 rounds correctly (+ − × ÷ √), in this order; sine, cosine and arcsine are polynomials. So the metres are those of
the sphere, but for the rounding of angles, 1 cm, and that to whole metres.
"""

from math import sqrt

EARTH_M = 6_371_009.0  # the mean radius
DEGREE = 10_000_000
QUARTER = 90 * DEGREE
LONGITUDES = 4 * QUARTER + 1
PI = 3.141592653589793
RADIANS = PI / (2 * QUARTER)


def pack_place(latitude: int, longitude: int) -> int:
    """Two angles as one integer of 64 bits."""
    return (latitude + QUARTER) * LONGITUDES + longitude + 2 * QUARTER


def metres_between(place, other):
    """Along the great circle, in whole metres, a half rounded up. The window loop compiles this function as it stands.

    >>> berlin, hamburg = pack_place(525_200_000, 134_050_000), pack_place(535_500_000, 99_930_000)
    >>> metres_between(berlin, hamburg), metres_between(berlin, berlin)
    (255240, 0)
    """
    latitude, longitude = place // LONGITUDES - QUARTER, place % LONGITUDES - 2 * QUARTER
    other_latitude, other_longitude = other // LONGITUDES - QUARTER, other % LONGITUDES - 2 * QUARTER
    sines, cosines = (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
    for angle in (latitude, longitude, other_latitude, other_longitude):
        quarters = (angle + QUARTER // 2) // QUARTER
        t = (angle - quarters * QUARTER) * RADIANS  # at most an eighth of the circle from 0
        s = t * t
        sine = 1 - s / 110 * (1 - s / 156 * (1 - s / 210))
        sine = t * (1 - s / 6 * (1 - s / 20 * (1 - s / 42 * (1 - s / 72 * sine))))
        cosine = 1 - s / 90 * (1 - s / 132 * (1 - s / 182 * (1 - s / 240)))
        cosine = 1 - s / 2 * (1 - s / 12 * (1 - s / 30 * (1 - s / 56 * cosine)))
        if quarters % 2 == 1:
            sine, cosine = cosine, -sine
        if quarters % 4 >= 2:
            sine, cosine = -sine, -cosine
        sines = sines[1], sines[2], sines[3], sine
        cosines = cosines[1], cosines[2], cosines[3], cosine
    x, y, z = cosines[0] * cosines[1], cosines[0] * sines[1], sines[0]
    u, v, w = cosines[2] * cosines[3], cosines[2] * sines[3], sines[2]
    # squares of the chord through the sphere, and of the one to the opposite place: the shorter one is the more exact
    chord = (x - u) * (x - u) + (y - v) * (y - v) + (z - w) * (z - w)
    opposite = (x + u) * (x + u) + (y + v) * (y + v) + (z + w) * (z + w)
    sine = (
        sqrt(min(chord, opposite)) / 2
    )  # of half the angle, which is halved twice more: then few terms suffice
    for _ in range(2):
        sine = sine / sqrt(2 * (1 + sqrt(1 - sine * sine)))
    s = sine * sine
    arc = 1 + s * 81 / 110 * (1 + s * 121 / 156 * (1 + s * 169 / 210 * (1 + s * 225 / 272)))
    arc = sine * (1 + s / 6 * (1 + s * 9 / 20 * (1 + s * 25 / 42 * (1 + s * 49 / 72 * arc))))
    angle_m = 8 * arc * EARTH_M
    if opposite < chord:
        angle_m = PI * EARTH_M - angle_m
    return int(angle_m + 0.5)
