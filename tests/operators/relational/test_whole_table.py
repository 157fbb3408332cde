"""All rows of a table of the pipeline as an operator's input: in each epoch what the table has behind it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import ENGINES, SAIL

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCHS: list[list[tuple[str, int]]] = [[("a", 1), ("b", 2)], [("a", 3)], [], [("b", 5), ("c", 7), ("c", 7)]]
OF: dict[str, Callable[[Any], Any]] = {
    "append": lambda rows: rows.to_table("t"),
    "updating": lambda rows: rows.key_by("k").aggregate(v="sum(v)").to_table("t"),
    "replaced": lambda rows: rows.to_table("t", mode="replace"),
    "partitioned": lambda rows: rows.to_table("t", partition_by=["k"]),
}


def build(root: Path, of: str, engine: str = "sail", epochs: Any = EPOCHS, *, reads: bool = True) -> do.Pipeline:
    made = do.Pipeline("p", root=str(root), engine=ENGINES[engine])
    OF[of](made.source("rows", do.MemorySource(epochs, schema="k string, v long")))
    if reads:
        made.table("t").data_set().group_by("k").sum("v").to_stream(name="sums").to_table("sums", mode="replace")
    return made


def check(made: do.Pipeline) -> None:
    """The sums are those of the rows that the table has."""
    expected = Counter[str]()
    for row in made.to_arrow("t").to_pylist():
        expected[row["k"]] += row["v"]
    found = made.to_arrow("sums").to_pylist()
    assert {row["k"]: row["v"] for row in found} == dict(expected)
    assert len(found) == len(expected)


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize("of", list(OF))
def test_all_rows_are_read_in_each_epoch(of: str, engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(engine)
    made = build(tmp_path, of, engine)
    for _ in EPOCHS:
        made.run_epoch()
        check(made)
    assert len(made.to_arrow("t")) == {"updating": 3, "replaced": 3}.get(of, 6)


@pytest.mark.sail
@pytest.mark.parametrize("of", list(OF))
def test_behind_a_rollback_and_a_rebuild_the_rows_are_those_of_the_table(of: str, tmp_path: Path) -> None:
    made = build(tmp_path, of)
    made.run_until_caught_up()
    made.rollback(2)
    check(made)
    made.run_until_caught_up()
    check(made)
    if of != "replaced":
        made.rebuild()
        check(made)
    with pytest.raises(PipelineError, match="run an epoch: it computes the table"):
        made.rebuild("sums")


@pytest.mark.sail
@pytest.mark.parametrize("of", list(OF))
def test_who_comes_later_has_all_rows_unasked(of: str, tmp_path: Path) -> None:
    build(tmp_path, of, epochs=EPOCHS[:2], reads=False).run_until_caught_up()
    made = build(tmp_path, of)
    made.run_epoch()
    made.run_epoch()
    check(made)


@pytest.mark.sail
def test_a_copy_of_a_table_has_its_rows(tmp_path: Path) -> None:
    made = build(tmp_path, "updating", reads=False)
    made.table("t").to_table("copy", mode="replace")
    made = do.Pipeline.from_plan(made.to_plan(), root=str(tmp_path), engine=SAIL)
    for _ in EPOCHS:
        made.run_epoch()
        rows = [sorted(map(str, made.to_arrow(name).to_pylist())) for name in ("t", "copy")]
        assert rows[0] == rows[1]


@pytest.mark.sail
def test_a_table_that_begins_anew_has_no_rows_of_before(tmp_path: Path) -> None:
    build(tmp_path, "append", epochs=EPOCHS[:2]).run_until_caught_up()
    made = build(tmp_path, "append")
    made.reset("rows", 1, tables="restart")
    made.run_until_caught_up()
    check(made)
    assert len(made.to_arrow("t")) == 4


def test_other_operators_tables_and_sinks_refuse_all_rows(tmp_path: Path) -> None:
    made = build(tmp_path, "append", reads=False)
    whole = made.table("t")
    uses: list[Callable[[], do.Stream]] = [
        lambda: whole.filter("v > 1"),
        lambda: whole.key_by("k").aggregate(n="count(*)"),
        lambda: whole.union(whole),
    ]
    for use in uses:
        with pytest.raises(SchemaError, match=r"has all rows of a table in each .*To do: .*data_set\(\)"):
            use()
    with pytest.raises(PipelineError, match="mode='replace'"):
        whole.to_table("again")
    with pytest.raises(PipelineError, match="give the sink the stream"):
        whole.to_sink(do.PostgresSink("dbname=shop", "rows"))


def test_there_has_to_be_a_table_with_rows() -> None:
    made = do.Pipeline("p", root="unused", engine=SAIL)
    rows = made.source("rows", do.MemorySource([], schema="k string, at long"))
    with pytest.raises(PipelineError, match=r"to_table\('t'\) first"):
        made.table("t")
    rows.to_changes("k", order_by="at").to_table("log")
    with pytest.raises(SchemaError, match="latest"):
        made.table("log")
