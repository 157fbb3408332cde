"""A source's name in queries and YAML is the stream that ``Pipeline.source`` gives, for every kind of connector."""

from __future__ import annotations

import pytest

import dagster_operators as do
from dagster_operators.api.queries.constructors import constructors

ROWS = "id long, k string, v long"
EVENTS = f'schema: "{ROWS}", key: id'
MEMORY = f'memory: {{batches: [[]], schema: "{ROWS}"}}'
KINDS = {
    "files": [f'{{path: in, format: csv, schema: "{ROWS}"}}', f"{{path: in, format: debezium-json, {EVENTS}}}"],
    "delta": ["{path: lake/orders}", "{path: lake/orders, changes: true}"],
    "kafka": [
        f'{{servers: "host:9092", topic: orders, format: json, schema: "{ROWS}"}}',
        f'{{servers: "host:9092", topic: orders, format: debezium-json, {EVENTS}}}',
    ],
    "memory": [MEMORY.removeprefix("memory: ")],
    "pipeline_source": ["{root: lake, tables: orders}", "{root: lake, tables: orders, changes: true}"],
    "snapshot": [
        f"{{source: {{{MEMORY}}}, key: id}}",
        f'{{source: {{files: {{path: in, format: parquet, schema: "{ROWS}"}}}}, key: [id, k]}}',
    ],
    "python": ['{object: "tests.api.queries.test_sources_by_name:Own", arguments: {}}'],
}


class Own(do.SourceOperator):
    def output_schema(self):
        return ROWS

    def run(self, ctx, out):
        return None


def test_every_kind_of_connector_is_in_the_list():
    assert {*KINDS} == {*constructors(frozenset({"Connector"}))}


@pytest.mark.parametrize(("kind", "settings"), [(kind, one) for kind, given in KINDS.items() for one in given])
def test_a_name_means_what_source_gave_by_name_and_in_yaml_once_and_twice(kind, settings):
    declared = f"pipeline: p\nsources:\n  orders: {{{kind}: {settings}}}\n"
    connector = do.Pipeline.from_query_text(declared, root="unused").dataflow.nodes["orders"].operator.connector

    def used(stream, name):
        return stream.filter("id > 0", name=name).to_table(name)

    fluent, by_name, by_registry = (do.Pipeline("p", root="unused") for _ in range(3))
    orders = fluent.source("orders", connector)
    by_name.source("orders", connector)
    sources = do.Sources()
    sources.add("orders", connector)
    for name in ("some", "others"):
        used(orders, name)
    by_registry.add(*(used(do.query("orders"), name) for name in ("some", "others")), sources=sources)
    by_name.add(*(used(do.query("orders"), name) for name in ("some", "others")))
    assert by_name.add(do.query("orders")).name == orders.name
    table = "{{from: orders, steps: [filter: {{condition: id > 0, name: {0}}}]}}"
    tables = "".join(f"  {name}: {table.format(name)}\n" for name in ("some", "others"))
    in_yaml = do.Pipeline.from_query_text(f"{declared}tables:\n{tables}", root="unused")
    for other in (by_name, by_registry, in_yaml):
        assert other.to_plan() == fluent.to_plan()
