"""Digests of sent messages: of their values alone, and of the order of each output."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.sent_messages import SentMessages
from dagster_operators.operators.events.value_digest import digest_of

VALUES: list[tuple[Any, list[Any]]] = [
    (pa.int8(), [1, 2, 0]),
    (pa.uint64(), [1, 2**64 - 1, 0]),
    (pa.float16(), [1.0, 2.0, 0.0]),
    (pa.float64(), [1.5, 2.5, 0.0]),
    (pa.bool_(), [True, False, False]),
    (pa.string(), ["a", "bc", ""]),
    (pa.large_string(), ["a", "bc", ""]),
    (pa.binary(), [b"a", b"bc", b""]),
    (pa.string_view(), ["a", "bc", ""]),
    (pa.binary(1), [b"a", b"b", b"\0"]),
    (pa.date32(), [date(2024, 1, 1), date(2024, 1, 2), date(1970, 1, 1)]),
    (pa.date64(), [date(2024, 1, 1), date(2024, 1, 2), date(1970, 1, 1)]),
    (pa.time32("s"), [1, 2, 0]),
    (pa.duration("us"), [1, 2, 0]),
    (pa.timestamp("us", "UTC"), [datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC), 0]),
    (pa.timestamp("s"), [2**40, 2**50, 0]),  # beyond Python's years
    (pa.decimal128(9, 2), [Decimal("1.5"), Decimal("2.5"), Decimal(0)]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", ""]),
    (pa.list_(pa.int8()), [[1], [2, None], []]),
    (pa.list_(pa.int8(), 1), [[1], [None], [0]]),
    (pa.map_(pa.string(), pa.int8()), [[("a", 1)], [("b", None)], []]),
    (pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x"]}, {"a": None, "b": None}, {}]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=str)
def test_a_digest_is_of_the_values(kind: Any, values: list[Any]) -> None:
    plain = pa.array([*values, None], kind)
    sliced = pa.array([values[1], *values, None, values[0]], kind).slice(1, 4)
    assert digest_of(plain) == digest_of(sliced)
    others = [
        pa.array(other, kind)
        for other in ([*values], [*values, values[2]], [None, *values], [values[1], values[0], values[2], None], [None] * 4, [])
    ]
    assert len({digest_of(one) for one in (plain, *others)}) == 1 + len(others)
    if not (pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or kind == pa.string_view()):
        valid = pa.array([True] * 3 + [False])
        beneath = pa.Array.from_buffers(kind, 4, [valid.buffers()[1], *pa.array([*values, values[0]], kind).buffers()[1:]])
        assert digest_of(beneath) == digest_of(plain)


def test_bytes_beneath_null_lists_and_structs_do_not_count() -> None:
    valid = pa.array([True, False]).buffers()[1]
    lists = pa.Array.from_buffers(
        pa.list_(pa.int8()), 2, [valid, pa.array([0, 1, 2], pa.int32()).buffers()[1]], children=[pa.array([5, 9], pa.int8())]
    )
    assert digest_of(lists) == digest_of(pa.array([[5], None], pa.list_(pa.int8())))
    kind = pa.struct([("a", pa.int8())])
    structs = pa.Array.from_buffers(kind, 2, [valid], children=[pa.array([5, 9], pa.int8())])
    assert digest_of(structs) == digest_of(pa.array([{"a": 5}, None], kind))


def test_outputs_may_take_turns_and_another_form_is_counted_only() -> None:
    def sent(*messages: tuple[str, int]) -> SentMessages:
        made = SentMessages()
        for output, value in messages:
            made.add(output, pa.array([value]))
        return made

    before = sent(("a", 1), ("b", 1), ("a", 2)).told()
    sent(("b", 1), ("a", 1), ("a", 2)).check(before, {})
    for other in (sent(("a", 2), ("a", 1), ("b", 1)), sent(("b", 2), ("b", 1), ("a", 1))):
        with pytest.raises(OperatorFailedError, match="it sent 3 messages with other values"):
            other.check(before, {})
        other.check([3, "of an earlier version"], {})
    with pytest.raises(OperatorFailedError, match="it sent 1 message where it had sent 3"):
        sent(("a", 1)).check([3, "of an earlier version"], {})
