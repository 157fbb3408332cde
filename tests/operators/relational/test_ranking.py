"""The order of rows: what the user writes, taken apart."""

from __future__ import annotations

import pytest

from dagster_operators.errors import SchemaError
from dagster_operators.operators.relational.ranking import NUMBER, first_rows, parse_order


def test_directions_and_nulls_are_those_of_spark() -> None:
    assert [str(item) for item in parse_order("a, b DESC, c asc nulls last, d desc NULLS FIRST")] == [
        "a ASC NULLS FIRST",
        "b DESC NULLS LAST",
        "c ASC NULLS LAST",
        "d DESC NULLS FIRST",
    ]


def test_commas_within_brackets_do_not_separate() -> None:
    assert [item.expression for item in parse_order(["greatest(a, b) DESC", "m['x, y'], `c,d`"])] == [
        "greatest(a, b)",
        "m['x, y']",
        "`c,d`",
    ]


@pytest.mark.parametrize(("text", "problem"), [("a,,b", "empty"), ("", "empty"), ("a DESC DESC", "cannot be read|alias|not one")])
def test_what_is_no_order_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        parse_order(text)


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_comparison_is_an_order(engine: str, request: pytest.FixtureRequest) -> None:
    """Sail's planner fails where it stands in the order of a window."""
    rows = request.getfixturevalue(engine).createDataFrame(
        [("a", 1.0), ("a", 3.0), ("b", 0.0), ("b", 2.0)], "k string, `d e` double"
    )
    found = first_rows(rows, ["k"], parse_order("`d e` * 2 > `d e` DESC, `d e`, -`d e` < 0"), None, 1)
    assert sorted(found.collect()) == [("a", 1.0, 1), ("b", 2.0, 1)]
    assert found.columns == ["k", "d e", NUMBER]


ORDERS = [
    ("d double, n int", "d", [(-0.0, 2), (0.0, 1)], [1, 2]),
    ("d double, n int", "d DESC", [(-0.0, 1), (0.0, 2)], [1, 2]),
    ("d double, n int", "d * -1", [(0.0, 1), (-0.0, 2), (2.0, 3)], [3, 1, 2]),
    ("s struct<a: int, b: int>, n int", "s DESC", [((1, 2), 1), ((None, 5), 2), ((1, None), 3), (None, 4)], [1, 3, 2, 4]),
    ("s struct<a: int, b: int>, n int", "s NULLS LAST", [((1, 2), 1), ((None, 5), 2), (None, 3)], [2, 1, 3]),
    ("b binary, n int", "b", [(b"\xff", 1), (b"1", 2), (None, 3)], [3, 2, 1]),
    ("a array<int>, n int", "a NULLS LAST", [([2], 1), ([None], 2), ([1, None], 3), (None, 4)], [2, 3, 1, 4]),
    ("a array<int>, n int", "a DESC NULLS FIRST", [([2], 1), ([None], 2), ([1, None], 3), (None, 4)], [4, 1, 3, 2]),
    ("a array<int>, n int", "slice(a, 1, 1) NULLS LAST", [([2], 1), ([None], 2), ([1, None], 3), (None, 4)], [2, 3, 1, 4]),
]


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
def test_engines_have_one_order(engine: str, ties: bool, request: pytest.FixtureRequest) -> None:  # noqa: FBT001
    session = request.getfixturevalue(engine)
    for schema, by, given, wanted in ORDERS:
        rows = session.createDataFrame(given, schema)
        found = first_rows(rows, [], parse_order(by), None, len(given), ties=ties)
        places = [row[NUMBER] for row in sorted(found.collect(), key=lambda row: wanted.index(row["n"]))]
        equal = ties and schema.startswith("d double")
        assert len(set(places)) < len(places) if equal else places == [*range(1, len(given) + 1)], (by, places)
