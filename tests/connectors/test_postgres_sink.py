"""PostgresSink call by call: what it writes, replaces and deletes, what it refuses, who it lets in, and what it never shows."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.connectors.postgres_sink import PostgresSink
from dagster_operators.connectors.sink import SinkAttempt, SinkRows
from dagster_operators.errors import (
    FencedError,
    NotPreparedError,
    OperatorsError,
    PipelineError,
    SchemaError,
    SinkError,
    SinkUnavailableError,
)
from dagster_operators.graph.changes import Changes
from dagster_operators.graph.operator import StreamType
from dagster_operators.transactions.failpoints import watch
from tests.connectors.sink_flow import TABLE, SinkFlow, coordinator, numbers_of
from tests.examples import fresh_examples

pytestmark = pytest.mark.postgres


def rows_of(table, keys=None, deleted=None):
    return SinkRows(table.schema, lambda: table.to_batches(max_chunksize=2), table.num_rows, keys, deleted)


def numbers(*values):
    return rows_of(pa.table({"n": pa.array(values, pa.int64())}))


def sink_to(database, table="numbers", *arguments, pipeline="p1", **options):
    sink = PostgresSink(database.dsn, table, *arguments, lock_timeout=0.3, **options)
    sink.open(pipeline, "warehouse")
    return sink


def put(sink, epoch, rows, generation=1):
    """One epoch without a crash."""
    data = sink.write(rows, SinkAttempt(epoch, f"g{generation}-{epoch:08x}", generation))
    sink.prepare(epoch, data, generation)
    sink.commit(epoch, data)
    return data


def all_of(database, columns="n", table="numbers"):
    return database.query(f"SELECT {columns} FROM {table} ORDER BY 1")


@pytest.fixture
def numbered(database):
    database.query("CREATE TABLE numbers (n bigint PRIMARY KEY CHECK (n < 100))")
    return database


def test_rows_are_seen_once_they_are_committed_and_then_for_good(numbered):
    sink = sink_to(numbered)
    data = sink.write(numbers(1, 2, 3), SinkAttempt(1, "g1-0badcafe", 1))
    assert data == {"prepared": "dagster_operators/p1/warehouse/1/g1-0badcafe"}
    sink.prepare(1, data, 1)
    assert all_of(numbered) == []
    for _ in range(3):
        sink.commit(1, data)
    assert all_of(numbered) == [(1,), (2,), (3,)]
    put(sink, 3, numbers(4))  # an epoch without rows in between
    sink.commit(1, data)
    assert numbered.query("SELECT epoch, generation, attempt FROM dagster_operators_epochs ORDER BY 1") == [
        (0, 1, ""),
        (3, 1, "g1-00000003"),
    ]


def test_a_lost_transaction_is_told_from_a_committed_one(numbered):
    sink = sink_to(numbered)
    attempt = SinkAttempt(1, "g1-0badcafe", 1)
    data = sink.write(numbers(1), attempt)
    numbered.query(f"ROLLBACK PREPARED '{data['prepared']}'")
    with pytest.raises(NotPreparedError):
        sink.prepare(1, data, 1)
    with pytest.raises(NotPreparedError):
        sink.commit(1, data)
    assert sink.write(numbers(1), attempt) == data
    sink.commit(1, data)
    assert all_of(numbered) == [(1,)]
    with pytest.raises(SinkError, match="has epoch 1 of this pipeline already"):
        sink.write(numbers(2), SinkAttempt(1, "g1-00000002", 1))


def test_a_database_that_is_put_back_behind_the_decision_tells_the_way_that_is_left(tmp_path, database):
    """The decided epoch comes before anything else that the pipeline could do, such as a rollback."""
    database.query(TABLE)

    def put_back(name):
        if name == "before:commit_participant:1":
            database.query(f"ROLLBACK PREPARED '{database.prepared()[0]}'")
            database.query("DELETE FROM numbers WHERE n >= 20")
            database.query("UPDATE dagster_operators_epochs SET epoch = 1 WHERE epoch = 2")

    with coordinator(tmp_path, database.dsn) as run:
        SinkFlow(run).epoch()
        SinkFlow(run).epoch()
        with watch(put_back), pytest.raises(SinkError, match=r"knows epoch 1 as the last .* gave it epoch 2") as caught:
            SinkFlow(run).epoch()
    first, noted = caught.value.remedy.split("; or, ")
    assert first == "put the database back to what it was"
    database.query(noted.partition("note it: ")[2])
    with coordinator(tmp_path, database.dsn) as run:
        SinkFlow(run).epoch()
        assert run.last_complete().epoch == 4
    assert all_of(database) == [(n,) for n in numbers_of(4) if not 20 <= n < 30]


def test_another_attempt_takes_the_place_of_an_earlier_one(numbered):
    """A process was killed after it prepared; the step is tried again within the same run."""
    sink = sink_to(numbered)
    sink.write(numbers(1), SinkAttempt(1, "g1-00000001", 1))
    data = sink.write(numbers(1), SinkAttempt(1, "g1-00000002", 1))
    assert numbered.prepared() == [data["prepared"]]
    sink.commit(1, data)


def test_two_pipelines_share_a_table_and_a_book(numbered):
    one, two = sink_to(numbered), sink_to(numbered, pipeline="p2")
    data = one.write(numbers(1), SinkAttempt(1, "g5-00000001", 5))
    put(two, 1, numbers(2))
    two.recover(1, 2)
    assert numbered.prepared() == [data["prepared"]]
    one.commit(1, data)
    assert all_of(numbered) == [(1,), (2,)]


def test_recovery_keeps_the_decided_epoch_and_drops_what_came_after(numbered):
    sink = sink_to(numbered)
    put(sink, 1, numbers(1))
    decided = sink.write(numbers(2), SinkAttempt(2, "g1-00000002", 1))
    sink_to(numbered).recover(2, 2)
    assert numbered.prepared() == [decided["prepared"]]
    sink.commit(2, decided)
    undecided = sink_to(numbered).write(numbers(3), SinkAttempt(3, "g2-00000003", 2))
    sink_to(numbered).recover(2, 2)  # another process of the same run
    assert numbered.prepared() == [undecided["prepared"]]
    sink_to(numbered).recover(2, 3)
    assert numbered.prepared() == []


def test_an_earlier_run_is_refused_whatever_it_calls(numbered):
    sink = sink_to(numbered)
    data = sink.write(numbers(1), SinkAttempt(1, "g1-00000001", 1))
    sink_to(numbered).recover(0, 2)
    kept = sink_to(numbered).write(numbers(1), SinkAttempt(1, "g2-00000001", 2))
    calls = [
        lambda: sink.write(numbers(7), SinkAttempt(1, "g1-00000007", 1)),
        lambda: sink.prepare(1, data, 1),
        lambda: sink.abort(1, 1),
        lambda: sink.recover(0, 1),
    ]
    for call in calls:
        with pytest.raises(FencedError) as refused:
            call()
        assert (refused.value.generation, refused.value.current_generation) == (1, 2)
    with pytest.raises(NotPreparedError):
        sink.commit(1, data)
    assert numbered.prepared() == [kept["prepared"]]
    sink.commit(1, kept)


def test_a_stopped_writer_does_not_hold_up_the_run_that_takes_over(numbered):
    """It has a transaction with locks open, in the middle of its rows; its session is ended."""
    copying, go_on = threading.Event(), threading.Event()
    failed = []

    def slowly():
        yield from numbers(1, 2)
        copying.set()
        go_on.wait(30)
        yield from numbers(3)

    def write():
        try:
            sink_to(numbered).write(SinkRows(pa.schema({"n": pa.int64()}), slowly, 3), SinkAttempt(1, "g1-00000001", 1))
        except OperatorsError as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    assert copying.wait(30)
    newer = sink_to(numbered)
    newer.recover(0, 2)
    put(newer, 1, numbers(1, 2, 3), generation=2)
    go_on.set()
    writer.join(30)
    assert [type(error) for error in failed] == [SinkUnavailableError]  # the ledger then says that it is fenced
    assert all_of(numbered) == [(1,), (2,), (3,)]


EVERY_TYPE = {
    "flag": ("boolean", pa.bool_(), [True, None]),
    "tiny": ("smallint", pa.int8(), [-7, None]),
    "small": ("smallint", pa.int16(), [300, None]),
    "whole": ("integer", pa.int32(), [-70_000, None]),
    "large": ("bigint", pa.int64(), [2**60, None]),
    "narrow": ("integer", pa.int64(), [5, None]),
    "single": ("real", pa.float32(), [0.5, None]),
    "double": ("double precision", pa.float64(), [1e300, None]),
    "exact": ("numeric(20, 4)", pa.decimal128(20, 4), [Decimal("1234567890123456.7891"), None]),
    "words": ("text", pa.string(), ['a "quoted", text\nof two lines \\. é', None]),
    "nothing": ("varchar(10)", pa.string(), ["", None]),
    "code": ("uuid", pa.string(), ["6f1f5a8e-5f0c-4f6e-9a0e-0a6d0f5c1b2d", None]),
    "mood": ("mood", pa.string(), ["happy", None]),
    "day": ("date", pa.date32(), [dt.date(2013, 1, 1), None]),
    "moment": ("timestamptz", pa.timestamp("us", "UTC"), [dt.datetime(2013, 1, 1, 5, 4, 3, 21, dt.UTC), None]),
    "local": ("timestamp", pa.timestamp("us"), [dt.datetime.fromisoformat("1969-07-20T20:17:40"), None]),
    "bytes": ("bytea", pa.binary(), [b"\x00\xff'", None]),
    "tags": ("text[]", pa.list_(pa.string()), [["a,b", '"', None, "", "NULL", "\\"], None]),
    "grid": ("integer[]", pa.list_(pa.list_(pa.int32())), [[[1, 2], [3, 4]], None]),
    "listed": ("jsonb", pa.list_(pa.int32()), [[1, 2], None]),
    "record": ("json", pa.struct({"a": pa.int32(), "when": pa.date32()}), [{"a": 1, "when": dt.date(2013, 1, 1)}, None]),
    "dictionary": ("jsonb", pa.map_(pa.string(), pa.float64()), [[("x", 1.5), ("y", None)], None]),
}


def test_every_type_arrives_as_it_is(database):
    database.query("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    columns = ", ".join(f"{name} {declared}" for name, (declared, _, _) in EVERY_TYPE.items())
    database.query(f"CREATE TABLE everything (id serial, {columns})")
    table = pa.table({name: pa.array(values, kind) for name, (_, kind, values) in EVERY_TYPE.items()})
    put(sink_to(database, "everything"), 1, rows_of(table))
    found = all_of(database, f"id, {', '.join(EVERY_TYPE)}", "everything")
    first, second = (dict(zip(EVERY_TYPE, row[1:], strict=True)) for row in found)
    expected = {name: values[0] for name, (_, _, values) in EVERY_TYPE.items()}
    expected |= {"record": {"a": 1, "when": "2013-01-01"}, "dictionary": {"x": 1.5, "y": None}}
    assert {**first, "code": str(first["code"])} == expected
    assert set(second.values()) == {None}


_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


_ROW = st.tuples(st.none() | _TEXT, st.none() | st.binary(max_size=5), st.none() | st.lists(st.none() | _TEXT, max_size=3))


def test_any_text_bytes_and_arrays_arrive_as_they_are(database):
    database.query("CREATE TABLE anything (words text, bytes bytea, tags text[], place serial)")
    sink, epochs = sink_to(database, "anything"), itertools.count(1)
    kinds = {"words": pa.string(), "bytes": pa.binary(), "tags": pa.list_(pa.string())}

    @fresh_examples(25)
    @given(st.lists(_ROW, min_size=1, max_size=5))
    def check(rows):
        columns = zip(*rows, strict=True)
        arrays = {name: pa.array(values, kind) for (name, kind), values in zip(kinds.items(), columns, strict=True)}
        put(sink, next(epochs), rows_of(pa.table(arrays)))
        assert [row[1:] for row in all_of(database, "place, words, bytes, tags", "anything")] == rows
        database.query("TRUNCATE anything")

    check()


def test_an_upsert_replaces_and_deletes_by_key(database):
    database.query("CREATE TABLE routes (origin text, dest text, flights int8, kept text DEFAULT 'kept', UNIQUE (origin, dest))")
    database.query("INSERT INTO routes VALUES ('JFK', 'LAX', 1, 'ours'), ('EWR', 'SFO', 1, 'ours'), ('LGA', NULL, 1, 'ours')")
    sink = sink_to(database, "routes", mode="upsert")
    schema = {"origin": pa.string(), "dest": pa.string(), "flights": pa.int64(), "__deleted": pa.bool_()}

    def changes(*rows):
        columns = zip(*rows, strict=True)
        arrays = {name: pa.array(values, kind) for (name, kind), values in zip(schema.items(), columns, strict=True)}
        return rows_of(pa.table(arrays), keys=("origin", "dest"), deleted="__deleted")

    put(sink, 1, changes(("JFK", "LAX", 2, False), ("EWR", "SFO", None, True), ("LGA", None, 5, False), ("ATL", "MIA", 7, False)))
    found = all_of(database, "origin, dest, flights, kept", "routes")
    assert found == [("ATL", "MIA", 7, "kept"), ("JFK", "LAX", 2, "ours"), ("LGA", None, 5, "kept")]
    put(sink, 2, changes(("LGA", None, 6, True), ("ATL", "MIA", 8, False)))
    assert all_of(database, "origin, flights", "routes") == [("ATL", 8), ("JFK", 2)]
    assert database.query("SELECT relname FROM pg_class WHERE relname LIKE 'dagster_operators_g%'") == []


def test_an_append_stream_is_upserted_by_a_key_of_its_own(database):
    database.query('CREATE TABLE latest ("Tail Num" text PRIMARY KEY, delay integer)')
    sink = sink_to(database, "latest", {"tailnum": "Tail Num", "delay": "delay"}, mode="upsert", key="tailnum")
    put(sink, 1, rows_of(pa.table({"tailnum": ["N1", "N2"], "delay": [1, 2], "more": [0, 0]})))
    put(sink, 2, rows_of(pa.table({"tailnum": ["N2"], "delay": [5], "more": [0]})))
    assert all_of(database, '"Tail Num", delay', "latest") == [("N1", 1), ("N2", 5)]
    with pytest.raises(SinkError, match=r"the same key: \{'Tail Num': 'N1'\}"):
        put(sink, 3, rows_of(pa.table({"tailnum": ["N1", "N1"], "delay": [1, 2], "more": [0, 0]})))


@pytest.mark.parametrize(
    ("columns", "rows", "refusal"),
    [
        (
            "n bigint PRIMARY KEY",
            [1, 1],
            (SinkError, r"Key \(n\)=\(1\) already exists", {"constraint": "numbers_pkey", "row": 2}),
        ),
        (
            "n bigint CHECK (n > 0)",
            [1, -1],
            (SinkError, "violates check constraint", {"constraint": "numbers_n_check", "row": 2}),
        ),
        ("n bigint NOT NULL", [1, None], (SinkError, "not-null", {"column": "n", "row": 2})),
        ("n smallint", [1, 70_000], (SinkError, "out of range", {"column": "n", "row": 2})),
        ("m bigint", [1], (SchemaError, "no column 'n'", {"column": "n"})),
        ("n bigint, m bigint NOT NULL", [1], (SchemaError, "'m' may not be null", {"column": "m"})),
        ("n date", [1], (SchemaError, "int64 does not go into the table's column 'n' of type date", {"column": "n"})),
        ("n bigint GENERATED ALWAYS AS (1) STORED", [1], (SchemaError, "computes", {"column": "n"})),
        ("n bigint UNIQUE DEFERRABLE INITIALLY DEFERRED", [1, 1], (SinkError, "already exists", {"constraint": "numbers_n_key"})),
    ],
)
def test_what_does_not_fit_is_named_and_leaves_nothing(database, columns, rows, refusal):
    error, told, fields = refusal
    database.query(f"CREATE TABLE numbers ({columns})")
    with pytest.raises(error, match=told) as refused:
        sink_to(database).write(numbers(*rows), SinkAttempt(1, "g1-00000001", 1))
    assert not refused.value.retryable
    assert refused.value.remedy
    assert refused.value.table == "numbers"
    assert {name: refused.value.where.get(name) for name in fields} == fields
    assert database.prepared() == []
    assert database.query("SELECT count(*) FROM numbers") == [(0,)]


def test_the_row_is_found_behind_text_of_several_lines(database):
    database.query("CREATE TABLE notes (words text, n bigint NOT NULL)")
    table = pa.table({"words": ["a\nb\r\nc", "", "\n"], "n": pa.array([1, 2, None], pa.int64())})
    with pytest.raises(SinkError, match="not-null") as refused:
        sink_to(database, "notes").write(rows_of(table), SinkAttempt(1, "g1-00000001", 1))
    assert refused.value.row == 3


def test_missing_things_are_named(numbered):
    attempt = SinkAttempt(1, "g1-00000001", 1)
    with pytest.raises(SchemaError, match="no such table"):
        sink_to(numbered, "Numbers").write(numbers(1), attempt)
    numbered.query("CREATE VIEW seen AS SELECT * FROM numbers")
    with pytest.raises(SchemaError, match="this is no table"):
        sink_to(numbered, "seen").write(numbers(1), attempt)
    numbered.query("CREATE TABLE keyless (n bigint)")
    with pytest.raises(SchemaError, match="no unique or exclusion constraint"):
        sink_to(numbered, "keyless", mode="upsert", key="n").write(numbers(1), attempt)
    with pytest.raises(SchemaError, match="the stream has no column 'm'"):
        sink_to(numbered, "numbers", ["m"]).write(numbers(1), attempt)


def test_a_table_with_a_dot_in_its_name(database):
    database.query('CREATE SCHEMA "s.t"; CREATE TABLE "s.t"."a.b" (n bigint)')
    with pytest.raises(SchemaError, match="no such table") as refused:
        sink_to(database, "s.t.a.b").write(numbers(1), SinkAttempt(1, "g1-00000001", 1))
    assert "in quotes" in refused.value.remedy
    put(sink_to(database, '"s.t"."a.b"'), 1, numbers(1))
    assert all_of(database, table='"s.t"."a.b"') == [(1,)]


def test_a_role_without_rights_is_told_which(numbered):
    numbered.query("DROP ROLE IF EXISTS guest")
    numbered.query("CREATE ROLE guest LOGIN")
    sink = PostgresSink(numbered.dsn.replace("user=tester", "user=guest"), "numbers")
    sink.open("p1", "warehouse")
    with pytest.raises(SinkError, match="dagster_operators_epochs, cannot be created") as refused:
        sink.recover(0, 1)
    assert "CREATE" in refused.value.remedy
    sink_to(numbered).recover(0, 1)
    numbered.query("GRANT SELECT, INSERT, UPDATE, DELETE ON dagster_operators_epochs TO guest")
    with pytest.raises(SinkError, match="permission denied for table numbers"):
        sink.write(numbers(1), SinkAttempt(1, "g1-00000001", 1))
    numbered.query("DROP OWNED BY guest; DROP ROLE guest")


def test_a_table_locked_by_others_is_tried_again_later(numbered):
    import psycopg

    with psycopg.connect(numbered.dsn) as other:
        other.execute("LOCK TABLE numbers IN EXCLUSIVE MODE")
        with pytest.raises(SinkUnavailableError, match="lock timeout") as busy:
            sink_to(numbered).write(numbers(1), SinkAttempt(1, "g1-00000001", 1))
        assert busy.value.retryable
    put(sink_to(numbered), 1, numbers(1))


def test_a_server_without_prepared_transactions_says_what_to_do(tmp_path, postgres):
    postgres.restart(max_prepared_transactions="0")
    try:
        with postgres.database() as database:
            database.query("CREATE TABLE numbers (n bigint)")
            with pytest.raises(SinkError, match="max_prepared_transactions is 0") as refused:
                sink_to(database).write(numbers(1), SinkAttempt(1, "g1-00000001", 1))
            assert "restart the server" in refused.value.remedy
            assert not refused.value.retryable
    finally:
        postgres.restart()


@pytest.mark.parametrize(
    ("dsn", "error"),
    [
        ("host=127.0.0.1 port=1 password=hunter2 user=me", SinkUnavailableError),
        ("postgresql://me:hunter%32@127.0.0.1:1/db", SinkUnavailableError),
        ("host=127.0.0.1 hunter2", PipelineError),
        ("env:DAGSTER_OPERATORS_NO_SUCH_VARIABLE", PipelineError),
        (lambda: "host=127.0.0.1 port=1 password=hunter2", SinkUnavailableError),
    ],
)
def test_a_server_that_cannot_be_reached_gives_no_secret_away(dsn, error):
    sink = PostgresSink(dsn, "numbers", connect_timeout=2)
    sink.open("p1", "warehouse")
    with pytest.raises(error) as failure:
        sink.recover(0, 1)
    assert type(failure.value) is error
    assert failure.value.remedy
    assert "hunter" not in f"{failure.value} {failure.value.where} {sink!r} {sink.config()}"
    assert failure.value.__cause__ is None or "hunter" not in str(failure.value.__cause__)


def test_a_wrong_role_or_database_is_not_tried_again(database):
    for change in (("user=tester", "user=nobody_at_all"), ("dbname=test_", "dbname=none_")):
        sink = PostgresSink(database.dsn.replace(*change), "numbers")
        sink.open("p1", "warehouse")
        with pytest.raises(SinkError, match="does not exist") as refused:
            sink.recover(0, 1)
        assert not refused.value.retryable


@pytest.mark.parametrize(
    ("options", "stream", "told"),
    [
        ({}, StreamType(("k", "n"), changes=Changes.upsert(("k",))), "use mode='upsert'"),
        ({"mode": "upsert"}, StreamType(("k", "n")), "name the key columns"),
        ({"mode": "upsert", "key": "x"}, StreamType(("k", "n")), "use one of: k, n"),
        ({"mode": "upsert", "key": "n"}, StreamType(("k", "n"), changes=Changes.upsert(("k",))), "leave key= out"),
        ({"mode": "upsert", "columns": ["n"]}, StreamType(("k", "n"), changes=Changes.upsert(("k",))), "leaves out the key 'k'"),
        ({"mode": "upsert"}, StreamType(("n",), changes=Changes.upsert(())), "key_by"),
        ({"columns": {"x": "y"}}, StreamType(("k", "n")), "use one of: k, n"),
    ],
)
def test_a_sink_that_does_not_fit_the_stream_is_found_while_the_pipeline_is_built(options, stream, told):
    with pytest.raises(SchemaError) as refused:
        PostgresSink("", "numbers", **options).check(stream)
    assert told in str(refused.value)


def test_settings_that_contradict_each_other():
    with pytest.raises(PipelineError):
        PostgresSink("", "numbers", mode="replace")
    with pytest.raises(PipelineError):
        PostgresSink("", "numbers", key="n")
    sink = PostgresSink("", "numbers")
    with pytest.raises(PipelineError, match="too long"):
        sink.open("p" * 32, "s" * 200)
    sink.open("p1", "one")
    with pytest.raises(PipelineError, match="another pipeline"):
        sink.open("p2", "one")
