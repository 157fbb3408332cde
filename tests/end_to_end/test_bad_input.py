"""Bad input: a clear error that names the place; nothing is committed, and once the input is corrected nothing is lost."""

from __future__ import annotations

import gzip
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_operators import FileSource, MemorySource, Pipeline
from dagster_operators.errors import BadInputError, MissingInputError, PipelineError, SchemaError, StageFailedError
from dagster_operators.transactions.failpoints import watch
from tests.end_to_end.landing import HEADER, SCHEMA, Landing, keys_of, put, refused
from tests.engines import ENGINES, SAIL

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

GOOD = "a,1,2024-01-01T00:00:00Z"
BETTER = "b,2,2024-01-01T05:00:00Z"


@pytest.fixture(params=["sail", pytest.param("spark", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> Spark:
    request.getfixturevalue(request.param)
    return ENGINES[request.param]


@pytest.fixture
def landing(tmp_path: Path, sail: object) -> Landing:
    assert sail
    return Landing(tmp_path, SAIL)


def table(*rows: tuple[object, ...], names: tuple[str, ...] = ("k", "v", "ts"), v: pa.DataType | None = None) -> pa.Table:
    types = dict(zip(names, (pa.string(), v or pa.int64(), pa.timestamp("us", tz="UTC")), strict=False))
    return pa.table({name: pa.array([row[at] for row in rows], types[name]) for at, name in enumerate(names)})


def parquet(path: Path, content: pa.Table, minute: int) -> Path:
    buffer = pa.BufferOutputStream()
    pq.write_table(content, buffer)
    return put(path, buffer.getvalue().to_pybytes(), minute)


NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


# --- folders and files -----------------------------------------------------------------------------------------------


@pytest.mark.sail
@pytest.mark.parametrize(
    ("kind", "names", "root", "closer"),
    [
        ("parquet", ["a.parquet", "b.csv"], "root", "/*.parquet"),
        ("csv", ["a.parquet", "b.csv"], "root", "/*.csv"),
        (None, ["a.json", "b.json"], "root", "/*.json"),
        (None, ["a.json", "b.jsonl"], "deep/root", "/*"),
        (None, ["a.csv"], "", "/*.csv"),
        ("json", ["a"], "root", "/*"),
    ],
)
def test_a_storage_root_in_the_folder_is_refused_and_its_remedy_holds(
    kind: str | None, names: list[str], root: str, closer: str, tmp_path: Path
) -> None:
    """Its files were told to be broken, with the advice to remove them."""
    for name in names:
        if name.endswith(".parquet"):
            pq.write_table(pa.table({"v": [1]}), tmp_path / name)
        else:
            (tmp_path / name).write_text("v\n1\n" if name.endswith(".csv") else '{"v": 1}\n')

    def pipeline(path: str) -> Pipeline:
        made = Pipeline("p", root=str(tmp_path / root), engine=SAIL)
        made.source("rows", FileSource(path, format=kind, schema="v long")).to_table("t")  # type: ignore[arg-type]
        return made

    with pytest.raises(PipelineError, match="a storage root lies in the source's folder") as told:
        pipeline(str(tmp_path)).run_epoch()
    (said,) = re.findall(r"those directly in the folder are meant: FileSource\('(.+)'\)", told.value.remedy)
    assert said == f"{tmp_path}{closer}"
    made = pipeline(said)
    made.run_epoch()
    meant = [name for name in names if kind is None or len(names) == 1 or name.endswith(kind)]
    assert [row.v for row in made.read("t").collect()] == [1] * len(meant)


@pytest.mark.sail
@pytest.mark.parametrize(
    ("path", "name"), [("", "a/b.csv"), ("/**/*", "a.csv"), ("/**/*", "a/b.csv")], ids=["deep", "glob", "both"]
)
def test_a_root_beside_other_files_than_those_directly_in_the_folder_is_to_lie_elsewhere(
    path: str, name: str, tmp_path: Path
) -> None:
    """The glob that was told read nothing, or less, and did not say so."""
    folder = tmp_path / "in"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("v\n1\n")

    def pipeline(root: Path) -> Pipeline:
        made = Pipeline("p", root=str(root), engine=SAIL)
        made.source("rows", FileSource(f"{folder}{path}", schema="v long")).to_table("t")
        return made

    with pytest.raises(PipelineError, match="a storage root lies in the source's folder") as told:
        pipeline(folder / "root").run_epoch()
    assert told.value.remedy == "delete nothing; choose a root elsewhere"
    shutil.move(folder / "root", tmp_path / "root")
    made = pipeline(tmp_path / "root")
    made.run_epoch()
    assert [row.v for row in made.read("t").collect()] == [1]


@pytest.mark.sail
def test_a_source_that_has_read_its_folder_is_told_no_other_path(tmp_path: Path) -> None:
    """Its files would have other names, and it would not go on with them."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("v\n1\n")

    def pipeline(name: str, root: Path) -> Pipeline:
        made = Pipeline(name, root=str(root), engine=SAIL)
        made.source("rows", FileSource(tmp_path / "in", schema="v long")).to_table("t")
        return made

    pipeline("p", tmp_path / "root").run_epoch()
    with pytest.raises(PipelineError, match="a storage root lies in the source's folder"):
        pipeline("other", tmp_path / "in" / "root").run_epoch()
    with pytest.raises(PipelineError, match="a storage root lies in the source's folder") as told:
        pipeline("p", tmp_path / "root").run_epoch()
    assert told.value.remedy == "delete nothing; choose a root elsewhere"


def test_a_missing_folder(landing: Landing) -> None:
    landing.folder.rmdir()
    pipeline = landing.pipeline()
    with refused(pipeline, MissingInputError, "does not exist", source="rows", file=str(landing.folder)):
        pipeline.run_epoch()
    landing.folder.mkdir()
    landing.arrive(GOOD)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a"]


def test_a_folder_that_goes_missing_between_epochs(landing: Landing) -> None:
    landing.arrive(GOOD)
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    away = landing.folder.rename(landing.folder.with_name("away"))
    with refused(pipeline, MissingInputError, "does not exist", source="rows"):
        pipeline.run_epoch()
    away.rename(landing.folder)
    landing.arrive(BETTER)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b"]


def test_a_folder_below_a_file(landing: Landing) -> None:
    landing.folder.rmdir()
    landing.folder.write_text("no folder")
    landing.folder = landing.folder / "inner"
    pipeline = landing.pipeline()
    with refused(pipeline, MissingInputError, "cannot be read", source="rows", file=str(landing.folder)):
        pipeline.run_epoch()


def test_a_broken_link_among_the_files_is_a_file_that_has_not_arrived(landing: Landing) -> None:
    landing.arrive(GOOD)
    target = landing.folder.with_name("later.csv")
    (landing.folder / "link.csv").symlink_to(target)
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a"]
    put(target, f"{HEADER}\n{BETTER}\n", 9)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b"]


def test_a_truncated_gzip_file(tmp_path: Path, engine: Spark) -> None:
    landing = Landing(tmp_path, engine)
    landing.arrive(GOOD)
    whole = gzip.compress("\n".join((HEADER, *(f"z{n},{n},2024-01-01T01:00:00Z" for n in range(5000)))).encode())
    bad = put(landing.folder / "bad.csv.gz", whole[: len(whole) // 2], 50)
    pipeline = landing.pipeline()
    with refused(pipeline, BadInputError, "truncated", source="rows", file=str(bad)):
        pipeline.run_epoch()
    put(bad, whole, 51)
    pipeline.run_until_caught_up()
    assert len(keys_of(pipeline)) == 5001


def test_a_truncated_parquet_file(tmp_path: Path, engine: Spark) -> None:
    landing = Landing(tmp_path, engine, format="parquet", schema=None)
    parquet(landing.folder / "1.parquet", table(("a", 1, NOON)), 1)
    bad = parquet(landing.folder / "2.parquet", table(("b", 2, NOON)), 2)
    whole = bad.read_bytes()
    put(bad, whole[:-20], 2)
    pipeline = landing.pipeline()
    with refused(pipeline, BadInputError, "truncated", source="rows", file=str(bad)):
        pipeline.run_epoch()
    put(bad, whole, 3)
    pipeline.run_until_caught_up()
    assert keys_of(pipeline) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "problem"), [("bad.parquet", "no schema can be inferred"), ("bad.csv.gz", "truncated or unreadable")]
)
def test_a_broken_file_to_infer_the_schema_from(tmp_path: Path, engine: Spark, name: str, problem: str) -> None:
    landing = Landing(tmp_path, engine, format=None, schema=None)
    bad = put(landing.folder / name, b"PAR1, but nothing that follows is of this format", 1)
    pipeline = landing.pipeline()
    with refused(pipeline, BadInputError, problem, source="rows", file=str(bad)):
        pipeline.run_epoch()
    bad.unlink()
    landing.arrive(GOOD)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a"]


def test_a_parquet_file_that_is_broken_inside(tmp_path: Path, engine: Spark) -> None:
    """Its footer is whole, so that only reading it tells."""
    landing = Landing(tmp_path, engine, format="parquet")
    parquet(landing.folder / "1.parquet", table(("a", 1, NOON)), 1)
    bad = parquet(landing.folder / "2.parquet", table(*((f"b{n}", n, NOON) for n in range(5000))), 2)
    whole = bad.read_bytes()
    put(bad, whole[:8] + bytes(200) + whole[208:], 2)
    pipeline = landing.pipeline()
    with refused(pipeline, BadInputError, "cannot be parsed|truncated", source="rows", file=str(bad)):
        pipeline.run_epoch()
    put(bad, whole, 3)
    pipeline.run_until_caught_up()
    assert len(keys_of(pipeline)) == 5001


def test_a_file_that_vanishes_before_it_is_read(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    landing.arrive(GOOD)
    gone = landing.arrive(BETTER)
    pipeline = landing.pipeline()
    epochs = pipeline.epochs
    run_stage = epochs.run_stage
    away = landing.folder.with_name("away.csv")

    def vanish(handle: object, stage: str) -> object:
        if gone.exists():
            shutil.copy2(gone, away)
            gone.unlink()
        return run_stage(handle, stage)  # type: ignore[arg-type]

    monkeypatch.setattr(epochs, "run_stage", vanish)
    with refused(pipeline, MissingInputError, "vanished", source="rows", file=str(gone)):
        pipeline.run_epoch()
    monkeypatch.undo()
    shutil.copy2(away, gone)
    pipeline.run_until_caught_up()
    assert keys_of(pipeline) == ["a", "b"]


def test_a_file_that_was_read_and_then_changed(landing: Landing) -> None:
    first = landing.arrive(GOOD)
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    put(first, f"{HEADER}\n{GOOD}\n{BETTER}\n", 9)
    with refused(pipeline, BadInputError, "changed", source="rows", file=str(first)):
        pipeline.run_epoch()
    put(first, f"{HEADER}\n{GOOD}\n", 1)
    landing.arrive(BETTER)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b"]


def test_a_lookup_table_that_is_replaced_while_an_epoch_is_open(landing: Landing) -> None:
    """The epoch is begun anew with the table as it is now."""
    names = landing.folder.with_name("names.csv")

    def looking_up() -> Pipeline:
        pipeline = Pipeline("looked_up", root=str(landing.root), engine=SAIL, lease_seconds=5)
        rows = pipeline.source("rows", FileSource(str(landing.folder), format="csv", schema=SCHEMA))
        known = FileSource(str(names), format="csv", schema="k string, name string")
        rows.lookup(known, on="k", name="named").select("name").to_table("clean")
        return pipeline

    landing.arrive(GOOD)
    put(names, "k,name\na,Ann\n", 1)
    looking_up().run_epoch()
    landing.arrive("a,2,2024-01-01T05:00:00Z")
    pipeline = looking_up()
    with (
        refused(pipeline, MissingInputError, "vanished", operator="named", file=str(names)),
        watch(lambda place: names.unlink() if place == "after:append_begin" else None),
    ):
        pipeline.run_epoch()
    put(names, "k,name\na,Anna\n", 2)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["Ann", "Anna"]


# --- records and columns ---------------------------------------------------------------------------------------------


def test_a_record_that_does_not_fit_the_schema(tmp_path: Path, engine: Spark) -> None:
    landing = Landing(tmp_path, engine)
    bad = landing.arrive(GOOD, "b,two,2024-01-01T05:00:00Z")
    pipeline = landing.pipeline()
    with refused(pipeline, BadInputError, "cannot be parsed|truncated", source="rows", file=str(bad)):
        pipeline.run_epoch()
    put(bad, f"{HEADER}\n{GOOD}\n{BETTER}\n", 9)
    pipeline.run_until_caught_up()
    assert keys_of(pipeline) == ["a", "b"]


def test_rejected_records_go_to_a_table(tmp_path: Path, engine: Spark) -> None:
    landing = Landing(tmp_path, engine, corrupt="reject")
    bad = landing.arrive(GOOD, "b,two,2024-01-01T05:00:00Z")
    pipeline = landing.pipeline()
    result = pipeline.run_epoch()
    assert result.rejected_rows == {"rows": 1}
    assert keys_of(pipeline) == ["a"]
    reject = pipeline.read("rows_rejects").collect()[0]
    assert str(bad) in reject["file"]
    assert "two" in reject["record"]


def test_a_csv_column_that_disappears(landing: Landing) -> None:
    landing.arrive(GOOD)
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    bad = landing.arrive("b,2024-01-01T05:00:00Z", header="k,ts")
    with refused(pipeline, BadInputError, "column", source="rows", file=str(bad), column="v"):
        pipeline.run_epoch()
    put(bad, f"{HEADER}\n{BETTER}\n", 9)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b"]


@pytest.mark.parametrize(
    "wrong",
    [pa.table({"k": ["b"], "ts": [NOON]}), pa.table({"k": ["b"], "v": ["two"], "ts": [NOON]})],
    ids=["disappears", "changes type"],
)
def test_a_parquet_column_that_disappears_or_changes_type(tmp_path: Path, sail: object, wrong: pa.Table) -> None:
    assert sail
    landing = Landing(tmp_path, SAIL, format="parquet", schema=None)
    parquet(landing.folder / "1.parquet", table(("a", 1, NOON)), 1)
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    bad = parquet(landing.folder / "2.parquet", wrong, 2)
    with refused(pipeline, BadInputError, "column", source="rows", file=str(bad), column="v"):
        pipeline.run_epoch()
    parquet(bad, table(("b", 2, NOON)), 3)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b"]


# --- event time ------------------------------------------------------------------------------------------------------


def test_rows_without_an_event_time(tmp_path: Path, engine: Spark) -> None:
    landing = Landing(tmp_path, engine)
    bad = landing.arrive(GOOD, "b,2,")
    pipeline = landing.pipeline()
    with refused(pipeline, BadInputError, "1 rows have no event time", source="rows", column="ts", epoch=1):
        pipeline.run_epoch()
    put(bad, f"{HEADER}\n{GOOD}\n{BETTER}\n", 9)
    pipeline.run_until_caught_up()
    assert keys_of(pipeline) == ["a", "b"]


def test_rows_without_an_event_time_are_seen_even_if_a_filter_drops_them(landing: Landing) -> None:
    """Else the watermark would depend on what the pipeline does with the rows."""
    landing.arrive(GOOD, "b,,")
    pipeline = landing.pipeline()
    with refused(pipeline, BadInputError, "no event time", source="rows", column="ts"):
        pipeline.run_epoch()


def test_an_event_time_that_is_declared_as_something_else(tmp_path: Path) -> None:
    pipeline = Pipeline("p", root=str(tmp_path), engine=SAIL)
    with pytest.raises(SchemaError, match="'ts' is a string, not a timestamp") as caught:
        pipeline.source("rows", FileSource(str(tmp_path), schema="k string, ts string"), event_time="ts")
    assert (caught.value.pipeline, caught.value.source, caught.value.column) == ("p", "rows", "ts")


def test_an_event_time_that_turns_out_to_be_something_else(landing: Landing) -> None:
    landing.settings["schema"] = None
    landing.arrive("a,1,first")
    pipeline = landing.pipeline()
    with refused(pipeline, SchemaError, "'ts' is a string, not a timestamp", operator="rows", column="ts"):
        pipeline.run_epoch()


# --- expressions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "problem"),
    [("v > ", "cannot be read"), ("nope > 1", "'nope'"), ("no_such_function(v)", "no_such_function"), ("v + 1", "does not fit")],
)
def test_a_bad_expression(tmp_path: Path, engine: Spark, condition: str, problem: str) -> None:
    pipeline = Pipeline("p", root=str(tmp_path / "root"), engine=engine)
    rows = pipeline.source("rows", MemorySource([[("a", 1, "2024-01-01")]], schema=SCHEMA))
    with refused(pipeline, SchemaError, problem, operator="mine"):
        rows.filter(condition, name="mine").to_table("clean")
        pipeline.run_epoch()
    assert not (tmp_path / "root" / "tables").exists()


def test_an_expression_that_fails_on_a_value(tmp_path: Path, engine: Spark) -> None:
    def pipeline_with(expression: str) -> Pipeline:
        pipeline = Pipeline("p", root=str(tmp_path / "root"), engine=engine)
        rows = pipeline.source("rows", MemorySource([[("a", 1, "2024-01-01")], [("x", 2, "2024-01-01")]], schema=SCHEMA))
        rows.with_columns(w=expression).to_table("clean")
        return pipeline

    pipeline = pipeline_with("CASE WHEN k = 'a' THEN 1L ELSE CAST(k AS LONG) END")
    pipeline.run_epoch()
    with refused(pipeline, StageFailedError, "'x'", stage="clean", epoch=2):
        pipeline.run_epoch()
    corrected = pipeline_with("CASE WHEN k = 'a' THEN 1L ELSE try_cast(k AS LONG) END")
    corrected.run_until_caught_up()
    assert keys_of(corrected) == ["a", "x"]
