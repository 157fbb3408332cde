"""``dagster-operators run``, ``check`` and ``graph``: pipelines of YAML files, dataflows above all."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.plans import told
from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.cli.kept_lines import KeptLines, Lines

_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


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
@click.option("--live", is_flag=True, help="Go on as new rows come, and timers tick, until Ctrl-C or SIGTERM.")
@click.option("--stdin", metavar="SOURCE", help="Give this source the lines of standard input, JSON objects, as they come.")
@click.option("--same-lines", is_flag=True, help="Standard input begins with the lines that earlier runs were given.")
def run(
    file: Path, *, root: str | None, name: str | None, stop_after: str | None, live: bool, stdin: str | None, same_lines: bool
) -> None:
    """Run the pipeline of a YAML file until its sources hold nothing new.

    A dataflow of event operators, as dora's files have them, or queries. Stages run where DAGSTER_OPERATORS_ENGINE says, by
    default on embedded Spark. A run that is killed goes on where it was. With --stdin it ends with standard input; each line is
    kept in a file beside those that the source reads before anything is done with it.
    """
    from dagster_operators.cli.live import Running

    if same_lines and stdin is None:
        raise click.UsageError("--same-lines needs --stdin SOURCE")
    goes_on = live or stdin is not None
    with told(), ExitStack() as stack:
        limit = _seconds(stop_after) if stop_after is not None else float("inf") if goes_on else 0.0
        named = {} if name is None else {"name": name}
        place = root or f"data/{_pipeline(file, 'nowhere', **named).name}"
        pipeline = _pipeline(file, place, **named)
        running = Running(pipeline, limit, None if stdin is None else _lines(pipeline, stdin, same_lines, stack))
        if goes_on:
            stack.enter_context(running.stopping())
        count = running.run()
    click.echo(f"{count} epochs in {place}" if count else f"the sources hold nothing new; {place} is as it was")


def _lines(
    pipeline: Pipeline,
    source: str,
    same: bool,  # noqa: FBT001 - as the option
    stack: ExitStack,
) -> tuple[Lines, KeptLines]:
    """The lines of standard input, and where they are kept, by no other run while the stack is open."""
    from dagster_operators.cli.kept_lines import KeptLines, Lines, folder_of, lines_of, only_run

    folder = folder_of(pipeline, source)
    stack.enter_context(only_run(folder))
    kept = KeptLines(folder)
    if kept.count:
        told = "are passed over" if same else "were given before these"
        click.echo(f"{kept.count} lines {told}")
    return Lines(lines_of(sys.stdin.fileno()), kept.count if same else 0), kept


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
        for address, kind in _named_types(file).items():
            told_by = "its first message says what the others have to be"
            click.echo(f"note: {address} has the type {kind} by its name alone: {told_by}")
    click.echo(f"{file} is right: {len(pipeline.tables)} tables")


def _named_types(file: Path) -> dict[str, str]:
    """The types of a dataflow's outputs that have but a name in dora."""
    from dagster_operators.api.events.dataflow_file import DataflowFile, is_dataflow, text_of

    text = text_of(file)
    return DataflowFile(text, str(file), file.parent, {}).named_types if is_dataflow(text) else {}


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
