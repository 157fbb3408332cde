"""``dagster-operators rollback`` and ``reset``: a pipeline, or a source, put back to where it was, without the program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.changes import OPTIONS, coordinator_of, owned
from dagster_operators.cli.plans import told

if TYPE_CHECKING:
    from dagster_operators.runtime.resetting import Place

_KEEP_SINKS = click.option("--keep-sinks", is_flag=True, help="Sinks may keep what they took since, and get it again.")


@click.command()
@click.argument("root")
@click.argument("epoch", type=int)
@_KEEP_SINKS
@OPTIONS
def rollback(root: str, epoch: int, storage_options: Any, *, keep_sinks: bool) -> None:
    """Make a new epoch of the pipeline in ROOT that is equal to EPOCH: tables, states, positions, watermarks."""
    from dagster_operators.transactions.rollback import roll_back

    with told(), owned(coordinator_of(root, storage_options)) as coordinator:
        made = roll_back(coordinator, epoch, keep_sinks=keep_sinks)
    click.echo(f"epoch {made.epoch} is as epoch {epoch} was")


@click.command()
@click.argument("root")
@click.argument("sources", nargs=-1, required=True)
@click.option("--to", required=True, help="An epoch (0: the beginning), a time (2026-01-31 12:00, UTC), or a position as JSON.")
@click.option("--tables", type=click.Choice(["keep", "restart"]), help="What becomes of the tables and the state behind it.")
@_KEEP_SINKS
@OPTIONS
def reset(root: str, sources: tuple[str, ...], to: str, tables: Any, storage_options: Any, *, keep_sinks: bool) -> None:
    """Have SOURCES of the pipeline in ROOT go on from somewhere else with the next epoch."""
    from dagster_operators.runtime.resetting import Resetting

    with told(), owned(coordinator_of(root, storage_options)) as coordinator:
        made = Resetting(coordinator).reset(sources, _place(to), tables, keep_sinks=keep_sinks)
    click.echo(f"epoch {made.epoch}: {made.transition}")


def _place(text: str) -> Place:
    if text.isdigit():
        return int(text)
    if not text.startswith("{"):
        return text
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"it is no JSON: {error}", param_hint="--to") from None
    return found
