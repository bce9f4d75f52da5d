"""Percentiles of a list, as NumPy gives them by default."""

from collections.abc import Sequence


def percentile_texts(values: Sequence[float], percents: Sequence[float]) -> list[str]:
    """The percentiles for people; dashes if there are no values.

    >>> percentile_texts([1_000, 3_000], (50, 99)), percentile_texts([], (50, 99))
    (['2,000', '2,980'], ['–', '–'])
    """
    return [f"{value:,.0f}" for value in percentiles(values, percents)] if values else ["–"] * len(percents)


def percentiles(values: Sequence[float], percents: Sequence[float]) -> list[float]:
    """The percentiles of some values, of which there is at least one; between two of them in proportion.

    >>> percentiles([40, 10, 20, 30], (0, 50, 100))
    [10.0, 25.0, 40.0]
    """
    ascending, found = sorted(values), []
    for percent in percents:
        below, part = divmod(percent / 100 * (len(ascending) - 1), 1)
        low = ascending[int(below)]
        high = ascending[min(int(below) + 1, len(ascending) - 1)]
        found.append(float(low + (high - low) * part))
    return found
