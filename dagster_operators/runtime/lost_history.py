"""Items of a pipeline's history that a source does not have any more: the epochs that read them, and the ways on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import SourceError, call_of, located
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.storage.location import SAME_FILE


def joined_all(connector: Connector, pieces: Sequence[JSON]) -> Iterator[JSON]:
    """The items of slices, as many as possible at once: looking at each alone takes long."""
    before, *others = pieces
    for items in others:
        joined = connector.together(before, items)
        if joined is None:
            yield before
        before = items if joined is None else joined
    yield before


def tell_epoch(
    connector: Connector, name: str, pieces: Sequence[tuple[int, SourceSlice]], schema: str, *,
    since: Callable[[int], str] | None, tables: Sequence[str],
) -> None:  # fmt: skip
    """Raise the error of the last epoch of which something is gone, with a remedy for all of them."""
    gone: list[int] = []
    last: SourceError | None = None
    for epoch, part in pieces:
        try:
            with located(source=name, epoch=epoch):
                connector.verify_position(part.end)
                connector.verify_again(part.items, schema)
        except SourceError as error:
            gone.append(epoch)
            last = error
    if last is None:
        return
    told = f"epoch {gone[0]}" if len(gone) == 1 else f"{len(gone)} epochs from {gone[0]} to {gone[-1]}"
    if connector.most_deleted is not None and gone[-1] == pieces[-1][0]:
        last.remedy = (
            f"put back the newest extract, which epoch {gone[-1]} read: {call_of('rebuild', tables, since=gone[-1])}; "
            "or run an epoch with a new extract and the pipeline as it was, and leave out what came before that epoch by since="
        )
    else:
        left_out = f"; or leave out what came before: {since(gone[-1] + 1)}" if since else ""
        anew = f"; or {read_anew(name)}" if gone[-1] == pieces[-1][0] or not since else ""
        same = f"{SAME_FILE}; else " if SAME_FILE in last.remedy else ""
        last.remedy = f"{same}put back what {told} read{left_out}{anew}"
    raise last


def read_anew(source: str) -> str:
    """The call by which a source is read again from its beginning, and all behind it begins anew."""
    return f'read what there is now, into tables that begin anew: pipeline.reset({source!r}, 0, tables="restart")'
