"""Incremental, event-time, exactly-once pipelines on Spark and Delta Lake, run by Dagster.

A :class:`Pipeline` is a dataflow of operators over one storage root. Each epoch takes a bounded slice of the input through all
stages, then moves all tables forward in one two-phase commit. :func:`build_definitions` makes the pipeline's assets, jobs,
schedule and sensor for Dagster. Names are imported when they are first used, so importing the package starts nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster_operators.api import data_sets, frontier
    from dagster_operators.api.applying import apply
    from dagster_operators.api.datasets.data_set import CustomUnaryOperation, DataSet
    from dagster_operators.api.datasets.together import compute_together
    from dagster_operators.api.keyed_stream import KeyedStream
    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.api.queries.query import Query, query
    from dagster_operators.api.queries.sources import Sources
    from dagster_operators.api.snapshot import Snapshot
    from dagster_operators.api.stored_pipeline import StoredPipeline
    from dagster_operators.api.stream import Stream
    from dagster_operators.api.windowed_stream import WindowedStream
    from dagster_operators.catalog.loading import registry
    from dagster_operators.connectors.delta_source import DeltaSource
    from dagster_operators.connectors.file_sink import FileSink
    from dagster_operators.connectors.file_source import FileSource
    from dagster_operators.connectors.kafka_sink import KafkaSink
    from dagster_operators.connectors.kafka_source import KafkaSource
    from dagster_operators.connectors.memory_source import MemorySource
    from dagster_operators.connectors.pipeline_source import PipelineSource
    from dagster_operators.connectors.postgres_sink import PostgresSink
    from dagster_operators.connectors.sink import Sink, SinkAttempt, SinkRows
    from dagster_operators.connectors.snapshot_source import SnapshotSource
    from dagster_operators.connectors.source_operator import SourceOperator
    from dagster_operators.functions.aggregate import udaf
    from dagster_operators.functions.library import load_udf
    from dagster_operators.functions.scalar import udf
    from dagster_operators.functions.table import udtf
    from dagster_operators.graph.outputs import Check
    from dagster_operators.graph.state_tables import GlobalState, KeyedState, ListState, TimeState
    from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
    from dagster_operators.operators.arrow.operator_context import Collector, OperatorContext
    from dagster_operators.operators.arrow.registry import OperatorConstructor, Registry, Setting
    from dagster_operators.operators.datasets.context import Aggregator, RichFunction, RuntimeContext
    from dagster_operators.operators.windows.session import Session
    from dagster_operators.operators.windows.windows import Sliding, Tumbling, Window
    from dagster_operators.orchestration.component import PipelineComponent
    from dagster_operators.orchestration.definitions import build_definitions
    from dagster_operators.orchestration.engine import SparkEngine
    from dagster_operators.orchestration.readers import PipelineIOManager, PipelineResource
    from dagster_operators.orchestration.translator import PipelineTranslator
    from dagster_operators.runtime.results import EpochResult

__version__ = "0.2.0"

_HOME = {
    "Aggregator": "operators.datasets.context",
    "ArrowOperator": "operators.arrow.arrow_operator",
    "Check": "graph.outputs",
    "Collector": "operators.arrow.operator_context",
    "CustomUnaryOperation": "api.datasets.data_set",
    "DataSet": "api.datasets.data_set",
    "DeltaSource": "connectors.delta_source",
    "EpochResult": "runtime.results",
    "FileSink": "connectors.file_sink",
    "FileSource": "connectors.file_source",
    "GlobalState": "graph.state_tables",
    "KafkaSink": "connectors.kafka_sink",
    "KafkaSource": "connectors.kafka_source",
    "KeyedState": "graph.state_tables",
    "KeyedStream": "api.keyed_stream",
    "ListState": "graph.state_tables",
    "MemorySource": "connectors.memory_source",
    "OperatorConstructor": "operators.arrow.registry",
    "OperatorContext": "operators.arrow.operator_context",
    "Pipeline": "api.pipeline",
    "PipelineComponent": "orchestration.component",
    "PipelineIOManager": "orchestration.readers",
    "PipelineResource": "orchestration.readers",
    "PipelineSource": "connectors.pipeline_source",
    "PipelineTranslator": "orchestration.translator",
    "PostgresSink": "connectors.postgres_sink",
    "Query": "api.queries.query",
    "Registry": "operators.arrow.registry",
    "RichFunction": "operators.datasets.context",
    "RuntimeContext": "operators.datasets.context",
    "Session": "operators.windows.session",
    "Setting": "operators.arrow.registry",
    "Sink": "connectors.sink",
    "SinkAttempt": "connectors.sink",
    "SinkRows": "connectors.sink",
    "Sliding": "operators.windows.windows",
    "Snapshot": "api.snapshot",
    "SnapshotSource": "connectors.snapshot_source",
    "SourceOperator": "connectors.source_operator",
    "Sources": "api.queries.sources",
    "SparkEngine": "orchestration.engine",
    "StoredPipeline": "api.stored_pipeline",
    "Stream": "api.stream",
    "TimeState": "graph.state_tables",
    "Tumbling": "operators.windows.windows",
    "Window": "operators.windows.windows",
    "WindowedStream": "api.windowed_stream",
    "apply": "api.applying",
    "build_definitions": "orchestration.definitions",
    "compute_together": "api.datasets.together",
    "load_udf": "functions.library",
    "query": "api.queries.query",
    "registry": "catalog.loading",
    "udaf": "functions.aggregate",
    "udf": "functions.scalar",
    "udtf": "functions.table",
}

__all__ = [
    "Aggregator",
    "ArrowOperator",
    "Check",
    "Collector",
    "CustomUnaryOperation",
    "DataSet",
    "DeltaSource",
    "EpochResult",
    "FileSink",
    "FileSource",
    "GlobalState",
    "KafkaSink",
    "KafkaSource",
    "KeyedState",
    "KeyedStream",
    "ListState",
    "MemorySource",
    "OperatorConstructor",
    "OperatorContext",
    "Pipeline",
    "PipelineComponent",
    "PipelineIOManager",
    "PipelineResource",
    "PipelineSource",
    "PipelineTranslator",
    "PostgresSink",
    "Query",
    "Registry",
    "RichFunction",
    "RuntimeContext",
    "Session",
    "Setting",
    "Sink",
    "SinkAttempt",
    "SinkRows",
    "Sliding",
    "Snapshot",
    "SnapshotSource",
    "SourceOperator",
    "Sources",
    "SparkEngine",
    "StoredPipeline",
    "Stream",
    "TimeState",
    "Tumbling",
    "Window",
    "WindowedStream",
    "apply",
    "build_definitions",
    "compute_together",
    "data_sets",
    "frontier",
    "load_udf",
    "query",
    "registry",
    "udaf",
    "udf",
    "udtf",
]


_MODULES = {"data_sets": "api.data_sets", "frontier": "api.frontier"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    if name not in _HOME:
        from difflib import get_close_matches

        close = get_close_matches(name, __all__, n=2, cutoff=0.5) if not name.startswith("_") else []
        meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}", name=name)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
