"""``dagster-operators rollback`` and ``reset``: a pipeline, or a source, put back to where it was, without the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.at_root import answer, at_root
from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    from dagster_operators.api.stored_pipeline import StoredPipeline
    from dagster_operators.runtime.resetting import Place

_KEEP_SINKS = click.option("--keep-sinks", is_flag=True, help="Sinks may keep what they took since, and get it again.")


@click.command()
@at_root
@click.argument("epoch", type=int)
@_KEEP_SINKS
def rollback(stored: StoredPipeline, *, epoch: int, keep_sinks: bool, as_json: bool) -> None:
    """Make a new epoch of the pipeline in ROOT that is equal to EPOCH: tables, states, positions, watermarks."""
    made = stored.rollback(epoch, keep_sinks=keep_sinks)
    told = f"epoch {made.epoch} is as epoch {epoch} was"
    answer({"epoch": made.epoch, "transition": made.transition}) if as_json else click.echo(told)


@click.command()
@at_root
@click.argument("sources", nargs=-1, required=True)
@click.option("--to", required=True, help="An epoch (0: the beginning), a time (2026-01-31 12:00, UTC), or a position as JSON.")
@click.option("--tables", type=click.Choice(["keep", "restart"]), help="What becomes of the tables and the state behind it.")
@_KEEP_SINKS
def reset(stored: StoredPipeline, *, sources: tuple[str, ...], to: str, tables: Any, keep_sinks: bool, as_json: bool) -> None:
    """Have SOURCES of the pipeline in ROOT go on from somewhere else with the next epoch."""
    made = stored.reset(sources, _place(to), tables, keep_sinks=keep_sinks)
    told = f"epoch {made.epoch}: {made.transition}"
    answer({"epoch": made.epoch, "transition": made.transition}) if as_json else click.echo(told)


def _place(text: str) -> Place:
    from dagster_operators.runtime.resetting import written_place

    try:
        return written_place(text)
    except PipelineError as error:  # how the command is written, whatever the root holds
        raise click.BadParameter(str(error), param_hint="--to") from None
