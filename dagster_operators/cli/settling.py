"""``dagster-operators repair``, ``compact``, ``clean`` and ``unlock``: what is done to a storage root between epochs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.at_root import answer, at_root

if TYPE_CHECKING:
    from dagster_operators.api.stored_pipeline import StoredPipeline


@click.command()
@at_root
@click.argument("table", required=False)
@click.option("--keep", type=click.Choice(["ours", "theirs"]), help="Put the last epoch's content back, or accept what is there.")
@click.option("--ledger", is_flag=True, help="Make the ledger whole, too, as far as there is something of it.")
@click.option("--last-epoch", type=click.IntRange(0), help="With --ledger: forget what came after this epoch.")
def repair(stored: StoredPipeline, *, table: str | None, keep: Any, ledger: bool, last_epoch: int | None, as_json: bool) -> None:
    """Settle TABLE of ROOT, which somebody else wrote, restored or damaged; without TABLE all that are not as the ledger says."""
    if ledger == bool(keep) or (ledger and table) or (last_epoch is not None and not ledger):
        raise click.UsageError("give --keep ours or --keep theirs; or --ledger, alone or with --last-epoch")
    if ledger:
        done = stored.repair_ledger(last_epoch)
        told = [f"the ledger ends with epoch {done.last_epoch}: {done.found_again} records found again, {done.dropped} left out"]
        told += [f"{name}: put back" for name in done.tables]
        found: Any = asdict(done)
    else:
        settled = [record for record in [stored.repair(table, keep)] if record] if table else stored.repair_all(keep)
        told = [f"{record.dataset}: kept {record.keep}, at version {record.version}" for record in settled]
        found = [{"table": record.dataset, "keep": record.keep, "version": record.version} for record in settled]
    answer(found) if as_json else click.echo("\n".join(told) or "nothing was wrong")


@click.command()
@at_root
@click.argument("table", required=False)
@click.option(
    "--target-size",
    type=click.IntRange(1),
    help="About so many bytes a joined file has; when left out what the table says, else 128 MiB, 16 MiB of clustered tables.",
)
def compact(stored: StoredPipeline, *, table: str | None, target_size: int | None, as_json: bool) -> None:
    """Join small files of TABLE of ROOT, or of all tables, into larger ones; the rows stay as they are."""
    done = stored.compact(table, target_size=target_size)
    answer(asdict(done)) if as_json else click.echo(done)


@click.command()
@at_root
@click.option("--keep", default="7 days", show_default=True, help="Epochs completed within this time stay readable.")
@click.option("--keep-epochs", type=click.IntRange(1), default=2, show_default=True, help="At least so many stay readable.")
def clean(stored: StoredPipeline, *, keep: str, keep_epochs: int, as_json: bool) -> None:
    """Delete files of ROOT that only old epochs need; these can no longer be read."""
    deleted = stored.clean(keep, keep_epochs=keep_epochs)
    answer({"deleted_files": deleted}) if as_json else click.echo(f"{deleted} files deleted")


@click.command()
@at_root
@click.option("--yes", is_flag=True, help="Take it without asking.")
def unlock(stored: StoredPipeline, *, yes: bool, as_json: bool) -> None:
    """Take ROOT from the run at work on it, such as one that hangs. That run can write nothing more; the next goes on from it."""
    owner = stored.status().at_work
    if owner and not yes:
        click.confirm(f"{owner} is at work and will fail. Take the pipeline from it?", abort=True, err=True)
    taken = stored.unlock()
    if as_json:
        answer({"taken_from": str(taken) if taken else None})
    else:
        click.echo(f"taken from {taken}; the next run goes on from what it left" if taken else "nobody was at work")
