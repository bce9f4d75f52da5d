"""Nested orders as a company's shop would write them: what `lab infer` is for."""

import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

SEOUL = timezone(timedelta(hours=9))


def orders(count: int, seed: int = 7) -> Iterator[str]:
    """Orders as JSON lines: text ids, times with a zone, amounts, booleans, nulls, lists, and a field that comes late."""
    draw, at = random.Random(seed), datetime(2024, 5, 1, 9, tzinfo=SEOUL)
    for number in range(count):
        at += timedelta(milliseconds=draw.randrange(200, 20_000))
        amount = round(draw.uniform(5, 900), 2)
        order = {
            "id": f"A-{1000 + number}",
            "placedAt": at.isoformat(timespec="milliseconds"),
            "total": {"amount": amount, "currency": "EUR"},
            "gift": draw.random() < 0.1,
            "items": [{"sku": "x", "count": draw.randrange(1, 4)}],
        }
        if number > count // 2 and draw.random() < 0.2:
            order["discount"] = {"percent": draw.randrange(5, 30)}
        address = {"city": draw.choice(["Seoul", "Busan", "Köln"]), "zip": f"{draw.randrange(99999):05}"}
        customer = {"id": draw.randrange(1, 40), "address": address}
        channel = draw.choice(["web", "app", None])
        yield json.dumps({"order": order, "customer": customer, "channel": channel, "coupon": None})
