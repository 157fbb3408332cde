"""Debezium's change events: what they do to the rows of a table."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.connectors.debezium import UnreadableEventError, entries_of
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.state import compaction
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark

COLUMNS = {"id": "int", "v": "string", "at": "timestamp", "day": "date", "price": "decimal(10,2)", "local": "timestamp_ntz"}
SCHEMA = "id int, v string"


def entries(event: Any, columns: dict[str, str] = COLUMNS) -> list[tuple[str, dict[str, str | None]]]:
    """What an event does: the operations, and the values that are not null."""
    return [
        (entry.operation, {name: value for name, value in zip(columns, entry.values, strict=True) if value is not None})
        for entry in entries_of(json.dumps(event), columns, ["id"])
    ]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"op": "c", "before": None, "after": {"id": 1, "v": "a"}}, [("insert", {"id": "1", "v": "a"})]),
        ({"op": "r", "after": {"id": 1, "v": None}}, [("upsert", {"id": "1"})]),
        ({"op": "u", "before": None, "after": {"id": 1, "v": "b"}}, [("update", {"id": "1", "v": "b"})]),
        ({"op": "u", "before": {"id": 1}, "after": {"id": 2}}, [("delete", {"id": "1"}), ("insert", {"id": "2"})]),
        ({"op": "d", "before": {"id": 1, "v": "b"}, "after": None}, [("delete", {"id": "1", "v": "b"})]),
        (None, []),
        ({"schema": {}, "payload": None}, []),
        ({"op": "m", "message": {}}, []),
        ({"schema": None, "payload": {"op": "c", "after": {"id": 1}}}, [("insert", {"id": "1"})]),
        ({"op": "c", "after": {"id": 1, "at": 1734539354748899}}, [("insert", {"id": "1", "at": "2024-12-18 16:29:14.748899Z"})]),
        (
            {"op": "c", "after": {"id": 1, "local": 1734539354748}},
            [("insert", {"id": "1", "local": "2024-12-18 16:29:14.748000"})],
        ),
        ({"op": "c", "after": {"id": 1, "day": 20000}}, [("insert", {"id": "1", "day": "2024-10-04"})]),
        ({"op": "c", "after": {"id": 1, "price": {"scale": 2, "value": "AN4="}}}, [("insert", {"id": "1", "price": "2.22"})]),
    ],
    ids=str,
)
def test_an_event(event: Any, expected: list[Any]) -> None:
    assert entries(event) == expected


def test_the_schema_says_what_values_are() -> None:
    fields = [
        *({"field": name} for name in ("id", "v", "day", "local")),
        {"field": "price", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "1"}},
        {"field": "at", "name": "io.debezium.time.MicroTimestamp"},
    ]
    event = {"op": "c", "after": {"id": 1, "price": "/w==", "at": 5}}
    enveloped = {"schema": {"fields": [{"field": "after", "fields": fields}]}, "payload": event}
    assert entries(enveloped) == [("insert", {"id": "1", "price": "-0.1", "at": "1970-01-01 00:00:00.000005Z"})]


def enveloped(value: Any, **field: Any) -> Any:
    """An event whose schema says what its only value is."""
    named = [{"field": name} for name in COLUMNS if name != "price"]
    fields = [*named, {"field": "price", "name": "org.apache.kafka.connect.data.Decimal", **field}]
    return {
        "schema": {"fields": [{"field": "after", "fields": fields}]},
        "payload": {"op": "c", "after": {"id": 1, "price": value}},
    }


def test_a_declared_column_that_the_schema_does_not_know_is_an_error() -> None:
    schema = {"fields": [{"field": "after", "fields": [{"field": "id"}, {"field": "price"}]}]}
    deleted = {"op": "d", "before": {"id": 1}}
    assert entries({"schema": schema, "payload": deleted}, {"id": "int", "price": "double"}) == [("delete", {"id": "1"})]
    told = "the event's schema has no column prise: declare columns that it has: id, price"
    for event in (deleted, {"op": "c", "after": {"id": 1, "price": 2}}, {"op": "c", "after": [{}]}):
        with pytest.raises(UnreadableEventError, match=told):
            entries({"schema": schema, "payload": event}, {"id": "int", "prise": "double"})


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
@example(12345678901234567890123456789012345678, 2)
@settings(max_examples=30, deadline=None)
def test_decimals_have_all_their_digits(unscaled: int, scale: int) -> None:
    data = base64.b64encode(unscaled.to_bytes(17, signed=True)).decode()
    for event in (enveloped(data, parameters={"scale": str(scale)}), enveloped({"scale": scale, "value": data}, name=None)):
        found = entries(event, {**COLUMNS, "price": f"decimal(38,{scale})"})[0][1]["price"]
        assert found is not None
        assert Fraction(found) == Fraction(unscaled, 10**scale)


@pytest.mark.parametrize(("unscaled", "text"), [(0, "0.0000000000"), (1, "0.0000000001"), (-15 * 10**12, "-1500.0000000000")])
def test_decimals_have_no_exponent_which_sail_does_not_cast(unscaled: int, text: str) -> None:
    data = base64.b64encode(unscaled.to_bytes(17, signed=True)).decode()
    columns = {**COLUMNS, "price": "decimal(20,10)"}
    assert entries(enveloped(data, parameters={"scale": 10}), columns)[0][1]["price"] == text


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("day", 9999999999, "9999999999 (beyond the years 1 to 9999)"),
        ("day", -800000, "-800000 (beyond the years 1 to 9999)"),
        ("day", True, "true"),
        ("at", 10**30, f"{10**30} (beyond the years 1 to 9999)Z"),
        ("price", {"scale": 2, "value": 5}, '{"scale": 2, "value": 5}'),
        ("price", {"scale": 2, "value": "?"}, '{"scale": 2, "value": "?"}'),
        ("price", {"scale": 2, "value": ""}, '{"scale": 2, "value": ""}'),
    ],
)
def test_no_value_of_the_column_becomes_a_text_that_is_none_either(column: str, value: Any, text: str) -> None:
    assert entries({"op": "c", "after": {"id": 1, column: value}}) == [("insert", {"id": "1", column: text})]


def test_numbers_within_a_value_have_all_their_digits() -> None:
    line = '{"op": "c", "after": {"id": 1, "v": {"a": [12345678901234567890.123456789], "b": null}}}'
    assert next(entries_of(line, COLUMNS, ["id"])).values[1] == '{"a": [12345678901234567890.123456789], "b": null}'


def test_a_decimal_written_as_a_number_is_that_number() -> None:
    assert entries(enveloped(5, parameters={"scale": "2"})) == [("insert", {"id": "1", "price": "5"})]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"op": "t"}', "a truncation"),
        ('{"op": "c", "after": null}', "'after' has no row"),
        ('{"op": "d", "before": null}', "'before' has no row"),
        ('{"op": "d", "before": {"v": "a"}}', "the key column id is not in 'before'"),
        ('{"op": "x", "after": {"id": 1}}', "op is 'x'"),
        ('{"op": "u", "after": {"id": 1, "v": "__debezium_unavailable_value"}}', "v was not sent"),
        ("[1]", "not an object"),
        ('{"op": "c", "aft', "not a complete record"),
        ("[" * 100_000, "not a complete record"),
        ('{"op": "c", "after": {"id": 1e99999999999999999999}}', "not a complete record"),
        ('{"op": "c", "after": {"id": 1, "v": "\\ud800"}}', "half a character"),
        ('{"schema": "x", "payload": {"op": "c", "after": {"id": 1}}}', "the schema beside the event"),
        ('{"schema": {"fields": [{"field": "after", "fields": [{}]}]}, "payload": {"op": "m"}}', "the schema beside the event"),
        (json.dumps({"op": "c", "after": {"id": 1, "price": {"scale": "x", "value": "AQ=="}}}), "the scale 'x'"),
        (json.dumps({"op": "c", "after": {"id": 1, "price": {"scale": 1.5, "value": "AQ=="}}}), r"the scale Decimal\('1.5'\)"),
    ],
    ids=lambda value: value[:60],
)
def test_what_cannot_be_read(line: str, message: str) -> None:
    with pytest.raises(UnreadableEventError, match=message):
        list(entries_of(line, COLUMNS, ["id"]))


PLACEHOLDER = "__debezium_unavailable_value"
NOT_SENT: dict[str, Any] = {
    "array<string>": [PLACEHOLDER],
    "array<binary>": [base64.b64encode(PLACEHOLDER.encode()).decode()],
    "binary": base64.b64encode(PLACEHOLDER.encode()).decode(),
    "array<bigint>": [*PLACEHOLDER.encode()],
    "array<double>": [float(byte) for byte in PLACEHOLDER.encode()],
    "array<decimal(10,2)>": [base64.b64encode(bytes([byte])).decode() for byte in PLACEHOLDER.encode()],
    "array<decimal(10,0)>": [{"scale": 0, "value": base64.b64encode(bytes([byte])).decode()} for byte in PLACEHOLDER.encode()],
    "array<varchar(36)>": [str(uuid.UUID(bytes=hashlib.md5(PLACEHOLDER.encode(), usedforsecurity=False).digest(), version=3))],
    "map<string,string>": {PLACEHOLDER: PLACEHOLDER},
    "string": json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":")),
}


@pytest.mark.parametrize("kind", NOT_SENT)
def test_a_value_that_was_not_sent_is_told_in_every_form_and_only_of_declared_columns(kind: str) -> None:
    line = json.dumps({"op": "u", "after": {"id": 1, "v": "a", "large": NOT_SENT[kind]}})
    with pytest.raises(UnreadableEventError, match=r"the value of column large was not sent.*leave the column out of the schema"):
        list(entries_of(line, {"id": "int", "large": kind}, ["id"]))
    assert [entry.values for entry in entries_of(line, {"id": "int", "v": "string"}, ["id"])] == [("1", "a")]


@pytest.mark.sail
def test_an_event_is_applied_as_a_whole_or_set_aside(tmp_path: Path) -> None:
    half = '{"op": "u", "before": {"id": 1}, "after": {"id": 2, "v": "\\ud800"}}'
    drop(tmp_path, 0, [event("c", None, {"id": 1, "v": "a"}), half, "[" * 100_000])
    pipeline = pipeline_over(tmp_path, SAIL, corrupt="reject")
    pipeline.run_epoch()
    assert rows_of(pipeline, "current") == [(1, "a")]
    rejects = pipeline.read("rows_rejects").collect()
    assert sorted(row.reason for row in rejects) == ["a text has half a character", "not a complete record of JSON"]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_row_that_moves_to_another_key_stays_where_it_is_if_its_new_values_are_none(tmp_path: Path, engine: str) -> None:
    good = [event("c", None, {"id": number, "v": str(number)}) for number in (1, 2, 3)]
    moves = [(1, 7, "x"), (2, 8, "9"), ("three", 9, "9")]
    events = [event("u", {"id": old}, {"id": new, "v": value}) for old, new, value in moves]
    drop(tmp_path, 0, [*good, *events])
    files = do.FileSource(str(tmp_path / "in/*.json"), format="debezium-json", schema="id int, v int", key="id", corrupt="reject")
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES[engine])
    rows = pipeline.source("rows", files)
    rows.latest("id").to_table("current")
    pipeline.run_epoch()
    assert rows_of(pipeline, "current") == [(1, 1), (3, 3), (8, 9)]
    rejects = {row.record: row.reason for row in pipeline.read("rows_rejects").collect()}
    assert rejects == {events[0]: "column v is no integer: x", events[2]: "column id is no integer: three"}
    assert pipeline.read("rows_rejects").count() == 2


NESTED = {
    "id": "int",
    "ts": "array<timestamp>",
    "days": "array<date>",
    "s": "struct<p:decimal(38,2),n:int>",
    "m": "map<string,double>",
    "v": "string",
    "truth": "boolean",
    "data": "binary",
    "d": "double",
    "f": "float",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "day": "date",
    "price": "decimal(10,2)",
}


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("ts", "[1700000000000000, null]", '["2023-11-14 22:13:20.000000Z", null]'),
        ("ts", '["2024-01-05T10:00:00+02:00"]', '["2024-01-05 08:00:00.000000Z"]'),
        ("days", "[19000]", '["2022-01-08"]'),
        ("s", '{"p": 12345678901234567890.12, "n": 1}', '{"p": "12345678901234567890.12", "n": "1"}'),
        ("s", '{"p": {"scale": 1, "value": "/w=="}}', '{"p": "-0.1", "n": null}'),
        ("s", '"{\\"n\\": 2}"', '{"p": null, "n": "2"}'),
        ("m", '{"a": NaN, "b": 0.5}', '{"a": "NaN", "b": "0.5"}'),
        ("v", '{"a": [12345678901234567890.10]}', '{"a": [12345678901234567890.10]}'),
        ("truth", "0", "false"),
        ("truth", "1", "true"),
        ("data", '"aGVsbG8="', "aGVsbG8="),
        ("d", "NaN", "NaN"),
        ("f", "0.1", "0.1"),
        ("f", "1.100000023841858", "1.100000023841858"),
        ("f", "1.17549435E-38", "1.17549435E-38"),
        ("d", "0.30000000000000004", "0.30000000000000004"),
        ("price", "1.1100", "1.1100"),
        ("at", '"2024-1-2 3:4:5.1234560Z"', "2024-1-2 3:4:5.1234560Z"),
    ],
)
def test_nested_values_are_converted_too_and_exact(column: str, value: str, text: str) -> None:
    found = next(entries_of(f'{{"op": "c", "after": {{"id": 1, "{column}": {value}}}}}', NESTED, ["id"]))
    assert dict(zip(NESTED, found.values, strict=True))[column] == text


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("ts", "[5]"),
        ("ts", '["x"]'),
        ("days", '["2022-1-8"]'),
        ("days", "5"),
        ("s", '{"n": "abc"}'),
        ("s", '{"n": 3.5}'),
        ("s", '{"n": 2147483648}'),
        ("s", '{"p": 0.001}'),
        ("s", '{"p": 1e36}'),
        ("s", "[1]"),
        ("s", '"x"'),
        ("m", '{"a": true}'),
        ("m", '{"a": 1e400}'),
        ("d", "1e400"),
        ("f", "1e39"),
        ("truth", "2"),
        ("f", "16777217"),
        ("f", "0.123456789"),
        ("d", "9007199254740993"),
        ("m", '{"a": 0.12345678901234567890}'),
        ("ts", '["01:02:03Z"]'),
        ("ts", '["2024-01-01T00:00:00.123456789Z"]'),
        ("at", '"01:02:03Z"'),
        ("at", '"T01:02:03"'),
        ("at", '" 1:2:3"'),
        ("at", '"10:00"'),
        ("at", '"today"'),
        ("at", '"2024-01-01T00:00:00.123456789Z"'),
        ("local", '"10:00+02:00"'),
        ("day", '"24:00"'),
        ("price", "1.115"),
        ("price", '"1.115"'),
        ("price", '{"scale": 3, "value": "AN4="}'),
        ("truth", '"yes"'),
        ("data", '"?"'),
        ("data", "1234"),
    ],
)
def test_what_cannot_be_read_exactly_is_corrupt(column: str, value: str) -> None:
    with pytest.raises(UnreadableEventError, match=f"column {column} is no "):
        list(entries_of(f'{{"op": "c", "after": {{"id": 1, "{column}": {value}}}}}', NESTED, ["id"]))


def test_the_schema_says_what_nested_values_are() -> None:
    micros = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    fields = [*({"field": name} for name in NESTED if name != "ts"), {"field": "ts", "type": "array", "items": micros}]
    envelope = {
        "schema": {"fields": [{"field": "after", "fields": fields}]},
        "payload": {"op": "c", "after": {"id": 1, "ts": [5]}},
    }
    assert entries(envelope, NESTED) == [("insert", {"id": "1", "ts": '["1970-01-01 00:00:00.000005Z"]'})]


@pytest.mark.parametrize("value", [99_999_999_999, 31_536_000_000_000, 253_402_300_799_000, -31_536_000_000_000])
def test_a_number_that_may_be_two_times_is_refused(value: int) -> None:
    told = f"{value} (it cannot be told whether it counts milli- or microseconds: declare it as bigint)Z"
    assert entries({"op": "c", "after": {"id": 1, "at": value}}) == [("insert", {"id": "1", "at": told})]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_nested_values_and_bytes_in_a_table(tmp_path: Path, engine: str) -> None:
    schema = "id int, b binary, ts array<timestamp>, s struct<p: decimal(38,2), f: double>, m map<string, date>"
    row = '{"id": 1, "b": "aGVsbG8=", "ts": [1700000000000000], "s": {"p": 12345678901234567890.12, "f": NaN}, "m": {"a": 19000}}'
    drop(tmp_path, 0, [f'{{"op": "c", "after": {row}}}'])
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES[engine])
    source = do.FileSource(f"{tmp_path}/in", format="debezium-json", schema=schema, key="id")
    texts = (
        "id",
        "decode(b, 'utf-8') AS b",
        "CAST(ts[0] AS string) AS ts",
        "concat_ws(' ', s.p, isnan(s.f)) AS s",
        "CAST(m['a'] AS string) AS m",
    )
    pipeline.source("rows", source).latest("id").select(*texts).to_table("current")
    pipeline.run_epoch()
    assert rows_of(pipeline, "current") == [
        (1, "hello", "2023-11-14 22:13:20", "12345678901234567890.12 true", "2022-01-08"),
    ]


def event(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    return json.dumps({"op": op, "before": before, "after": after})


FILES = [
    [event("c", None, {"id": 1, "v": "a"}), event("c", None, {"id": 2, "v": "b"}), event("c", None, {"id": 2, "v": "b"})],
    [event("u", None, {"id": 1, "v": "c"}), event("d", {"id": 2}, None), "null", event("d", {"id": 9}, None)],
    [
        event("u", {"id": 1, "v": "c"}, {"id": 3, "v": "c"}),
        event("u", None, {"id": 4, "v": "c"}),
        event("r", None, {"id": 5, "v": None}),
    ],
]
TABLES = [
    [(1, "a"), (2, "b")],
    [(1, "c")],
    [(3, "c"), (4, "c"), (5, None)],
]


def pipeline_over(folder: Path, engine: Spark, **settings: Any) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(folder / "root"), engine=engine)
    source = do.FileSource(f"{folder}/in", format="debezium-json", schema=SCHEMA, key="id", **settings)
    rows = pipeline.source("rows", source)
    rows.latest("id").to_table("current")
    rows.filter("id < 4").key_by("v").aggregate(n="count(*)").to_table("counts")
    return pipeline


def drop(folder: Path, number: int, lines: list[str]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{number}.json").write_text("\n".join(lines) + "\n")


def rows_of(pipeline: do.Pipeline, table: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in pipeline.read(table).collect()), key=repr)


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_events_keep_a_table_and_a_view_up_to_date(tmp_path: Path, engine: str) -> None:
    pipeline = pipeline_over(tmp_path, ENGINES[engine])
    for number, (lines, expected) in enumerate(zip(FILES, TABLES, strict=True)):
        drop(tmp_path, number, lines)
        pipeline.run_epoch()
        values = [v for id_, v in expected if id_ < 4]
        assert (number, rows_of(pipeline, "current")) == (number, expected)
        assert rows_of(pipeline, "counts") == sorted(((v, values.count(v)) for v in set(values)), key=repr)
    assert "state table state/rows_changes.rows" in pipeline.explain()


@pytest.mark.sail
def test_all_files_in_one_epoch(tmp_path: Path) -> None:
    for number, lines in enumerate(FILES):
        drop(tmp_path, number, lines)
    pipeline = pipeline_over(tmp_path, SAIL)
    pipeline.run_epoch()
    assert rows_of(pipeline, "current") == TABLES[-1]


@pytest.mark.sail
def test_events_that_cannot_be_read_fail_the_epoch_or_are_set_aside(tmp_path: Path) -> None:
    wrong = [event("c", None, {"id": 1, "v": "a"}), event("c", None, {"id": "x", "v": "b"}), '{"op": "x"}']
    drop(tmp_path, 0, wrong)
    with pytest.raises(BadInputError, match="column id is no integer: x") as failed:
        pipeline_over(tmp_path, SAIL).run_epoch()
    assert failed.value.file.endswith("in/0.json")
    (tmp_path / "again").mkdir()
    drop(tmp_path / "again", 0, wrong)
    pipeline = pipeline_over(tmp_path / "again", SAIL, corrupt="reject")
    pipeline.run_epoch()
    assert rows_of(pipeline, "current") == [(1, "a")]
    assert [row.reason.split(",")[0] for row in pipeline.read("rows_rejects").orderBy("reason").collect()] == [
        "column id is no integer: x",
        "op is 'x'",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "debezium-json", "schema": SCHEMA}, "and its key"),
        ({"format": "debezium-json", "key": "id"}, "need the schema"),
        ({"format": "debezium-json", "schema": SCHEMA, "key": "k"}, "the key 'k' is no column"),
        ({"format": "debezium-json", "schema": SCHEMA, "key": "id", "options": {"sep": ";"}}, "without options"),
        ({"format": "json", "schema": SCHEMA, "key": "id"}, "only change events have a key"),
        (
            {"format": "debezium-json", "schema": SCHEMA, "key": "id", "unknown": "drop"},
            'unknown is "repair", "ignore" or "fail"',
        ),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        do.FileSource("in", **settings)


@pytest.mark.sail
@pytest.mark.slow
def test_change_events_get_an_event_time_as_it_is_told(tmp_path: Path) -> None:
    schema, days = "id long, n long, at timestamp", [f"2026-01-0{day}T00:00:00Z" for day in range(1, 5)]
    (tmp_path / "in").mkdir()

    def arrive(name: str, *events: Any) -> None:
        (tmp_path / "in" / f"{name}.json").write_text("".join(f"{json.dumps(event)}\n" for event in events))

    def shop() -> do.Pipeline:
        return do.Pipeline("shop", root=str(tmp_path / "shop"), engine=SAIL)

    source = do.FileSource(str(tmp_path / "in"), format="debezium-json", schema=schema, key=["id"])
    remedies = []
    for build in (
        lambda rows: rows.final(),
        lambda rows: rows.window(do.Tumbling("1 day")),
        lambda rows: rows.key_by("id").aggregate(n="sum(n)", forget_after="30 days"),
    ):
        with pytest.raises(PipelineError, match="event time") as refused:
            build(shop().source("rows", source))
        remedies.append(str(refused.value))
    ways = [re.search(r"into a table, (.*?), and read its changes in another pipeline: (.*?)(;|$)", one) for one in remedies]
    (table,) = {way[1] for way in ways if way}
    read = {way[2] for way in ways if way}
    assert all(ways)
    assert read == {"source('rows', PipelineSource(root, 'rows', changes=True), event_time='at').as_changes()"}

    def settled() -> do.Pipeline:
        first = shop()
        eval(f"rows.{table}", {"rows": first.source("rows", source)})  # noqa: S307 - as it is told
        first.run_until_caught_up()
        report = do.Pipeline("report", root=str(tmp_path / "report"), engine=SAIL)
        names = {"PipelineSource": do.PipelineSource, "root": str(tmp_path / "shop"), "report": report}
        changes = eval(f"report.{min(read, key=len)}", names)  # noqa: S307
        changes.final().to_table("final")
        changes.key_by("id").aggregate(n="sum(n)", forget_after="30 days").to_table("sums")
        report.run_until_caught_up()
        return report

    arrive("1", {"op": "c", "after": {"id": 1, "n": 1, "at": days[1]}}, {"op": "c", "after": {"id": 2, "n": 2, "at": days[2]}})
    settled()
    arrive("2", {"op": "u", "before": {"id": 2, "n": 2, "at": days[2]}, "after": {"id": 2, "n": 5, "at": days[2]}})
    arrive("3", {"op": "c", "after": {"id": 3, "n": 3, "at": days[3]}})
    report = settled()
    assert sorted((row.id, row.n) for row in report.read("sums").collect()) == [(1, 1), (2, 5), (3, 3)]
    assert sorted((row.id, row.n) for row in report.read("final").collect()) == [(1, 1), (2, 5)]


def test_change_events_are_no_table_to_look_up() -> None:
    source = do.FileSource("in", format="debezium-json", schema="id int, at timestamp", key=["id"])
    with pytest.raises(PipelineError, match="a lookup reads a table"):
        source.pin()


def test_rejected_events_are_in_a_table_and_no_stream() -> None:
    source = do.FileSource("in", format="debezium-json", schema="id int", key="id", corrupt="reject")
    orders = do.Pipeline("p", root="unused").source("orders", source)
    with pytest.raises(PipelineError, match="they go to the table orders_rejects") as refused:
        orders.rejects()
    assert "pipeline.read('orders_rejects')" in refused.value.remedy


@pytest.mark.sail
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([event("d", {"id": 9}, None)], "operation delete has the key 9, which is not there"),
        ([event("u", None, {"id": 9, "v": "a"})], "operation update has the key 9, which is not there"),
        ([event("c", None, {"id": 1, "v": "a"})], "operation insert has the key 1, which is there"),
        ([event("c", None, {"id": 2}), event("c", None, {"id": 2})], "operation insert has the key 2, which is there"),
        ([event("d", {"id": 1}, None), event("u", None, {"id": 1})], "operation update has the key 1, which is not there"),
        ([event("c", None, {"id": 2}), event("u", {"id": 2}, {"id": 1})], "operation insert has the key 1, which is there"),
    ],
)
def test_events_of_unknown_keys_can_fail_the_epoch(tmp_path: Path, lines: list[str], told: str) -> None:
    drop(tmp_path, 0, [event("c", None, {"id": 1, "v": "a"}), event("u", None, {"id": 1, "v": "b"})])
    pipeline = pipeline_over(tmp_path, SAIL, unknown="fail")
    pipeline.run_epoch()
    drop(tmp_path, 1, lines)
    with pytest.raises(BadInputError, match=told) as refused:
        pipeline.run_epoch()
    assert "AnalysisException" not in str(refused.value)
    assert refused.value.where["source"] == "rows"
    assert refused.value.where["file"].endswith(".json")
    assert 'unknown="repair"' in refused.value.remedy
    assert rows_of(pipeline, "current") == [(1, "b")]


@pytest.mark.sail
def test_known_keys_do_not_fail_the_epoch_whatever_it_has_of_them(tmp_path: Path) -> None:
    insert, update, delete = (
        event("c", None, {"id": 1, "v": "a"}),
        event("u", {"id": 1}, {"id": 2, "v": "b"}),
        event("d", {"id": 2}, None),
    )
    drop(tmp_path, 0, [insert, update, delete, insert, update])
    pipeline = pipeline_over(tmp_path, SAIL, unknown="fail")
    pipeline.run_epoch()
    assert rows_of(pipeline, "current") == [(2, "b")]


@pytest.mark.sail
def test_events_of_unknown_keys_can_be_left_out(tmp_path: Path) -> None:
    epochs = [
        ([event("u", None, {"id": 1, "v": "x"}), event("c", None, {"id": 2, "v": "a"})], [(2, "a")]),
        ([event("u", None, {"id": 1, "v": "y"}), event("u", None, {"id": 2, "v": "b"})], [(2, "b")]),
        ([event("d", {"id": 2}, None), event("u", None, {"id": 2, "v": "c"}), event("d", {"id": 9}, None)], []),
        ([event("u", None, {"id": 2, "v": "d"}), event("r", None, {"id": 1, "v": "z"})], [(1, "z")]),
    ]
    pipeline = pipeline_over(tmp_path, SAIL, unknown="ignore")
    for number, (lines, expected) in enumerate(epochs):
        drop(tmp_path, number, lines)
        pipeline.run_epoch()
        assert (number, rows_of(pipeline, "current")) == (number, expected)


@pytest.mark.sail
def test_updates_are_left_out_though_what_they_follow_is_in_a_large_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "TIER_LENGTH", 3)  # so that few runs fold: the small ones around the large one

    def rows(op: str, *ids: int, v: str = "a") -> list[str]:
        return [event(op, {"id": id_}, None) if op == "d" else event(op, None, {"id": id_, "v": v}) for id_ in ids]

    epochs = [
        rows("c", 1, 2),
        rows("d", 1),
        [*rows("d", 2), *rows("c", 1, *range(100, 180))],  # key 1 is there again, key 2 is gone
        *(rows("u", 1, 2, v=v) for v in "bcd"),
    ]
    source = do.FileSource(f"{tmp_path}/in", format="debezium-json", schema=SCHEMA, key="id", unknown="ignore")
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    pipeline.source("rows", source).filter("id < 3").latest("id").to_table("current")
    for number, lines in enumerate(epochs):
        drop(tmp_path, number, lines)
        pipeline.run_epoch()
    assert rows_of(pipeline, "current") == [(1, "d")]


@pytest.mark.sail
@fresh_examples(2)
@given(
    log=st.lists(st.tuples(st.sampled_from("cruud"), st.integers(1, 3)), min_size=6, max_size=24),
    cuts=st.sets(st.integers(1, 23), min_size=2, max_size=8),
)
def test_what_is_left_out_does_not_depend_on_the_epochs(
    tmp_path_factory: pytest.TempPathFactory, log: list[tuple[str, int]], cuts: set[int]
) -> None:
    folder, there, lines = tmp_path_factory.mktemp("p"), dict[int, str](), []
    for number, (op, id_) in enumerate(log):
        row = {"id": id_, "v": str(number)}
        if op == "d":
            there.pop(id_, None)
        elif op != "u" or id_ in there:
            there[id_] = row["v"]
        lines.append(event(op, {"id": id_}, None) if op == "d" else event(op, None, row))
    pipeline = pipeline_over(folder, SAIL, unknown="ignore")
    for number, (begin, end) in enumerate(pairwise([0, *sorted(cuts), len(lines)])):
        if lines[begin:end]:
            drop(folder, number, lines[begin:end])
            pipeline.run_epoch()
    assert dict(rows_of(pipeline, "current")) == there


@pytest.mark.sail
def test_it_is_told_that_known_keys_are_unknown_to_one_that_begins_without_state(tmp_path: Path) -> None:
    def told(unknown: str) -> dict[str, str]:
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
        source = do.FileSource(f"{tmp_path}/in", format="debezium-json", schema=SCHEMA, key="id", unknown=unknown)
        pipeline.source("rows", source).latest("id").to_table("current")
        if unknown == "repair":
            pipeline.run_epoch()
        return {one.subject: one.choices.get("restart", "") for one in pipeline.changes()}

    drop(tmp_path, 0, [event("c", None, {"id": 1, "v": "a"})])
    told("repair")
    begins = "begin without state, and empty current"
    assert told("ignore")["operator rows_changes"].startswith(f"{begins}: keys that were known are unknown then")
    assert told("fail")["operator rows_changes"] == begins


@pytest.mark.spark
def test_events_of_unknown_keys_left_out_on_spark(tmp_path: Path) -> None:
    pipeline = pipeline_over(tmp_path, ENGINES["spark"], unknown="ignore")
    drop(tmp_path, 0, [event("u", None, {"id": 1, "v": "x"}), event("c", None, {"id": 2, "v": "a"})])
    pipeline.run_epoch()
    drop(tmp_path, 1, [event("u", None, {"id": 1, "v": "y"}), event("u", None, {"id": 2, "v": "b"})])
    pipeline.run_epoch()
    assert rows_of(pipeline, "current") == [(2, "b")]
