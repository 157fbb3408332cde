"""What a rebuild is refused for before it reads anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.errors import MissingInputError, PipelineError
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.runtime.history_choosing import History, HistoryChoosing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster_operators.connectors.connector import Connector


class Extracts(do.MemorySource):
    """Of some epochs' extracts nothing is left."""

    gone: tuple[int, ...] = ()

    def verify_again(self, items: Any, schema_json: str) -> None:
        if items in self.gone:
            raise MissingInputError("the file is gone", remedy="put it back")


def checked(gone: Sequence[int], left: Sequence[int], *, whole: bool = True, empty: bool = False) -> None:
    source = Extracts([], schema="id long")
    source.gone = tuple(gone)
    connector: Connector = do.SnapshotSource(source, "id") if whole else source
    pipeline = do.Pipeline("p", root="unused")
    pipeline.source("items", connector)
    planning: Any = SimpleNamespace(
        plan=lambda: SimpleNamespace(sources=("items",)), input_schemas=lambda: {"items": "{}"}, connector=lambda _: connector,
        dataflow=pipeline.dataflow,
    )  # fmt: skip
    made: Any = SimpleNamespace(stops=dict)
    choosing = HistoryChoosing(planning, made, 10, empty=empty)
    pieces = [(epoch, SourceSlice(epoch - 1, epoch, epoch)) for epoch in left]
    choosing.history = History(5, {"items": pieces}, newest={"items": 5})
    choosing.check()


def test_the_remedy_leaves_out_all_that_is_gone_at_once() -> None:
    with pytest.raises(
        MissingInputError, match=r"3 epochs from 1 to 4 read; .*since=5\), which takes the rows up to epoch 4"
    ) as refused:
        checked([1, 2, 4], [1, 2, 3, 4, 5])
    assert refused.value.where["epoch"] == 4
    checked([1, 2, 4], [5])
    anew = r"pipeline.reset\('items', 0, tables=\"restart\"\)"
    with pytest.raises(MissingInputError, match=rf"2 epochs from 4 to 5 read; .*since=6, empty=True\), .*{anew}$"):
        checked([4, 5], [4, 5], whole=False)


def test_the_newest_extract_is_not_left_out() -> None:
    with pytest.raises(MissingInputError, match=r"newest extract, which epoch 5 read: pipeline.rebuild\(\[\], since=5\); or run"):
        checked([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    with pytest.raises(PipelineError, match=r"leaves no extract.*since=5\)$"):
        checked([], [])
    with pytest.raises(PipelineError, match=r"leaves out all that was read.*up to 5, .*since=6, empty=True\)"):
        checked([], [], whole=False)
    checked([], [], whole=False, empty=True)
