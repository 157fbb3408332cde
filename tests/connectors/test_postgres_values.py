"""Values and keys that PostgreSQL would bend: they arrive as they are, or the epoch is refused with a remedy that works."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest

from dagster_operators.connectors.postgres_load import TableName, load
from dagster_operators.errors import SchemaError, SinkError
from tests.connectors.test_postgres_sink import rows_of

pytestmark = pytest.mark.postgres

_DAY = 86_400_000_000
_SCHEMA = {"k": pa.string(), "n": pa.int64(), "__deleted": pa.bool_()}


class Loading:
    """Rows that are brought into tables, each time in a transaction over the same connection."""

    def __init__(self, connection):
        self.query = connection.execute
        self.connection = connection
        self.attempts = itertools.count()

    def put(self, table, rows, key=None):
        (oid,) = self.query(f"SELECT '{table}'::regclass::oid").fetchone()
        with self.connection.transaction():
            load(self.connection, TableName(oid, "public", table), rows, columns=None, key=key, attempt=f"g{next(self.attempts)}")

    def all_of(self, columns, table):
        return self.query(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()


@pytest.fixture
def loading(database):
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield Loading(connection)


# --- times --------------------------------------------------------------------------------------------------------------------

FAR_DAYS = [11_248_737, 13_890_394, 35_804_721, -735_158, -719_162, -719_163]


def test_years_of_any_number_of_digits_arrive_as_they_are(loading):
    loading.query("CREATE TABLE far (d date, t timestamptz, l timestamp, ds date[], s jsonb)")
    days = FAR_DAYS
    moments = [day * _DAY + 5 * 3_600_000_000 + 1 for day in days[:-1]] + [9_222_000_000_000_000_001]
    table = pa.table(
        {
            "d": pa.array(days, pa.int32()).cast(pa.date32()),
            "t": pa.array(moments, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "l": pa.array(moments, pa.int64()).cast(pa.timestamp("us")),
            "ds": pa.array([[day, None] for day in days], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
            "s": pa.array([{"a": at} for at in moments], pa.struct({"a": pa.int64()})).cast(
                pa.struct({"a": pa.timestamp("us", "UTC")})
            ),
        }
    )
    loading.put("far", rows_of(table))
    epoch = "(extract(epoch FROM {}) * 1000000)::bigint"
    found = loading.all_of(
        f"d - DATE '1970-01-01', {epoch.format('t')}, {epoch.format('l')}, ds = ARRAY[d, NULL], (s->>'a')::timestamptz = t", "far"
    )
    expected = zip(days, moments, moments, [True] * 6, [True] * 6, strict=True)
    assert found == sorted(expected)


def test_a_day_that_the_server_does_not_have_is_refused(loading):
    loading.query("CREATE TABLE far (d date)")
    infinity = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    with pytest.raises(SinkError, match="5881580-07-11"):
        loading.put("far", rows_of(pa.table({"d": infinity})))


# --- numbers and texts --------------------------------------------------------------------------------------------------------

_AT = dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
CHANGED = {
    "numeric(10,0)": (pa.decimal128(10, 2), Decimal("1.00"), Decimal("1.50")),
    "numeric(10,2)": (pa.float64(), 1.15, 1.155),
    "numeric(10,1)": (pa.float32(), 0.5, 0.25),
    "numeric(5,-2)": (pa.int64(), 1200, 1250),
    "numeric(10,0)[]": (pa.list_(pa.decimal128(10, 2)), [Decimal("1.00")], [None, Decimal("1.50")]),
    "price": (pa.decimal128(10, 4), Decimal("2.2500"), Decimal("2.2550")),
    "price[]": (pa.list_(pa.decimal128(10, 4)), [], [Decimal("2.2550")]),
    "double precision": (pa.int64(), 2**53, 2**53 + 1),
    "timestamptz(0)": (pa.timestamp("us", "UTC"), _AT, _AT.replace(microsecond=500_000)),
    "timestamp(3)": (pa.timestamp("us"), _AT.replace(tzinfo=None, microsecond=1000), _AT.replace(tzinfo=None, microsecond=1)),
    "varchar(3)": (pa.string(), "abc", "abc "),
    "code": (pa.string(), "ab ", "abc "),
    "name": (pa.string(), "é" * 31, "é" * 32),
}


def test_a_value_that_the_server_would_round_or_cut_is_refused_with_its_row(loading):
    loading.query("CREATE DOMAIN price AS numeric(10,2); CREATE DOMAIN code AS varchar(3)")
    for place, (declared, (kind, exact, changed)) in enumerate(CHANGED.items()):
        loading.query(f"CREATE TABLE t{place} (v {declared})")
        loading.put(f"t{place}", rows_of(pa.table({"v": pa.array([exact, None, exact], kind)})))
        with pytest.raises(SinkError, match="round or cut") as refused:
            loading.put(f"t{place}", rows_of(pa.table({"v": pa.array([exact, exact, None, exact, changed], kind)})))
        assert (refused.value.row, refused.value.column) == (5, "v"), declared
        assert loading.all_of("count(*)", f"t{place}") == [(3,)]
        _, _, remedy = refused.value.remedy.partition("ALTER TABLE ... ")
        loading.query(f"ALTER TABLE t{place} {remedy}")
        loading.put(f"t{place}", rows_of(pa.table({"v": pa.array([changed], kind)})))


# --- keys ---------------------------------------------------------------------------------------------------------------------

UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
SAME_KEYS = {
    "citext": ("A", "a", "ALTER"),
    'text COLLATE "ci"': ("A", "a", "ALTER"),
    "nickname": ("A", "a", "ALTER"),
    "jsonb": ('{"a":1}', '{"a": 1}', "ALTER"),
    "char(3)": ("a", "a ", "a"),
    "bpchar": ("a", "a ", "a"),
    "uuid": (UUID, UUID.upper(), UUID),
    "inet": ("10.0.0.1", "10.0.0.1/32", "10.0.0.1"),
    "macaddr": ("08:00:2b:01:02:03", "08-00-2B-01-02-03", "08:00:2b:01:02:03"),
    "int4range": ("[1,3)", "[1,2]", "ALTER"),
}


def _changes(*rows):
    columns = zip(*rows, strict=True)
    arrays = {name: pa.array(values, kind) for (name, kind), values in zip(_SCHEMA.items(), columns, strict=True)}
    return rows_of(pa.table(arrays), keys=("k",), deleted="__deleted")


def test_keys_that_only_the_table_holds_equal_never_replace_each_other(loading):
    loading.query("CREATE EXTENSION citext; CREATE DOMAIN nickname AS citext")
    loading.query("CREATE COLLATION ci (provider=icu, locale='und-u-ks-level2', deterministic=false)")
    for place, (declared, (one, other, remedy)) in enumerate(SAME_KEYS.items()):
        loading.query(f"CREATE TABLE t{place} (k {declared} PRIMARY KEY, n bigint)")
        if declared not in {"jsonb", "int4range"}:  # by type
            loading.put(f"t{place}", _changes((one, 1, False)))
        kept = loading.all_of("n", f"t{place}")
        for rows in ([(other, 2, False)], [(other, 2, True)], [(one, 1, False), (other, 2, False)]):
            with pytest.raises((SchemaError, SinkError)) as refused:
                loading.put(f"t{place}", _changes(*rows))
            assert refused.value.column == "k"
        assert loading.all_of("n", f"t{place}") == kept
        if remedy == "ALTER":
            loading.query(f"ALTER TABLE t{place} {refused.value.remedy.partition('ALTER TABLE ... ')[2]}")
            loading.put(f"t{place}", _changes((one, 3, False), (other, 4, False)))
        else:
            assert refused.value.remedy.endswith(f": {remedy!r}")
            loading.put(f"t{place}", _changes((remedy, 3, False)))
        assert loading.all_of("max(n)", f"t{place}") == [(3 if remedy != "ALTER" else 4,)]


def test_keys_whose_equality_is_the_streams_go_in(loading):
    """Also of two columns, of which one may be null."""
    loading.query("CREATE EXTENSION citext; CREATE TYPE mood AS ENUM ('sad', 'Sad')")
    loading.query("CREATE TABLE t (m mood, c citext, i numeric(20,0), ts text[], n bigint, UNIQUE (m, c, i, ts))")
    key = ["m", "c", "i", "ts"]
    kinds = {"m": pa.string(), "c": pa.string(), "i": pa.int64(), "ts": pa.list_(pa.string()), "n": pa.int64()}

    def given(*rows):
        arrays = {
            name: pa.array(values, kind) for (name, kind), values in zip(kinds.items(), zip(*rows, strict=True), strict=True)
        }
        return rows_of(pa.table(arrays))

    loading.put("t", given(("sad", "A", 1, ["x"], 1), ("Sad", "a", 1, ["x"], 2), (None, "B", 1, ["X"], 3)), key)
    loading.put("t", given(("sad", "A", 1, ["x"], 4), (None, "B", 1, ["X"], 5), ("sad", "a", 1, ["X"], 6)), key)
    assert loading.all_of("n", "t") == [(2,), (4,), (5,), (6,)]
    with pytest.raises(SinkError, match="'B' and 'b' are equal"):
        loading.put("t", given((None, "b", 1, ["X"], 7)), key)


def test_an_index_that_compares_otherwise_than_its_column_is_refused(loading):
    loading.query("CREATE COLLATION ci (provider=icu, locale='und-u-ks-level2', deterministic=false)")
    loading.query('CREATE TABLE t (k text, n bigint); CREATE UNIQUE INDEX ON t (k COLLATE "ci")')
    with pytest.raises(SchemaError, match="may be equal"):
        loading.put("t", _changes(("A", 1, False)))
