"""The Nexmark job: one pipeline with a table for each query, so that all answers move forward together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import dagster_operators as do
from jobs.nexmark.queries import PARTITIONS, QUERIES, Events

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Engine


def build(
    folder: Path,
    queries: Iterable[str] | None = None,
    *,
    files_per_epoch: int | None = 1,
    finished: bool = False,
    engine: Engine | None = None,
) -> do.Pipeline:
    """The Nexmark pipeline below a folder: events in ``events``, tables in ``nexmark``.

    Args:
        folder: Where everything lies; :meth:`~jobs.nexmark.generator.Nexmark.write` puts the events there.
        queries: Which queries, by name; all of them by default.
        files_per_epoch: How many files of each kind of event an epoch takes; None for all there are.
        finished: Whether no more events will come than there are, so that at the end every window closes.
        engine: Where it runs.

    >>> build(Path("data"), ["q0", "q12"]).tables["q12"].description
    'Bids of each bidder in ten seconds (of event time here)'
    """
    pipeline = do.Pipeline("nexmark", root=str(folder / "nexmark"), engine=engine)
    events = Events(pipeline, folder / "events", files_per_epoch, finished=finished)
    for name in QUERIES if queries is None else queries:
        query = QUERIES[name]
        description = (query.__doc__ or "").partition("\n")[0].rstrip(".")
        query(events).to_table(name, description=description, partition_by=PARTITIONS.get(name, ()))
    return pipeline
