"""TimeState against a list, through epochs, rescales, merges, spills, deletions and expiry, reopened from files each time."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators import TimeState
from dagster_operators.errors import SchemaError, StorageError
from dagster_operators.state.store import StateStore, next_epoch
from tests.examples import fresh_examples
from tests.state.world import HASHERS, World

RETENTION = 10
KEYED = TimeState("n long, t bigint, k string", time="t", key="k", retention=RETENTION)
PLAIN = TimeState("n long, t bigint, k string", time="t", retention=RETENTION)
KEYS = ["a", "b", "c", None]

STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(st.integers(0, 50), st.sampled_from(KEYS)), max_size=12)),
    st.tuples(st.just("delete"), st.integers(0, 40)),
    st.tuples(st.just("range"), st.tuples(st.integers(0, 50), st.integers(0, 50))),
    st.tuples(st.just("keys"), st.lists(st.sampled_from(KEYS), max_size=3)),
)
EPOCHS = st.lists(
    st.tuples(st.lists(STEPS, max_size=4), st.sampled_from([1, 1, 2, 3, 7]), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=14,
)


class Model:
    """The rows that were appended and not deleted, in order."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.count = 0

    def append(self, rows: list[tuple[int, Any]]) -> list[dict[str, Any]]:
        added = [{"n": self.count + number, "t": time, "k": key} for number, (time, key) in enumerate(rows)]
        self.count += len(rows)
        self.rows += added
        return added

    def delete_before(self, time: int) -> None:
        self.rows = [row for row in self.rows if row["t"] >= time]

    def live(self, watermark: int) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["t"] >= watermark - RETENTION]


def check(found: list[list[dict[str, Any]]], wanted: list[dict[str, Any]], declaration: TimeState) -> None:
    """The rows wanted, in each subtask by time, and those of one key and time as appended."""
    assert sorted((row for rows in found for row in rows), key=lambda row: row["n"]) == wanted
    for rows in found:
        assert [row["t"] for row in rows] == sorted(row["t"] for row in rows)
        if declaration.key:
            groups = [(row["t"], row["k"] or "", row["n"]) for row in rows]
            for key in KEYS:
                mine = [group for group in groups if group[1] == (key or "")]
                assert mine == sorted(mine)


def step(world: World, model: Model, what: str, given_: Any) -> None:
    if what == "append":
        for handle, share in world.shares(model.append(given_)):
            handle.append(share)
    elif what == "delete":
        model.delete_before(given_)
        for store in world.stores:
            store["t"].delete_before(given_)
    elif what == "range":
        start, end = given_
        wanted = [row for row in model.live(world.watermark) if start <= row["t"] < end]
        check([store["t"].range(start, end).to_pylist() for store in world.stores], wanted, world.declaration)
    elif world.declaration.key:
        wanted = [row for row in model.live(world.watermark) if row["k"] in given_]
        shares = world.shares([{"k": key} for key in given_], ["k"])
        check([handle.range(None, None, share).to_pylist() for handle, share in shares], wanted, world.declaration)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("declaration", "hasher"), [(KEYED, "xxhash64"), (KEYED, "four values"), (PLAIN, "xxhash64")])
@fresh_examples(12)
@given(epochs=EPOCHS, memory=st.sampled_from([100, 10**9]))
def test_any_history_gives_what_a_list_gives(declaration: TimeState, hasher: str, epochs: list[Any], memory: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), declaration, hasher=HASHERS[hasher], memory_limit=memory)
        model = Model()
        for steps, parallelism, advance, merge in epochs:
            world.begin(parallelism, world.epoch and world.watermark + 3 * advance, further=not advance)
            for what, given_ in steps:
                step(world, model, what, given_)
            check([store["t"].scan().to_pylist() for store in world.stores], model.live(world.watermark), declaration)
            world.commit(merge=merge)


@pytest.mark.parametrize("declaration", [KEYED, PLAIN])
@fresh_examples(12)
@given(epochs=EPOCHS)
def test_stores_in_memory_hand_over_what_a_list_holds(declaration: TimeState, epochs: list[Any]) -> None:
    world, model = World(Path(), declaration), Model()
    world.watermark = 0
    stores = [StateStore({"t": declaration}, watermark=0)]
    for epoch, (steps, parallelism, advance, _) in enumerate(epochs, 2):
        world.watermark += 3 * advance
        world.stores = stores = next_epoch(stores, epoch=epoch, parallelism=parallelism, watermark=world.watermark)
        for what, given_ in steps:
            step(world, model, what, given_)
        check([store["t"].scan().to_pylist() for store in stores], model.live(world.watermark), declaration)


def test_files_outside_of_a_range_are_not_opened(tmp_path: Path) -> None:
    world = World(tmp_path, TimeState("n long, t bigint, k string", time="t", retention="1 day"), cached=False)
    for time in (0, 100, 200):
        world.begin(1)
        world.stores[0]["t"].append(world.rows([{"n": time, "t": time, "k": None}]))
        world.commit()
    (tmp_path / "state" / "op.t" / world.files[0].path).unlink()
    world.begin(1)
    assert world.stores[0]["t"].range(100, 201)["n"].to_pylist() == [100, 200]
    with pytest.raises(StorageError, match="cannot be read") as caught:
        world.stores[0]["t"].range(0, 1)
    assert caught.value.file.endswith(world.files[0].path)


def test_a_later_round_of_a_loop_deletes_what_an_earlier_one_appended(tmp_path: Path) -> None:
    world = World(tmp_path, KEYED)
    world.begin(1, 0)
    world.stores[0]["t"].append(world.rows([{"n": time, "t": time, "k": "a"} for time in (10, 20)]))
    world.commit()
    world.begin(1, further=True)
    world.stores[0]["t"].delete_before(15)
    world.commit()
    world.begin(1, further=True)
    assert world.stores[0]["t"].range(0, 100)["n"].to_pylist() == [20]


def test_expired_files_leave_unread(tmp_path: Path) -> None:
    world = World(tmp_path, TimeState("n long, t bigint, k string", time="t", retention=5), cached=False)
    for time in (0, 100):
        world.begin(1, 0)
        world.stores[0]["t"].append(world.rows([{"n": time, "t": time, "k": None}]))
        world.commit()
    (tmp_path / "state" / "op.t" / world.files[0].path).unlink()
    world.begin(1, 50)
    world.commit()
    assert [file.low_time for file in world.files] == [100]


def test_times_are_moments() -> None:
    state = StateStore({"t": TimeState("t timestamp", time="t", retention="1 hour")}, operator="op")["t"]
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    state.append(pa.table({"t": pa.array([noon], pa.timestamp("us", "America/New_York"))}))
    assert state.range(noon, None)["t"].to_pylist() == [noon]
    assert state.range(None, noon).num_rows == 0
    assert state.scan((noon, None)).num_rows == 1
    state.delete_before(noon)
    assert state.scan().num_rows == 1
    state.delete_before(datetime(2024, 1, 1, 12, 0, 1, tzinfo=UTC))
    assert state.scan().num_rows == 0


def test_a_row_without_a_time_is_refused() -> None:
    state = StateStore({"t": PLAIN}, operator="op")["t"]
    with pytest.raises(SchemaError, match="a row without a time") as caught:
        state.append(pa.table({"n": [1], "t": pa.array([None], pa.int64()), "k": ["a"]}))
    assert (caught.value.operator, caught.value.table, caught.value.column) == ("op", "t", "t")
    with pytest.raises(SchemaError, match="no key to narrow"):
        state.range(None, None, pa.table({"k": ["a"]}))
