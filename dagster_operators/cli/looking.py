"""``dagster-operators status``, ``explain``, ``history``, ``read`` and ``doctor``: what a root holds, and whether all is well."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dagster_operators.cli.at_root import answer, at_root, plain
from dagster_operators.errors import PipelineError, number_of
from dagster_operators.operators.events.message_bytes import from_ipc
from dagster_operators.operators.events.wiring import table_of
from dagster_operators.runtime.commands import as_commands
from dagster_operators.time.watermark import format_timestamp
from dagster_operators.types.far_values import shown_rows, shown_values

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.api.stored_pipeline import StoredPipeline
    from dagster_operators.transactions.records import Complete


@click.command()
@at_root
def status(stored: StoredPipeline, *, as_json: bool) -> None:
    """How the pipeline in ROOT stands: last epoch, rows, watermarks, what is under way, who is at work, what is wrong."""
    found = stored.status()
    if as_json:
        answer(found.to_json())
    else:
        click.echo("\n".join(found.lines()))


@click.command()
@at_root
@click.option("--epoch", type=int, help="As of this completed epoch; the last one by default.")
@click.option("--details", is_flag=True, help="With each operator's traits and signature.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Instead, a picture of the plans by which programs of data sets ran in the last epoch.",
)
@click.option("--operator", "operators", multiple=True, help="With --svg: the plan of this operator alone; may be repeated.")
def explain(
    stored: StoredPipeline, *, epoch: int | None, details: bool, svg: Path | None, operators: tuple[str, ...], as_json: bool
) -> None:  # fmt: skip
    """What the pipeline in ROOT is: operators, tables, sinks and stages, by the plan that the root keeps; imports no program."""
    if svg is not None:
        if epoch is not None:
            raise click.UsageError("--svg draws the last epoch: leave --epoch out")
        _write(svg, stored.picture(*operators))
        answer({"svg": str(svg)}) if as_json else click.echo(f"wrote {svg}")
        return
    if operators:
        raise click.UsageError("--operator says which plan --svg draws: name a file with --svg, too")
    found = stored.explain(epoch)
    answer(found.to_json()) if as_json else click.echo("\n".join(found.lines(details=details)))


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PipelineError(
            f"the picture cannot be written: {error.strerror}", file=str(file), remedy="name a file in a folder that is there"
        ) from error


@click.command()
@at_root
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="So many of the last epochs.")
def history(stored: StoredPipeline, *, limit: int, as_json: bool) -> None:
    """The last completed epochs of ROOT, oldest first: when, which run, rows, what put it elsewhere, whether it had changed."""
    epochs = stored.history()
    changed = {after.epoch for before, after in pairwise(epochs) if before.plan != after.plan}
    shown = [_epoch(complete, changed=complete.epoch in changed) for complete in epochs[-limit:]]
    if as_json:
        answer(shown)
    else:
        click.echo("\n".join(map(_line, shown)) or "no epoch is complete")


def _epoch(complete: Complete, *, changed: bool) -> dict[str, Any]:
    return {
        "epoch": complete.epoch,
        "committed_at": format_timestamp(int(complete.committed_at) * 1_000_000),
        "seconds": round(complete.committed_at - complete.started_at + _computed_before(complete), 3),
        "rows": dict(complete.rows),
        "late_rows": sum(complete.late_rows.values()),
        "rejected_rows": sum(complete.rejected_rows.values()),
        "run": complete.owner.run_id,
        "pipeline_changed": changed,
        "transition": complete.transition,
    }


def _computed_before(complete: Complete) -> float:
    """How long a rebuild was computed before the epoch that put it in place."""
    return sum(complete.seconds.values()) if complete.transition else 0.0


def _line(epoch: dict[str, Any]) -> str:
    rows = ", ".join(f"{number_of(rows, 'row')} in {name}" for name, rows in epoch["rows"].items())
    more = [f"{epoch[key]} {key.partition('_')[0]}" for key in ("late_rows", "rejected_rows") if epoch[key]]
    changed = ["the pipeline had changed"] if epoch["pipeline_changed"] else []
    told = "; ".join(part for part in (epoch["transition"], rows, *more, *changed) if part)
    return f"epoch {epoch['epoch']}  {epoch['committed_at']}  {epoch['seconds']:.2f} s  {told}"


@click.command()
@at_root
@click.argument("table")
@click.option("--epoch", type=int, help="As of this completed epoch; the last one by default.")
@click.option("--columns", help="Only these, as: --columns k,v")
@click.option("--limit", type=click.IntRange(0), default=20, show_default=True, help="At most so many rows; 0 for all.")
def read(stored: StoredPipeline, *, table: str, epoch: int | None, columns: str | None, limit: int, as_json: bool) -> None:
    """Rows of TABLE in ROOT, without an engine; as JSON one object a line.

    TABLE may be an output of a dataflow, as node/output: then its messages are told in their order, with their values.
    """
    names = list(dict.fromkeys(name.strip() for name in columns.split(","))) if columns else None
    if "/" in table:
        stored_rows = stored.to_arrow(table_of(table), epoch=epoch)
        shown, rows = names or stored_rows.column_names, messages_of(stored_rows, names, limit or None)
    else:
        chosen = stored.to_arrow(table, epoch=epoch, columns=names, limit=limit or None)
        shown, rows = chosen.column_names, shown_rows(chosen)
    found = plain(rows)
    if as_json:
        for row in found:
            click.echo(json.dumps(row))
    else:
        click.echo(as_table(shown, [list(row.values()) for row in found]))


def messages_of(rows: pa.Table, names: Sequence[str] | None, limit: int | None) -> list[dict[str, Any]]:
    """The first messages of an output in their order, with their values, from the rows of its table.

    Raises:
        PipelineError: There is no such column.

    >>> import pyarrow as pa
    >>> from dagster_operators.operators.events.message_bytes import ipc
    >>> rows = pa.table({"seq": [2, 1], "value": [ipc(pa.array([3])), ipc(pa.array([1, 2]))]})
    >>> messages_of(rows, None, None)
    [{'seq': 1, 'value': [1, 2]}, {'seq': 2, 'value': [3]}]
    """
    import pyarrow as pa

    unknown = [name for name in names or () if name not in rows.column_names]
    if unknown:
        raise PipelineError(f"there is no column {unknown[0]!r}", remedy=f"there are: {', '.join(rows.column_names)}")
    by = ("time", "key", "seq") if "key" in rows.column_names else ("seq",)
    ordered = rows.sort_by([(name, "ascending") for name in by]).slice(0, limit)
    found: list[dict[str, Any]] = shown_rows(ordered if names is None else ordered.select(list(names)))
    if found and "value" in found[0] and pa.types.is_binary(rows.schema.field("value").type):
        for row in found:  # values alone, as their own type has them: a column of all may be of no type that Arrow infers
            row["value"] = shown_values(from_ipc(row["value"]))
    return found


def as_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows in columns of one width each.

    >>> print(as_table(["k", "total"], [["a", 11], ["bc", None]]))
    k   total
    a   11
    bc
    """
    lines = [[str(name) for name in columns], *([("" if value is None else str(value)) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(f"{value:<{width}}" for value, width in zip(line, widths, strict=True)).rstrip() for line in lines)


@click.command()
@at_root
@click.option("--start-engine", is_flag=True, help="Start the engine, too.")
@click.option("--deep", is_flag=True, help="Read all files through, and compare what logs say of them with what was written.")
def doctor(stored: StoredPipeline, *, start_engine: bool, deep: bool, as_json: bool) -> None:
    """Look ROOT and this machine over: access, clock, ledger, tables, files, engine, versions. Exit code 1 if one is wrong."""
    findings = []
    for told in stored.examine(start_engine=start_engine, deep=deep):
        finding = replace(told, remedy=as_commands(told.remedy, stored.root))
        findings.append(finding)
        if not as_json:
            click.echo(str(finding))
    if as_json:
        answer([asdict(finding) for finding in findings])
    if any(finding.verdict == "error" for finding in findings):
        raise SystemExit(1)
