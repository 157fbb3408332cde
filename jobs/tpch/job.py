"""The TPC-H job: one pipeline with a table for each query, so that all answers are of the same moment."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import dagster_operators as do
from jobs.tpch.queries import QUERIES, Tables

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Engine


def build(
    folder: Path,
    queries: Iterable[str] | None = None,
    *,
    steps_per_epoch: int | None = 1,
    large: int = 300,
    engine: Engine | None = None,
) -> do.Pipeline:
    """The TPC-H pipeline below a folder: changes in ``changes``, answers in ``tpch``.

    Args:
        folder: Where everything lies; :meth:`~jobs.tpch.generator.Tpch.write` puts the changes there.
        queries: Which queries, by name; all of them by default.
        steps_per_epoch: How many steps an epoch takes; None for all there are.
        large: Beyond which quantity an order is a large one to q18.
        engine: Where it runs.

    >>> build(Path("data"), ["q3", "q13"]).tables["q13"].description
    'Customer distribution: how many customers have how many orders, none too'
    """
    pipeline = do.Pipeline("tpch", root=str(folder / "tpch"), engine=engine)
    tables = Tables(pipeline, folder / "changes", steps_per_epoch, large)
    for name in QUERIES if queries is None else queries:
        query = QUERIES[name]
        query(tables).to_table(name, description=(query.__doc__ or "").partition("\n")[0].rstrip("."))
    return pipeline
