"""A field within a column that a source declares NOT NULL has a value wherever its struct is there, whatever reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from dagster_operators.connectors.rejects import MISSING
from dagster_operators.errors import BadInputError, StageFailedError
from tests.engines import EMBEDDED, SAIL

TYPES = {"s": "struct<a: long{}>", "v": "array<struct<a: long{}>>", "m": "map<string, struct<a: long{}>>"}
PATHS = {"s": "s.a", "v": "v.element.a", "m": "m.value.a"}
LOOSE = "id long, " + ", ".join(f"{name} {kind.format('')}" for name, kind in TYPES.items())
STRICT = "id long, " + ", ".join(f"{name} {kind.format(' NOT NULL')}" for name, kind in TYPES.items())
GOOD: list[dict[str, Any]] = [
    {"id": 1, "s": {"a": 1}, "v": [{"a": 1}, None], "m": {"k": {"a": 1}, "l": None}},
    {"id": 2, "s": None, "v": None, "m": None},
    {"id": 3, "s": {"a": 3}, "v": [], "m": {}},
]
BAD: dict[str, dict[str, Any]] = {
    "s": {"id": 4, "s": {"a": None}, "v": None, "m": None},
    "v": {"id": 5, "s": None, "v": [{"a": 1}, {"a": None}], "m": None},
    "m": {"id": 6, "s": None, "v": None, "m": {"k": {"a": 1}, "l": {"a": None}}},
}
FORMS = ("json", "parquet", "debezium-json")


@pytest.fixture(params=["sail", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Any:
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


def written(folder: Path, form: str, rows: list[dict[str, Any]]) -> str:
    folder.mkdir(parents=True)
    if form == "parquet":
        a = pa.struct({"a": pa.int64()})
        kinds = pa.schema({"id": pa.int64(), "s": a, "v": pa.list_(a), "m": pa.map_(pa.string(), a)})
        maps = [row | {"m": None if row["m"] is None else list(row["m"].items())} for row in rows]
        pq.write_table(pa.Table.from_pylist(maps, kinds), folder / "0.parquet")
    else:
        events = [{"op": "c", "after": row} for row in rows] if form == "debezium-json" else rows
        gone = [{"op": "d", "before": {"id": 9, "s": {"a": None}}}] if form == "debezium-json" else []
        (folder / "0.json").write_text("".join(json.dumps(event) + "\n" for event in events + gone))
    return str(folder / "*")


def pipeline_of(
    folder: Path, form: str, rows: list[dict[str, Any]], engine: Any, schema: str = STRICT, **more: Any
) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(folder / "root"), engine=engine)
    if form == "memory":
        stream = pipeline.source("rows", do.MemorySource([rows], schema=schema))
    else:
        more |= {"key": "id"} if form == "debezium-json" else {}
        uri = written(folder / "in", form, rows)
        stream = pipeline.source("rows", do.FileSource(uri, format=form, schema=schema, **more))  # type: ignore[arg-type]
    (stream.latest("id") if form == "debezium-json" else stream.filter("id < 9")).to_table("t")
    return pipeline


def rows_of(pipeline: do.Pipeline) -> list[dict[str, Any]]:
    rows = sorted(pipeline.to_arrow("t").to_pylist(), key=lambda row: row["id"])
    return [row | {"m": None if row["m"] is None else dict(row["m"])} for row in rows]


@pytest.mark.parametrize("form", ["memory", *FORMS])
def test_such_a_row_fails_the_epoch(tmp_path: Path, engine: Any, form: str) -> None:
    for name in PATHS if form == "memory" and engine is SAIL else ["v"]:
        pipeline = pipeline_of(tmp_path / name, form, [*GOOD, BAD[name]], engine)
        with pytest.raises(BadInputError, match="1 rows have no value in a field that is declared NOT NULL") as refused:
            pipeline.run_epoch()
        assert {"source": "rows", "column": PATHS[name]}.items() <= refused.value.where.items()


@pytest.mark.parametrize("form", FORMS)
def test_such_rows_are_set_aside(tmp_path: Path, engine: Any, form: str) -> None:
    if engine is EMBEDDED and form != "parquet":
        pytest.skip("the reader is the same")
    pipeline = pipeline_of(tmp_path, form, [*GOOD, *BAD.values()], engine, corrupt="reject")
    pipeline.run_epoch()
    assert rows_of(pipeline) == GOOD
    assert sorted(pipeline.to_arrow("rows_rejects")["reason"].to_pylist()) == sorted(map(MISSING.format, PATHS.values()))


def test_a_null_struct_lacks_nothing(tmp_path: Path, engine: Any) -> None:
    pipeline = pipeline_of(tmp_path, "memory", GOOD, engine)
    pipeline.run_epoch()
    assert rows_of(pipeline) == GOOD


def test_events_in_a_column(tmp_path: Path, sail: Any) -> None:
    assert sail
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    events = pipeline.source(
        "rows", do.MemorySource([[(json.dumps({"op": "c", "after": BAD["m"]}), 0)]], schema="value string, n long")
    )
    events.from_debezium("value", schema=STRICT, key="id", order_by="n").latest("id").to_table("t")
    with pytest.raises((BadInputError, StageFailedError), match=r"m\.value\.a is null, and declared NOT NULL"):
        pipeline.run_epoch()


def test_a_root_of_before_goes_on_as_it_is(tmp_path: Path, sail: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sail
    source = do.MemorySource([GOOD], schema=STRICT)

    def pipeline() -> do.Pipeline:
        made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        made.source("rows", source).filter("id < 9").to_table("t")
        return made

    with monkeypatch.context() as before:  # nested fields were not looked at
        before.setattr(do.MemorySource, "required", ())
        before.setattr(do.MemorySource, "planned_schema", do.MemorySource.infer_schema)
        pipeline().run_epoch()
    source.append([GOOD[0] | {"s": {"a": 7}}])
    later = pipeline()
    assert not later.changes()
    later.run_epoch()
    assert [row["s"] for row in rows_of(later)] == [{"a": 1}, {"a": 7}, None, {"a": 3}]
