"""The current rows of a user's log: the same for every cut into epochs, whatever it takes back and whatever stands behind."""

from __future__ import annotations

from collections import Counter
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import BadInputError
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark

Event = tuple[str, str, int | None]

SCHEMA = "k string, v int, op string"
ADDS = ("insert", "update_after")
BEHIND: dict[str, tuple[Callable[[do.Stream], do.Stream], Callable[[str, int | None], tuple[Any, ...] | None]]] = {
    "nothing": (lambda rows: rows, lambda k, v: (k, v)),
    "filter": (lambda rows: rows.filter("v >= 2"), lambda k, v: (k, v) if v is not None and v >= 2 else None),
    "select": (lambda rows: rows.select("k", "v + 1 AS w"), lambda k, v: (k, None if v is None else v + 1)),
    "with_columns": (lambda rows: rows.with_columns(w="v * 2"), lambda k, v: (k, v, None if v is None else v * 2)),
}


def weights_of(events: Sequence[Event]) -> Counter[tuple[str, int | None]]:
    """How often each row was added more than taken back."""
    found = Counter[tuple[str, int | None]]()
    for kind, key, value in events:
        found[key, value] += 1 if kind in ADDS else -1
    return found


def several(events: Sequence[Event]) -> list[tuple[str, int | None]]:
    """The rows that a key has besides one."""
    rows = sorted((+weights_of(events)).elements(), key=str)
    return [row for number, row in enumerate(rows) if row[0] in {key for key, _ in rows[:number]}]


@st.composite
def logs(draw: st.DrawFn) -> list[list[Event]]:
    """Epochs of events at whose ends no key has several rows; anything may be taken back, also before it comes."""
    values = st.one_of(st.none(), st.integers(1, 3))
    kinds = st.sampled_from([*ADDS, "delete", "update_before"])
    events: list[Event] = []
    epochs: list[list[Event]] = [[]]
    for event in draw(st.lists(st.tuples(kinds, st.sampled_from("ab"), values), min_size=3, max_size=12)):
        events.append(event)
        epochs[-1].append(event)
        if not several(events) and draw(st.booleans()):
            epochs.append([])
    epochs[-1] += [("delete", *row) for row in several(events)]
    return [epoch for epoch in epochs if epoch]


def pipeline_of(root: str, epochs: Sequence[Sequence[Event]], engine: Spark | None = SAIL, **more: Any) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=root, engine=engine)
    batches = [[{"k": key, "v": value, "op": kind} for kind, key, value in epoch] for epoch in epochs]
    rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes("op").latest("k", **more)
    for name, (behind, _) in BEHIND.items():
        behind(rows).to_table(name)
    return pipeline


def check(root: str, epochs: list[list[Event]], engine: Spark | None) -> None:
    pipeline = pipeline_of(root, epochs, engine)
    done: list[Event] = []
    for epoch in epochs:
        pipeline.run_epoch()
        done += epoch
        there = list((+weights_of(done)).elements())
        for name, (_, made) in BEHIND.items():
            found = sorted((tuple(row.values()) for row in pipeline.to_arrow(name).to_pylist()), key=str)
            assert found == sorted((row for one in there if (row := made(*one)) is not None), key=str), (name, epochs)


@pytest.mark.sail
@fresh_examples(4)
@given(logs())
def test_they_are_what_the_log_sums_up_to_at_the_end_of_every_epoch(epochs: list[list[Event]]) -> None:
    with TemporaryDirectory() as root:
        check(root, epochs, SAIL)


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_row_that_is_not_there_and_one_before_it_comes(tmp_path: Path, engine: str) -> None:
    epochs: list[list[Event]] = [
        [("insert", "a", 1), ("delete", "b", 2)],
        [("delete", "a", 9), ("insert", "b", 2)],
        [("insert", "b", 2)],
    ]
    check(str(tmp_path / "each"), epochs, ENGINES[engine])
    check(str(tmp_path / "one"), [[event for epoch in epochs for event in epoch]], ENGINES[engine])


@pytest.mark.sail
@pytest.mark.parametrize("cut", [1, 2])
def test_two_rows_of_a_key_are_refused_for_every_cut_and_read_as_the_remedy_says(tmp_path: Path, cut: int) -> None:
    events: list[Event] = [("insert", "a", 1), ("update_after", "a", 2)]
    epochs = [events[:cut], events[cut:]] if events[cut:] else [events]
    pipeline = pipeline_of(str(tmp_path / "refused"), epochs)
    with pytest.raises(BadInputError, match="a key has several rows") as refused:
        pipeline.run_until_caught_up()
    assert "key_by(...).top(1, by=...)" in str(refused.value.remedy)
    other = do.Pipeline("p", root=str(tmp_path / "other"), engine=SAIL)
    batches = [[{"k": key, "v": value, "op": kind} for kind, key, value in epoch] for epoch in epochs]
    changes = other.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes("op")
    changes.key_by("k").top(1, by="v DESC").to_table("now")
    other.run_until_caught_up()
    assert [(row["k"], row["v"]) for row in other.to_arrow("now").to_pylist()] == [("a", 2)]


@pytest.mark.sail
def test_a_root_of_before_goes_on_as_it_was_and_new_tables_have_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs: list[list[Event]] = [[("insert", "a", 2)], [("insert", "b", 2)], [("delete", "a", 9)]]

    def flow(table: str, **settings: Any) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        batches = [[{"k": key, "v": value, "op": kind} for kind, key, value in epoch] for epoch in epochs]
        rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes("op")
        rows.latest("k").filter("v > 0").to_table(table, **settings)
        return pipeline

    with monkeypatch.context() as before:
        before.setattr("dagster_operators.api.stream.raw_changes", lambda _: set())
        flow("old").run_epoch()
    pipeline = flow("old")
    assert pipeline.changes() == []
    pipeline.run_epoch()
    assert pipeline.changes() == []
    assert sorted(row["k"] for row in pipeline.to_arrow("old").to_pylist()) == ["a", "b"]
    assert all(getattr(node.operator, "remembers", None) in (None, False) for node in pipeline.dataflow)
    renamed = flow("new", backfill=True)
    renamed.run_until_caught_up()
    assert sorted(row["k"] for row in renamed.to_arrow("new").to_pylist()) == ["a", "b"]
