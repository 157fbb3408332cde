"""Files without some columns of their source's schema, as files from before a column was added: refused, or null."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from dagster_operators.errors import BadInputError, PipelineError
from tests.engines import ENGINES, SAIL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = "code string, id long, at timestamp, tags array<string>, price decimal(9,2), n bigint"
"""Its columns are not in the order of any file."""


def write_csv(path: Path, *rows: dict[str, Any]) -> None:
    lines = [",".join(name.upper() for name in rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n")


def write_parquet(path: Path, *rows: dict[str, Any]) -> None:
    table = pa.Table.from_pylist(list(rows))
    if "code" in table.column_names:  # Sail reads a dictionary as what it is in the file
        table = table.set_column(0, "code", table["code"].dictionary_encode())
    pq.write_table(table, path.with_suffix(".parquet"))


def pipeline_over(folder: Path, engine: str = "sail", schema: str = SCHEMA, **settings: Any) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(folder / "root"), engine=ENGINES[engine])
    source = do.FileSource(folder / "in", schema=schema, **settings)
    pipeline.source("rows", source).to_table("t")
    return pipeline


def rows_of(pipeline: do.Pipeline) -> list[dict[str, Any]]:
    return sorted(pipeline.to_arrow("t").to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("engine", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("sail", "spark")])
@pytest.mark.parametrize("write", [write_csv, write_parquet], ids=["csv", "parquet"])
def test_columns_that_some_files_of_an_epoch_lack_are_null(engine: str, write: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/a", {"id": 1}, {"id": 2})
    write(tmp_path / "in/b", {"code": "x", "id": 3}, {"code": "y", "id": 4})
    write(tmp_path / "in/c", {"code": "z", "n": 7, "other": 1, "id": 5})
    schema = SCHEMA.replace(", tags array<string>", "") if write is write_csv else SCHEMA
    pipeline = pipeline_over(tmp_path, engine, schema=schema, missing_columns="null")
    pipeline.run_epoch()
    nothing = dict.fromkeys(pipeline.to_arrow("t").column_names)
    codes = (None, None, "x", "y", "z")
    assert rows_of(pipeline) == [
        nothing | {"id": number, "code": code, "n": 7 if number == 5 else None} for number, code in enumerate(codes, start=1)
    ]


@pytest.mark.sail
@pytest.mark.parametrize("write", [write_csv, write_parquet], ids=["csv", "parquet"])
def test_what_refuses_such_a_file_names_the_setting_which_a_running_pipeline_takes(
    write: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/a", {"id": 1})
    pipeline_over(tmp_path, schema="id long").run_epoch()
    write(tmp_path / "in/b", {"id": 2})
    with pytest.raises(BadInputError, match="a column of the schema is not in the file") as refused:
        pipeline_over(tmp_path, schema="id long, code string").run_epoch()
    assert "missing_columns='null'" in refused.value.remedy
    mended = pipeline_over(tmp_path, schema="id long, code string", missing_columns="null")
    mended.run_epoch()
    write(tmp_path / "in/c", {"code": "z", "id": 3})
    mended.run_epoch()
    wanted = [{"id": 1, "code": None}, {"id": 2, "code": None}, {"id": 3, "code": "z"}]
    assert rows_of(mended) == wanted
    mended.rebuild("t")
    assert rows_of(mended) == wanted


@pytest.mark.sail
@pytest.mark.parametrize("write", [write_csv, write_parquet], ids=["csv", "parquet"])
def test_files_that_have_none_of_the_columns_are_refused(write: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/a", {"number": 1})
    with pytest.raises(BadInputError, match="no column of the schema is in the file"):
        pipeline_over(tmp_path, missing_columns="null").run_epoch()


@pytest.mark.sail
def test_a_column_of_parquet_in_another_case_is_never_null(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1], "Code": ["x"]}), tmp_path / "in/a.parquet")
    with pytest.raises(BadInputError, match="a column is called 'Code' in the file") as refused:
        pipeline_over(tmp_path, schema="id long, code string", missing_columns="null").run_epoch()
    assert refused.value.remedy == "write it in the schema as in the file"
    pipeline = pipeline_over(tmp_path, schema="id long, Code string", missing_columns="null")
    pipeline.run_epoch()
    assert rows_of(pipeline) == [{"id": 1, "Code": "x"}]


@pytest.mark.sail
def test_a_row_without_the_event_time_is_set_aside_or_fails(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_csv(tmp_path / "in/a", {"id": 1})
    write_csv(tmp_path / "in/b", {"id": 2, "at": "2024-01-01T00:00:00Z"})
    for corrupt in ("fail", "reject"):
        pipeline = do.Pipeline("p", root=str(tmp_path / corrupt), engine=SAIL)
        files = do.FileSource(tmp_path / "in", schema="id long, at timestamp", corrupt=corrupt, missing_columns="null")
        pipeline.source("rows", files, event_time="at").to_table("t")
        if corrupt == "fail":
            with pytest.raises(BadInputError, match="event time"):
                pipeline.run_epoch()
        else:
            pipeline.run_epoch()
            assert rows_of(pipeline) == [{"id": 2, "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}]
            assert len(pipeline.read("rows_rejects").collect()) == 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"missing_columns": "ignore"}, 'missing_columns is "fail" or "null"'),
        ({"format": "json"}, "in JSON a column that is not there is null"),
        ({"format": "csv", "options": {"header": False}}, "for CSV files with a header"),
    ],
)
def test_settings_without_an_effect_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        do.FileSource("in", schema="id long", **{"missing_columns": "null", **settings})
