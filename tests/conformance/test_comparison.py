"""The page of what Sail gives differently is what the engines give now."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.aggregates import CALLS, OVER_LARGE, answers_of, write_rows
from tests.conformance.comparison import PAGE, REFUSED, answers, expressions, one_row
from tests.conformance.page import AGGREGATES, PARQUET, asked_of, page
from tests.conformance.parquet_types import read_as, write_files
from tests.engines import EMBEDDED, SAIL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


def _rows(text: str, cells: int) -> list[Sequence[str]]:
    """The rows of tables with so many columns, without backticks."""
    found = re.findall("^" + r"\| `((?:[^|]|\\\|)+)` " * cells + r"\|$", text, re.MULTILINE)
    return [[cell.replace("\\|", "|") for cell in row] for row in found]


def _parts() -> tuple[str, str, str]:
    """Of the page: expressions, aggregates, and columns of files."""
    expressions_part, _, rest = PAGE.read_text(encoding="utf-8").partition(AGGREGATES)
    aggregates_part, _, columns_part = rest.partition(PARQUET)
    return expressions_part, aggregates_part, columns_part


def told() -> dict[str, tuple[str, str]]:
    """The answers of Spark and Sail to the expressions on the page."""
    return {expression: (spark, sail) for expression, spark, sail in _rows(_parts()[0], 3)}


def aggregates_told() -> dict[str, tuple[str, str, str]]:
    """Of the aggregates on the page, a group of rows and the answers of Spark and Sail."""
    return {call: (group, spark, sail) for call, group, spark, sail in _rows(_parts()[1], 4)}


def columns_told() -> list[tuple[str, str]]:
    """The types of columns in files and in schemas that only Spark reads."""
    return [(file, declared) for file, declared, _, _ in _rows(_parts()[2], 4)]


def test_each_expression_is_asked_once() -> None:
    asked = [expression for expression, _ in expressions()]
    assert len(asked) >= 300
    assert len(set(asked)) == len(asked)
    assert told().keys() <= set(asked)
    assert len(set(CALLS)) == len(CALLS)
    assert len(told()) > 100
    assert aggregates_told()
    assert columns_told()


def test_sail_still_gives_what_the_page_says(sail: SparkSession, tmp_path: Path) -> None:
    """Without Spark: those that are different, so that a newer Sail shows."""
    page_says = told()
    wanted = [(expression, alone) for expression, alone in expressions() if expression in page_says]
    found = answers(
        one_row(sail, tmp_path), [(expression, alone or REFUSED in page_says[expression]) for expression, alone in wanted]
    )
    assert {one: answer or "''" for one, answer in found.items()} == {one: sail for one, (_, sail) in page_says.items()}


def test_sail_still_gives_what_the_page_says_of_aggregates(sail: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path)
    page_says = aggregates_told()
    large = [call for call, (group, _, _) in page_says.items() if group == "large"]
    assert set(large) <= set(OVER_LARGE)
    found = answers_of(sail, tmp_path, [call for call in page_says if call not in large], large)
    assert {call: found[call].get(group, REFUSED) for call, (group, _, _) in page_says.items()} == {
        call: answer for call, (_, _, answer) in page_says.items()
    }


def test_sail_still_reads_no_columns_that_the_page_says_it_does_not(sail: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path)
    found = read_as(sail, tmp_path, columns_told())
    assert {found.get(pair, REFUSED) for pair in columns_told()} == {REFUSED}


@pytest.mark.slow
@pytest.mark.timeout(900)  # some thousand questions to each engine
@pytest.mark.usefixtures("spark", "sail")
def test_the_page_is_current(tmp_path: Path) -> None:
    found = []
    for engine in (EMBEDDED, SAIL):  # whose session makes PySpark's functions those of its kind
        (tmp_path / engine.name).mkdir()
        found.append(asked_of(engine.session(), tmp_path / engine.name))
    assert page(*found, version("pysail")) == PAGE.read_text(encoding="utf-8")
