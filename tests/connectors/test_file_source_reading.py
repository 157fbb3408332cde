"""What a FileSource reads, on Apache Spark and on Sail."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_operators.connectors.connector import UNKNOWN, parse_schema
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.connectors.rejects import split_rejects
from dagster_operators.errors import BadInputError, MissingInputError

RIDES = "timestamp timestamp, id int, place string"


@pytest.fixture(params=["spark", "sail"])
def session(request):
    return request.getfixturevalue(request.param)


def items_of(source):
    return source.choose(None, lambda: iter(())).slice.items


def frame_of(session, source, corrupt="fail"):
    schema = source.infer_schema(session)
    return source.read(session, items_of(source), schema, corrupt=corrupt)


def rows_of(session, source):
    return sorted((tuple(row) for row in frame_of(session, source).collect()), key=str)


def instants(session, source):
    """Event times as microseconds, whatever the client makes of time zones."""
    frame = frame_of(session, source).selectExpr("unix_micros(timestamp) AS t", "id")
    return sorted(tuple(row) for row in frame.collect())


def micros(*parts):
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1_000_000)


def failure_of(session, source):
    """The error that reading amounts to, as the runtime raises it."""
    schema = source.infer_schema(session)
    items = items_of(source)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # engines raise errors of many kinds
        source.read(session, items, schema).collect()
    if isinstance(raised.value, BadInputError):
        return raised.value
    return source.explain_failure(session, raised.value, items, schema)


def test_json_lines_with_iso_timestamps(session, tmp_path):
    (tmp_path / "cars.json").write_text(
        '{"timestamp": "2023-09-18T14:23:10Z", "id": 1, "place": "a"}\n'
        '{"timestamp":"2023-10-09T17:13:20+00:00","id":2}\n'
        "\n"
        '{"timestamp":"2023-10-09T17:13:20.200+02:00","id":3,"place":"c","more":{"x":1}}\n'
    )
    source = FileSource(tmp_path / "cars.json", schema=RIDES)
    assert instants(session, source) == [
        (micros(2023, 9, 18, 14, 23, 10), 1),
        (micros(2023, 10, 9, 15, 13, 20) + 200_000, 3),
        (micros(2023, 10, 9, 17, 13, 20), 2),
    ]


def test_nested_json(session, tmp_path):
    (tmp_path / "orders.json").write_text('{"before":null,"after":{"id":7,"items":[1,2]},"op":"c"}\n')
    source = FileSource(tmp_path / "orders.json", schema="after struct<id: long, items: array<long>>, op string")
    assert frame_of(session, source).selectExpr("after.id", "after.items[1]", "op").collect() == [(7, 2, "c")]


def test_csv_columns_are_matched_by_name_in_every_file(session, tmp_path):
    (tmp_path / "1.csv").write_text("id,name,extra\n1,a,x\n")
    (tmp_path / "2.csv").write_text('name,id\n"b,c",2\n')
    (tmp_path / "3.csv.gz").write_bytes(gzip.compress(b"id,name\n3,\n"))
    source = FileSource(tmp_path / "*", schema="id long, name string")
    assert rows_of(session, source) == [(1, "a"), (2, "b,c"), (3, None)]


def test_csv_options(session, tmp_path):
    (tmp_path / "a.csv").write_text("1;a\n2;b\n")
    source = FileSource(tmp_path, schema="id long, name string", options={"header": False, "sep": ";"})
    assert rows_of(session, source) == [(1, "a"), (2, "b")]


def test_names_that_engines_would_take_for_globs(session, tmp_path):
    folder = tmp_path / "in [1] {x}"
    folder.mkdir()
    (folder / "a b*#%20?.json").write_text('{"id": 1}\n')
    (folder / "a b-other.json").write_text('{"id": 2}\n')
    assert rows_of(session, FileSource(folder, schema="id long")) == [(1,), (2,)]
    assert rows_of(session, FileSource(folder, schema="id long", max_files=1)) in ([(1,)], [(2,)])


def test_parquet_gives_event_times_without_a_read(session, tmp_path):
    table = pa.table({"t": pa.array([5, None, 9], pa.timestamp("us", "UTC")), "n": pa.array([1, 2, 3]), "extra": ["a", "b", "c"]})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.slice(1, 1), tmp_path / "b.parquet")
    source = FileSource(tmp_path, schema="n long, t timestamp")
    items = items_of(source)
    assert source.largest_event_time(items, "t") == 9
    assert (source.null_count(items, "t"), source.null_count(items, "n")) == (2, 0)
    assert source.largest_event_time(items, "n") is UNKNOWN
    assert sorted(row[0] for row in frame_of(session, source).collect()) == [1, 2, 2, 3]


def test_parquet_times_in_milliseconds_and_without_a_zone(session, tmp_path):
    pq.write_table(pa.table({"t": pa.array([5], pa.timestamp("ms"))}), tmp_path / "a.parquet")
    source = FileSource(tmp_path, schema="t timestamp_ntz")
    assert source.largest_event_time(items_of(source), "t") == 5000
    assert frame_of(session, source).collect()[0][0].replace(tzinfo=None) == datetime(1970, 1, 1, microsecond=5000)  # noqa: DTZ001


NARROWER = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
}
WIDER = "a bigint, `b.c` int, d double, e string"


def test_parquet_files_with_shorter_numbers_than_the_schema_on_sail(sail, tmp_path):
    """Files of several types, one of them the schema's own; columns in another order than the schema's, and ones beside them."""
    wanted = [(None, None, None, "none"), (1 << 40, 1 << 30, 0.5, "own")]
    own = {"e": pa.array(["own", "none"]), "a": pa.array([1 << 40, None], pa.int64()), "d": pa.array([0.5, None])}
    pq.write_table(pa.table(own | {"b.c": pa.array([1 << 30, None], pa.int32())}), tmp_path / "own.parquet")
    for name, (least, most) in NARROWER.items():
        values = pa.array([least, most, None], getattr(pa, name)())
        rows = pa.table({"beside": values, "e": [name] * 3, "d": values, "b.c": values, "a": values})
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        wanted += [(value, value, value, name) for value in (least, most, None)]
    source = FileSource(tmp_path, schema=WIDER)
    frame = frame_of(sail, source)
    assert [kind for _, kind in frame.dtypes] == ["bigint", "int", "double", "string"]
    assert sorted(map(tuple, frame.collect()), key=repr) == sorted(
        ((a, b, None if d is None else float(d), e) for a, b, d, e in wanted), key=repr
    )


def test_parquet_dictionaries_and_texts_as_bytes(session, tmp_path):
    texts, times, short = pa.array(["\u00e9", None]), pa.array([5, None], pa.timestamp("us")), pa.array([1, None], pa.int16())
    for name, column in {"plain": texts, "coded": texts.dictionary_encode()}.items():
        pq.write_table(pa.table({"e": column, "b": column, "t": times, "s": short}), tmp_path / f"{name}.parquet")
    source = FileSource(tmp_path, schema="s bigint, b binary, e string, t timestamp")
    rows = frame_of(session, source).selectExpr("s", "b", "e", "unix_micros(t)").collect()
    assert (
        sorted(((s, b and bytes(b), e, t) for s, b, e, t in rows), key=repr)
        == [(1, "\u00e9".encode(), "\u00e9", 5)] * 2 + [(None,) * 4] * 2
    )


def test_parquet_dictionaries_beside_nested_columns_are_read_on_sail(sail, tmp_path):
    table = pa.table({"e": pa.array(["a"]).dictionary_encode(), "n": [{"a": 1}]})
    pq.write_table(table, tmp_path / "a.parquet")
    source = FileSource(tmp_path, schema="e string, n struct<a: bigint>")
    assert frame_of(sail, source).collect() == [("a", (1,))]


def test_a_time_without_a_zone_counts_as_utc(session, tmp_path):
    pq.write_table(pa.table({"timestamp": pa.array([5], pa.timestamp("us")), "id": [1]}), tmp_path / "a.parquet")
    assert instants(session, FileSource(tmp_path, schema="timestamp timestamp, id long")) == [(5, 1)]


def test_schema_is_inferred_from_what_there_is(session, tmp_path):
    (tmp_path / "a.csv").write_text("id,name\n1,a\n")
    (tmp_path / "b.csv").write_text("id,name\n2,b\n")
    assert sorted(row["name"] for row in frame_of(session, FileSource(tmp_path / "*.csv")).collect()) == ["a", "b"]


def test_no_file_to_infer_a_schema_from(session, tmp_path):
    with pytest.raises(MissingInputError, match="no file yet"):
        FileSource(tmp_path / "*.csv").infer_schema(session)


def test_pinned_files_are_read_again_without_later_ones(session, tmp_path):
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    source = FileSource(tmp_path, schema="id long")
    pin = source.pin()
    (tmp_path / "b.json").write_text('{"id": 2}\n')
    assert source.read_pinned(session, pin, parse_schema(session, "id long")).collect() == [(1,)]


@pytest.mark.parametrize("engine", ["spark", "sail"])
@pytest.mark.parametrize("columns", ["*", "place"])
def test_corrupt_records_fail_whatever_the_query_needs(request, tmp_path, engine, columns):
    session = request.getfixturevalue(engine)
    (tmp_path / "good.json").write_text('{"id": 1, "place": "a"}\n')
    (tmp_path / "bad.json").write_text('{"id": 1, "place": "a"}\n{"id": "many", "place": "b"}\n')
    source = FileSource(tmp_path, schema="id int, place string")
    schema = source.infer_schema(session)
    with pytest.raises(Exception) as raised:  # noqa: PT011  # engines raise errors of many kinds
        source.read(session, items_of(source), schema).selectExpr(columns).collect()
    error = source.explain_failure(session, raised.value, items_of(source), schema)
    assert isinstance(error, BadInputError)
    assert error.file == str(tmp_path / "bad.json")
    assert error.column == "id"
    assert "many" in error.record


def test_a_csv_value_of_another_type_names_file_and_column(session, tmp_path):
    (tmp_path / "a.csv").write_text("id,place\n1,x\n")
    (tmp_path / "b.csv").write_text("id,place\nmany,x\n")
    error = failure_of(session, FileSource(tmp_path, schema="id int, place string"))
    assert (error.file, error.column) == (str(tmp_path / "b.csv"), "id")


def test_a_csv_record_cut_short_names_the_file(session, tmp_path):
    (tmp_path / "a.csv").write_text("id,place\n1,x\n2")
    error = failure_of(session, FileSource(tmp_path, schema="id int, place string"))
    assert error.file == str(tmp_path / "a.csv")
    assert "not a complete record" in str(error)


def test_a_truncated_gzip_file_names_the_file(session, tmp_path):
    lines = "".join(f'{{"id": {number}}}\n' for number in range(10_000)).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(lines)[:-2000])
    error = failure_of(session, FileSource(tmp_path, schema="id int"))
    assert isinstance(error, BadInputError)
    assert error.file == str(tmp_path / "a.json.gz")


def test_json_rejects(session, tmp_path):
    file = tmp_path / "a b.json"
    file.write_text('{"id": 1, "place": "a"}\n{"id": "many", "place": "b"}\n{"id": 3, "pla\n[1]\n{"id": 4}\n')
    source = FileSource(tmp_path, schema="id int, place string", corrupt="reject")
    good, bad = split_rejects(frame_of(session, source, "reject"))
    assert sorted(tuple(row) for row in good.selectExpr("id").collect()) == [(1,), (4,)]
    assert good.columns == ["id", "place"]
    assert sorted(tuple(row) for row in bad.collect()) == [
        (str(file), "[1]", "not a complete record of the schema"),
        (str(file), '{"id": "many", "place": "b"}', "column id is no integer: many"),
        (str(file), '{"id": 3, "pla', "not a complete record of the schema"),
    ]


def test_csv_rejects(session, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text('place,id,t\nx,1,2023-09-18T14:23:10Z\ny,many,\nz\n"a,b",4,soon\nlong,5,,6\n')
    source = FileSource(tmp_path, schema="id int, place string, t timestamp", corrupt="reject")
    good, bad = split_rejects(frame_of(session, source, "reject"))
    assert [tuple(row) for row in good.selectExpr("id", "place", "unix_micros(t)").collect()] == [
        (1, "x", micros(2023, 9, 18, 14, 23, 10))
    ]
    assert sorted((row["record"], row["reason"]) for row in bad.collect()) == [
        ('"a,b",4,soon', "column t is no timestamp: soon"),
        ("long,5,,6", "not a complete record of the schema"),
        ("y,many,", "column id is no integer: many"),
        ("z", "not a complete record of the schema"),
    ]


def test_no_record_is_lost_or_doubled_by_rejecting(session, tmp_path):
    good = [f'{{"id": {number}}}' for number in range(500)]
    bad = [f'{{"id": "{number}x"}}' for number in range(50)]
    (tmp_path / "a.json").write_text("\n".join(good[:250] + bad + good[250:]))
    source = FileSource(tmp_path, schema="id int", corrupt="reject")
    rows, rejects = split_rejects(frame_of(session, source, "reject"))
    assert (rows.count(), rejects.count()) == (500, 50)
    assert rows.selectExpr("count(distinct id)").collect() == [(500,)]


OTHER_CASE = {
    "r struct<a: int, b: string>": lambda kind, row: (kind, row),
    "r array<struct<a: int>>": lambda kind, row: (pa.list_(kind), [row]),
    "r map<string, struct<a: int>>": lambda kind, row: (pa.map_(pa.string(), kind), [("k", row)]),
    "r map<struct<a: int>, string>": lambda kind, row: (pa.map_(kind, pa.string()), [(row, "v")]),
    "r array<array<struct<a: int>>>": lambda kind, row: (pa.list_(pa.list_(kind)), [[row]]),
    "r struct<m: map<string, array<struct<a: int>>>>": lambda kind, row: (
        pa.struct({"m": pa.map_(pa.string(), pa.list_(kind))}), {"m": [("k", [row])]}
    ),
}  # fmt: skip
"""The type and value of a column with a struct somewhere within, by what the schema says of it."""


def with_other_case(folder, declared):
    """Two files; in the second a field has another case than in the schema."""
    for number, name in enumerate(("a", "A")):
        kind, value = OTHER_CASE[declared](pa.struct({name: pa.int32(), "b": pa.string()}), {name: 1, "b": "x"})
        pq.write_table(pa.table({"r": pa.array([value], kind)}), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    return FileSource(folder, schema=declared)


@pytest.mark.parametrize("places", [False, True], ids=["plain", "places"])
@pytest.mark.parametrize("declared", OTHER_CASE)
def test_fields_of_parquet_in_another_case_are_refused_on_sail(sail, declared, places, tmp_path):
    """Spark reads them whatever the case; Sail, and Arrow for places, would give null for those, beside others that they find."""
    source = with_other_case(tmp_path, declared)
    with pytest.raises(BadInputError, match="a field is called 'A' in the file and otherwise in the schema") as refused:
        frame_of(sail, source.with_places() if places else source)
    assert refused.value.where["file"].endswith("1.parquet")
    assert "write it in the schema as in the file" in refused.value.remedy
    (tmp_path / "0.parquet").unlink()
    source = FileSource(tmp_path, schema=declared.replace("a: int", "A: int"))
    (row,) = frame_of(sail, source.with_places() if places else source).collect()
    assert "A=1" in str(row.r)


@pytest.mark.spark
@pytest.mark.parametrize("places", [False, True], ids=["plain", "places"])
def test_fields_of_parquet_in_another_case_are_read_by_spark(spark, places, tmp_path):
    declared = "r map<string, struct<a: int>>"
    source = with_other_case(tmp_path, declared)
    found = frame_of(spark, source.with_places() if places else source)
    assert [row.r["k"].a for row in found.collect()] == [1, 1]


def test_types_of_parquet_that_sail_does_not_read_itself(sail, tmp_path):
    columns = {
        "d": (Decimal("1.5"), pa.decimal256(10, 2), "decimal(10,2)"), "l": ([1], pa.large_list(pa.int32()), "array<int>"),
        "n": (1.5, pa.dictionary(pa.int32(), pa.float64()), "double"), "s": ([1], pa.list_(pa.int16()), "array<int>"),
    }  # fmt: skip
    pq.write_table(
        pa.table({name: pa.array([value], kind) for name, (value, kind, _) in columns.items()}), tmp_path / "a.parquet"
    )
    source = FileSource(tmp_path, schema=", ".join(f"{name} {declared}" for name, (_, _, declared) in columns.items()))
    assert frame_of(sail, source).collect() == [tuple(value for value, _, _ in columns.values())]
