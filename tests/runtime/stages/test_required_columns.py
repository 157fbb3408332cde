"""A column that a source declares NOT NULL has a value in each row, whatever reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from dagster_operators.connectors.rejects import MISSING
from dagster_operators.errors import BadInputError, StageFailedError
from tests.engines import EMBEDDED, SAIL

SCHEMA = "id long, k string NOT NULL"
ROWS: list[dict[str, Any]] = [{"id": 1, "k": "a"}, {"id": 2, "k": None}]
EVENTS = '{"op": "c", "after": {"id": 1, "k": "a"}}\n{"op": "c", "after": {"id": 2, "k": null}}\n'
GONE = '{"op": "d", "before": {"id": 7}}\n'
TEXTS = {"csv": "id,k\n1,a\n2,\n", "json": '{"id": 1, "k": "a"}\n{"id": 2}\n', "debezium-json": EVENTS + GONE}
FORMS = ("csv", "json", "parquet", "debezium-json")


@pytest.fixture(params=["sail", "spark"])
def engine(request: pytest.FixtureRequest) -> Any:
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


def source(folder: Path, form: Any, schema: str = SCHEMA, **more: Any) -> do.FileSource:
    (folder / form).mkdir(exist_ok=True)
    if form == "parquet":
        kinds = pa.schema([("id", pa.int64()), ("k", pa.string())])
        pq.write_table(pa.Table.from_pylist(ROWS, kinds), folder / form / f"0.{form}")
    else:
        (folder / form / f"0.{form}").write_text(TEXTS[form])
    more |= {"key": "id"} if form == "debezium-json" else {}
    return do.FileSource(str(folder / form / "*"), format=form, schema=schema, **more)


def into_table(pipeline: do.Pipeline, name: str, read: do.FileSource) -> None:
    stream = pipeline.source(name, read)
    (stream.latest("id") if read.key else stream.filter("id < 9")).to_table(f"{name}_t")


@pytest.mark.parametrize("form", FORMS)
def test_such_a_row_fails_the_epoch_until_the_schema_takes_nulls(tmp_path: Path, sail: Any, form: str) -> None:
    assert sail
    for schema in (SCHEMA, "id long, k string"):
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
        into_table(pipeline, "rows", source(tmp_path, form, schema))
        if "NOT NULL" in schema:
            with pytest.raises(BadInputError, match="1 rows have no value in a column that is declared NOT NULL") as refused:
                pipeline.run_epoch()
            assert {"source": "rows", "column": "k"}.items() <= refused.value.where.items()
    pipeline.run_epoch()
    assert sorted(pipeline.to_arrow("rows_t").to_pylist(), key=lambda row: row["id"]) == ROWS


def test_such_rows_are_set_aside(tmp_path: Path, engine: Any) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=engine)
    forms = FORMS if engine is SAIL else ("csv", "parquet")  # those that Spark reads by readers of its own
    for number, form in enumerate(forms):
        into_table(pipeline, f"s{number}", source(tmp_path, form, corrupt="reject"))
    pipeline.run_epoch()
    for number in range(len(forms)):
        assert pipeline.to_arrow(f"s{number}_t").to_pylist() == ROWS[:1]
        assert pipeline.to_arrow(f"s{number}_rejects")["reason"].to_pylist() == [MISSING.format("k")]


@pytest.mark.spark
def test_such_a_row_fails_the_epoch_on_spark(tmp_path: Path, spark: Any) -> None:
    assert spark
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=EMBEDDED)
    into_table(pipeline, "rows", source(tmp_path, "csv"))
    with pytest.raises(BadInputError, match="1 rows have no value in a column that is declared NOT NULL"):
        pipeline.run_epoch()


def test_other_readers_of_a_schema(tmp_path: Path, sail: Any) -> None:
    assert sail
    ids = do.MemorySource([[(1,), (2,)]], schema="id long")

    def looked_up(pipeline: do.Pipeline) -> do.Stream:
        return pipeline.source("rows", ids).lookup(source(tmp_path, "csv"), on="id")

    def extracts(pipeline: do.Pipeline) -> do.Stream:
        return pipeline.source("rows", do.SnapshotSource(source(tmp_path, "csv"), key="id")).latest("id")

    def batches(pipeline: do.Pipeline) -> do.Stream:
        return pipeline.source("rows", do.MemorySource([[(1, None)]], schema=SCHEMA))

    def in_a_column(pipeline: do.Pipeline) -> do.Stream:
        rows = [(event, place) for place, event in enumerate(EVENTS.splitlines())]
        events = pipeline.source("rows", do.MemorySource([rows], schema="value string, place long"))
        return events.from_debezium("value", schema=SCHEMA, key="id", order_by="place").latest("id")

    for number, make in enumerate((looked_up, extracts, batches, in_a_column)):
        pipeline = do.Pipeline("p", root=str(tmp_path / str(number)), engine=SAIL)
        make(pipeline).to_table("t")
        with pytest.raises((BadInputError, StageFailedError), match="NOT NULL") as failed:
            pipeline.run_epoch()
        assert pipeline.history() == []
        if make is looked_up:
            assert "corrupt=" not in failed.value.remedy, "a lookup sets no rows aside"


def test_texts_of_a_length_are_texts_on_both_engines(tmp_path: Path, engine: Any) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=engine)
    pipeline.source("rows", do.MemorySource([[("abc", ("d",))]], schema="k varchar(2), s struct<a: char(3)>")).to_table("t")
    pipeline.run_epoch()
    assert pipeline.to_arrow("t").to_pylist() == [{"k": "abc", "s": {"a": "d"}}]
