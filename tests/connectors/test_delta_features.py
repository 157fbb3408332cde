"""Features of Delta that tables of others have: right, or refused with a remedy that works."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from dagster_operators.connectors.delta_source import DeltaSource
from dagster_operators.errors import BadInputError
from tests.engines import SAIL

_MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}


def _field(name, kind, **said):
    return {"name": name, "type": kind, "nullable": True, "metadata": said}


def _mapped(name, kind, number):
    physical = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{name}"}
    return _field(name, kind, **physical)


def _struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def _list(kind):
    return {"type": "array", "elementType": kind, "containsNull": True}


def _log(folder, fields, files, *, features=("columnMapping", "typeWidening"), properties=None):
    """The log of a table with one entry."""
    (folder / "_delta_log").mkdir(parents=True)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": list(features), "writerFeatures": list(features)}
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "createdTime": 0}
    metadata |= {"schemaString": json.dumps(_struct(*fields)), "configuration": properties or {}}
    adds = [
        {"path": path, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True} for path, size in files
    ]
    actions = [{"protocol": protocol}, {"metaData": metadata}, *({"add": add} for add in adds)]
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def _table(folder, fields, *rows, **options):
    """A table with one file for each of some Arrow tables."""
    folder.mkdir()
    files = []
    for number, each in enumerate(rows):
        pq.write_table(each, folder / f"{number}.parquet")
        files.append((f"{number}.parquet", (folder / f"{number}.parquet").stat().st_size))
    _log(folder, fields, files, **options)
    return folder


def test_nested_fields_that_have_physical_names_or_became_wider_are_read(tmp_path):
    one, other = (_struct(_mapped("a", "integer", 2 + more), _mapped("b", "string", 3 + more)) for more in (0, 6))
    of_map = {"type": "map", "keyType": "string", "valueType": _struct(_mapped("d", "long", 7)), "valueContainsNull": True}
    fields = [_mapped("id", "long", 1), _mapped("s", one, 4), _mapped("l", _list(other), 5), _mapped("m", of_map, 6)]
    physical = pa.struct({"col-a": pa.int32(), "col-b": pa.string()})
    kinds = {"col-id": pa.int64(), "col-s": physical, "col-l": pa.list_(physical)}
    kinds["col-m"] = pa.map_(pa.string(), pa.struct({"col-d": pa.int64()}))
    row = {"col-id": 1, "col-s": {"col-a": 5, "col-b": "x"}, "col-l": [{"col-a": 6}, None], "col-m": [("k", {"col-d": 7})]}
    mapped = _table(tmp_path / "mapped", fields, pa.Table.from_pylist([row], pa.schema(kinds)), properties=_MAPPED)

    wide = _field("a", "long", **{"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]})
    wide_fields = [_field("id", "long"), _field("s", _struct(wide)), _field("l", _list(_struct(wide)))]

    def nested(kind, number, value):
        inner = pa.struct({"a": kind})
        kinds = {"id": pa.int64(), "s": inner, "l": pa.list_(inner)}
        return pa.Table.from_pylist([{"id": number, "s": {"a": value}, "l": [{"a": value}]}], pa.schema(kinds))

    widened = _table(tmp_path / "wide", wide_fields, nested(pa.int32(), 1, 5), nested(pa.int64(), 2, 2**40))
    pipeline = do.Pipeline("features", root=str(tmp_path / "root"), engine=SAIL)
    pipeline.source("mapped", DeltaSource(mapped)).to_table("from_mapped")
    pipeline.source("widened", DeltaSource(widened, starting_version=0)).to_table("from_widened")
    pipeline.run_epoch()
    expected = {"id": 1, "s": {"a": 5, "b": "x"}, "l": [{"a": 6, "b": None}, None], "m": [("k", {"d": 7})]}
    assert pipeline.to_arrow("from_mapped").to_pylist() == [expected]
    found = sorted((row["id"], row["s"]["a"], row["l"][0]["a"]) for row in pipeline.to_arrow("from_widened").to_pylist())
    assert found == [(1, 5, 5), (2, 2**40, 2**40)]


@pytest.mark.parametrize(
    "written", ["file:{}", "file://{}", "{}", "../original/{name}", "%2e%2e/original/{name}", "s3:/b/{name}"]
)
def test_a_file_outside_of_the_table_is_refused_with_a_way_to_its_rows(tmp_path, written):
    original = _table(tmp_path / "original", [_field("id", "long")], pa.table({"id": [1]}), features=())
    file = original / "0.parquet"
    _log(tmp_path / "clone", [_field("id", "long")], [(written.format(file, name=file.name), file.stat().st_size)], features=())
    for source in (DeltaSource(tmp_path / "clone"), DeltaSource(tmp_path / "clone", starting_version=0)):
        with pytest.raises(BadInputError, match="outside of its folder") as refused:
            source.verify(source.choose(None, lambda: iter(())).slice.items, source.infer_schema(None))
        assert "read the table that it is a clone of" in refused.value.remedy
    found = DeltaSource(Path(refused.value.file.removeprefix("file:").removeprefix("//")).parent) if "{}" in written else None
    assert found is None or found.choose(None, lambda: iter(())) is not None
