"""Streams of changes: rows that are taken back, through projections into the current row of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError, SourceError
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark

SCHEMA = "id long, v long, _change string"
Rows = list[dict[str, Any]]


def change(kind: str, key: int | None, value: int | None) -> dict[str, Any]:
    return {"id": key, "v": value, "_change": kind}


def update(key: int, before: int, after: int) -> Rows:
    return [change("update_before", key, before), change("update_after", key, after)]


def pipeline_over(root: Path, engine: Spark | None, batches: list[Rows]) -> do.Pipeline:
    pipeline = do.Pipeline("changes", root=str(root), engine=engine)
    changes = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes()
    kept = changes.filter("v > 0").select("id", "v * 10 AS tens")
    kept.to_table("log")
    kept.latest("id").to_table("current")
    return pipeline


def current(pipeline: do.Pipeline) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in pipeline.read("current").collect())


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_retracting_stream_through_filter_and_projection_into_a_table(tmp_path: Path, engine: str) -> None:
    batches = [
        [change("insert", 1, 1), change("insert", 2, 2), change("insert", 3, -3)],
        [*update(1, 1, -1), *update(2, 2, 5), *update(3, -3, 3)],
        [change("delete", 2, 5), change("insert", 4, 4), change("delete", 4, 4), *update(3, 3, 6), *update(3, 6, 7)],
    ]
    pipeline = pipeline_over(tmp_path, ENGINES[engine], batches)
    found = []
    for _ in batches:
        pipeline.run_epoch()
        found.append(current(pipeline))
    assert found == [[(1, 10), (2, 20)], [(2, 50), (3, 30)], [(3, 70)]]
    log = sorted(tuple(row) for row in pipeline.read("log").collect())
    assert ("log columns", pipeline.read("log").columns) == ("log columns", ["id", "tens", "_change"])
    assert (1, 10, "update_before") in log
    assert (1, -10, "update_after") not in log


edits = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([None, -2, -1, 1, 2])), max_size=12)


@pytest.mark.sail
@fresh_examples(12)
@given(epochs=st.lists(edits, min_size=1, max_size=3))
def test_any_history_gives_the_rows_that_are_left(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[list[tuple[int, int | None]]]
) -> None:
    rows: dict[int, int] = {}
    batches: list[Rows] = []
    for epoch in epochs:
        batch: Rows = []
        for key, value in epoch:
            before = rows.pop(key, None)
            if before is not None:
                batch.append(change("delete" if value is None else "update_before", key, before))
            if value is not None:
                rows[key] = value
                batch.append(change("insert" if before is None else "update_after", key, value))
        batches.append(batch)
    pipeline = pipeline_over(tmp_path_factory.mktemp("changes"), SAIL, [batch for batch in batches if batch])
    pipeline.run_until_caught_up()
    expected = sorted((key, value * 10) for key, value in rows.items() if value > 0)
    if any(batches):
        assert current(pipeline) == expected


@pytest.mark.sail
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([change("upsert", 1, 1)], "a change is called upsert, which is none"),
        ([{"id": 1, "v": 1, "_change": None}], "a change is called null"),
        ([change("insert", 1, 1), change("insert", 1, 2)], "it is no key"),
    ],
)
def test_changes_that_are_none_fail_the_epoch(tmp_path: Path, rows: Rows, message: str) -> None:
    pipeline = pipeline_over(tmp_path, SAIL, [rows])
    with pytest.raises(OperatorsError, match=message) as failed:
        pipeline.run_epoch()
    if "no key" in message:
        assert (failed.value.where["operator"], failed.value.where["column"]) == ("latest", "id")
        assert failed.value.remedy.startswith("name columns that together tell the rows apart")
    else:
        assert (failed.value.where["operator"], failed.value.where["expression"]) == ("as_changes", "_change")
        assert failed.value.remedy.startswith(
            "changes are insert, update_after, update_before, delete; say what other words mean"
        )


@pytest.mark.sail
def test_other_words_for_changes_are_read_as_the_remedy_says(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[(1, "I"), (2, "I"), (1, "D")]], schema="id long, op string"))
    named = rows.with_columns(op="CASE op WHEN 'I' THEN 'insert' WHEN 'D' THEN 'delete' END")
    named.as_changes("op").latest("id").to_table("t")
    pipeline.run_epoch()
    assert [row.id for row in pipeline.read("t").collect()] == [2]


def stream() -> do.Stream:
    return do.Pipeline("p", root="unused").source("rows", do.MemorySource([], schema=SCHEMA + ", op string"))


def test_operators_that_need_rows_that_stay_refuse_changes() -> None:
    changes = stream().as_changes()
    with pytest.raises(PipelineError, match="which row of a key is the first") as refused:
        changes.key_by("id").deduplicate()
    assert "order_by='version'" in refused.value.remedy
    with pytest.raises(PipelineError, match="as_changes takes append streams") as refused:
        changes.as_changes()
    assert refused.value.remedy == "its rows are changes already: leave as_changes out"
    with pytest.raises(PipelineError, match="a window needs an event time") as refused:
        changes.window(do.Tumbling("1 hour"))
    assert "group by the time: with_columns(hour=" in refused.value.remedy
    updating = stream().key_by("id").aggregate(n="count(*)")
    with pytest.raises(PipelineError, match="as_changes takes append streams") as refused:
        updating.as_changes()
    assert "write to_changes()" in refused.value.remedy
    with pytest.raises(PipelineError, match=r"latest takes retracting streams, and 'rows' is append") as refused:
        stream().latest("id")
    assert "as_changes(...)" in refused.value.remedy
    assert "key_by('id').deduplicate(keep='last')" in refused.value.remedy
    with pytest.raises(PipelineError, match="a sink takes append or updating streams") as refused:
        changes.to_sink(do.PostgresSink("dbname=none", "t"))
    assert refused.value.remedy.startswith("put latest(key) before it")


@pytest.mark.parametrize(
    ("source", "way"),
    [
        (do.DeltaSource("lake"), "DeltaSource('lake', changes=True)"),
        (do.FileSource("in"), 'as_changes("CASE op'),
        (do.FileSource("in", schema="id long, op string"), 'as_changes("CASE op'),
    ],
    ids=["table", "files", "schema"],
)
def test_rows_that_do_not_say_what_they_do_are_refused_when_built(source: Any, way: str) -> None:
    rows = do.Pipeline("p", root="unused").source("rows", source)
    with pytest.raises(SchemaError, match="nothing says which rows of 'rows' are added") as refused:
        rows.as_changes()
    assert way in refused.value.remedy
    rows.as_changes("'insert'")
    if rows.columns is None:
        rows.as_changes("_change")


def test_an_interval_join_of_changes_is_told_what_there_is_for_them() -> None:
    changes = stream().as_changes().key_by("id")
    with pytest.raises(SchemaError, match="the left one has none") as refused:
        changes.interval_join(changes, lower="0 s", upper="1 hour")
    assert refused.value.remedy.startswith("interval joins are for rows that stay; of changes, write a.join(b, on=")


def test_the_column_that_says_what_a_row_does_cannot_be_taken() -> None:
    with pytest.raises(SchemaError, match="in a column '_change' of its own"):
        stream().as_changes("op")
    with pytest.raises(SchemaError, match="in a column '_change' of its own"):
        stream().as_changes().with_columns(_change="'x'")


@pytest.mark.sail
def test_what_takes_back_a_change_is_its_opposite(tmp_path: Path) -> None:
    """As in the feed of a table of changes."""
    fed = [("insert", "insert"), ("delete", "update_before"), ("update_preimage", "update_after"), ("update_postimage", "delete")]
    rows = [{"id": number, "_change": ours, "_change_type": theirs} for number, (theirs, ours) in enumerate(fed)]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    source = do.MemorySource(
        [rows, [{"id": 4, "_change": None, "_change_type": "insert"}]], schema="id long, _change string, _change_type string"
    )
    pipeline.source("rows", source).as_changes().to_table("log")
    pipeline.run_epoch()
    found = sorted(tuple(row.values()) for row in pipeline.to_arrow("log").to_pylist())
    assert found == [(0, "insert"), (1, "insert"), (2, "delete"), (3, "delete")]
    with pytest.raises(OperatorsError, match="a change is called null, which is none"):
        pipeline.run_epoch()


@pytest.mark.sail
@pytest.mark.slow
def test_a_table_of_changes_that_was_rebuilt_is_read_as_the_remedy_says(tmp_path: Path) -> None:
    def shop() -> do.Pipeline:
        pipeline = do.Pipeline("shop", root=str(tmp_path / "shop"), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource([[("a", 1), ("b", 2)], [("a", 3)]], schema="k string, n long"))
        rows.key_by("k").aggregate(n="sum(n)").to_changes().to_table("log")
        return pipeline

    def copy(name: str, *, changes: bool) -> do.Pipeline:
        pipeline = do.Pipeline(name, root=str(tmp_path / name), engine=SAIL)
        log = pipeline.source("log", do.PipelineSource(str(tmp_path / "shop"), "log", changes=changes))
        log.as_changes().key_by("k").aggregate(n="sum(n)", rows="count(*)").to_table("copy")
        return pipeline

    shop().run_epoch()
    copies = copy("added", changes=False), copy("changed", changes=True)
    for pipeline in copies:
        pipeline.run_epoch()
    shop().run_epoch()
    shop().rebuild()
    with pytest.raises(SourceError, match="lost rows") as refused:
        copies[0].run_epoch()
    assert 'PipelineSource with changes=True, then .as_changes("_change_type")' in (refused.value.remedy or "")
    assert not copies[1].run_epoch().empty
    found = sorted(tuple(row.values()) for row in copies[1].to_arrow("copy").to_pylist())
    assert found == [("a", 4, 1), ("b", 2, 1)]


def test_a_union_of_changes_is_one_of_changes() -> None:
    first = stream()
    second = first.filter("v > 1").as_changes()
    assert "retracting" in str(first.as_changes().union(second)._type.changes)
    with pytest.raises(PipelineError, match="the streams of a union differ in '_change'"):
        second.union(first)  # which has a column '_change' of its own: as rows that stay it would be one more column
    assert "retracting" in str(second.union(first.drop("_change"))._type.changes)


def test_the_key_must_be_there() -> None:
    with pytest.raises(SchemaError, match="'k', which its input does not have"):
        stream().as_changes().latest("k")
    with pytest.raises(SchemaError, match="of what key"):
        stream().as_changes().latest()


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_the_elements_of_rows_that_change(tmp_path: Path, engine: str) -> None:
    rows = [[{"id": 1, "xs": [1, 2]}, {"id": 2, "xs": [2]}], [{"id": 1, "xs": [2, 3]}]]
    kinds = ["insert", "update_after"]
    batches = [[{**row, "_change": kind} for row in batch] for kind, batch in zip(kinds, rows, strict=True)]
    batches[1].append({"id": 1, "xs": [1, 2], "_change": "update_before"})
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    source = do.MemorySource(batches, schema="id long, xs array<long>, _change string")
    elements = pipeline.source("rows", source).as_changes().unnest("xs AS x").drop("xs")
    elements.key_by("x").aggregate(n="count(*)").to_table("current")
    pipeline.run_epoch()
    assert current(pipeline) == [(1, 1), (2, 2)]
    pipeline.run_epoch()
    assert current(pipeline) == [(2, 2), (3, 1)]


def test_what_would_be_another_value_when_it_is_taken_back_is_refused() -> None:
    changes = stream().as_changes()
    for refused in (
        lambda: changes.filter("rand() < 0.5"),
        lambda: changes.with_columns(at="current_timestamp()"),
        lambda: changes.key_by("id").aggregate(n="count_if(rand() < 0.5)"),
    ):
        with pytest.raises(SchemaError, match="must be what it was when it came"):
            refused()
    changes.latest("id", "v", "op").with_columns(at="current_timestamp()")


HISTORIES: dict[str, list[tuple[str, int | None]]] = {
    "a": [("insert", 1), ("delete", 2)],
    "b": [("insert", 1), ("update_before", 1), ("update_after", 2), ("delete", 1)],
    "c": [("insert", 1), ("update_before", 1), ("update_after", 2)],
    "d": [("insert", 1), ("delete", None)],
    "e": [("insert", None), ("delete", None)],
    "g": [("insert", 1), ("delete", 2), ("update_before", 1), ("update_after", 4)],
    "h": [("insert", 1), ("delete", 2), ("delete", 1)],
    "i": [("delete", 1), ("insert", 1)],
    "j": [("delete", 1), ("insert", 1), ("insert", 1)],
}


@pytest.mark.sail
def test_what_takes_back_another_row_than_there_is_changes_nothing_however_it_is_cut(tmp_path: Path) -> None:
    """In the next epoch it took the current row, and within one it did not."""
    found = {}
    for cut in ((4,), (1, 3, 4), (1, 2, 3, 4)):
        batches = [
            [{"k": key, "v": v, "op": op} for key, events in HISTORIES.items() for op, v in events[begin:end]]
            for begin, end in zip((0, *cut), cut, strict=False)
        ]
        pipeline = do.Pipeline("p", root=str(tmp_path / str(cut)), engine=SAIL)
        changes = pipeline.source("rows", do.MemorySource(batches, schema="k string, v int, op string")).as_changes("op")
        changes.filter("k <> 'z'").with_columns(w="v + 1").latest("k").to_table("t", change_feed=True)
        pipeline.run_until_caught_up()
        found[cut] = sorted(tuple(row) for row in pipeline.read("t").collect())
    expected = [("a", 1, 2), ("b", 2, 3), ("c", 2, 3), ("d", 1, 2), ("g", 4, 5), ("j", 1, 2)]
    assert found == dict.fromkeys(found, expected)
