"""Sources whose columns change between two epochs: right, or refused with a way on that works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
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
