"""Sources whose columns change between two epochs: right, or refused with a way on that works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import dagster_operators as do
from dagster_operators.errors import BadInputError
from tests.engines import ENGINES

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

INT = pa.int32()


def pipeline(root: Path, source: Any, engine: Spark) -> do.Pipeline:
    made = do.Pipeline("columns", root=str(root / "root"), engine=engine)
    rows = made.source("rows", source).filter("v > 0")
    rows.to_table("t")
    rows.key_by("v % 2 AS odd").aggregate(most="max(v)", name="per_key").to_table("totals")
    return made


def found(made: do.Pipeline) -> dict[int, Any]:
    return {row.v: row.asDict() for row in made.read("t").collect()}


NOW = {
    "gone": {"v": pa.array([1, 2], INT)},
    "renamed": {"v": pa.array([1, 2], INT), "x": ["a", "b"]},
    "wider": {"v": pa.array([1, 2**40]), "w": ["a", "b"]},
    "more": {"v": pa.array([1, 2], INT), "w": ["a", "b"], "x": [1, None]},
}


@pytest.mark.parametrize(
    ("engine", "change"), [*(("sail", change) for change in NOW), pytest.param("spark", "wider", marks=pytest.mark.spark)]
)
def test_a_delta_table_with_other_columns_is_read_anew_once_somebody_says_so(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, change: str
) -> None:
    request.getfixturevalue(engine)
    path = str(tmp_path / "in")
    write_deltalake(path, pa.table({"v": pa.array([1], INT), "w": ["a"]}))
    made, other = (pipeline(tmp_path, do.DeltaSource(path), ENGINES[engine]) for _ in range(2))
    made.run_until_caught_up()
    assert list(found(other).values()) == [{"v": 1, "w": "a"}]
    other.run_until_caught_up()  # it knows the columns, too
    write_deltalake(path, pa.table(NOW[change]), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(BadInputError, match=r'pipeline.reset.*tables="restart"'):  # rows were overwritten
        made.run_epoch()
    made.reset("rows", 0, tables="restart")
    other.run_until_caught_up()
    assert sorted(found(other).values(), key=str) == sorted(pa.table(NOW[change]).to_pylist(), key=str)
    assert {row.most for row in other.read("totals").collect()} == set(found(other))


@pytest.mark.parametrize("change", ["gone", "wider"])
def test_versions_whose_columns_are_others_say_how_the_table_is_read_as_it_is(tmp_path: Path, sail: object, change: str) -> None:
    """Rows are only added: nothing but the columns is in the way."""
    path, now, engine = str(tmp_path / "in"), pa.table(NOW[change]), ENGINES["sail"]
    assert sail
    write_deltalake(path, pa.table({"v": pa.array([], INT), "w": pa.array([], "string")}))
    made = pipeline(tmp_path, do.DeltaSource(path), engine)
    made.run_until_caught_up()
    write_deltalake(path, now, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(
        BadInputError, match=r"(does not have a column that it had|was integer and is long).*pipeline.reset\("
    ) as told:
        made.run_epoch()
    assert told.value.column == {"gone": "w", "wider": "v"}[change]
    made.reset("rows", 0, tables="restart")
    made.run_until_caught_up()
    assert sorted(found(made).values(), key=str) == sorted(now.to_pylist(), key=str)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_rebuild_of_files_that_lack_a_column_says_what_to_leave_out(tmp_path: Path, sail: object, kind: str) -> None:
    """Files that were read cannot be written again, and have none of a column that the source gained since."""
    assert sail

    def made(schema: str) -> do.Pipeline:
        return pipeline(tmp_path, do.FileSource(tmp_path / "in", schema=schema), ENGINES["sail"])

    for number, schema in enumerate(["v int", "v int", "v int, w string"], start=1):
        rows = pa.table({"v": pa.array([number], INT), **({"w": ["a"]} if "w" in schema else {})})
        (tmp_path / "in").mkdir(exist_ok=True)
        write = pq.write_table if kind == "parquet" else pc.write_csv
        write(rows, tmp_path / f"in/{number}.{kind}")
        made(schema).run_until_caught_up()
    now = made("v int, w string")
    assert {row.v: row.w for row in now.read("t").collect()} == {1: None, 2: None, 3: "a"}
    with pytest.raises(BadInputError, match=r"a column of the schema is not in the file.*epoch 2.*since=3") as told:
        now.rebuild("t")
    assert told.value.file == str(tmp_path / f"in/2.{kind}")
    now.rebuild("t", since=3)
    assert {row.v: row.w for row in now.read("t").collect()} == {3: "a"}
    made("v int").rebuild("t")
    assert sorted(row.v for row in now.read("t").collect()) == [1, 2, 3]
