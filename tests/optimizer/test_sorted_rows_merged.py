"""Rows that the user sorted in any direction are merged with rows in any other one."""

from __future__ import annotations

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram

ROWS = [(1, 1), (1, 2), (2, 1), (3, 3)]
WAYS = [("descending", "descending"), ("descending", "ascending")]


def _sorted(rows, ways):
    return rows.partition_by_hash(0, 1).sort_partition(0, ways[0]).sort_partition(1, ways[1])


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("kind", ["join", "left_outer_join", "right_outer_join", "full_outer_join", "co_group"])
def test_every_order_of_the_first_meets_every_order_of_the_second(kind: str, ways: tuple[str, str]) -> None:
    program = LocalProgram(2)
    rows = program.rows(ROWS, schema="a long, b long")
    for first, second in [
        (_sorted(rows, ways), rows),
        (rows, _sorted(rows, ways)),
        (_sorted(rows, ways), _sorted(rows, WAYS[0])),
    ]:
        if kind == "co_group":
            keyed = first.co_group(second).where(0, 1).equal_to(0, 1)
            met = keyed.with_function(lambda ones, others: zip(*ones, *others, strict=True), schema="a long, b long")
            expected = [pair for row in ROWS for pair in zip(row, row, strict=True)]
        else:
            keyed = getattr(first, kind)(second, "REPARTITION_SORT_MERGE").where(0, 1).equal_to(0, 1)
            met, expected = keyed.project_first(0, 1).project_second(0, 1).data_set(), [row + row for row in ROWS]
        assert sorted(map(tuple, program.collect(met))) == sorted(expected)
