"""``dagster-operators rebuild``, ``widen``, ``restore-times`` and ``set-watermark``: what needs the program that ROOT knows."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.at_root import JSON, answer, fail
from dagster_operators.cli.plans import SECRETS, pipeline_in, secrets_of, settings_of
from dagster_operators.errors import OperatorsError
from dagster_operators.functions.references import IN_PYTHON

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.runtime.results import EpochResult

_PLAN = click.option(
    "--plan",
    "file",
    type=click.File("rb"),
    help="The program: pipeline.to_plan(), or YAML with queries or a dataflow; by default as ROOT knows it.",
)


@click.command()
@click.argument("root")
@click.argument("tables", nargs=-1)
@click.option(
    "--operator", "--operators", "operators", multiple=True, help="An operator: all tables that it leads to. May be repeated."
)
@click.option("--since", help="The first epoch whose rows are read, or a time; all by default.")
@click.option("--between", nargs=2, help="Only the rows of a range of event time: its beginning, and its end, without it.")
@click.option("--epochs-at-once", type=click.IntRange(1), help="Of how many epochs one step reads at most: 500.")
@click.option("--empty", is_flag=True, help="--since may leave out all that was read, so that the tables are empty.")
@_PLAN
@SECRETS
@JSON
def rebuild(root: str, tables: tuple[str, ...], *, as_json: bool, **options: Any) -> None:
    """Compute TABLES of the pipeline in ROOT anew, with the state behind them; all by default.

    With --between only their rows of that range of event time are replaced, where these follow from rows of such a range alone;
    all other rows and all state stay as they are.

    The program is the one that was refused, or widened for, since the last epoch, else that of the last epoch. The user's modules
    are looked for in the current folder, too. It runs where DAGSTER_OPERATORS_ENGINE says, by default on embedded Spark.
    """
    since, used = options.pop("since"), ""
    file, secrets = options.pop("file"), options.pop("secrets")
    given = {name: value for name, value in options.items() if value}
    if since:
        given["since"] = int(since) if since.isdigit() else since
    try:
        pipeline, used = _pipeline(root, file, secrets)
        made = pipeline.rebuild(tables or None, **given)
    except OperatorsError as error:
        fail(_with(error, used, f"pipeline.rebuild({', '.join(_arguments(tables, given))})"), root, as_json=as_json)
    answer({"epoch": made.epoch, "rows": dict(made.rows), "program": used}) if as_json else click.echo(f"{made}\n{_told(used)}")


@click.command()
@click.argument("root")
@click.argument("tables", nargs=-1, required=True)
@_PLAN
@SECRETS
@JSON
def widen(root: str, tables: tuple[str, ...], *, as_json: bool, file: Any, secrets: Path | None) -> None:
    """Let columns of TABLES of the pipeline in ROOT have the wider types that the program gives them, with the rows there are.

    The program is the one that was refused, or widened for, since the last epoch, else that of the last epoch; it runs as with
    rebuild.
    Each table is an epoch of its own: where one is refused, those named before it are done.
    """
    used = ""
    made: dict[str, EpochResult] = {}
    try:
        pipeline, used = _pipeline(root, file, secrets)
        for table in tables:
            made[table] = pipeline.widen(table)
    except OperatorsError as error:
        found = error.at(widened=", ".join(made)) if made else error
        call = "; ".join(f"pipeline.widen({table!r})" for table in tables if table not in made)
        fail(_with(found, used, call), root, as_json=as_json)
    if as_json:
        answer([{"epoch": one.epoch, "program": used} for one in made.values()])
    else:
        click.echo("\n".join([*map(str, made.values()), _told(used)]))


@click.command("restore-times")
@click.argument("root")
@click.argument("sources", nargs=-1, required=True)
@_PLAN
@SECRETS
@JSON
def restore_times(root: str, sources: tuple[str, ...], *, as_json: bool, file: Any, secrets: Path | None) -> None:
    """Say that the files which SOURCES of the pipeline in ROOT have read are the same: they get the times again that they had.

    After a copy of the folder, or a touch, no epoch goes on before that is said. A file of another size is left alone.
    """
    used = ""
    try:
        pipeline, used = _pipeline(root, file, secrets)
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", RuntimeWarning)
            found = {source: pipeline.restore_times(source) for source in sources}
    except OperatorsError as error:
        fail(_with(error, used, ""), root, as_json=as_json)
    told = "\n".join(f"{source}: {len(files)} files have their times again" for source, files in found.items())
    for note in notes:
        click.echo(f"note: {note.message}", err=True)
    answer(found) if as_json else click.echo(told)


@click.command("set-watermark")
@click.argument("root")
@click.argument("source")
@click.argument("time")
@_PLAN
@SECRETS
@JSON
def set_watermark(root: str, source: str, time: str, *, as_json: bool, file: Any, secrets: Path | None) -> None:
    """Say that SOURCE of the pipeline in ROOT has given all rows before TIME (UTC): what waits for them is put out.

    It is an epoch that reads nothing; it runs as with rebuild.
    """
    used = ""
    try:
        pipeline, used = _pipeline(root, file, secrets)
        made = pipeline.set_watermark(source, time)
    except OperatorsError as error:
        fail(_with(error, used, f"pipeline.set_watermark({source!r}, {time!r})"), root, as_json=as_json)
    answer({"epoch": made.epoch, "rows": dict(made.rows), "program": used}) if as_json else click.echo(f"{made}\n{_told(used)}")


def _told(used: str) -> str:
    return f"the program was {used}"


def _with(error: OperatorsError, used: str, call: str) -> OperatorsError:
    """An error with the program that was used, and the call in Python that does what the command was to do."""
    found = error.at(program=used) if used else error
    found.remedy = found.remedy.replace(IN_PYTHON, f"call in Python: {call}")
    return found


def _arguments(tables: tuple[str, ...], given: Mapping[str, Any]) -> Iterator[str]:
    """The arguments of a call as they are typed.

    >>> ", ".join(_arguments(("t",), {"operators": ("w",), "between": ("2026-01-01", "2026-01-02"), "since": 3}))
    "'t', operators=['w'], between=('2026-01-01', '2026-01-02'), since=3"
    """
    if tables:
        yield repr(list(tables) if tables[1:] else tables[0])
    for name, value in given.items():
        yield f"{name}={list(value) if name == 'operators' else value!r}"


def _pipeline(root: str, file: Any, secrets: Path | None) -> tuple[Pipeline, str]:
    """The program of a root, and which it is; the user's modules are looked for in the current folder, too."""
    from dagster_operators.api.pipeline import Pipeline

    if "" not in sys.path:
        sys.path.append("")  # last: a file there has no say in what the package itself imports
    if file:
        return pipeline_in(file, root, **settings_of(file, secrets)), f"that of {file.name}"
    given = secrets_of(secrets)
    program, used, name = _known(root, given.get("storage_options"))
    return Pipeline.from_plan(program, root=root, renamed_from=name, **given), used


def _known(root: str, access: Any) -> tuple[bytes, str, str]:
    """The program of a root, which it is, and the name that the root knows the pipeline by."""
    from dagster_operators.runtime.stored_changes import StoredChanges
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.whose import pipeline_of

    name = pipeline_of(Root(root, access))
    return *StoredChanges(Coordinator(name, root, storage_options=access)).program(), name
