"""KeyedState against a dict, through epochs, rescales, merges, spills, expiry, and reopened from files each time."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators import KeyedState
from dagster_operators.errors import SchemaError
from dagster_operators.state.key_hash import hash_columns, subtasks
from dagster_operators.state.store import StateStore, next_epoch
from tests.examples import fresh_examples
from tests.state.world import HASHERS, World

RETENTION = 10
DECLARATION = KeyedState("k int, s string, v string, n long, t bigint", key=["s", "k"], retention=RETENTION, time="t")

KEYS = st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.sampled_from([None, "", "a", "b"]))
ROWS = st.tuples(KEYS, st.sampled_from([None, "x", "yy", "zzz"]), st.integers(0, 9), st.none() | st.integers(0, 60))
STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(ROWS, max_size=12)),
    st.tuples(st.just("delete"), st.lists(KEYS, max_size=4)),
    st.tuples(st.just("get"), st.lists(KEYS, max_size=6)),
)
EPOCHS = st.lists(
    st.tuples(st.lists(STEPS, max_size=4), st.sampled_from([1, 1, 2, 3, 7]), st.integers(0, 4), st.booleans()),
    min_size=1,
    max_size=14,
)


def as_key(key: tuple[Any, Any]) -> dict[str, Any]:
    return {"k": key[0], "s": key[1]}


def as_row(row: tuple[Any, Any, Any, Any]) -> dict[str, Any]:
    return {**as_key(row[0]), "v": row[1], "n": row[2], "t": row[3]}


class Model:
    """What the state should hold."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, Any], dict[str, Any]] = {}

    def put(self, rows: list[dict[str, Any]]) -> None:
        self.rows |= {(row["k"], row["s"]): row for row in rows}

    def delete(self, keys: list[dict[str, Any]]) -> None:
        for key in keys:
            self.rows.pop((key["k"], key["s"]), None)

    def live(self, watermark: int) -> dict[tuple[Any, Any], dict[str, Any]]:
        return {key: row for key, row in self.rows.items() if row["t"] is None or row["t"] >= watermark - RETENTION}


def run_epochs(world: World, epochs: list[Any]) -> None:
    model = Model()
    watermark = 0
    for steps, parallelism, advance, merge in epochs:
        watermark += 4 * advance
        world.begin(parallelism, watermark)
        for what, given_rows in steps:
            if what == "put":
                rows = [as_row(row) for row in given_rows]
                model.put(rows)
                for handle, share in world.shares(rows):
                    handle.put(share)
                continue
            keys = [as_key(key) for key in given_rows]
            if what == "delete":
                model.delete(keys)
            for handle, share in world.shares(keys, ["k", "s"]):
                if what == "delete":
                    handle.delete(share)
                else:
                    live = model.live(watermark)
                    wanted = [
                        live.get((key["k"], key["s"]), {**key, "v": None, "n": None, "t": None}) for key in share.to_pylist()
                    ]
                    assert handle.get(share).to_pylist() == wanted
                    there = [(key["k"], key["s"]) in live for key in share.to_pylist()]
                    assert handle.contains(share).tolist() == there
        found = {(row["k"], row["s"]): row for row in world.scan()}
        assert found == model.live(watermark)
        world.commit(merge=merge)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("hasher", HASHERS)
@fresh_examples(15)
@given(epochs=EPOCHS, memory=st.sampled_from([100, 10**9]), cached=st.booleans())
def test_any_history_gives_what_a_dict_gives(hasher: str, epochs: list[Any], memory: int, *, cached: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_epochs(World(Path(folder), DECLARATION, hasher=HASHERS[hasher], memory_limit=memory, cached=cached), epochs)


@pytest.mark.parametrize("hasher", HASHERS)
@fresh_examples(15)
@given(epochs=EPOCHS)
def test_stores_in_memory_hand_over_what_a_dict_holds(hasher: str, epochs: list[Any]) -> None:
    model = Model()
    watermark = 0
    stores = [StateStore({"t": DECLARATION}, stream_key=("k", "s"), hasher=HASHERS[hasher])]
    world = World(Path(), DECLARATION, hasher=HASHERS[hasher])
    for epoch, (steps, parallelism, advance, _) in enumerate(epochs, 2):
        watermark += 4 * advance
        world.stores = stores = next_epoch(stores, epoch=epoch, parallelism=parallelism, watermark=watermark)
        assert {(row["k"], row["s"]): row for row in world.scan()} == model.live(watermark)
        for what, given_rows in steps:
            if what == "put":
                rows = [as_row(row) for row in given_rows]
                model.put(rows)
                for handle, share in world.shares(rows):
                    handle.put(share)
            elif what == "delete":
                keys = [as_key(key) for key in given_rows]
                model.delete(keys)
                for handle, share in world.shares(keys, ["k", "s"]):
                    handle.delete(share)


def one_store(declaration: KeyedState, **options: Any) -> Any:
    return StateStore({"t": declaration}, operator="op", **options)["t"]


def test_types_are_brought_to_the_declared_ones() -> None:
    state = one_store(KeyedState("k long, v string", key="k"))
    state.put(pa.table({"v": pa.array(["a"]).dictionary_encode(), "k": pa.array([1], pa.int8()), "other": [None]}))
    assert state.get(pa.record_batch({"k": pa.array([1, 2], pa.int32())})).to_pylist() == [
        {"k": 1, "v": "a"},
        {"k": 2, "v": None},
    ]


def test_equal_floats_are_one_key() -> None:
    state = one_store(KeyedState("k double, v int", key="k"))
    state.put(pa.table({"k": [0.0, float("nan")], "v": pa.array([1, 2], pa.int32())}))
    state.put(pa.table({"k": [-0.0, -float("nan")], "v": pa.array([3, 4], pa.int32())}))
    assert sorted(state.scan()["v"].to_pylist()) == [3, 4]


def test_keys_whose_memory_is_used_again_are_other_keys() -> None:
    state = one_store(KeyedState("k long, v long", key="k"))
    numbers = np.array([1, 2, 3])
    state.put(pa.table({"k": [1, 2], "v": [1, 2]}))
    state.get(pa.table({"k": pa.array(numbers)}))
    numbers[:] = [2, 4, 5]
    state.put(pa.table({"k": pa.array(numbers), "v": pa.array(numbers * 10)}))
    assert sorted(state.scan()["v"].to_pylist()) == [1, 20, 40, 50]


def test_a_put_of_the_keys_just_got() -> None:
    state = one_store(KeyedState("k string, v long", key="k"), memory_limit=2000)
    for start in range(0, 300, 30):
        keys = pa.table({"k": [str(k % 70) for k in range(start, start + 40)]})
        found = state.get(keys)["v"].fill_null(0)
        if start % 60:
            state.delete(pa.table({"k": [str(start % 70)]}))
        state.put(pa.table({"k": keys["k"], "v": pc.add(found, 1)}))
    expected: dict[str, int] = {}
    for start in range(0, 300, 30):
        expected |= {str(k % 70): expected.get(str(k % 70), 0) + 1 for k in range(start, start + 40)}
    assert {row["k"]: row["v"] for row in state.scan().to_pylist()} == expected


@pytest.mark.parametrize(
    ("rows", "problem", "column"),
    [
        ({"k": [1]}, "the rows have no column 'v'", "v"),
        ({"k": ["x"], "v": ["a"]}, "the rows have string where the state has int64", "k"),
        ({"k": [1], "v": pa.array([None], pa.string())}, "no value where the state's schema says NOT NULL", "v"),
    ],
)
def test_rows_that_do_not_fit(rows: dict[str, Any], problem: str, column: str) -> None:
    state = one_store(KeyedState("k long, v string NOT NULL", key="k"))
    with pytest.raises(SchemaError, match=problem) as caught:
        state.put(pa.table(rows))
    assert (caught.value.operator, caught.value.table, caught.value.column) == ("op", "t", column)


def test_a_key_of_another_subtask_is_refused() -> None:
    declaration = KeyedState("k long, v long", key="k")
    keys = pa.table({"k": list(range(50)), "v": list(range(50))})
    with pytest.raises(SchemaError, match="belongs to another subtask than number 1 of 2"):
        one_store(declaration, parallelism=2, subtask=1).put(keys)


@pytest.mark.parametrize("stream_key", [["k"], ["k", "day"], ["day", "k"]])
def test_rows_belong_where_the_stream_s_key_goes(stream_key: list[str]) -> None:
    declaration = KeyedState("day int, k long, v long", key=["k", "day"])
    rows = [{"day": day, "k": k, "v": day * k} for day in range(5) for k in range(40)]
    table = pa.Table.from_pylist(rows, declaration.schema)
    owner = subtasks(hash_columns([table[name].combine_chunks() for name in stream_key]), 3)
    found = []
    for subtask in range(3):
        state = one_store(declaration, parallelism=3, subtask=subtask, stream_key=stream_key)
        state.put(table.filter(pa.array(owner == subtask)))
        found += state.scan().to_pylist()
    assert sorted(found, key=lambda row: (row["day"], row["k"])) == rows


def test_scan_of_a_range() -> None:
    state = one_store(KeyedState("k long, t timestamp, v string", key="k", retention="1 day", time="t"))
    moments = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(5)]
    state.put(pa.table({"k": range(5), "t": pa.array(moments, pa.timestamp("us", "Europe/Berlin")), "v": ["a"] * 5}))
    assert sorted(state.scan((moments[1], moments[3]))["k"].to_pylist()) == [1, 2]
    assert sorted(state.scan((3, None), column="k")["k"].to_pylist()) == [3, 4]
    with pytest.raises(SchemaError, match="no column 'x'"):
        state.scan((1, 2), column="x")
    with pytest.raises(SchemaError, match="does not fit int64"):
        state.scan(("a", "b"), column="k")


def test_many_small_batches_and_large_ones() -> None:
    """The table of the epoch's rows grows past all its first sizes and keeps the last row of each key."""
    declaration = KeyedState("k long, s string, l array<int>, d decimal(9,2), b boolean", key="k")
    state = one_store(declaration)
    expected = {}
    for start, size in ((0, 1), (0, 3), (2, 100), (50, 1000), (0, 3000), (10, 10), (999, 1)):
        rows = [
            {"k": k % 700, "s": f"{start}-{k}", "l": [k, None], "d": Decimal(k) / 4, "b": None if k % 3 else True}
            for k in range(start, start + size)
        ]
        expected |= {row["k"]: row for row in rows}
        state.put(pa.Table.from_pylist(rows, declaration.schema))
        got = state.get(pa.table({"k": list(range(800))})).to_pylist()
        missing = {"s": None, "l": None, "d": None, "b": None}
        assert got == [expected.get(k, {"k": k, **missing}) for k in range(800)]


def test_one_value_of_one_key() -> None:
    store = StateStore({
        "total": KeyedState("k string, total long", key="k"),
        "pair": KeyedState("a int, b string, x long, y string", key=["b", "a"]),
    })  # fmt: skip
    total, pair = store["total"], store["pair"]
    assert total.get_value("a") is None
    total.put_value("a", pa.scalar(3))
    total.put_value(None, 4)
    assert (total.get_value("a"), total.get_value(None)) == (3, 4)
    pair.put_value((1, "b"), 7, column="x")
    pair.put_value((1, "b"), "seven", column="y")
    assert pair.scan().to_pylist() == [{"a": 1, "b": "b", "x": 7, "y": "seven"}]
    for call, told in (
        (lambda: pair.get_value((1, "b")), "several values"),
        (lambda: pair.get_value(1, "x"), "a key of 1 values where the state's key has 2"),
        (lambda: total.get_value("a", "totl"), "no value 'totl'"),
        (lambda: total.put_value("a", "three"), "'three' is no int64"),
    ):
        with pytest.raises(SchemaError, match=told):
            call()
