"""``dagster-operators run``, ``check`` and ``graph``: pipelines of YAML files, dataflows above all."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.plans import told
from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline

_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_PAUSE = 0.2
"""Seconds between two looks at sources that hold nothing new."""


def _pipeline(file: Path, root: str, **settings: Any) -> Pipeline:
    """The pipeline of a file; the user's modules may be in the current folder."""
    from dagster_operators.api.pipeline import Pipeline

    if "" not in sys.path:
        sys.path.insert(0, "")
    return Pipeline.from_yaml(file, root=root, **settings)


@click.command()
@_FILE
@click.option("--root", help="Where tables, state and the ledger live: a path or URI; by default data/<name of the pipeline>.")
@click.option("--name", help="The pipeline's name, by default the file's.")
@click.option("--stop-after", metavar="DURATION", help="Go on as new rows come, and timers tick, for so long: '8 s'.")
def run(file: Path, *, root: str | None, name: str | None, stop_after: str | None) -> None:
    """Run the pipeline of a YAML file until its sources hold nothing new.

    A dataflow of event operators, as dora's files have them, or queries. Stages run where DAGSTER_OPERATORS_ENGINE says, by
    default on embedded Spark. A run that is killed goes on where it was.
    """
    with told():
        limit = 0.0 if stop_after is None else _seconds(stop_after)
        named = {} if name is None else {"name": name}
        place = root or f"data/{_pipeline(file, 'nowhere', **named).name}"
        count = _run(_pipeline(file, place, **named), limit)
    click.echo(f"{count} epochs in {place}" if count else f"the sources hold nothing new; {place} is as it was")


def _run(pipeline: Pipeline, limit: float) -> int:
    """Run epochs until nothing is new and, from the end of the first one, the time is over; how many there were."""
    count, end, clocked = 0, float("inf"), _is_clocked(pipeline)
    while True:
        result = pipeline.run_epoch()
        end = min(end, time.monotonic() + limit)
        if not result.empty:
            count += 1
            rows = ", ".join(f"{table} {rows}" for table, rows in result.rows.items() if rows)
            click.echo(f"epoch {result.epoch}: {rows or 'no rows'} ({sum(result.seconds.values()):.1f} s)")
        if result.empty or clocked:
            if time.monotonic() >= end:
                return count
            time.sleep(_PAUSE)


@click.command()
@_FILE
@click.option("--name", help="The pipeline's name, by default the file's.")
def check(file: Path, *, name: str | None) -> None:
    """Tell all that is wrong in a YAML file, each with its line and column; nothing is run.

    Exits with 1 if something is wrong.
    """
    with told():
        pipeline = _pipeline(file, "nowhere", **({} if name is None else {"name": name}))
        pipeline.explain()
    click.echo(f"{file} is right: {len(pipeline.tables)} tables")


@click.command()
@_FILE
def graph(file: Path) -> None:
    """Draw a dataflow of event operators as a Mermaid flowchart."""
    from dagster_operators.api.events.dataflow_file import DataflowFile, is_dataflow, text_of
    from dagster_operators.api.events.mermaid import mermaid

    with told():
        text = text_of(file)
        if not is_dataflow(text):
            raise PipelineError(
                "the file is no dataflow of event operators", file=str(file), remedy="see dagster-operators plan show for queries"
            )
        click.echo(mermaid(DataflowFile(text, str(file), file.parent, {})))


def _seconds(text: str) -> float:
    from dagster_operators.time.watermark import parse_duration

    try:
        return parse_duration(text) / 1e6
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--stop-after") from None


def _is_clocked(pipeline: Pipeline) -> bool:
    """Whether a pipeline's only source is the clock, which always has something new."""
    from dagster_operators.api.events.clock import Clock

    sources = [node.operator for node in pipeline.dataflow if node.operator.kind == "source"]
    return any(isinstance(getattr(source.connector, "operator", None), Clock) for source in sources)  # type: ignore[attr-defined]
