"""Times as text, for the columns of state tables."""

from __future__ import annotations

import json
from typing import Any

from dagster_operators.time.codec import decode_time, encode_time
from dagster_operators.time.timestamp import Time


def time_text(time: Time) -> str:
    """A time as text; equal times have equal texts.

    >>> from dagster_operators.time import Product
    >>> time_text(5), time_text(Product(1, (2, 3)))
    ('5', '{"outer":1,"inner":[2,3]}')
    """
    return json.dumps(encode_time(time), separators=(",", ":"))


def time_of(text: str) -> Any:
    """The time with this text.

    >>> time_of('{"outer":1,"inner":[2,3]}')
    Product(1, (2, 3))
    """
    return decode_time(json.loads(text))
