"""ListState against a dict of lists, through epochs, rescales, merges, spills and expiry, reopened from files each time."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators import ListState
from dagster_operators.state.store import StateStore, next_epoch
from tests.examples import fresh_examples
from tests.state.world import HASHERS, World

RETENTION = 10
DECLARATION = ListState("k string, n long, t bigint", key="k", retention=RETENTION, time="t")
KEYS = st.sampled_from(["a", "b", "c", "d", None])

STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(KEYS, st.none() | st.integers(0, 50)), max_size=10)),
    st.tuples(st.just("delete"), st.lists(KEYS, max_size=3)),
    st.tuples(st.just("get"), st.lists(KEYS, max_size=4)),
)
EPOCHS = st.lists(
    st.tuples(st.lists(STEPS, max_size=4), st.sampled_from([1, 1, 2, 3, 7]), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=12,
)


class Model:
    """The rows in the order of appending."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.count = 0

    def append(self, rows: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
        added = [{"k": key, "n": self.count + number, "t": time} for number, (key, time) in enumerate(rows)]
        self.count += len(rows)
        self.rows += added
        return added

    def delete(self, keys: list[Any]) -> None:
        self.rows = [row for row in self.rows if row["k"] not in keys]

    def live(self, watermark: int) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["t"] is None or row["t"] >= watermark - RETENTION]


def step(world: World, model: Model, what: str, given_: Any) -> None:
    if what == "append":
        for handle, share in world.shares(model.append(given_)):
            handle.append(share)
        return
    shares = world.shares([{"k": key} for key in given_], ["k"])
    if what == "delete":
        model.delete(given_)
        for handle, share in shares:
            handle.delete(share)
    else:
        for handle, share in shares:
            wanted = [row for row in model.live(world.watermark) if row["k"] in share["k"].to_pylist()]
            found = handle.get(share).to_pylist()
            for key in share["k"].to_pylist():
                assert [row for row in found if row["k"] == key] == [row for row in wanted if row["k"] == key]
            if len(world.stores) == 1 and world.unscaled:
                assert found == wanted


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["n"])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("hasher", HASHERS)
@fresh_examples(10)
@given(epochs=EPOCHS, memory=st.sampled_from([100, 10**9]))
def test_any_history_gives_what_lists_give(hasher: str, epochs: list[Any], memory: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), DECLARATION, hasher=HASHERS[hasher], memory_limit=memory)
        world.unscaled = {parallelism for _, parallelism, _, _ in epochs} == {1}
        model = Model()
        for steps, parallelism, advance, merge in epochs:
            world.begin(parallelism, world.epoch and world.watermark + 3 * advance, further=not advance)
            for what, given_ in steps:
                step(world, model, what, given_)
            assert in_order(world.scan()) == model.live(world.watermark)
            world.commit(merge=merge)


@fresh_examples(10)
@given(epochs=EPOCHS)
def test_stores_in_memory_hand_over_what_lists_hold(epochs: list[Any]) -> None:
    world, model = World(Path(), DECLARATION), Model()
    world.watermark = 0
    stores = [StateStore({"t": DECLARATION}, watermark=0)]
    for epoch, (steps, parallelism, advance, _) in enumerate(epochs, 2):
        world.watermark += 3 * advance
        world.stores = stores = next_epoch(stores, epoch=epoch, parallelism=parallelism, watermark=world.watermark)
        for what, given_ in steps:
            step(world, model, what, given_)
        assert in_order(world.scan()) == model.live(world.watermark)


def test_lists_keep_the_order_over_batches_and_keys() -> None:
    state = StateStore({"t": ListState("k string, n long", key="k")})["t"]
    for start in range(0, 100, 7):
        numbers = list(range(start, start + 7))
        state.append(pa.table({"k": [str(n % 5) for n in numbers], "n": numbers}))
    assert state.get(pa.table({"k": ["3", "1", "3"]}))["n"].to_pylist() == [n for n in range(105) if n % 5 in (1, 3)]
    assert state.get(pa.table({"k": ["none"]})).num_rows == 0


def test_a_key_need_not_come_first() -> None:
    state = StateStore({"t": ListState("n long, k string", key="k")})["t"]
    state.append(pa.table({"n": [1, 2], "k": ["a", "b"]}))
    state.delete(pa.table({"k": ["a"]}))
    state.append(pa.table({"n": [3], "k": ["a"]}))
    assert sorted(state.scan()["n"].to_pylist()) == [2, 3]


def test_a_later_round_of_a_loop_deletes_what_an_earlier_one_appended(tmp_path: Path) -> None:
    world = World(tmp_path, ListState("k string, n long", key="k"))
    world.begin(1)
    world.stores[0]["t"].append(world.rows([{"k": k, "n": n} for n, k in enumerate("abc")]))
    world.commit()
    world.begin(1, further=True)
    world.stores[0]["t"].delete(pa.table({"k": ["c"]}))
    world.commit()
    world.begin(1, further=True)
    world.stores[0]["t"].append(world.rows([{"k": "b", "n": 3}]))
    assert [row["n"] for row in in_order(world.scan())] == [0, 1, 3]
