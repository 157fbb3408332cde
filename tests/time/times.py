"""Times and summaries of every kind for the property tests, small enough that many can be compared."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dagster_operators.time import Product
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

laws = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Fresh examples each time, however busy the machine is."""

small = st.integers(0, 5)
pairs = st.tuples(small, small)
products = st.builds(Product, small, small)
nested = st.builds(Product, products, pairs)
KINDS = {"whole numbers": small, "tuples": pairs, "products": products, "nested products": nested}

of_one_kind = st.sampled_from(list(KINDS.values()))
"""Times of a kind, to draw from."""

anywhere = st.integers(MIN_WATERMARK, MAX_WATERMARK) | st.integers(-5, 5)
"""Whole numbers up to the ends of time."""


def parts(time: object) -> tuple[int, ...]:
    """The whole numbers that a time is made of: times are ordered as these are, component by component."""
    if isinstance(time, Product):
        return (*parts(time.outer), *parts(time.inner))
    if isinstance(time, tuple):
        return tuple(number for part in time for number in parts(part))
    assert isinstance(time, int)
    return (time,)


def before(one: object, other: object) -> bool:
    """Whether a time is another one or before it, by definition."""
    return all(a <= b for a, b in zip(parts(one), parts(other), strict=True))


def least(times: object) -> set[object]:
    """The least of some times, by definition."""
    found = set(times)  # type: ignore[call-overload]
    return {time for time in found if not any(other != time and before(other, time) for other in found)}
