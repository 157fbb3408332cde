"""Edges are carried out as they were chosen: the exchanges in the engine's own plan."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from typing_extensions import override

import dagster_operators as do
from dagster_operators.graph.alternatives import Alternative
from dagster_operators.graph.exchange import FORWARD, Broadcast, Exchange, Gather, HashBy
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.exchanged import exchanged
from dagster_operators.operators.physical import Analysis, RelationalOperator
from tests.engines import ENGINES
from tests.planner.test_exchanges_of_alternatives import REPARTITION, Named, TrialJoin
from tests.planner.test_properties import Counted, CountPerKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from dagster_operators.operators.physical import Analysed, Rows, StageContext

PLANS: list[str] = []
"""The engine's plan of what the last operator of a stage gave."""

ROWS: list[dict[str, Any]] = [{"k": f"k{v % 3}", "j": f"j{v % 2}", "v": v} for v in range(12)]


def noted(frame: DataFrame) -> DataFrame:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain()
    PLANS.append(text.getvalue())
    return frame


@dataclass(frozen=True)
class Shipped(RelationalOperator):
    """Counts rows per key, which it brings together as its edge says."""

    counted: Counted

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(self.counted.rows(inputs[0]), facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        rows = exchanged(inputs[0], context.edges(self.counted.name)[0])
        return None if rows is None else noted(self.counted.rows(rows))


@dataclass(frozen=True, kw_only=True)
class CountShipped(CountPerKey):
    kind: ClassVar[str] = "count_shipped"

    @override
    def lower(self, inputs: Sequence[StreamType]) -> Any:
        return Shipped(Counted(self.keys, self.name))


@dataclass(frozen=True)
class JoinShipped(RelationalOperator):
    name: str

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(inputs[0].join(inputs[1], "k"), facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        left, right = (exchanged(rows, edge) for rows, edge in zip(inputs, context.edges(self.name), strict=True))
        if left is None or right is None:
            return None
        is_copied = any(isinstance(edge.exchange, Broadcast) for edge in context.edges(self.name))
        return noted(left.join(right if is_copied else right.hint("merge"), "k"))


def pipeline_at(root: Path, engine: str) -> tuple[do.Pipeline, do.Stream]:
    PLANS.clear()
    pipeline = do.Pipeline("p", root=str(root), engine=ENGINES[engine])
    return pipeline, pipeline.source("rows", do.MemorySource([ROWS], schema="k string, j string, v long"))


def count(root: Path, engine: str, *keys: tuple[str, ...]) -> list[tuple[int, ...]]:
    pipeline, stream = pipeline_at(root, engine)
    for number, key in enumerate(keys):
        stream = stream.through(CountShipped, keys=key, name=f"n{number}")
    stream.to_table("out")
    pipeline.run_until_caught_up()
    names = [f"n{number}" for number in range(len(keys))]
    return sorted(tuple(row[name] for name in ("v", *names)) for row in pipeline.read("out").collect())


def expected(*keys: tuple[str, ...]) -> list[tuple[int, ...]]:
    def alike(row: dict[str, Any], key: tuple[str, ...]) -> int:
        return sum(all(other[name] == row[name] for name in key) for other in ROWS)

    return sorted((row["v"], *(alike(row, key) for key in keys)) for row in ROWS)


@pytest.mark.parametrize(
    ("keys", "exchanges"),
    [
        ((("k",), ("k",)), 1),
        ((("k",), ("k", "j")), 1),
        ((("k",), ("k", "j"), ("k",)), 1),
        ((("k", "j"), ("k",)), 2),
        ((("k",), ("j",)), 2),
    ],
)
def test_two_keyed_operators_on_the_same_or_a_finer_key_shuffle_once(
    spark: Any, tmp_path: Path, keys: tuple[tuple[str, ...], ...], exchanges: int
) -> None:
    assert spark
    assert count(tmp_path, "spark", *keys) == expected(*keys)
    assert PLANS[-1].count("Exchange hashpartitioning") == exchanges


@pytest.mark.usefixtures("sail")
def test_the_rows_are_the_same_on_sail(tmp_path: Path) -> None:
    keys = (("k",), ("k", "j"), ("j",))
    assert count(tmp_path, "sail", *keys) == expected(*keys)


@pytest.mark.parametrize("engine", ["spark", "sail"])
@pytest.mark.parametrize(("taken", "hashed", "copied"), [("repartition", 2, 0), ("broadcast second", 0, 1)])
def test_a_join_is_carried_out_as_it_was_chosen(  # noqa: PLR0917
    request: pytest.FixtureRequest, tmp_path: Path, engine: str, taken: str, hashed: int, copied: int
) -> None:
    request.getfixturevalue(engine)
    pipeline, left = pipeline_at(tmp_path, engine)
    pipeline.source("others", do.MemorySource([[{"k": "k1", "w": 1}, {"k": "k2", "w": 2}]], schema="k string, w long"))
    ways = (
        Alternative(REPARTITION.name, JoinShipped("j")),
        Alternative("broadcast second", JoinShipped("j"), exchanges=(FORWARD, Broadcast())),
    )
    pipeline.dataflow.add(JoinOfAll(name="j", ways=ways), [StreamRef(left.name), StreamRef("others")])
    do.Stream(pipeline.dataflow, StreamRef("j")).to_table("out")
    pipeline.dataflow.cost_model = Named(taken)
    pipeline.run_until_caught_up()
    assert sorted(row["w"] for row in pipeline.read("out").collect()) == [1] * 4 + [2] * 4
    if engine == "spark":
        assert (PLANS[-1].count("Exchange hashpartitioning"), PLANS[-1].count("BroadcastExchange")) == (hashed, copied)


@dataclass(frozen=True, kw_only=True, eq=False)
class JoinOfAll(TrialJoin):
    kind: ClassVar[str] = "join_of_all"

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return StreamType(("k", "j", "v", "w"))


class Asked:
    """Rows that note what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def hint(self, *given: Any) -> Asked:
        self.asked.append(("hint", *given))
        return self

    def repartition(self, *given: Any) -> Asked:
        self.asked.append(("repartition", *given))
        return self


@pytest.mark.parametrize(
    ("exchange", "is_met", "asked"),
    [
        (FORWARD, False, []),
        (HashBy(("k", "a b")), False, [("repartition", "`k`", "`a b`")]),
        (HashBy(("k",)), True, []),
        (HashBy(("k",), window=True), False, []),
        (Gather(), False, [("repartition", 1)]),
        (Broadcast(), False, [("hint", "broadcast")]),
    ],
)
def test_an_edge_says_what_moves(exchange: Exchange, is_met: bool, asked: list[Any]) -> None:  # noqa: FBT001
    rows: Any = Asked()
    edge: Any = SimpleNamespace(exchange=exchange, is_met=is_met)
    given: Any = exchanged(rows, edge)
    assert given is rows
    assert rows.asked == asked
    assert exchanged(None, edge) is None
