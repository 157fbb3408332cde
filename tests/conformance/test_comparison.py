"""The page of what Sail gives differently is what the engines give now."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.comparison import PAGE, REFUSED, answers, expressions, one_row, page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def told() -> dict[str, tuple[str, str]]:
    """The answers of Spark and Sail to the expressions on the page."""
    rows = re.findall(r"^\| `(.+)` \| (.+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = [[cell.replace("\\|", "|") for cell in row] for row in rows]
    return {expression: (spark.strip("`"), sail.strip("`")) for expression, spark, sail in shown}


def test_each_expression_is_asked_once() -> None:
    asked = [expression for expression, _ in expressions()]
    assert len(asked) >= 300
    assert len(set(asked)) == len(asked)
    assert told().keys() <= set(asked)


def test_sail_still_gives_what_the_page_says(sail: SparkSession, tmp_path: Path) -> None:
    """Without Spark: those that are different, so that a newer Sail shows."""
    page_says = told()
    wanted = [(expression, alone) for expression, alone in expressions() if expression in page_says]
    found = answers(
        one_row(sail, tmp_path), [(expression, alone or REFUSED in page_says[expression]) for expression, alone in wanted]
    )
    assert {one: answer or "''" for one, answer in found.items()} == {one: sail for one, (_, sail) in page_says.items()}


@pytest.mark.slow
def test_the_page_is_current(spark: SparkSession, sail: SparkSession, tmp_path: Path) -> None:
    found = [answers(one_row(session, tmp_path / name), expressions()) for name, session in (("spark", spark), ("sail", sail))]
    assert page(*found, version("pysail")) == PAGE.read_text(encoding="utf-8")
