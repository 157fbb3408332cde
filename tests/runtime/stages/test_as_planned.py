"""What an engine wrote is compared with the plan before it can be committed: it may plan one type and write another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.runtime.stages import staged_files, staged_rows
from dagster_operators.runtime.stages.as_planned import check_as_planned
from dagster_operators.storage import parquet_stats
from dagster_operators.types.data_type import Array, DataType, Decimal, Field, Map, Plain, Struct
from dagster_operators.types.schema import Schema
from tests.engines import ENGINES

ON_BOTH = pytest.mark.parametrize("engine", ["sail", "spark"])
Make = Callable[[do.Stream], object]
ROWS: Any = [[{"k": 1, "v": 2}, {"k": 2, "v": 3}]]

WORDS = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)
SIMPLE = st.one_of(
    st.sampled_from(WORDS).map(Plain),
    st.sampled_from([(1, 1), (2, 1), (18, 1), (30, 15), (38, 0)]).map(lambda one: Decimal(*one)),
)
KINDS: st.SearchStrategy[DataType] = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(Array),
        st.builds(Map, SIMPLE, inner),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda kinds: Struct(tuple(Field(f"f{n}", one) for n, one in enumerate(kinds)))
        ),
    ),
    max_leaves=3,
)


def footer_of(kind: DataType) -> pa.Schema:
    """What a file has in its footer, without the schema that Arrow puts in."""
    sink = pa.BufferOutputStream()
    rows = Schema((Field("x", kind),)).to_arrow().empty_table()
    pq.write_table(rows, sink, store_schema=False, coerce_timestamps="us")
    return pq.read_metadata(pa.BufferReader(sink.getvalue())).schema.to_arrow_schema()


@settings(deadline=None)
@given(KINDS, KINDS)
def test_a_file_is_taken_if_and_only_if_its_types_are_those_planned(planned: DataType, written: DataType) -> None:
    check_as_planned("tables/t", "a.parquet", footer_of(planned), Schema((Field("x", planned, nullable=False),)))
    if _within(planned, written):
        check_as_planned("tables/t", "a.parquet", footer_of(written), Schema((Field("x", planned),)))
        return
    with pytest.raises(SchemaError) as caught:
        check_as_planned("tables/t", "a.parquet", footer_of(written), Schema((Field("x", planned),)))
    assert (caught.value.table, caught.value.column) == ("t", "x")
    assert (caught.value.planned, caught.value.written) == (str(planned), str(written))


def _within(planned: DataType, written: DataType) -> bool:
    """Whether they are one type, structs with more fields than are wanted aside."""
    match planned, written:
        case Array(one), Array(other):
            return _within(one, other)
        case Map(key, value), Map(other_key, other_value):
            return _within(key, other_key) and _within(value, other_value)
        case Struct(), Struct():
            theirs = {field.name: field.type for field in written.fields}
            return all(field.name in theirs and _within(field.type, theirs[field.name]) for field in planned.fields)
        case _:
            return planned == written


@pytest.mark.parametrize(
    ("planned", "written"),
    [
        ("timestamp", pa.timestamp("ns", "UTC")), ("timestamp", pa.timestamp("ms", "UTC")), ("timestamp_ntz", pa.timestamp("ns")),
        ("timestamp", pa.timestamp("ns")),  # the 96 bits of older writers
        ("string", pa.large_string()), ("string", pa.dictionary(pa.int32(), pa.string())), ("varchar(3)", pa.string()),
        ("binary", pa.large_binary()), ("array<int>", pa.large_list(pa.int32())),
    ],
)  # fmt: skip
def test_what_readers_take_alike_is_no_difference(planned: str, written: pa.DataType) -> None:
    columns = pa.schema([pa.field("more", pa.int8()), pa.field("x", written, nullable=False, metadata={"PARQUET:field_id": "7"})])
    check_as_planned("tables/t", "a.parquet", columns, Schema.from_ddl(f"x {planned}"))


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(SchemaError, match=r"planned column 'x' as int, and wrote no such column \[state 'a.b', column 'x'"):
        check_as_planned("state/a.b", "a.parquet", pa.schema({"X": pa.int32()}), Schema.from_ddl("x int"))


# --- in a pipeline, on an engine that writes other than it planned ------------------------------------------------------


@pytest.fixture
def started(engine: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(engine)


@contextmanager
def lying(column: str, kind: str) -> Iterator[None]:
    """Have the engine write a column as another type than it plans."""
    apart = staged_files.apart

    def write(frame: Any, by: Any) -> Any:
        return apart(frame.withColumn(column, frame[column].cast(kind)) if column in frame.columns else frame, by)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged_files, "apart", write)
        yield


def committed(root: Path) -> list[Path]:
    """The entries of tables' logs that add files."""
    return [entry for entry in root.glob("tables/*/_delta_log/*.json") if '"add"' in entry.read_text()]


def plain(rows: do.Stream) -> object:
    return rows.select("k", "v AS x", name="made").to_table("t")


def between(rows: do.Stream) -> object:
    return rows.select("k", "v AS x", name="made").start_new_stage().filter("x > 0").to_table("t")


def nested(rows: do.Stream) -> object:
    return rows.select("k", "array(named_struct('a', v)) AS x", name="made").to_table("t")


def updating(rows: do.Stream) -> object:
    return rows.key_by("k").aggregate(x="max(v)", name="made").to_table("t")


def of(root: Path, engine: str, make: Make) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=ENGINES[engine])
    make(pipeline.source("rows", do.MemorySource(ROWS, schema="k int, v int")))
    return pipeline


@ON_BOTH
@pytest.mark.parametrize(
    ("make", "kinds", "place"),
    [
        (plain, ("int", "double"), {"table": "t", "column": "x"}),
        (between, ("int", "double"), {"column": "x"}),
        (nested, ("array<struct<a:int>>", "array<struct<a:double>>"), {"table": "t", "column": "x"}),
        (updating, ("int", "decimal(30,15)"), {"table": "t", "column": "x"}),
        (updating, ("int", "bigint"), {"column": "k"}),
    ],
    ids=["table", "stream", "nested", "updating table", "state"],
)
@pytest.mark.usefixtures("started")
def test_it_is_refused_and_nothing_is_committed(
    engine: str, make: Make, kinds: tuple[str, str], place: dict[str, str], tmp_path: Path
) -> None:
    planned, written = kinds
    pipeline = of(tmp_path, engine, make)
    with lying(place["column"], written), pytest.raises(SchemaError, match="the engine planned column") as caught:
        pipeline.run_epoch()
    place |= {"planned": planned, "written": written}
    told = {"pipeline": "p", "operator": "made", **place}
    assert {name: caught.value.where.get(name) for name in told} == told
    assert not caught.value.retryable
    assert pipeline.epochs.coordinator.view().last_complete is None
    assert not committed(tmp_path)
    assert pipeline.run_epoch().epoch == 1, "with an engine that does what it says, the same epoch goes through"


@ON_BOTH
@pytest.mark.usefixtures("started")
def test_a_cast_to_the_type_that_is_meant_is_a_way_out(engine: str, tmp_path: Path) -> None:
    mended = of(tmp_path, engine, lambda rows: rows.select("k", "CAST(v AS double) AS x", name="made").to_table("t"))
    with lying("x", "double"):
        with pytest.raises(SchemaError, match=r"by CAST\(... AS type\).*so that all have one \(double, perhaps\)"):
            of(tmp_path, engine, plain).run_epoch()
        mended.run_epoch()
    assert sorted(mended.to_arrow("t")["x"].to_pylist()) == [2.0, 3.0]


@pytest.mark.usefixtures("sail")
def test_what_sail_plans_as_one_type_and_writes_as_another_is_not_committed(tmp_path: Path) -> None:
    """Refused when it is planned, or behind the write: no table has integers in its log and doubles in its files."""

    def pipeline(first: str) -> do.Pipeline:
        made = do.Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"])
        rows = made.source("rows", do.MemorySource([[("a", 3.7, "a"), ("b", 1.2, None)]], schema="k string, p double, s string"))
        rows.select("k", f"IF(s IS NOT NULL, {first}, p) AS x").to_table("t")
        return made

    try:
        pipeline("0").run_epoch()
    except SchemaError:
        assert not committed(tmp_path)
        pipeline("CAST(0 AS DOUBLE)").run_epoch()
    assert sorted(pipeline("CAST(0 AS DOUBLE)").to_arrow("t")["x"].to_pylist()) == [0.0, 1.2]


@pytest.mark.usefixtures("sail")
def test_no_retry_of_dagsters_is_spent_on_it(tmp_path: Path) -> None:
    definitions = do.build_definitions(of(tmp_path, "sail", plain), retry_policy=dg.RetryPolicy(max_retries=2))
    with dg.DagsterInstance.ephemeral() as instance, lying("x", "double"):
        result = definitions.resolve_job_def("p_epoch").execute_in_process(instance=instance, raise_on_error=False)
    assert not result.success
    assert not [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_RESTARTED]
    failed = [event for event in result.all_events if event.event_type is dg.DagsterEventType.STEP_FAILURE]
    assert "planned column 'x' as int, and wrote it as double" in str(failed[0].step_failure_data)


@pytest.mark.usefixtures("sail")
def test_each_footer_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    footer = parquet_stats.read_footer

    def counted(root: Any, path: str, size: int) -> Any:
        read.append(path)
        return footer(root, path, size)

    monkeypatch.setattr(staged_rows, "read_footer", counted)
    of(tmp_path, "sail", plain).run_epoch()
    assert read
    assert len(read) == len(set(read))


@ON_BOTH
@pytest.mark.usefixtures("started")
def test_all_types_are_taken_as_the_engine_writes_them(engine: str, tmp_path: Path) -> None:
    kinds = [*WORDS, "decimal(9,2)", "decimal(18,2)", "decimal(38,10)"]
    texts = {
        "binary": "'a'",
        "string": "'a'",
        "date": "'2024-01-01'",
        "timestamp": "'2024-01-01'",
        "timestamp_ntz": "'2024-01-01'",
    }
    columns = [f"CAST({texts.get(kind, '1')} AS {kind}) AS c{n}" for n, kind in enumerate(kinds)]
    within = [f"array(c{n}) AS a{n}" for n in range(len(kinds))] + [f"named_struct('f', c{n}) AS s{n}" for n in range(len(kinds))]
    within += [f"map('m', c{n}) AS m{n}" for n in range(len(kinds))]
    pipeline = of(tmp_path, engine, lambda rows: rows.select("k", *columns).select("*", *within).to_table("t"))
    pipeline.run_epoch()
    assert pipeline.to_arrow("t").num_rows == 2
