"""What the package itself brings, registered as any other package does.

Nothing is imported here: a pipeline loads what it uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster_operators.catalog.catalog import Catalog

_OPERATORS = {
    "apply": ("arrow.apply:Apply", "arrow_operators", "stream.apply keyed_stream.apply"),
    "as_changes": ("relational.changelog:AsChanges", "change_streams", "stream.as_changes"),
    "change_events": ("connectors.change_events:ChangeEvents", "debezium", "stream.from_debezium"),
    "data_sets": ("datasets.data_sets:DataSets", "data_sets", ""),
    "data_sets_with_state": ("datasets.data_sets:DataSetsWithState", "data_sets_over_epochs", ""),
    "groups_over_epochs": ("datasets.over_epochs:GroupsOverEpochs", "data_sets_over_epochs", ""),
    "deduplicate_changes": ("relational.deduplicate_changes:DeduplicateChanges", "deduplicate", ""),
    "deduplicate_first": ("relational.deduplicate:DeduplicateFirst", "deduplicate", "keyed_stream.deduplicate"),
    "deduplicate_last": ("relational.deduplicate:DeduplicateLast", "deduplicate", ""),
    "enter": ("loops.edges:Enter", "loops", ""),
    "leave": ("loops.edges:Leave", "loops", ""),
    "loop_variable": ("loops.edges:LoopVariable", "loops", ""),
    "drop": ("relational.projection:Drop", "operators", "stream.drop"),
    "event_operators": ("events.event_operators:EventOperators", "event_operators", "stream.events"),
    "filter": ("relational.filter:Filter", "operators", "stream.filter"),
    "final_rows": ("relational.final_rows:FinalRows", "final_rows", "stream.final"),
    "final_session_aggregate": ("windows.final_session_aggregate:FinalSessionAggregate", "windows", ""),
    "final_top_per_window": ("windows.final_top_per_window:FinalTopPerWindow", "top", ""),
    "final_window_aggregate": ("windows.final_window_aggregate:FinalWindowAggregate", "windows", ""),
    "flat_map": ("relational.flat_map:FlatMap", "flat_map", "stream.flat_map stream.unnest"),
    "frontier": (
        "frontier.frontier_operator:FrontierOperator",
        "frontier_operators",
        (
            "stream.unary stream.unary_frontier stream.unary_notify stream.sink "
            "stream.binary stream.binary_frontier stream.binary_notify"
        ),
    ),
    "input_window_aggregate": ("windows.input_window_aggregate:InputWindowAggregate", "windows", ""),
    "interval_join": ("joins.interval_join:IntervalJoin", "joins", "keyed_stream.interval_join"),
    "as_of_join": ("joins.as_of_join:AsOfJoin", "joins", "stream.join_as_of"),
    "join": ("joins.join:Join", "joins", "stream.join"),
    "keyed_aggregate": ("aggregates.keyed_aggregate:KeyedAggregate", "aggregates", "stream.aggregate keyed_stream.aggregate"),
    "latest": ("relational.changelog:Latest", "operators_on_changes", "stream.latest"),
    "lookup": ("joins.lookup:Lookup", "joins", "stream.lookup"),
    "map_async": ("relational.map_async:MapAsync", "functions", "stream.map_async"),
    "over": ("relational.over:Over", "over", "keyed_stream.over"),
    "rename": ("relational.projection:Rename", "operators", "stream.rename"),
    "select": ("relational.projection:Select", "operators", "stream.select"),
    "session_aggregate": ("windows.session_aggregate:SessionAggregate", "windows", ""),
    "session_aggregate_changes": ("windows.session_aggregate_changes:SessionAggregateChanges", "windows", ""),
    "source": ("relational.source:Source", "operators", ""),
    "to_changes": ("relational.to_changes:ToChanges", "change_streams", "stream.to_changes"),
    "top_per_key": ("relational.top_per_key:TopPerKey", "top", "keyed_stream.top"),
    "top_per_window": ("windows.top_per_window:TopPerWindow", "top", "windowed_stream.top"),
    "transform": ("relational.transform:Transform", "operators", "stream.transform"),
    "upsert": ("relational.upsert:Upsert", "table_files", ""),
    "whole_table": ("relational.whole_table:WholeTable", "table_files", ""),
    "union": ("relational.union:Union", "operators", "stream.union"),
    "window_aggregate": ("windows.window_aggregate:WindowAggregate", "windows", "windowed_stream.aggregate"),
    "window_aggregate_changes": ("windows.window_aggregate_changes:WindowAggregateChanges", "windows", ""),
    "window_join": ("joins.window_join:WindowJoin", "joins", "windowed_stream.join"),
    "within_last": ("relational.within_last:WithinLast", "event_time", "stream.within_last"),
    "with_columns": ("relational.projection:WithColumns", "operators", "stream.with_columns"),
}


"""Each kind's class, its page in docs/, and its fluent methods."""

_OTHER_METHODS = {
    "stream": "columns data_set enter event_time feed key_by late leave name origins rejects side_output side_outputs "
    "start_new_stage through to_sink to_table window",
    "keyed_stream": "add_aggregate keys pivot through window",
    "windowed_stream": "pivot through window",
}
"""What streams have beside, so that no package takes these names."""

_API = {
    "stream": "stream:Stream",
    "keyed_stream": "keyed_stream:KeyedStream",
    "windowed_stream": "windowed_stream:WindowedStream",
}

_RULES = {
    "equal_operators": "equal_operators:EqualOperators",
    "merge_filters": "merge_filters:MergeFilters",
    "merge_projections": "merge_projections:MergeProjections",
    "prune_columns": "prune_columns:PruneColumns",
    "push_filters": "push_filters:PushFilters",
    "redundant_projections": "redundant_projections:RedundantProjections",
    "redundant_unions": "redundant_unions:RedundantUnions",
    "skip_files": "skip_files:SkipFiles",
}
"""The planner's rules; each says which come before it."""

_VALUES = {
    "arrow": "functions.captured_values:ArrowBytes",
    "collection": "functions.captured_values:Collection",
    "delta": "connectors.delta_source:DeltaSource",
    "event_input": "operators.events.wiring:EventInput",
    "event_operator": "operators.events.wiring:EventOperator",
    "event_source": "operators.events.wiring:EventSource",
    "file_sink": "connectors.file_sink:FileSink",
    "files": "connectors.file_source:FileSource",
    "input_window": "operators.windows.window_rows:InputWindow",
    "kafka": "connectors.kafka_source:KafkaSource",
    "kafka_sink": "connectors.kafka_sink:KafkaSink",
    "member": "functions.captured_values:Member",
    "memory": "connectors.memory_source:MemorySource",
    "object": "functions.references:ObjectReference",
    "opaque": "functions.captured_values:Opaque",
    "operator": "connectors.operator_source:OperatorSource",
    "pipeline_source": "connectors.pipeline_source:PipelineSource",
    "postgres": "connectors.postgres_sink:PostgresSink",
    "reference": "functions.references:Reference",
    "session": "operators.windows.session:Session",
    "snapshot": "connectors.snapshot_source:SnapshotSource",
    "state_table": "functions.captured_values:Declared",
    "window": "operators.windows.windows:Window",
    "written": "functions.captured_values:Written",
}


def register(catalog: Catalog) -> None:
    """Register the operators of this package, the values that they are made of, and the planner's rules."""
    for kind, (where, page, named) in _OPERATORS.items():
        methods: dict[str, Any] = {receiver: {} for receiver in _API}
        for receiver, name in (text.split(".") for text in named.split()):
            methods[receiver][name] = f"dagster_operators.api.{_API[receiver]}.{name}"
        message = f"dagster_operators.plans.operators_pb2:{kind.title().replace('_', '')}"
        folder = "" if where.startswith("connectors.") else "operators."  # what reads a format is beside its readers
        catalog.add_operator(kind, f"dagster_operators.{folder}{where}", message=message, docs=f"docs/{page}.md", **methods)
    for receiver, names in _OTHER_METHODS.items():
        catalog.reserve(receiver, names.split())
    for name, where in _RULES.items():
        catalog.add_rule(name, f"dagster_operators.planner.rules.{where}")
    for kind, where in _VALUES.items():
        catalog.add_value(kind, f"dagster_operators.{where}")
