"""The order of rows: what the user writes, taken apart."""

from __future__ import annotations

import pytest

from dagster_operators.errors import SchemaError
from dagster_operators.operators.relational.ranking import parse_order


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
