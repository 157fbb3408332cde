"""An operator of each kind, and of some kinds several: whatever must hold for every operator is tried on them."""

from __future__ import annotations

import pyarrow as pa

import dagster_operators as do
from dagster_operators.api.datasets.data_set import DataSet
from dagster_operators.api.datasets.over_all import OverAll
from dagster_operators.api.datasets.over_epochs import MergeOfOperation
from dagster_operators.api.datasets.stream_input import StreamInput
from dagster_operators.api.datasets.stream_program import StreamProgram
from dagster_operators.connectors.change_events import ChangeEvents
from dagster_operators.connectors.operator_source import OperatorSource
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.aggregates.keyed_aggregate import KeyedAggregate
from dagster_operators.operators.arrow.apply import Apply
from dagster_operators.operators.datasets.data_sets import DataSets, DataSetsWithState
from dagster_operators.operators.datasets.over_epochs import GroupsOverEpochs
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.wiring import EventInput, EventOperator, EventSource
from dagster_operators.operators.frontier.definition import Definition
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
from dagster_operators.operators.joins.as_of_join import AsOfJoin
from dagster_operators.operators.joins.interval_join import IntervalJoin
from dagster_operators.operators.joins.join import Join
from dagster_operators.operators.joins.lookup import Lookup
from dagster_operators.operators.joins.window_join import WindowJoin
from dagster_operators.operators.loops.edges import Enter, Leave, LoopVariable
from dagster_operators.operators.relational.changelog import AsChanges, Latest
from dagster_operators.operators.relational.deduplicate import DeduplicateFirst, DeduplicateLast
from dagster_operators.operators.relational.deduplicate_changes import DeduplicateChanges
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.final_rows import FinalRows
from dagster_operators.operators.relational.flat_map import FlatMap
from dagster_operators.operators.relational.map_async import MapAsync
from dagster_operators.operators.relational.over import Over
from dagster_operators.operators.relational.projection import Drop, Rename, Select, WithColumns
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.to_changes import ToChanges
from dagster_operators.operators.relational.top_per_key import TopPerKey
from dagster_operators.operators.relational.transform import Transform
from dagster_operators.operators.relational.union import Union
from dagster_operators.operators.relational.upsert import Upsert
from dagster_operators.operators.relational.whole_table import WholeTable
from dagster_operators.operators.relational.within_last import WithinLast
from dagster_operators.operators.windows.final_session_aggregate import FinalSessionAggregate
from dagster_operators.operators.windows.final_top_per_window import FinalTopPerWindow
from dagster_operators.operators.windows.final_window_aggregate import FinalWindowAggregate
from dagster_operators.operators.windows.input_window_aggregate import InputWindowAggregate
from dagster_operators.operators.windows.session_aggregate import SessionAggregate
from dagster_operators.operators.windows.session_aggregate_changes import SessionAggregateChanges
from dagster_operators.operators.windows.top_per_window import TopPerWindow
from dagster_operators.operators.windows.window_aggregate import WindowAggregate
from dagster_operators.operators.windows.window_aggregate_changes import WindowAggregateChanges
from dagster_operators.operators.windows.window_rows import InputWindow


class Counting(do.ArrowOperator):
    """Counts rows; of each setting that operators have something."""

    def __init__(self, least: int = 1, names: list[str] | None = None) -> None:
        self.least = least
        self.names = names or ["a"]
        self.schema = pa.schema([("k", pa.string())])
        self.state = {"seen": do.KeyedState("k string, n long", key="k", migrate=migrated)}

    def output_schema(self, schema):
        return schema

    def process_batch(self, batch, ctx, out):
        out.collect(batch)


class Numbers(do.SourceOperator):
    def __init__(self, password: str) -> None:
        self.password = password

    def output_schema(self):
        return "n long"


def migrated(table, version):
    return table


def doubled(frame):
    return frame


def handed_on(capability, info):
    def logic(incoming, output):
        incoming.for_each(lambda time, batch: output.session(time).give_batch(batch))

    return logic


KEPT = {"seen": do.KeyedState("k string, n long", key="k"), "stash": do.frontier.StashState(), "told": do.frontier.NotifyState()}
PAIRS = (("n", "count(*)"), ("most", "max(v)"))
WINDOW = {"keys": ("k",), "event_time": "t"}


def iterated(records):
    loop = records.iterate_delta(records, 3, "k", keep=True)
    return loop.close_with(loop.workset, loop.workset.map(doubled, schema="k string, v long"))


def added(first, second):
    return (first[0], first[1] + second[1])


def merge_of(data_set):
    return MergeOfOperation(data_set, OverAll())


RECORDS = DataSet(StreamInput(StreamRef("rows"), None), (), ("k", "v"))
SAMPLES = [
    Source(name="a", connector=do.FileSource("in", schema="k string", options={"sep": ";", "header": True})),
    Source(name="a", connector=do.DeltaSource("in", changes=True, storage_options={"secret": "hunter2"}), event_time="t"),
    Source(name="a", connector=do.MemorySource([[{"k": "a", "v": 1.5}], [("b", None)]], schema="k string, v double")),
    Source(name="a", connector=OperatorSource("a", Numbers("x"), "root"), lateness=5, finished=True),
    Filter(name="a", condition="v > 1", chain=False),
    Select(name="a", expressions=("k", "v + 1 AS w")),
    WithColumns(name="a", expressions=(("w", "v + 1"),), only_new=True),
    Rename(name="a", names=(("k", "l"),)),
    Drop(name="a", columns=("k",)),
    Union(name="a"),
    FlatMap(name="a", call="posexplode(xs) AS (n, x)", outer=True),
    MapAsync(name="a", call="asked(k) AS answer"),
    Transform(name="a", function=doubled, columns=("k",)),
    DeduplicateFirst(name="a", keys=("k",), event_time="t", within=5),
    DeduplicateLast(name="a", keys=("k",), event_time="t"),
    DeduplicateChanges(name="a", keys=("k",), keep="last", order_by=("v DESC", "w"), event_time="t", forget_after=5),
    Source(name="a", connector=do.SnapshotSource(do.FileSource("in", schema="k string", storage_options={"s": "t"}), "k", 0.1)),
    Source(
        name="a",
        connector=do.KafkaSource(
            "b:9092", "t", format="json", schema="k string", max_records=5, options={"sasl.password": "hunter2"}
        ),
    ),
    TopPerKey(name="a", keys=("k",), n=3, by=("v DESC",), event_time="t", forget_after=5),
    Over(
        name="a",
        keys=("k",),
        order_by=("t DESC",),
        functions=(("n", "row_number()"), ("w", "lag(v, 2)")),
        frame="rows",
        event_time="t",
        forget_after=5,
    ),
    FinalRows(name="a", event_time="t"),
    WithinLast(name="a", event_time="t", age=5),
    KeyedAggregate(name="a", keys=("k",), event_time="t", aggregates=PAIRS, forget_after=5),
    WindowAggregate(name="a", **WINDOW, window=do.Sliding("1 hour", "10 minutes"), aggregates=PAIRS),
    WindowAggregateChanges(name="a", **WINDOW, window=do.Tumbling("1 hour"), aggregates=PAIRS),
    FinalWindowAggregate(name="a", **WINDOW, window=do.Tumbling("1 hour"), aggregates=PAIRS),
    FinalSessionAggregate(name="a", **WINDOW, window=do.Session("1 hour"), aggregates=PAIRS),
    FinalTopPerWindow(name="a", **WINDOW, window=do.Tumbling("1 hour", offset="1 s"), n=2, by=("v",), rank="place", ties=True),
    SessionAggregate(name="a", **WINDOW, window=do.Session("1 hour"), aggregates=PAIRS),
    SessionAggregateChanges(name="a", **WINDOW, window=do.Session("1 hour"), aggregates=PAIRS),
    InputWindowAggregate(name="a", **WINDOW, window=InputWindow(), aggregates=PAIRS),
    TopPerWindow(name="a", **WINDOW, window=do.Tumbling("1 hour", offset="1 s"), n=2, by=("v",), rank="place", ties=True),
    WindowJoin(name="a", keys=("k",), right_keys=("l",), window=do.Tumbling("1 h"), event_times=("t", "u"), how="semi"),
    IntervalJoin(name="a", keys=("k",), right_keys=("l",), event_times=("t", "u"), low=-5, high=5, columns=("v",)),
    Join(
        name="a",
        keys=("k",),
        right_keys=("l",),
        how="left",
        condition="v < w",
        columns=("v",),
        event_times=("t", "u"),
        forget_after=5,
    ),
    AsOfJoin(
        name="a",
        keys=("k",),
        right_keys=("l",),
        event_times=("t", "u"),
        how="inner",
        corrections=True,
        keep=5,
        columns=("v", "w"),
    ),
    Lookup(name="a", connector=do.DeltaSource("rates"), on=(("k", "id"),), columns=("rate",), how="inner"),
    AsChanges(name="a", change="op"),
    ChangeEvents(name="a", column="k", schema="k string, v long", keys=("k",), order="v"),
    Latest(name="a", keys=("k",)),
    ToChanges(name="a", keys=("k",), order="v", deleted="v > 1", unknown="fail"),
    Enter(name="a", scope="spread"),
    LoopVariable(name="a", scope="spread", schema="k string, v long"),
    Leave(name="a"),
    FrontierOperator(
        name="a",
        definition=Definition("unary_frontier", [do.frontier.Exchange("k")], "a", handed_on, schema="k string", state=KEPT),
    ),
    EventOperators(
        name="a",
        sources=(EventSource("rows", (("v", "v"),), "t"),),
        operators=(
            EventOperator(
                "double",
                "op",
                alone=True,
                file="double.py",
                inputs=(EventInput("n", "rows/v", 5),),
                outputs=("out",),
                types=(("out", "bigint"),),
            ),
        ),
        files=(("double.py", "class Operator: ..."),),
        descriptor='{"nodes": []}',
        partition_by="k",
    ),
    WholeTable(name="a"),
    Upsert(name="a", keys=("k",)),
    DataSets(name="a", program=StreamProgram(RECORDS.map(doubled, schema="k string"), [StreamRef("rows")])),
    DataSetsWithState(name="a", program=StreamProgram(iterated(RECORDS), [StreamRef("rows")])),
    GroupsOverEpochs(name="a", merge=merge_of(RECORDS.reduce(added)), keys=("k",)),
    Apply(name="a", arrow=Counting(2), keys=(("k",), ("l",))),
]
