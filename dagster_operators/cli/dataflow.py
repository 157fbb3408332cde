"""``dagster-operators run``, ``check`` and ``graph``: pipelines of YAML files, dataflows above all."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.at_root import JSON, answer, code_of
from dagster_operators.cli.diagnostics import diagnostics
from dagster_operators.cli.plans import told
from dagster_operators.errors import OperatorsError, PipelineError

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
@JSON
def run(
    file: Path, *, root: str | None, name: str | None, stop_after: str | None, live: bool, stdin: str | None, same_lines: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Run the pipeline of a YAML file until its sources hold nothing new.

    A dataflow of event operators, as dora's files have them, or queries. Stages run where DAGSTER_OPERATORS_ENGINE says, by
    default on embedded Spark. A run that is killed goes on where it was. With --stdin it ends with standard input; each line is
    kept in a file beside those that the source reads before anything is done with it. As JSON each epoch is an object, on a line
    of its own as soon as it is complete, and the last one says how many there were.
    """
    from dagster_operators.cli.kept_lines import source_of
    from dagster_operators.cli.live import Running

    if same_lines and stdin is None:
        raise click.UsageError("--same-lines needs --stdin SOURCE")
    goes_on = live or stdin is not None
    with told(as_json=as_json), ExitStack() as stack:
        limit = _seconds(stop_after) if stop_after is not None else float("inf") if goes_on else 0.0
        named = {} if name is None else {"name": name}
        place = root or f"data/{_pipeline(file, 'nowhere', **named).name}"
        pipeline = _pipeline(file, place, **named)
        lines = None if stdin is None else _lines(pipeline, stdin, same_lines, stack)
        running = Running(pipeline, limit, lines, None if stdin is None else source_of(pipeline, stdin), as_json=as_json)
        if limit:
            stack.enter_context(running.stopping())
        count = running.run()
    if as_json:
        click.echo(json.dumps({"epochs": count, "root": place}))
    else:
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
        click.echo(f"{kept.count} lines {told}", err=bool(click.get_current_context().params["as_json"]))
    return Lines(lines_of(sys.stdin.fileno()), kept.count if same else 0), kept


@click.command()
@_FILE
@click.option("--name", help="The pipeline's name, by default the file's.")
@JSON
def check(file: Path, *, name: str | None, as_json: bool) -> None:
    """Tell all that is wrong in a YAML file, each with its line and column; nothing is run.

    Exits with 1 if something is wrong. As JSON the answer lists that as "diagnostics", each with "file", "line", "column" and
    "message".
    """
    if as_json:
        _check_as_json(file, name)
        return
    with told():
        pipeline, notes = _checked(file, name)
    for note in notes:
        click.echo(f"note: {note}")
    click.echo(f"{file} is right: {len(pipeline.tables)} tables")


def _checked(file: Path, name: str | None) -> tuple[Pipeline, list[str]]:
    """The pipeline of a file, and what else is to be said of it."""
    pipeline = _pipeline(file, "nowhere", **({} if name is None else {"name": name}))
    pipeline.explain()
    told_by = "its first message says what the others have to be"
    named = _named_types(file).items()
    return pipeline, [f"{address} has the type {kind} by its name alone: {told_by}" for address, kind in named]


def _check_as_json(file: Path, name: str | None) -> None:
    try:
        pipeline, notes = _checked(file, name)
    except OperatorsError as error:
        answer({"file": str(file), "right": False, "diagnostics": diagnostics(error, str(file))})
        raise SystemExit(code_of(error)) from None
    found = {"file": str(file), "right": True, "pipeline": pipeline.name, "tables": sorted(pipeline.tables)}
    answer({**found, "notes": notes, "diagnostics": []})


def _named_types(file: Path) -> dict[str, str]:
    """The types of a dataflow's outputs that have but a name in dora."""
    from dagster_operators.api.events.dataflow_file import DataflowFile, is_dataflow, text_of

    text = text_of(file)
    return DataflowFile(text, str(file), file.parent, {}).named_types if is_dataflow(text) else {}


@click.command()
@_FILE
@JSON
def graph(file: Path, *, as_json: bool) -> None:
    """Draw a dataflow of event operators as a Mermaid flowchart."""
    from dagster_operators.api.events.dataflow_file import DataflowFile, is_dataflow, text_of
    from dagster_operators.api.events.mermaid import mermaid

    with told(as_json=as_json):
        text = text_of(file)
        if not is_dataflow(text):
            raise PipelineError(
                "the file is no dataflow of event operators", file=str(file),
                remedy=f"for queries: {shlex.join(['dagster-operators', 'plan', 'show', str(file)])}",
            )  # fmt: skip
        drawn = mermaid(DataflowFile(text, str(file), file.parent, {}))
    answer({"file": str(file), "mermaid": drawn}) if as_json else click.echo(drawn)


def _seconds(text: str) -> float:
    from dagster_operators.time.watermark import parse_duration

    try:
        return parse_duration(text) / 1e6
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--stop-after") from None
