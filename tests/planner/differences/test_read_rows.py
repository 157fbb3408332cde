"""What the condition of a join reads: the columns of both sides, with the types in which they are compared."""

from __future__ import annotations

import pytest

from dagster_operators.operators.joins.join import Join
from dagster_operators.planner.differences.read_rows import of_both
from dagster_operators.types.schema import Schema


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        ("k string, a int", "q string, b long", "k string, a int, q string, b long"),
        ("k long, a int", "q int, b string", "k long, a int, q long, b string"),
        ("k int, a int", "Q long, A string", "k long, a int, Q long"),
    ],
    ids=["alike", "wider", "twice"],
)
def test_each_column_is_there_once_as_it_is_compared(left: str, right: str, both: str) -> None:
    join = Join(name="both", keys=("k",), right_keys=("q",), condition="a = b")
    found = of_both(join, Schema.from_ddl(left).to_json(), Schema.from_ddl(right).to_json())
    assert Schema.from_json(found) == Schema.from_ddl(both)
