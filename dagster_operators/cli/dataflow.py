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
from dagster_operators.errors import OperatorsError, PipelineError, number_of

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.cli.kept_lines import KeptLines, Lines

_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


def _pipeline(file: Path, root: str, **settings: Any) -> Pipeline:
    """The pipeline of a file; the user's modules may be in the current folder."""
    from dagster_operators.api.pipeline import Pipeline

    _use_current_folder()
    return Pipeline.from_yaml(file, root=root, **settings)


def _use_current_folder() -> None:
    if "" not in sys.path:
        sys.path.append("")  # last: a file there has no say in what the package itself imports


@click.command()
@_FILE
@click.option("--root", help="Where tables, state and the ledger live: a path or URI; by default data/<name of the pipeline>.")
@click.option("--name", help="The pipeline's name, by default the file's.")
@click.option("--renamed-from", metavar="NAME", help="The name that the pipeline had when its root was made, if another.")
@click.option("--stop-after", metavar="DURATION", help="Go on as new rows come, and timers tick, for so long: '8 s'.")
@click.option("--live", is_flag=True, help="Go on as new rows come, and timers tick, until Ctrl-C or SIGTERM.")
@click.option("--stdin", metavar="SOURCE", help="Give this source the lines of standard input, JSON objects, as they come.")
@click.option("--build", is_flag=True, help="Run the commands under build: first, in the folder of the file.")
@click.option("--same-lines", is_flag=True, help="Standard input begins with the lines that earlier runs were given.")
@JSON
def run(
    file: Path, *, root: str | None, name: str | None, renamed_from: str | None, stop_after: str | None, live: bool,
    stdin: str | None, same_lines: bool, build: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run the pipeline of a YAML file until its sources hold nothing new.

    A dataflow of event operators, as dora's files have them, or queries. Stages run where DAGSTER_OPERATORS_ENGINE says, by
    default on embedded Spark. A run that is killed goes on where it was. With --stdin it ends with standard input; each line is
    kept in a file beside those that the source reads before anything is done with it. As JSON each epoch is an object, on a line
    of its own as soon as it is complete, and the last one says how many there were.
    """
    from dagster_operators.api.events.building import build_all
    from dagster_operators.cli.kept_lines import source_of
    from dagster_operators.cli.live import Running

    if same_lines and stdin is None:
        raise click.UsageError("--same-lines needs --stdin SOURCE")
    goes_on = live or stdin is not None
    with told(as_json=as_json), ExitStack() as stack:
        if build:
            build_all(file, quiet=as_json)
        limit = _seconds(stop_after) if stop_after is not None else float("inf") if goes_on else 0.0
        named = {} if name is None else {"name": name}
        place = root or f"data/{_pipeline(file, 'nowhere', **named).name}"
        pipeline = _pipeline(file, place, renamed_from=renamed_from, **named)
        lines = None if stdin is None else _lines(pipeline, stdin, same_lines, stack)
        running = Running(pipeline, limit, lines, None if stdin is None else source_of(pipeline, stdin), as_json=as_json)
        if limit:
            stack.enter_context(running.stopping())
        count = running.run()
    if as_json:
        click.echo(json.dumps({"epochs": count, "root": place}))
    else:
        click.echo(f"{number_of(count, 'epoch')} in {place}" if count else f"the sources hold nothing new; {place} is as it was")


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
    from dagster_operators.api.events.dataflow_file import DataflowFile, is_dataflow, text_of
    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.operators.events.wiring import table_of

    text, notes = text_of(file), []
    if is_dataflow(text):
        _use_current_folder()
        read = DataflowFile(text, str(file), file.parent, {}, is_checked=True)
        pipeline, notes = Pipeline(name or table_of(file.stem), "nowhere"), read.remarks
        read.add_to(pipeline)
    else:
        pipeline = _pipeline(file, "nowhere", **({} if name is None else {"name": name}))
    pipeline.explain()
    return pipeline, notes


def _check_as_json(file: Path, name: str | None) -> None:
    try:
        pipeline, notes = _checked(file, name)
    except OperatorsError as error:
        answer({"file": str(file), "right": False, "diagnostics": diagnostics(error, str(file))})
        raise SystemExit(code_of(error)) from None
    found = {"file": str(file), "right": True, "pipeline": pipeline.name, "tables": sorted(pipeline.tables)}
    answer({**found, "notes": notes, "diagnostics": []})


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
        drawn = mermaid(DataflowFile(text, str(file), file.parent, {}, is_checked=True))
    answer({"file": str(file), "mermaid": drawn}) if as_json else click.echo(drawn)


def _seconds(text: str) -> float:
    from dagster_operators.time.watermark import parse_duration

    try:
        return parse_duration(text) / 1e6
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--stop-after") from None
