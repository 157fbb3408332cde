"""Rows behind joins and co-groups are in the order that the plan claims, whichever side's fields go on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram

HINTS = ("OPTIMIZER_CHOOSES", "REPARTITION_SORT_MERGE", "REPARTITION_HASH_FIRST", "REPARTITION_HASH_SECOND")
KINDS = {"join": HINTS, "left_outer_join": HINTS[:2], "right_outer_join": HINTS[:2], "full_outer_join": HINTS[:2]}
CASES = [(kind, hint) for kind, hints in KINDS.items() for hint in hints]


def _text(rows):
    return [(rows[0][0], "".join(row[1] for row in rows))]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("side", ["project_first", "project_second"])
@pytest.mark.parametrize(("kind", "hint"), CASES)
def test_groups_behind_a_join_are_sorted(kind: str, hint: str, side: str, parallelism: int) -> None:
    """Each row of a key comes once for each row of the other side, so that the other side's order repeats."""
    program = LocalProgram(parallelism)
    rows = program.rows([(key, text) for text in "cab" for key in (2, 1)], schema="k long, v string")
    joined = getattr(getattr(rows, kind)(rows, hint).where(0).equal_to(0), side)(0, 1).data_set()
    texts = joined.group_by(0).sort_group(1).reduce_group(lambda group: _text(list(group)), schema="k long, v string")
    assert sorted(map(tuple, program.collect(texts))) == [(1, "aaabbbccc"), (2, "aaabbbccc")]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("side", ["first", "second"])
def test_rows_behind_a_co_group_are_sorted(side: str, parallelism: int) -> None:
    """Keys that one side alone has come in their place, or no order is claimed."""
    program = LocalProgram(parallelism)
    few = program.rows([(5, "x"), (3, "x")], schema="k long, v string")
    many = program.rows([(key, "y") for key in (4, 1, 5, 3, 2)], schema="k long, v string")
    first, second = (few, many) if side == "second" else (many, few)

    def those_of_many(firsts, seconds):
        yield from map(tuple, seconds if side == "second" else firsts)

    grouped = first.co_group(second).where(0).equal_to(0).with_function(those_of_many, schema="k long, v string")
    grouped = getattr(grouped, f"with_forwarded_fields_{side}")("k; v")
    keys = [row[0] for row in program.collect(grouped.sort_partition(0).set_parallelism(1))]
    assert all(before <= behind for before, behind in pairwise(keys))
    assert sorted(keys) == [1, 2, 3, 4, 5]
