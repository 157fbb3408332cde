"""A pipeline of operators that another package brings, as somebody writes it who has installed that package."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from datetime import UTC, datetime, timedelta

import dagster_operators as do
from tests.engines import EMBEDDED, SAIL

START = datetime(2026, 1, 1, tzinfo=UTC)
EPOCHS = [
    [{"k": f"k{(7 * i + epoch) % 9}", "v": (5 * i) % 11, "t": START + timedelta(minutes=epoch, seconds=i % 6)} for i in range(30)]
    for epoch in range(4)
]
FEW, EACH = 40, 5


def build(root, engine=SAIL, parallelism=3):
    pipeline = do.Pipeline("outside", root=root, engine=engine, parallelism=parallelism)
    source = do.MemorySource(EPOCHS, schema="k string, v long, t timestamp")
    rows = pipeline.source("rows", source, event_time="t", lateness="1 hour")
    rows.limit(FEW, name="few").to_table("few_rows", description="The first rows")
    rows.key_by("k").limit(EACH, name="few_each").to_table("few_of_each")
    rows.sample(70, by="k", name="most").sample(50, by="k", name="some").to_table("some_rows")
    return pipeline


def tell(text):
    sys.stdout.write(f"{text}\n")


def run(root, engine):
    """Run everything that there is."""
    pipeline = build(root, {"sail": SAIL, "spark": EMBEDDED}[engine])
    pipeline.run_until_caught_up()
    tell(json.dumps({name: sorted(map(list, rows(pipeline, name))) for name in ("few_rows", "few_of_each", "some_rows")}))


def rows(pipeline, table):
    return ((row.k, row.v, row.t.replace(tzinfo=UTC).isoformat()) for row in pipeline.read(table).collect())


def explain():
    tell(build("unused").explain())


def plan():
    sys.stdout.buffer.write(build("unused").to_plan())


def where():
    import dagster_operators_limit

    tell(dagster_operators_limit.__file__)


def dagster():
    """What Dagster shows, and what it tells of one run of the epoch's job."""
    import dagster as dg

    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as root, dg.DagsterInstance.ephemeral() as instance:
        definitions = do.build_definitions(build(root))
        specs = {spec.key.path[-1]: spec for spec in definitions.resolve_all_asset_specs()}
        job = definitions.resolve_job_def("outside_epoch")
        done = job.execute_in_process(instance=instance)
        metadata = {
            event.asset_key.path[-1]: {name: value.value for name, value in event.materialization.metadata.items()}
            for event in done.all_events
            if event.is_step_materialization
        }
    told = {
        "success": done.success,
        "ops": sorted(done_op.step_key for done_op in done.all_events if done_op.is_step_success),
        "operators": {name: spec.metadata.get("operators") for name, spec in specs.items()},
        "rows": {name: values.get("rows_in_epoch") for name, values in metadata.items()},
        "lineage": sorted(metadata["few_of_each"]["dagster/column_lineage"].deps_by_column),
    }
    tell(json.dumps(told, default=str))


if __name__ == "__main__":
    os.environ.setdefault("RUST_LOG", "off")
    name, *arguments = sys.argv[1:]
    {"run": run, "explain": explain, "plan": plan, "where": where, "dagster": dagster}[name](*arguments)
