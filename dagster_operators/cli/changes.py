"""``dagster-operators diff``, ``decide`` and ``drop``: what changed in a pipeline, and what is to become of what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.plans import told
from dagster_operators.errors import LedgerError

if TYPE_CHECKING:
    from dagster_operators.transactions.coordinator import Coordinator

_FILE = click.File("rb")
OPTIONS = click.option(
    "--storage-options", type=click.File("r"), help="A JSON file with the access to the root's store, as deltalake takes it."
)


@click.command()
@click.argument("root")
@click.argument("file", type=_FILE, required=False)
@OPTIONS
def diff(root: str, file: Any, storage_options: Any) -> None:
    """What changed since the last completed epoch of ROOT, and what follows from it.

    FILE is the plan of the pipeline as it is now (pipeline.to_plan()); without it, the pipeline that was refused last.
    """
    from dagster_operators.plans.codec import from_bytes
    from dagster_operators.runtime.stored_changes import StoredChanges

    with told():
        found = StoredChanges(coordinator_of(root, storage_options))
        for line in found.told(from_bytes(file.read(), to_run=False).without_rows() if file else None):
            click.echo(line)


@click.command()
@click.argument("root")
@click.argument("kind", type=click.Choice(["source", "operator", "table", "sink"]))
@click.argument("name")
@click.argument("choice", type=click.Choice(["keep", "restart", "drop"]))
@OPTIONS
def decide(root: str, kind: str, name: str, choice: str, storage_options: Any) -> None:
    """Decide what becomes of a source, operator, table or sink about which a run asked, as: decide ROOT table totals keep."""
    from dagster_operators.runtime.stored_changes import StoredChanges

    with told(), owned(coordinator_of(root, storage_options)) as coordinator:
        StoredChanges(coordinator).decide(f"{kind} {name}", choice)
    click.echo(f"{kind} {name}: {choice}")


@click.command()
@click.argument("root")
@click.argument("kind", type=click.Choice(["source", "operator", "table", "sink"]))
@click.argument("name")
@OPTIONS
def withdraw(root: str, kind: str, name: str, storage_options: Any) -> None:
    """Take back what was decided about a source, operator, table or sink since the last epoch of ROOT."""
    from dagster_operators.runtime.stored_changes import StoredChanges

    with told(), owned(coordinator_of(root, storage_options)) as coordinator:
        StoredChanges(coordinator).withdraw(f"{kind} {name}")
    click.echo(f"{kind} {name}: withdrawn")


@click.command()
@click.argument("root")
@click.argument("name")
@OPTIONS
def drop(root: str, name: str, storage_options: Any) -> None:
    """Delete a table, or an operator's state, that the pipeline no longer had in its last epoch."""
    from dagster_operators.runtime.stored_changes import StoredChanges

    with told(), owned(coordinator_of(root, storage_options)) as coordinator:
        datasets = StoredChanges(coordinator).drop(name)
    click.echo("\n".join(f"deleted {dataset}" for dataset in datasets))


def coordinator_of(root: str, options: Any) -> Coordinator:
    """Access to the pipeline that a root belongs to."""
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.whose import pipeline_of

    access = None
    if options is not None:
        try:
            access = json.load(options)
        except ValueError as error:
            raise LedgerError(f"the storage options are no JSON: {error}", remedy="give a JSON object") from None
    return Coordinator(pipeline_of(Root(root, access)), root, storage_options=access)


@contextmanager
def owned(coordinator: Coordinator) -> Iterator[Coordinator]:
    """The same as the owner of the pipeline, as long as this is open."""
    from dagster_operators.transactions.owner import Owner

    coordinator.open(Owner.of_process())
    try:
        yield coordinator
    finally:
        coordinator.close()
