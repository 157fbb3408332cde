"""Table functions and flat_map: rows in, rows out, names, outer, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa  # noqa: TC002 - annotations decide what a function is given
import pytest

from dagster_operators import MemorySource, Pipeline, udtf
from dagster_operators.errors import SchemaError, UserFunctionError
from tests.engines import ENGINES

LINES = [(1, "to be or"), (2, ""), (3, None), (4, "not")]
SCHEMA = "id long, text string"


def declare() -> None:
    @udtf("word string, position int")
    def split_words(text: pa.Array) -> Any:
        for line in text.to_pylist():
            yield None if line is None else [(word, n) for n, word in enumerate(line.split())]


def results(engine: str, root: Path, *calls: str, **settings: Any) -> list[list[Any]]:
    """The rows of a pipeline for each call, over two epochs."""
    pipeline = Pipeline("p", root=str(root), engine=ENGINES[engine])
    lines = pipeline.source("lines", MemorySource([LINES[:2], LINES[2:]], schema=SCHEMA))
    for number, call in enumerate(calls):
        lines.flat_map(call, **settings).drop("text").to_table(f"t{number}")
    pipeline.run_until_caught_up()
    return [sorted(tuple(row) for row in pipeline.read(f"t{number}").collect()) for number in range(len(calls))]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_each_row_becomes_its_rows(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    request.getfixturevalue(engine)
    declare()
    udtf("letter string", name="letters")(lambda text: [list((line or "")[:2]) for line in text.to_pylist()])
    words, renamed, letters, exploded = results(
        engine, tmp_path, "split_words(text)", "Split_Words(lower(text)) AS (w, `at`)", "letters(text)",
        "posexplode(split(text, ' ')) AS (n, part)",
    )  # fmt: skip
    assert words == renamed == [(1, "be", 1), (1, "or", 2), (1, "to", 0), (4, "not", 0)]
    assert letters == [(1, "o"), (1, "t"), (4, "n"), (4, "o")]
    assert exploded == [(1, 0, "to"), (1, 1, "be"), (1, 2, "or"), (2, 0, ""), (4, 0, "not")]


@pytest.mark.usefixtures("sail")
def test_outer_keeps_rows_without_any(tmp_path: Path) -> None:
    declare()
    assert results("sail", tmp_path, "split_words(text) AS (w, n)", outer=True)[0][3:] == [
        (2, None, None),
        (3, None, None),
        (4, "not", 0),
    ]


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (["a", "b"], "did not return"),
        (7, "not a list of rows"),
        ([[]], "returned 1 values for 2 rows"),
        ([[("a", "b", 1)]] * 2, "did not"),
    ],
)
def test_what_is_no_list_of_rows_is_told(returned: Any, problem: str, tmp_path: Path) -> None:
    udtf("word string, position int", name="broken")(lambda text: returned)
    with pytest.raises(UserFunctionError, match=problem):
        results("sail", tmp_path, "broken(text)")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("split_words(txt)", "uses column 'txt'"),
        ("split_words(text) AS (id, n)", "second column 'id'"),
        ("split_words(text) AS (w)", "2 columns and 1 names"),
        ("explode(split(text, ' '))", "no names"),
    ],
)
def test_names_are_checked_when_the_pipeline_is_built(call: str, problem: str) -> None:
    declare()
    lines = Pipeline("p", root="nowhere").source("lines", MemorySource([], schema=SCHEMA))
    with pytest.raises(SchemaError, match=problem):
        lines.flat_map(call)


def test_lineage_and_columns() -> None:
    declare()
    lines = Pipeline("p", root="nowhere").source("lines", MemorySource([], schema=SCHEMA))
    words = lines.flat_map("split_words(text)", name="words")
    assert words.columns == ("id", "text", "word", "position")
    node = words._dataflow.nodes["words"]
    assert node.operator.lineage([lines._type])["word"] == {(0, "text")}
