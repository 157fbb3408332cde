"""Every setting of every kind of source and sink has a verdict: one that a new version brings is asked about, or named here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.connectors.operator_source import OperatorSource
from dagster_operators.graph.outputs import Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans import connectors_pb2
from dagster_operators.plans.logical_plan import LogicalPlan, PlanNode, PlanSink
from dagster_operators.plans.verdict import Level, Stored, Verdict
from dagster_operators.plans.verdicts import judge
from tests.operators.samples import Numbers

SCHEMA = "k string, v long"
OF_OTHERS = {"other", "object"}
"""Kinds that another package or the user brings."""

FROM_HERE_ON = {
    *(("files", one) for one in ("format", "schema", "options", "corrupt", "key", "unknown", "order_by")),
    ("files", "missing_columns"),
    *(("files", one) for one in ("max_files", "max_bytes", "max_rows")),
    ("delta", "starting_version"), ("delta", "max_versions"), ("memory", "schema"),
    ("pipeline_source", "max_epochs"), ("pipeline_source", "pipeline"),
    ("snapshot", "key"), ("snapshot", "max_deleted"),
    *(("kafka", one) for one in ("servers", "format", "schema", "start", "max_records", "corrupt", "key", "unknown", "timeout")),
    ("kafka", "idle_after"), ("kafka", "order_by"),
}  # fmt: skip
"""Settings of sources by which rows that come are read otherwise; what has state behind keys says itself that they changed."""

NO_OTHER = {("memory", "left_out"), ("file_sink", "format")}
"""Settings that have one value only."""

SILENT = {
    *NO_OTHER, ("memory", "batches"),  # they grow from epoch to epoch
    *((kind, "left_out") for kind in ("files", "delta", "pipeline_source", "kafka", "kafka_sink", "postgres")),  # secrets
    ("kafka_sink", "timeout"), ("kafka_sink", "transaction_timeout"),  # how a sink is reached
    ("postgres", "dsn"), ("postgres", "connect_timeout"), ("postgres", "lock_timeout"),
}  # fmt: skip
"""Settings by which no row comes out otherwise, or goes elsewhere."""

FILES = do.FileSource("in/*.csv", format="csv", schema=SCHEMA)
EVENTS = do.FileSource("in", format="debezium-json", schema=SCHEMA, key="k")
KAFKA = do.KafkaSource("b:9092", "t", format="json", schema=SCHEMA)
ROWS = do.MemorySource([[("a", 1)]], schema=SCHEMA)
OTHERS = do.PipelineSource("data/shop", ["orders"], pipeline="shop")
EXTRACTS = do.SnapshotSource(FILES, key="k")
CHANGES = do.KafkaSource("b:9092", "t", format="debezium-json", schema=SCHEMA, key="k")
DELTA = do.DeltaSource("orders")


class Counted(Numbers):
    def __init__(self, least: int) -> None:
        self.least = least


Edit = tuple[Any, Any]
"""A source or sink, and the same with another setting."""

SOURCES: Mapping[tuple[str, str], Edit] = {
    ("files", "path"): (FILES, replace(FILES, path="elsewhere/*.csv")),
    ("files", "format"): (FILES, replace(FILES, format="json")),
    ("files", "schema"): (FILES, replace(FILES, schema="k string, v string")),
    ("files", "options"): (FILES, replace(FILES, options={"sep": ";"})),
    ("files", "max_files"): (FILES, replace(FILES, max_files=3)),
    ("files", "max_bytes"): (FILES, replace(FILES, max_bytes=3)),
    ("files", "max_rows"): (FILES, replace(FILES, max_rows=3)),
    ("files", "corrupt"): (FILES, replace(FILES, corrupt="reject")),
    ("files", "left_out"): (FILES, replace(FILES, storage_options={"key": "hunter2"})),
    ("files", "key"): (EVENTS, replace(EVENTS, key=("k", "v"))),
    ("files", "unknown"): (EVENTS, replace(EVENTS, unknown="fail")),
    ("files", "missing_columns"): (FILES, replace(FILES, missing_columns="null")),
    ("files", "order_by"): (EVENTS, replace(EVENTS, order_by="source.lsn")),
    ("delta", "path"): (DELTA, replace(DELTA, path="others")),
    ("delta", "changes"): (DELTA, replace(DELTA, changes=True)),
    ("delta", "starting_version"): (DELTA, replace(DELTA, starting_version=3)),
    ("delta", "max_versions"): (DELTA, replace(DELTA, max_versions=3)),
    ("delta", "left_out"): (DELTA, replace(DELTA, storage_options={"key": "hunter2"})),
    ("memory", "batches"): (ROWS, do.MemorySource([[("b", 1)]], schema=SCHEMA)),
    ("memory", "schema"): (ROWS, do.MemorySource([[("a", 1)]], schema="k string, v int")),
    ("memory", "left_out"): (ROWS, ROWS),  # it has no secrets
    ("operator", "operator"): (OperatorSource("a", Counted(3), "r"), OperatorSource("a", Counted(4), "r")),
    ("pipeline_source", "root"): (OTHERS, replace(OTHERS, root="data/other")),
    ("pipeline_source", "tables"): (OTHERS, replace(OTHERS, tables=("customers",))),
    ("pipeline_source", "changes"): (OTHERS, replace(OTHERS, changes=True)),
    ("pipeline_source", "max_epochs"): (OTHERS, replace(OTHERS, max_epochs=3)),
    ("pipeline_source", "pipeline"): (OTHERS, replace(OTHERS, pipeline="other")),
    ("pipeline_source", "left_out"): (OTHERS, replace(OTHERS, storage_options={"key": "hunter2"})),
    ("snapshot", "source"): (EXTRACTS, replace(EXTRACTS, source=replace(FILES, path="elsewhere/*.csv"))),
    ("snapshot", "key"): (EXTRACTS, replace(EXTRACTS, key=("k", "v"))),
    ("snapshot", "max_deleted"): (EXTRACTS, replace(EXTRACTS, max_deleted=0.25)),
    ("kafka", "servers"): (KAFKA, replace(KAFKA, servers="c:9092")),
    ("kafka", "topic"): (KAFKA, replace(KAFKA, topic="u")),
    ("kafka", "format"): (KAFKA, replace(CHANGES, key="k")),
    ("kafka", "schema"): (KAFKA, replace(KAFKA, schema="k string, v string")),
    ("kafka", "start"): (KAFKA, replace(KAFKA, start="latest")),
    ("kafka", "max_records"): (KAFKA, replace(KAFKA, max_records=3)),
    ("kafka", "corrupt"): (KAFKA, replace(KAFKA, corrupt="reject")),
    ("kafka", "key"): (CHANGES, replace(CHANGES, key=("k", "v"))),
    ("kafka", "unknown"): (CHANGES, replace(CHANGES, unknown="fail")),
    ("kafka", "order_by"): (CHANGES, replace(CHANGES, order_by="source.lsn")),
    ("kafka", "timeout"): (KAFKA, replace(KAFKA, timeout=3.0)),
    ("kafka", "left_out"): (KAFKA, replace(KAFKA, options={"client.id": "x"})),
    ("kafka", "idle_after"): (KAFKA, replace(KAFKA, idle_after="1 minute")),
}


def events(path: str = "out", key: str = "k") -> do.FileSink:
    return do.FileSink(path, format="debezium-json", key=key)


def records(servers: str = "b:9092", topic: str = "t", **settings: Any) -> do.KafkaSink:
    return do.KafkaSink(servers, topic, **settings)


def table(dsn: str = "env:W", name: str = "t", columns: Any = None, **settings: Any) -> do.PostgresSink:
    return do.PostgresSink(dsn, name, columns, **{"mode": "upsert", "key": "k", **settings})


SINKS: Mapping[tuple[str, str], Edit] = {
    ("file_sink", "path"): (events(), events("elsewhere")),
    ("file_sink", "format"): (events(), events()),  # there is one only
    ("file_sink", "key"): (events(), events(key="v")),
    ("kafka_sink", "servers"): (records(), records("c:9092")),
    ("kafka_sink", "topic"): (records(), records(topic="u")),
    ("kafka_sink", "format"): (records(key="k"), records(key="k", format="debezium-json")),
    ("kafka_sink", "key"): (records(), records(key="k")),
    ("kafka_sink", "book"): (records(), records(book="other")),
    ("kafka_sink", "timeout"): (records(), records(timeout=3.0)),
    ("kafka_sink", "transaction_timeout"): (records(), records(transaction_timeout=333.0)),
    ("kafka_sink", "left_out"): (records(), records(options={"client.id": "x"})),
    ("postgres", "dsn"): (table(), table("env:V")),
    ("postgres", "table"): (table(), table(name="u")),
    ("postgres", "columns"): (table(), table(columns=("k",))),
    ("postgres", "mode"): (table(), table(mode="append", key=None)),
    ("postgres", "key"): (table(), table(key="v")),
    ("postgres", "book"): (table(), table(book="other")),
    ("postgres", "connect_timeout"): (table(), table(connect_timeout=3)),
    ("postgres", "lock_timeout"): (table(), table(lock_timeout=3.0)),
    ("postgres", "left_out"): (table(), table("postgresql://me:hunter2@localhost/w")),
}


def plan(made: Any) -> LogicalPlan:
    if isinstance(made, do.Sink):
        read = Source(name="a", connector=FILES)
        return LogicalPlan("p", (PlanNode(read, (), "p"),), sinks=(PlanSink("out", StreamRef("a"), made),))
    return LogicalPlan("p", (PlanNode(Source(name="a", connector=made), (), "p"),), tables=(Table("t", StreamRef("a")),))


def judged(edit: Edit) -> list[Verdict]:
    return judge(plan(edit[0]), plan(edit[1]), Stored(tables=["t"], positions=["a"]))


@pytest.mark.parametrize(("message", "edits"), [("Connector", SOURCES), ("Target", SINKS)])
def test_all_settings_of_plans_are_looked_at(message: str, edits: Mapping[tuple[str, str], Edit]) -> None:
    """The messages of sources and sinks have no field of which there is no edit, and each edit is of a kind of the package."""
    kinds = connectors_pb2.DESCRIPTOR.message_types_by_name[message].oneofs_by_name["kind"].fields
    own = [kind for kind in kinds if kind.name not in OF_OTHERS]
    assert set(edits) == {(kind.name, field.name) for kind in own for field in kind.message_type.fields}
    assert all(one.kind == kind for (kind, _), edit in edits.items() for one in edit)


@pytest.mark.parametrize(("name", "edit"), [pytest.param(name, one, id="-".join(name)) for name, one in SOURCES.items()])
def test_a_setting_of_a_source_that_changes_is_asked_about_or_said(name: tuple[str, str], edit: Edit) -> None:
    wanted = [] if name in SILENT else [Level.FROM_HERE_ON if name in FROM_HERE_ON else Level.DECISION]
    assert [(one.level, one.subject) for one in judged(edit)] == [(level, "source a") for level in wanted]
    assert (edit[0] == edit[1]) == (name in NO_OTHER)


@pytest.mark.parametrize(("name", "edit"), [pytest.param(name, one, id="-".join(name)) for name, one in SINKS.items()])
def test_a_setting_of_a_sink_that_changes_is_said(name: tuple[str, str], edit: Edit) -> None:
    """Rows that stay go elsewhere from here on; of those that replace each other it is asked: ``test_sink_verdicts.py``."""
    wanted = [] if name in SILENT else [Level.FROM_HERE_ON]
    assert [(one.level, one.subject) for one in judged(edit)] == [(level, "sink out") for level in wanted]
