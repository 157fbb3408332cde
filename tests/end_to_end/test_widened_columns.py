"""Columns of a table that become wider: its rows stay, in files that every reader of Delta reads, or it is refused."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, QueryBuilder

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import ChangedColumnsError, PipelineError, SourceError, UndecidedChangeError
from dagster_operators.orchestration.remedies import commands_for
from dagster_operators.runtime.commands import as_commands
from dagster_operators.transactions.failpoints import watch
from tests.engines import ENGINES, SAIL

pytestmark = pytest.mark.sail

TYPES = {
    "int": ("i int", "i bigint", [1, -(2**31)], 2**40),
    "smallint": ("i smallint", "i int", [1, -(2**15)], 2**30),
    "float": ("i float", "i double", [1.5, float(pa.scalar(0.1, pa.float32()).as_py())], 1e300),
    "decimal": ("i decimal(10,2)", "i decimal(14,4)", [Decimal("1.25"), Decimal("-99999999.99")], Decimal("1234567890.1234")),
}


def program(root: Path, schema: str, *batches: list[Any], engine: Any = SAIL, **table: Any) -> Any:
    made: Any = do.Pipeline("p", root=str(root), engine=engine)
    rows = made.source(
        "in", do.MemorySource([[{"k": "a", "i": v} for v in one] for one in batches], schema=f"k string, {schema}")
    )
    rows.to_table("t", **table)
    return made


def values(pipeline: Any, **at: Any) -> list[Any]:
    return sorted(row.i for row in pipeline.read("t", **at).collect())


def readers(root: Path) -> Iterator[list[Any]]:
    table = DeltaTable(f"{root}/tables/t")
    yield sorted(table.to_pyarrow_table()["i"].to_pylist())
    yield sorted(pa.table(QueryBuilder().register("t", table).execute("SELECT i FROM t").read_all())["i"].to_pylist())
    yield sorted(row[0] for row in duckdb.from_arrow(table.to_pyarrow_dataset()).project("i").fetchall())
    files = [f"{root}/tables/t/{path}" for path in table.to_pyarrow_dataset().files]
    assert len({pq.read_schema(path).field("i").type for path in files}) == 1, "no file has the narrower type"
    yield sorted(value for path in files for value in pq.read_table(path)["i"].to_pylist())


@pytest.mark.parametrize("kind", TYPES)
def test_rows_stay_for_every_reader(tmp_path: Path, kind: str) -> None:
    narrow, wide, before, large = TYPES[kind]
    program(tmp_path, narrow, before, partition_by=["k"]).run_epoch()
    changed = program(tmp_path, wide, before, [large], partition_by=["k"])
    with pytest.raises(ChangedColumnsError, match=r"pipeline.widen\('t'\), or compute it anew") as refused:
        changed.run_epoch()
    assert "i was" in str(refused.value)
    assert refused.value.where["table"] == "t", "as widen takes it"
    assert changed.widen("t").epoch == 2
    assert values(changed) == sorted(before)
    changed.run_epoch()
    wanted = sorted([*before, large])
    assert values(changed) == wanted
    assert list(readers(tmp_path)) == [wanted] * 4
    assert values(changed, epoch=1) == sorted(before)
    assert changed.history()[-2].transition.startswith("widen t: i was")
    changed.rollback(to=1)
    assert values(program(tmp_path, narrow, before, partition_by=["k"])) == sorted(before)


def test_on_spark(tmp_path: Path, spark: Any) -> None:
    engine = ENGINES["spark"]
    program(tmp_path, "i int", [1], engine=engine).run_epoch()
    changed = program(tmp_path, "i bigint", [1], [2**40], engine=engine)
    changed.widen("t")
    changed.run_epoch()
    assert values(changed) == [1, 2**40]
    seen = spark.read.format("delta").load(f"{tmp_path}/tables/t")
    assert sorted(row.i for row in seen.collect()) == [1, 2**40]
    assert seen.where(f"i >= {2**40}").count() == 1, "by the bounds of the files that were written anew"


class DiedError(Exception):
    pass


@pytest.mark.parametrize("place", ["before:append_decision", "after:append_decision", "after:commit_table:1"])
def test_one_that_dies_is_done_or_made_again(tmp_path: Path, place: str) -> None:
    program(tmp_path, "i int", [1], [2]).run_until_caught_up()
    changed = program(tmp_path, "i bigint", [1], [2], [2**40])

    def die(at: str) -> None:
        if at == place:
            raise DiedError

    with watch(die), pytest.raises(DiedError):
        changed.widen("t")
    again = program(tmp_path, "i bigint", [1], [2], [2**40])
    if place.startswith("before"):
        with pytest.raises(ChangedColumnsError):
            again.run_epoch()
        again.widen("t")
    again.run_until_caught_up()
    assert values(again) == [1, 2, 2**40]
    with pytest.raises(PipelineError, match="its columns are as they were"):
        again.widen("t")


@pytest.mark.parametrize("kind", ["widen", "rename"])
def test_what_was_decided_waits_for_the_epoch_after_it_whatever_dies(tmp_path: Path, kind: str) -> None:
    def counting(schema: str, table: str, count: str, *batches: list[Any]) -> Any:
        made: Any = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = made.source("in", do.MemorySource(list(batches), schema=f"k string, {schema}"))
        rows.to_table(table, renamed_from="t" if table != "t" else None)
        rows.key_by("k").aggregate(n=count, name="per_key").to_table("counts")
        return made

    batches = [{"k": "a", "i": 1}], [{"k": "a", "i": 2}]
    now = ("i bigint", "t") if kind == "widen" else ("i int", "new")
    counting("i int", "t", "count(*)", batches[0]).run_epoch()
    changed = counting(*now, "count(i)", *batches)
    changed.decide("operator per_key", "restart")

    def die(at: str) -> None:
        if at == "after:append_complete":
            raise DiedError

    with watch(die), pytest.raises(DiedError):
        changed.widen("t") if kind == "widen" else changed.run_epoch()
    again = counting(*now, "count(i)", *batches)
    assert [one.decided for one in again.changes() if one.subject == "operator per_key"] == ["restart"]
    assert [made.choice for made in again.withdraw("operator per_key")] == ["withdraw"]
    with pytest.raises(UndecidedChangeError, match="operator per_key"):
        again.run_epoch()
    again.decide("operator per_key", "restart")
    again.run_epoch()
    assert [row.n for row in again.read("counts").collect()] == [1], "it began anew"
    assert not again.epochs.coordinator.view().decisions, "with that epoch it is done"


def test_a_column_may_be_added_with_it(tmp_path: Path) -> None:
    program(tmp_path, "i int", [1]).run_epoch()
    changed = program(tmp_path, "i bigint, more string", [1], [2])
    changed.widen("t")
    changed.run_epoch()
    assert values(changed) == [1, 2]


@pytest.mark.parametrize("kind", ["pipeline", "delta"])
def test_who_reads_the_table_is_told(tmp_path: Path, kind: str) -> None:
    def reader() -> Any:
        made = do.Pipeline("reader", root=str(tmp_path / "reader"), engine=SAIL)
        table = do.DeltaSource(str(tmp_path / "root/tables/t"))
        made.source("read", table if kind == "delta" else do.PipelineSource(str(tmp_path / "root"), "t")).to_table("copy")
        return made

    program(tmp_path / "root", "i int", [1]).run_epoch()
    reader().run_epoch()
    changed = program(tmp_path / "root", "i bigint", [1], [2**40])
    changed.widen("t")
    changed.run_epoch()
    with pytest.raises(
        SourceError, match=r"To do: read the whole table again.*: pipeline.reset\('read', 0, tables=\"restart\"\)"
    ) as told:
        reader().run_epoch()
    assert "was integer and is long" in str(told.value)
    assert "put the column back" not in str(told.value), "nothing makes it narrower"
    again = reader()
    again.reset("read", 0, tables="restart")
    again.run_epoch()
    assert sorted(row.i for row in again.read("copy").collect()) == [1, 2**40]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("i string", "do not only become wider: i was long and is string"),
        ("i int", "do not only become wider"),
        ("j bigint", "i .*is gone"),
    ],
    ids=["other", "narrower", "gone"],
)
def test_other_changes_are_refused(tmp_path: Path, schema: str, told: str) -> None:
    program(tmp_path, "i bigint", [1]).run_epoch()
    changed: Any = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    changed.source("in", do.MemorySource([[]], schema=f"k string, {schema}")).to_table("t")
    with pytest.raises(PipelineError, match=told):
        changed.widen("t")
    with pytest.raises(PipelineError, match=r"there is no such table.*name one that was there in the last epoch: t"):
        changed.widen("x")


@pytest.mark.parametrize(
    ("column", "by", "told"),
    [("m map<string,int>", [], "the table has maps"), ("j int", ["i"], "the table is partitioned by i")],
    ids=["maps", "partitioned"],
)
def test_it_is_offered_only_where_it_can_be_done(tmp_path: Path, column: str, by: list[str], told: str) -> None:
    def writing(kind: str) -> Any:
        made: Any = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = made.source("in", do.MemorySource([[{"k": "a", "i": 1}]], schema=f"k string, {column}, i {kind}"))
        rows.to_table("t", partition_by=by)
        return made

    writing("int").run_epoch()
    changed = writing("bigint")
    with pytest.raises(ChangedColumnsError, match=r"or compute it anew: pipeline.rebuild\('t'\)") as refused:
        changed.run_epoch()
    assert "widen" not in str(refused.value)
    with pytest.raises(PipelineError, match=f"{told}.*: i was integer and is long.*pipeline.rebuild"):
        changed.widen("t")
    changed.rebuild("t")
    assert values(changed) == [1]


def test_a_table_that_is_state_is_rebuilt(tmp_path: Path) -> None:
    def best(schema: str) -> Any:
        made: Any = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = made.source("in", do.MemorySource([[{"k": "a", "i": 1}]], schema=f"k string, {schema}"))
        rows.key_by("k").top(1, by="i DESC", name="best").to_table("t")
        return made

    best("i int").run_epoch()
    changed = best("i bigint")
    with pytest.raises(PipelineError, match=r"the state of an operator.*pipeline.rebuild\('t'\)"):
        changed.widen("t")
    changed.rebuild("t")
    assert values(changed) == [1]


def test_the_command_that_the_refusal_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, root = tmp_path / "in", str(tmp_path / "root")
    folder.mkdir()
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")

    def made(kind: str, table: str, **more: Any) -> Any:
        pipeline: Any = do.Pipeline("p", root=root, engine=SAIL)
        rows = pipeline.source("in", do.FileSource(f"{folder}/*.csv", schema="i int"))
        rows.select(f"i::{kind} AS i").to_table(table, **more)
        return pipeline

    (folder / "1.csv").write_text("i\n1\n")
    made("int", "t").run_epoch()
    (folder / "2.csv").write_text("i\n2\n")
    renamed = made("bigint", "wider", renamed_from="t")
    (said,) = (one for one in renamed.changes() if "columns" in one.problem)
    with pytest.raises(ChangedColumnsError) as refused:
        renamed.run_epoch()
    assert said.remedy in refused.value.remedy
    told = as_commands(refused.value.remedy, root)
    (command,) = re.findall(r"dagster-operators (widen [^,]*),", told)
    done = CliRunner().invoke(main, shlex.split(command))
    assert done.exit_code == 0, done.output
    renamed.run_epoch()
    assert sorted(row.i for row in renamed.read("wider").collect()) == [1, 2]


def test_one_that_is_renamed_in_the_same_edit(tmp_path: Path) -> None:
    program(tmp_path, "i int", [1]).run_epoch()
    made: Any = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = [[{"k": "a", "i": 1}], [{"k": "a", "i": 2**40}]]
    made.source("in", do.MemorySource(rows, schema="k string, i bigint")).to_table("other", renamed_from="t")
    made.widen("other")
    made.run_epoch()
    assert sorted(row.i for row in made.read("other").collect()) == [1, 2**40]


def test_state_that_does_not_fit_beside_it_is_told_with_it_and_each_way_leads_on(tmp_path: Path) -> None:
    def made(kind: str, *batches: list[Any]) -> Any:
        pipeline: Any = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = pipeline.source("in", do.MemorySource([*batches], schema=f"k string, i {kind}"))
        rows.to_table("t")
        rows.key_by("i").deduplicate(name="once").to_table("firsts")
        return pipeline

    first = [{"k": "a", "i": 1}]
    made("int", first).run_epoch()
    now = made("bigint", first, [{"k": "b", "i": 2**40}])
    with pytest.raises(ChangedColumnsError) as refused:
        now.run_epoch()
    assert "pipeline.widen('t')" in refused.value.remedy
    assert "pipeline.rebuild(operators='once')" in refused.value.remedy
    now.widen("t")
    with pytest.raises(ChangedColumnsError, match=r"pipeline.rebuild\(operators='once'\)"):
        now.run_epoch()
    with pytest.raises(ChangedColumnsError, match=r"i was long and is integer.*pipeline.rebuild\('t'\)"):
        made("int", first, [{"k": "b", "i": 3}]).run_epoch()
    now.rebuild(operators="once")
    now.run_epoch()
    assert values(now) == [1, 2**40]
    assert sorted(row.i for row in now.read("firsts").collect()) == [1, 2**40]


def command(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return str(done.output)


def two_tables(root: Path, kind: str, where: str = "true") -> Any:
    """As those without the program run it: of nothing but what a plan holds."""
    folder = root.parent / "in"
    folder.mkdir(exist_ok=True)
    for day in () if list(folder.iterdir()) else (1, 2):
        (folder / f"{day}.csv").write_text(f"at,v\n2026-01-0{day} 00:00:00,{day}\n")
    made: Any = do.Pipeline("p", root=str(root), engine=SAIL)
    source = do.FileSource(f"{folder}/*.csv", schema="at timestamp, v int", max_files=1)
    rows = made.source("in", source, event_time="at").with_columns(v=f"CAST(v AS {kind})")
    rows.to_table("full")
    rows.filter(where, name="some").to_table("part")
    return made


def kind_of(pipeline: Any, table: str) -> str:
    return str(pipeline.to_arrow(table).schema.field("v").type)


@pytest.mark.parametrize("between", ["nothing", "compact", "not refused"])
def test_what_is_computed_anew_behind_it_is_by_the_program_that_it_was_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    """The program of the last epoch would make the column narrow again."""
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    root = tmp_path / "root"
    two_tables(root, "int").run_until_caught_up()
    wide = two_tables(root, "long")
    if between == "not refused":
        wide.widen("full")
    else:
        with pytest.raises(ChangedColumnsError):
            wide.run_epoch()
        command("widen", str(root), "full")
    told = command("diff", str(root))
    assert "since epoch 3" in told
    assert "table part" in told, "what is left"
    assert "table full:" not in told
    if between == "compact":
        assert "joined" in command("compact", str(root))
    command("widen", str(root), "part")
    assert wide.run_until_caught_up() == []
    command("rebuild", str(root), "full")
    assert [kind_of(wide, name) for name in ("full", "part")] == ["int64", "int64"]


def test_a_program_that_ran_since_is_the_one_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    root = tmp_path / "root"
    two_tables(root, "int").run_until_caught_up()
    two_tables(root, "long").widen("full")
    two_tables(root, "int").rebuild("full")
    command("rebuild", str(root), "full")
    assert kind_of(two_tables(root, "int"), "full") == "int32"


def test_a_table_without_rows_has_the_columns_of_the_program_and_hinders_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    two_tables(root, "int", "v > 2").run_until_caught_up()
    wide = two_tables(root, "long", "v > 2")
    with pytest.raises(PipelineError, match=r"the table has no rows.*To do: run an epoch"):
        wide.widen("part")
    wide.widen("full")
    wide.rebuild("full", between=("2026-01-01", "2026-01-02"))
    assert sorted(row.v for row in wide.read("full").collect()) == [1, 2]
    (tmp_path / "in/3.csv").write_text("at,v\n2026-01-03 00:00:00,3\n")
    wide.run_epoch()
    assert [kind_of(wide, name) for name in ("full", "part")] == ["int64", "int64"]
    assert [row.v for row in wide.read("part").collect()] == [3]


def test_of_several_tables_those_that_are_done_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    root = tmp_path / "root"
    two_tables(root, "int").run_until_caught_up()
    with pytest.raises(ChangedColumnsError):
        two_tables(root, "long").run_epoch()
    refused = CliRunner().invoke(main, ["widen", str(root), "part", "other", "full", "--json"])
    where = json.loads(refused.output)["where"]
    assert (refused.exit_code, where["table"], where["widened"]) == (1, "other", "part")
    command("widen", str(root), "full")
    assert {kind_of(two_tables(root, "long"), table) for table in ("full", "part")} == {"int64"}


@pytest.mark.parametrize("command", ["widen", "rebuild"])
def test_the_commands_are_told_and_work(tmp_path: Path, command: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("i\n1\n")

    def made(kind: str) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
        pipeline.source("rows", do.FileSource(str(tmp_path / "in"), schema=f"i {kind}")).to_table("t")
        return pipeline

    made("int").run_epoch()
    with pytest.raises(ChangedColumnsError, match="in a shell") as refused:
        made("bigint").run_epoch()
    told = {words[1]: words[1:] for one in commands_for(refused.value, "elsewhere") if (words := shlex.split(one))}
    assert told == {name: [name, str(tmp_path / "root"), "t"] for name in ("widen", "rebuild")}
    found = CliRunner().invoke(main, told[command], env={"DAGSTER_OPERATORS_ENGINE": "sail"})
    assert found.exit_code == 0, found.output
    assert made("bigint").run_epoch().empty
