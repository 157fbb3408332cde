"""``dagster-operators plan``: show a plan, compare two, run one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from dagster_operators.cli.at_root import BUSY, JSON, answer, code_of, fail_as_json, plain
from dagster_operators.errors import OperatorsError

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.runtime.results import EpochResult

_FILE = click.File("rb")

SECRETS = click.option(
    "--secrets",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='A JSON file with what plans leave out: {"storage_options": {...}, "secrets": {NAME: {SETTING: VALUE}}}.',
)


class _BusyError(click.ClickException):
    exit_code = BUSY


@contextmanager
def told(*, as_json: bool = False) -> Iterator[None]:
    """Errors of this package as a command tells them: the message and exit code 1, no trace; 3 when a run is at work.

    Args:
        as_json: Whether they are told as JSON.
    """
    try:
        yield
    except OperatorsError as error:
        if as_json:
            fail_as_json(error)
        kind = _BusyError if code_of(error) == BUSY else click.ClickException
        raise kind(str(error)) from error


def _read(file: BinaryIO) -> LogicalPlan:
    from dagster_operators.plans.codec import from_bytes

    with told():
        return pipeline_in(file, "nowhere").logical_plan() if _has_queries(file) else from_bytes(plan_in(file), to_run=False)


def plan_in(file: BinaryIO) -> bytes:
    """The plan that is in a file, or that of the queries or the dataflow in it; an error names the file."""
    from dagster_operators.plans.codec import from_bytes

    if _has_queries(file):
        return pipeline_in(file, "nowhere").to_plan()
    data = file.read()
    try:
        from_bytes(data, to_run=False)
    except OperatorsError as error:
        raise error.at(file=file.name) from error.__cause__
    return data


def _has_queries(file: BinaryIO) -> bool:
    return Path(str(getattr(file, "name", ""))).suffix in (".yaml", ".yml")


def pipeline_in(file: BinaryIO, root: str, plan: bytes | None = None, **settings: Any) -> Pipeline:
    """The pipeline of a file with queries, a dataflow or a plan; the user's modules may be in the current folder.

    Args:
        file: The file.
        root: The storage root.
        plan: The plan in the file, if it was read before.
        settings: Those of :meth:`Pipeline.from_plan`.
    """
    from dagster_operators.api.pipeline import Pipeline

    if "" not in sys.path:
        sys.path.append("")  # last: a file there has no say in what the package itself imports
    if _has_queries(file):
        return Pipeline.from_yaml(file.name, root=root, **settings)
    return Pipeline.from_plan(plan_in(file) if plan is None else plan, root=root, **settings)


@click.group()
def plan() -> None:
    """Pipelines as data, in a file: what pipeline.to_plan() gave (- for standard input), or YAML with queries or a dataflow.

    The modules that queries name are imported, from the current folder too; nothing is imported to read a plan.
    """


@plan.command()
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option("--details", is_flag=True, help="With each operator's traits and signature.")
def show(file: BinaryIO, *, as_json: bool, details: bool) -> None:
    """Show a plan's operators, tables, sinks and functions."""
    from dagster_operators.plans import shown

    found = _read(file)
    click.echo(json.dumps(shown.as_json(found), indent=2) if as_json else shown.as_text(found, details=details))


@plan.command("diff")
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="The differences as JSON.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if the plans differ.")
def compare(before: BinaryIO, after: BinaryIO, *, as_json: bool, exit_code: bool) -> None:
    """Compare two plans operator by operator: added, removed and changed ones, and those that read other streams."""
    from dagster_operators.plans.diff import diff

    found = diff(_read(before), _read(after))
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        click.echo(str(found) if found else "the plans are equal")
    if exit_code and found:
        raise SystemExit(1)


@plan.command()
@click.argument("file", type=_FILE)
@click.argument("output", type=click.File("wb"))
@JSON
def write(file: BinaryIO, output: BinaryIO, *, as_json: bool) -> None:
    """Write the plan of queries or a dataflow in YAML to a file (- for standard output, where no JSON can be)."""
    from dagster_operators.plans.logical_plan import digest

    if as_json and getattr(output, "name", "<stdout>") == "<stdout>":
        raise click.UsageError("name a file for the plan with --json; - is standard output, where the answer is")
    with told(as_json=as_json):
        pipeline = pipeline_in(file, "nowhere")
        data = pipeline.to_plan()
        output.write(data)
    if as_json:
        answer({"pipeline": pipeline.name, "file": output.name, "bytes": len(data), "digest": digest(data)})


@plan.command()
@click.argument("file", type=_FILE)
@click.option("--root", required=True, help="Where tables, state and the ledger live: a path or URI.")
@click.option("--until-caught-up", is_flag=True, help="Run epochs until the sources hold nothing new, not only one.")
@click.option("--parallelism", type=click.IntRange(1, 128), help="How many subtasks a keyed operator of the user's own has.")
@SECRETS
@JSON
def run(
    file: BinaryIO, *, root: str, until_caught_up: bool, parallelism: int | None, secrets: Path | None, as_json: bool
) -> None:
    """Run the pipeline of a plan. The user's modules are looked for in the current folder, too.

    Stages run where DAGSTER_OPERATORS_ENGINE says, by default on embedded Spark. As JSON each epoch is an object of a list.
    """
    with told(as_json=as_json):
        pipeline = pipeline_in(file, root, parallelism=parallelism, **settings_of(file, secrets))
        results = pipeline.run_until_caught_up() if until_caught_up else [pipeline.run_epoch()]
    if as_json:
        answer([epoch_json(result) for result in results])
        return
    for result in results:
        click.echo(str(result))
    if until_caught_up and not results:
        click.echo("the sources hold nothing new")


def epoch_json(result: EpochResult) -> dict[str, Any]:
    """What an epoch gave, as JSON values."""
    found: dict[str, Any] = plain(asdict(result))
    return found


def settings_of(file: BinaryIO, path: Path | None) -> dict[str, Any]:
    """What plans leave out, as a file of secrets has it; YAML has its own secrets."""
    found = secrets_of(path)
    if _has_queries(file) and "secrets" in found:
        raise click.BadParameter("queries have their secrets themselves: write !env NAME there", param_hint="--secrets")
    return found


def secrets_of(path: Path | None) -> dict[str, Any]:
    """What plans leave out, as a file has it."""
    if path is None:
        return {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise click.BadParameter(f"{path} is no JSON: {error}", param_hint="--secrets") from None
    unknown = sorted(found.keys() - {"storage_options", "secrets"}) if isinstance(found, dict) else ["..."]
    if unknown:
        raise click.BadParameter(f"{path} has more than storage_options and secrets: {unknown[0]}", param_hint="--secrets")
    return dict(found)
