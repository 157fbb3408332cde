"""``dagster-operators diff``, ``decide``, ``withdraw`` and ``drop``: what changed, and what is to become of what is stored."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.at_root import answer, at_root
from dagster_operators.cli.plans import SECRETS, pipeline_in, plan_in, settings_of
from dagster_operators.runtime.commands import as_commands

if TYPE_CHECKING:
    from pathlib import Path

    from dagster_operators.api.stored_pipeline import StoredPipeline

_KIND = click.argument("kind", type=click.Choice(["source", "operator", "table", "sink"]))


@click.command()
@at_root
@click.argument("file", type=click.File("rb"), required=False)
@click.option(
    "--engine", is_flag=True, help="Plan FILE on the engine, too, which alone knows whether types of columns still fit."
)
@SECRETS
def diff(stored: StoredPipeline, *, file: Any, engine: bool, secrets: Path | None, as_json: bool) -> None:
    """What changed since the last completed epoch of ROOT, and what follows from it.

    FILE is the plan of the pipeline as it is now (pipeline.to_plan()), or its YAML with queries or a dataflow; without it, the
    pipeline that was refused last. With --engine, what the plan names is imported, from the current folder, too.
    """
    if engine and file is None:
        raise click.UsageError("give FILE with --engine; the pipeline that was refused last was planned on it")
    if secrets and not engine:
        raise click.UsageError("--secrets is for --engine: nothing else of a plan is looked at with them")
    plan = plan_in(file) if file else None
    found = stored.changes(plan)
    if engine and plan is not None:
        access = {"storage_options": click.get_current_context().obj}
        pipeline = pipeline_in(file, stored.root, plan, **{**access, **settings_of(file, secrets)})
        found = replace(found, verdicts=tuple(pipeline.changes()))
    if as_json:
        answer({**found.to_json(), "types_compared": engine or plan is None})
        return
    for line in found.lines():
        click.echo(as_commands(line, stored.root))
    from dagster_operators.plans.verdict import Level

    refused = found.verdicts and all(verdict.level is Level.DECISION for verdict in found.verdicts)
    if plan is not None and not engine and found.changes and not refused:
        again = shlex.join(["dagster-operators", "diff", stored.root, file.name, "--engine"])
        click.echo(f"whether the types of columns still fit is known to an engine alone: {again}")


@click.command()
@at_root
@_KIND
@click.argument("name")
@click.argument("choice", type=click.Choice(["keep", "restart", "drop"]))
def decide(stored: StoredPipeline, *, kind: str, name: str, choice: Any, as_json: bool) -> None:
    """Decide what becomes of a source, operator, table or sink about which a run asked, as: decide ROOT table totals keep."""
    stored.decide(f"{kind} {name}", choice)
    answer({"subject": f"{kind} {name}", "choice": choice}) if as_json else click.echo(f"{kind} {name}: {choice}")


@click.command()
@at_root
@_KIND
@click.argument("name")
def withdraw(stored: StoredPipeline, *, kind: str, name: str, as_json: bool) -> None:
    """Take back what was decided about a source, operator, table or sink since the last epoch of ROOT."""
    stored.withdraw(f"{kind} {name}")
    answer({"subject": f"{kind} {name}", "choice": None}) if as_json else click.echo(f"{kind} {name}: withdrawn")


@click.command()
@at_root
@click.argument("name")
def drop(stored: StoredPipeline, *, name: str, as_json: bool) -> None:
    """Delete a table, or an operator's state, that the pipeline no longer had in its last epoch."""
    datasets = stored.drop(name)
    answer({"deleted": datasets}) if as_json else click.echo("\n".join(f"deleted {dataset}" for dataset in datasets))
