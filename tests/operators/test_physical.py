"""Physical operators are values: equal for equal work, and nothing that an analysis found stays in them."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

import dagster_operators as do
from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.physical import PhysicalOperator, RelationalOperator, StageContext
from dagster_operators.operators.relational.changelog import Latest
from dagster_operators.operators.relational.union import Union
from dagster_operators.operators.windows.input_window_aggregate import InputWindowAggregate
from dagster_operators.operators.windows.window_rows import InputWindow
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.plan import plan
from dagster_operators.planner.rules.rule_set import optimised
from dagster_operators.runtime.stages.stage_work import connector_of
from tests.operators.events import dataflows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOTHING = cast("StageContext", None)
"""For operators that ask nothing of their stage."""


def derived(kind: type) -> Iterator[type[PhysicalOperator[Any]]]:
    """The package's classes derived from one that can be made."""
    for found in kind.__subclasses__():
        if found.__module__.startswith("dagster_operators.") and not inspect.isabstract(found):
            yield found
        yield from derived(found)


def kinds() -> list[type[PhysicalOperator[Any]]]:
    for module in pkgutil.walk_packages(do.__path__, "dagster_operators."):
        if module.name.startswith(("dagster_operators.operators.", "dagster_operators.connectors.change_events")):
            importlib.import_module(module.name)
    return sorted(set(derived(PhysicalOperator)), key=lambda kind: kind.__name__)


class Counting(do.ArrowOperator):
    state = {"seen": do.KeyedState("k string, n long", key="k")}

    def output_schema(self, rows):
        return "k string, n long"

    def handle_timer(self, time, keys, ctx, out):
        """Declares a state table for its timers."""


def handed_on(_capability, _info):
    return lambda incoming, output: incoming.for_each(lambda time, batch: output.session(time).give_batch(batch))


@pytest.fixture
def everything() -> do.Pipeline:
    """A pipeline with every operator of the package."""

    async def answer(x: int) -> int:
        return x

    do.udf("long", name="answer_of_values", is_async=True)(answer)
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="k string, v long, t timestamp"), event_time="t")
    other = pipeline.source("other", do.MemorySource([], schema="k string, w long, t timestamp"), event_time="t")
    kept = rows.data_set().iterate_delta(rows.data_set(), 2, "k", keep=True)
    changed = kept.workset.join(kept.solution_set).where("k").equal_to("k").with_function(
        max, schema="k string, v long, t timestamp"
    )  # fmt: skip
    keyed, others, window = rows.key_by("k"), other.key_by("k"), do.Tumbling("1 minute")
    counts = keyed.window(window).aggregate(n="count(*)")
    waiting = counts.union(counts.filter("n > 1"))  # whose windows do not have all their rows in one epoch
    loop = pipeline.loop("around")
    variable = loop.variable("again", "v long")
    loop.feed(variable, loop.enter(rows.select("v")).union(variable))
    again = loop.leave(variable)
    extracts = do.SnapshotSource(do.MemorySource([], schema="k string, v long"), "k")
    forward = dataflows.operator("forward", [("n", "numbers/n")], ["out"])
    events = dataflows.dataflow([forward], {"forward": dataflows.FORWARD})
    streams = [
        rows.select("k", "v").rename(v="w").drop("k").with_columns(z="w + 1"),
        rows.union(rows.filter("v > 1")).flat_map("explode(array(v)) AS x").transform(lambda frame: frame),
        rows.lookup(do.MemorySource([], schema="k string, city string"), on="k"),
        rows.map_async("answer_of_values(v) AS answer"),
        keyed.aggregate(n="count(*)").filter("n > 1"),
        counts.window().aggregate(most="max(n)"),
        counts.window().top(1, by="n"),
        waiting.window().aggregate(most="max(n)"),
        waiting.window().top(1, by="n"),
        keyed.window(do.Session("1 minute")).aggregate(n="count(*)"),
        keyed.top(2, by="v"),
        keyed.top(2, by="v").select("k", "rank", "v"),
        keyed.deduplicate(),
        keyed.deduplicate(keep="last"),
        keyed.window(window).join(others.window(window), columns=["v", "w"]),
        keyed.interval_join(others, lower="-1 s", upper="1 s", columns=["v", "w"]),
        keyed.apply(Counting()),
        rows.unary_frontier(do.frontier.Exchange("k"), "by_frontier", handed_on),
        rows.data_set().filter(bool).to_stream(name="bag"),
        rows.data_set().distinct("k", over="all").to_stream(name="bag_over_all"),
        kept.close_with(changed, changed.filter(bool)).to_stream(name="solution"),
        rows.as_changes("k").latest("v"),
        rows.as_changes("k").through(Latest, keys=("v",)),
        rows.as_changes("k").key_by("v").top(2, by="t"),
        rows.as_changes("k").key_by("v").window(window).aggregate(n="count(*)"),
        rows.as_changes("k").key_by("v").window(do.Session("1 minute")).aggregate(n="count(*)"),
        rows.as_changes("k").key_by("v").window(window).aggregate(n="count(*)", emit="final"),
        rows.as_changes("k").key_by("v").window(do.Session("1 minute")).aggregate(n="count(*)", emit="final"),
        rows.as_changes("k").key_by("v").window(window).top(2, by="t", emit="final"),
        rows.as_changes("k").final(),
        rows.to_changes("k", order_by="t").key_by("v").aggregate(n="count(*)"),
        keyed.over("v", n="row_number()"),
        rows.join(other, on="k", columns=["v", "w"]),
        rows.within_last("1 minute"),
        rows.from_debezium("k", schema="v long", key="v", order_by="v").latest("v"),
        rows.from_debezium("k", schema="v long", key="v", order_by="v", unknown="fail").latest("v"),
        rows.from_debezium("k", schema="v long", key="v", order_by="v", unknown="ignore").latest("v"),
        keyed.aggregate(n="count(*)", forget_after="1 minute"),
        rows.join(other, on="k", columns=["v", "w"], forget_after="1 minute"),
        rows.join_as_of(other, on="k", columns=["v", "w"]),
        pipeline.source("extracts", extracts).key_by("v").aggregate(n="count(*)"),
        again,
        rows.through(EventOperators, name="events", sources=events.sources, operators=events.operators, files=events.files),
    ]
    for number, stream in enumerate(streams):
        stream.to_table(f"t{number}")
    pipeline.table("t0").to_table("copy", mode="replace")
    rows.filter("v > 2").to_table("upserted", mode="upsert", key=["k"])
    return pipeline


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_physical_operator_is_frozen(kind: type[PhysicalOperator[Any]]) -> None:
    parameters = kind.__dict__["__dataclass_params__"]
    assert parameters.frozen
    assert parameters.eq


def test_equal_operators_are_lowered_to_equal_ones_that_hold_nothing_but_their_fields(everything: do.Pipeline) -> None:
    once, again = (lower(everything.dataflow) for _ in range(2))
    assert once == again
    operators = [node.operator for node in once]
    of_the_harness = "dagster_operators.testing."  # known as soon as another test imports it, and never lowered
    assert {type(operator) for operator in operators} == {
        kind for kind in kinds() if not kind.__module__.startswith(of_the_harness)
    }
    for operator in operators:
        assert set(vars(operator)) == {field.name for field in dataclasses.fields(cast("Any", operator))}


@pytest.mark.usefixtures("sail")
def test_an_analysis_leaves_no_trace_in_the_operator_and_can_be_stored(everything: do.Pipeline, sail: SparkSession) -> None:
    dataflow = everything.dataflow
    connectors = {name: connector for name in dataflow.nodes if (connector := connector_of(dataflow, name))}
    schemas = {name: connector.infer_schema(sail) for name, connector in connectors.items()}
    lowered = lower(optimised(dataflow).plan)
    once, again = (plan(sail, dataflow, schemas) for _ in range(2))
    assert once.analysed == again.analysed
    assert pickle.loads(pickle.dumps(once.analysed)) == once.analysed  # noqa: S301 - it was written a moment ago
    assert once.physical == again.physical
    assert lower(optimised(dataflow).plan) == lowered
    for operator in (node.operator for node in once.physical):
        assert set(vars(operator)) == {field.name for field in dataclasses.fields(cast("Any", operator))}


BOUNDS = "timestamp_micros(0) AS window_start, timestamp_micros(1) AS window_end"
TWICE = [
    pytest.param(
        Union(name="both"),
        ("SELECT 1 AS a, 'x' AS b", "SELECT 'x' AS B, 1 AS A"),
        "a int, b string",
        id="union",
    ),
    pytest.param(
        InputWindowAggregate(
            name="total", keys=("k",), window=InputWindow(), event_time="window_start", aggregates=(("total", "sum(v)"),)
        ),
        tuple(f"SELECT 'a' AS k, CAST(1 AS {kind}) AS v, {BOUNDS}" for kind in ("DECIMAL(10, 2)", "DECIMAL(20, 4)")),
        "k string, window_start timestamp, window_end timestamp, total decimal(20,2)",
        id="aggregate",
    ),
]


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize(("logical", "inputs", "output"), TWICE)
def test_a_run_goes_by_the_analysis_that_it_is_handed(
    request: pytest.FixtureRequest, engine: str, logical: Any, inputs: tuple[str, str], output: str
) -> None:
    session: SparkSession = request.getfixturevalue(engine)
    windows = StreamType(None, "window_start", complete_windows=True)
    operator: RelationalOperator[Any] = logical.lower([windows, windows])
    one, other = map(session.sql, inputs)
    analysed = operator.analyse([one.limit(0)]).as_data()
    alone = shown(operator.run(NOTHING, [one], analysed))
    operator.analyse([other.limit(0)])
    assert shown(operator.run(NOTHING, [one], analysed)) == alone
    assert ", ".join(f"{name} {kind}" for name, kind in alone[0]) == output


def shown(rows: DataFrame | None) -> tuple[list[tuple[str, str]], list[Any]]:
    assert rows is not None
    return [(field.name, field.dataType.simpleString()) for field in rows.schema.fields], rows.collect()
