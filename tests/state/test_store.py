"""Stores and declarations: what is refused, and where things are."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_operators import GlobalState, KeyedState, ListState, TimeState
from dagster_operators.errors import PipelineError, SchemaError, StorageError
from dagster_operators.state.handle import Handle
from dagster_operators.state.state_file import StateFile
from dagster_operators.state.store import StateStore
from tests.state.world import World


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda: KeyedState("k string, v", key="k"), "not a schema"),
        (lambda: KeyedState("k string", key="x"), "no column 'x'"),
        (lambda: KeyedState("k string", key=[]), "needs a key"),
        (lambda: KeyedState("k string", key=["k", "k"]), "names a column twice"),
        (lambda: KeyedState("k string, _hash long", key="k"), "cannot be called '_hash'"),
        (lambda: KeyedState("k string, t timestamp", key="k", time="t"), "has a time but no retention"),
        (lambda: KeyedState("k string", key="k", retention="1 day"), "has a retention but no time"),
        (lambda: KeyedState("k string, t date", key="k", time="t", retention="1 day"), "time has the type date"),
        (lambda: KeyedState("k string, t timestamp", key="k", time="t", retention="1 month"), "no duration of fixed length"),
        (lambda: KeyedState("k string", key="k", version=0), "whole number from 1"),
        (lambda: TimeState("t timestamp", time="x"), "no column 'x'"),
        (lambda: KeyedState(pa.schema({"k": pa.string(), "v": pa.null()}), key="k"), "no type for Arrow's null"),
        (lambda: KeyedState("k array<int>", key="k").check_types(), "a key cannot have the type"),
        (lambda: KeyedState("k int, v variant", key="k").check_types(), "cannot be carried by Arrow"),
    ],
)
def test_declarations_that_do_not_fit(declare: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        declare()


def double(table: pa.Table, _: int) -> pa.Table:
    return table


@pytest.mark.parametrize(
    "declaration",
    [
        KeyedState("k string, t timestamp", key="k", retention="1 day", time="t", version=2, migrate=double),
        TimeState(pa.schema({"t": pa.timestamp("ns")}), time="t"),
        GlobalState("k string", key="k"),
        ListState("k string", key="k"),
    ],
)
def test_declarations_travel(declaration: Any) -> None:
    there = pickle.loads(pickle.dumps(declaration))  # noqa: S301
    assert there == declaration
    assert there.stored_schema == declaration.stored_schema
    assert repr(there) == repr(declaration)


def test_an_arrow_schema_declares_what_its_ddl_does() -> None:
    arrow = pa.schema([pa.field("k", pa.large_string(), nullable=False), ("n", pa.int64()), ("t", pa.timestamp("ns", "UTC"))])
    assert KeyedState(arrow, key="k").ddl == "`k` string NOT NULL, `n` bigint, `t` timestamp"
    assert KeyedState(arrow, key="k").schema == KeyedState("k string NOT NULL, n long, t timestamp", key="k").schema


def test_there_is_no_table_that_was_not_declared() -> None:
    with pytest.raises(KeyError, match="declares no state called 'x'; it declares: t"):
        StateStore({"t": KeyedState("k string", key="k")})["x"]


def test_more_subtasks_than_key_groups() -> None:
    with pytest.raises(PipelineError, match="cannot have 129 subtasks"):
        StateStore({}, parallelism=129)


def test_a_file_is_sorted_plain_parquet_whose_name_says_what_is_in_it(tmp_path: Path) -> None:
    world = World(tmp_path, KeyedState("k long, t bigint", key="k", time="t", retention=0))
    world.begin(1)
    world.stores[0]["t"].put(world.rows([{"k": k, "t": k + 100} for k in range(50)]))
    world.stores[0]["t"].delete(world.rows([{"k": 3}], ["k"]))
    world.commit()
    (file,) = world.files
    assert file == StateFile.of(file.path, file.rows, file.size)
    assert (file.rows, file.epochs, file.level, file.version, file.deletes) == (50, (1, 1), 0, 1, True)
    assert (file.low_time, file.high_time) == (100, 149)
    path = tmp_path / "state" / "op.t" / file.path
    assert path.parent.name == "e1-g1-0a"
    assert path.stat().st_size == file.size
    stored = pq.read_table(path)
    assert stored.column_names == ["_hash", "_deleted", "k", "t"]
    hashes = stored["_hash"].to_pylist()
    assert hashes == sorted(hashes)
    assert (file.low_hash, file.high_hash) == (hashes[0], hashes[-1])
    assert stored.filter(stored["_deleted"]).to_pylist()[0]["k"] == 3


def test_files_have_at_most_a_slice_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handle, "slice_rows", 100)
    world = World(tmp_path, KeyedState("k long", key="k"))
    world.begin(1)
    world.stores[0]["t"].put(world.rows([{"k": k} for k in range(1000)]))
    world.commit()
    assert max(file.rows for file in world.files) <= 100
    assert sum(file.rows for file in world.files) == 1000
    world.begin(3)
    assert sorted(row["k"] for row in world.scan()) == list(range(1000))
    assert max(batch.num_rows for batch in world.stores[0]["t"].scan_batches()) <= 100


def test_nothing_is_written_for_tables_that_did_not_change(tmp_path: Path) -> None:
    world = World(tmp_path, KeyedState("k long", key="k"))
    world.begin(2)
    assert world.stores[0]["t"].get(pa.table({"k": pa.array([], pa.int64())})).num_rows == 0
    assert [store.flush() for store in world.stores] == [{"t": []}, {"t": []}]
    assert not (tmp_path / "state").exists()


def test_what_is_spilled_leaves_no_file(tmp_path: Path) -> None:
    world = World(tmp_path, KeyedState("k long", key="k"), memory_limit=1)
    world.begin(1)
    for k in range(5):
        world.stores[0]["t"].put(world.rows([{"k": k}]))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert sorted(row["k"] for row in world.scan()) == list(range(5))


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, KeyedState("k long", key="k"), cached=False)
    world.begin(1)
    world.stores[0]["t"].put(world.rows([{"k": 1}]))
    world.commit()
    path = tmp_path / "state" / "op.t" / world.files[0].path
    path.write_bytes(path.read_bytes()[:50])
    world.begin(1)
    with pytest.raises(StorageError, match="cannot be read") as caught:
        world.scan()
    assert (caught.value.operator, caught.value.table, caught.value.file) == ("op", "t", str(path))


def test_a_name_that_is_no_state_file_s() -> None:
    with pytest.raises(StorageError, match="a name that this package never gives"):
        StateFile.of("e1/part-0.parquet", 1, 1)
