"""Unions of unions are joined however one of them could be copied to all parts."""

from __future__ import annotations

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram

KINDS = ("join", "left_outer_join", "right_outer_join", "full_outer_join")


def _twice(rows):
    return rows.union(rows)


SHAPES = {
    "three": lambda rows: rows.union(rows).union(rows),
    "two pairs": lambda rows: _twice(rows).union(_twice(rows)),
    "a pair twice": lambda rows: _twice(_twice(rows)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_of_a_union_meets_its_partner(kind: str, shape: str) -> None:
    program = LocalProgram(2)
    rows = program.rows([(1, "a"), (2, "b")], schema="k long, v string")
    united = SHAPES[shape](rows)
    times = len(program.collect(united)) // 2
    for first, second in ((united, rows), (rows, united)):
        joined = getattr(first, kind)(second).where("k").equal_to("k").project_first("k").project_second("v").data_set()
        assert sorted(map(tuple, program.collect(joined))) == [(1, "a")] * times + [(2, "b")] * times
