"""``dagster-operators diff``, ``decide``, ``withdraw`` and ``drop``: what changed, and what is to become of what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.at_root import answer, at_root

if TYPE_CHECKING:
    from dagster_operators.api.stored_pipeline import StoredPipeline

_KIND = click.argument("kind", type=click.Choice(["source", "operator", "table", "sink"]))


@click.command()
@at_root
@click.argument("file", type=click.File("rb"), required=False)
def diff(stored: StoredPipeline, *, file: Any, as_json: bool) -> None:
    """What changed since the last completed epoch of ROOT, and what follows from it.

    FILE is the plan of the pipeline as it is now (pipeline.to_plan()); without it, the pipeline that was refused last.
    """
    found = stored.changes(file.read() if file else None)
    if as_json:
        answer(found.to_json())
    else:
        for line in found.lines():
            click.echo(line)


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
