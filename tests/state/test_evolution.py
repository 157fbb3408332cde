"""State that an older version of an operator stored: new columns, migrations, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dagster_operators import KeyedState
from dagster_operators.errors import ChangedPipelineError
from dagster_operators.graph.state_tables import StateTable
from dagster_operators.operators.frontier.stash import stash_table
from dagster_operators.types.schema import Schema
from tests.state.world import World

OLD = KeyedState("k string, n int", key="k")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three rows, one of them deleted in a later epoch."""
    world = World(tmp_path, OLD)
    world.begin(1)
    world.stores[0]["t"].put(world.rows([{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "c", "n": 3}]))
    world.commit()
    world.begin(1)
    world.stores[0]["t"].delete(world.rows([{"k": "b"}], ["k"]))
    world.commit()
    return world


def reopened(world: World, declaration: StateTable) -> list[dict[str, Any]]:
    world.declaration = declaration
    world.begin(1)
    return sorted(world.scan(), key=lambda row: row["k"])


def test_a_nullable_column_at_the_end_is_null_in_old_rows(world: World) -> None:
    wider = KeyedState("k string, n int, note string", key="k")
    assert reopened(world, wider) == [{"k": "a", "n": 1, "note": None}, {"k": "c", "n": 3, "note": None}]
    world.stores[0]["t"].put(world.rows([{"k": "a", "n": 5, "note": "new"}]))
    world.commit()
    assert reopened(world, wider)[0] == {"k": "a", "n": 5, "note": "new"}


def double(table: pa.Table, version: int) -> pa.Table:
    assert version == 1
    assert table.column_names == ["k", "n"]
    names = [f"{n}!" for n in table["n"].to_pylist()]
    return pa.table({"name": names, "k": table["k"]})


def test_a_migration_brings_rows_into_the_new_shape(world: World) -> None:
    new = KeyedState("k string, name string", key="k", version=2, migrate=double)
    assert reopened(world, new) == [{"k": "a", "name": "1!"}, {"k": "c", "name": "3!"}]
    world.stores[0]["t"].put(world.rows([{"k": "a", "name": "z"}]))
    world.commit()
    assert {file.version for file in world.files} == {1, 2}
    assert reopened(world, new) == [{"k": "a", "name": "z"}, {"k": "c", "name": "3!"}]


@pytest.mark.parametrize(
    ("declaration", "problem"),
    [
        (KeyedState("k string, n long", key="k"), "stored with column 'n' as int32, now it is int64"),
        (KeyedState("k string, m int, n int", key="k"), "stored with column 'n' where 'm' is now"),
        (KeyedState("k string", key="k"), "stored with column 'n', which is not declared any more"),
        (KeyedState("k string, n int, m int NOT NULL", key="k"), "stored without column 'm', which cannot be null"),
        (
            KeyedState("k string, n int", key="k", version=2),
            "stored by version 1 of its declaration, and version 2 has no migrate",
        ),
        (KeyedState("k string, n int", key="k", version=2, migrate=lambda table, _: table.slice(1)), "gave 2 rows for 3 rows"),
        (KeyedState("k string, n int", key="k", version=2, migrate=lambda *_: None), "gave a NoneType"),
        (
            KeyedState(
                "k string, n int", key="k", version=2, migrate=lambda table, _: pa.table({"k": ["x"] * 3, "n": table["n"]})
            ),
            "changed the key column 'k'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(world: World, declaration: StateTable, problem: str) -> None:
    with pytest.raises(ChangedPipelineError, match=problem) as caught:
        reopened(world, declaration)
    assert (caught.value.operator, caught.value.table) == ("op", "t")
    assert caught.value.remedy


def test_older_code_does_not_read_newer_state(world: World) -> None:
    reopened(world, KeyedState("k string, name string", key="k", version=2, migrate=double))
    world.stores[0]["t"].put(world.rows([{"k": "a", "name": "z"}]))
    world.commit()
    with pytest.raises(ChangedPipelineError, match="stored by version 2 of its declaration, this is version 1"):
        reopened(world, OLD)


def test_new_columns_may_be_anywhere_where_columns_are_known_by_their_names(tmp_path: Path) -> None:
    world = World(tmp_path, stash_table(Schema.of("k string, n int").to_arrow(), ["k"]))
    world.begin(1)
    world.stores[0]["t"].append(world.rows([{"k": "a", "n": 1, "time_": "1", "output_": 0}]))
    world.commit()
    wider = stash_table(Schema.of("k string, note string, n int, more long").to_arrow(), ["k"])
    assert reopened(world, wider) == [{"k": "a", "note": None, "n": 1, "more": None, "time_": "1", "output_": 0}]
    for columns, problem in (
        ("k string", "with column 'n', which is not declared any more"),
        ("k string, n string", "column 'n' as int32"),
        ("k string, n int, note string NOT NULL", "where 'note' is now|without column 'note'"),
    ):
        with pytest.raises(ChangedPipelineError, match=problem):
            reopened(world, stash_table(Schema.of(columns).to_arrow(), ["k"]))
