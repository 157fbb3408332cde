"""One row of each key in a table, of rows without an order: that of the last epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import BadInputError, PipelineError, SchemaError
from tests.engines import ENGINES, SAIL

EPOCHS: list[Any] = [[("a", 1.0, 1), ("b", 2.0, 2)], [("a", 1.0, 3), (None, -0.0, 4)], [(None, 0.0, 5), ("a", 2.0, 6)]]


def build(root: Path, epochs: list[Any], engine: str = "sail", **settings: Any) -> do.Pipeline:
    made = do.Pipeline("p", root=str(root), engine=ENGINES[engine])
    rows = made.source("rows", do.MemorySource(epochs, schema="k string, x double, v long"))
    rows.to_table("t", **{"mode": "upsert", "key": ["k", "x"], **settings})
    return made


def rows_of(made: do.Pipeline) -> dict[Any, int]:
    rows = made.to_arrow("t").to_pylist()
    found = {(row["k"], row["x"]): row["v"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_table_has_the_last_row_of_each_key(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(engine)
    made = build(tmp_path, EPOCHS, engine, change_feed=True)
    expected: dict[Any, int] = {}
    for epoch in EPOCHS:
        made.run_epoch()
        expected |= {(k, x): v for k, x, v in epoch}
        assert rows_of(made) == expected
    made.rebuild()  # epoch by epoch, as its own epochs were
    assert rows_of(made) == expected


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize("key", ["a", None], ids=["text", "null"])
def test_two_rows_of_a_key_in_an_epoch_are_refused_with_the_key(
    engine: str, key: str | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(engine)
    made = build(tmp_path, [[(key, 0.0, 1), (key, -0.0, 2)]], engine)
    with pytest.raises(BadInputError, match=f"two rows of the epoch have the key {key or 'null'}, -?0"):
        made.run_epoch()
    assert made.epochs.coordinator.last_complete() is None


@pytest.mark.sail
def test_what_the_remedy_says_keeps_the_last_row(tmp_path: Path) -> None:
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = made.source("rows", do.MemorySource([[("a", 0.0, 1), ("a", 0.0, 2)]], schema="id string, x double, at long"))
    rows.to_changes("id", order_by="at").latest("id").to_table("t")
    made.run_epoch()
    assert [row["at"] for row in made.to_arrow("t").to_pylist()] == [2]


def test_a_key_goes_with_the_mode_and_is_of_the_stream() -> None:
    wrong: list[dict[str, Any]] = [{"key": []}, {"mode": "append"}, {"mode": None}, {"mode": "replace"}]
    for settings in wrong:
        with pytest.raises(PipelineError, match="key="):
            build(Path("unused"), [], **settings)
    with pytest.raises(SchemaError, match="there is no column 'z'"):
        build(Path("unused"), [], key=["z"])


@pytest.mark.sail
def test_rows_of_data_sets_are_computed_anew_epoch_by_epoch(tmp_path: Path) -> None:
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = made.source("rows", do.MemorySource([[("a", 1), ("a", 2)], [("a", 3)]], schema="k string, v long"))
    rows.data_set().group_by("k").sum("v").to_table("sums")
    made.run_until_caught_up()
    before = sorted(map(str, made.to_arrow("sums").to_pylist()))
    made.rebuild("sums")
    assert sorted(map(str, made.to_arrow("sums").to_pylist())) == before
