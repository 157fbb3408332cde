"""Several data sets as outputs of one operator, so that what they share is computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.api.datasets.data_set import DataSet
from dagster_operators.api.datasets.leaving import stream_of_epoch
from dagster_operators.api.datasets.over_epochs import rows_of_epoch, stream_over_all
from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.datasets.data_sets import SINK

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream


def compute_together(operator: str, /, **data_sets: DataSet) -> dict[str, Stream]:
    """The streams of several data sets that one program computes, as one execution in Flink has several sinks.

    What they have in common is computed once in each epoch. So a function that gives other rows each time it is called, such as
    a random sample, gives the same rows to all of them.

    Args:
        operator: The name of the operator that computes them.
        data_sets: The data sets by the names of their streams. The first is the operator's main output: keep it the first.

    Returns:
        The stream of each data set, by its name.

    Raises:
        PipelineError: A data set is computed of no stream, or they are computed of streams of several pipelines.

    >>> from tempfile import TemporaryDirectory
    >>> from dagster_operators import MemorySource, Pipeline, compute_together
    >>> folder = TemporaryDirectory()
    >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
    >>> rows = pipeline.source("rows", MemorySource([[("a", 1), ("a", 2), ("b", 3)]], schema="k string, v long"))
    >>> tens = rows.data_set().map(lambda row: (row.k, row.v * 10), schema="k string, v long")
    >>> streams = compute_together("tens", sums=tens.group_by("k").sum("v"), largest=tens.max_by("v"))
    >>> for name, stream in streams.items():
    ...     _ = stream.to_table(name)
    >>> epoch = pipeline.run_epoch()
    >>> pipeline.to_arrow("sums").sort_by("k").to_pylist(), pipeline.to_arrow("largest").to_pylist()
    ([{'k': 'a', 'v': 30}, {'k': 'b', 'v': 30}], [{'k': 'b', 'v': 30}])
    >>> folder.cleanup()
    """
    if not data_sets:
        raise PipelineError("there is no data set to compute", operator=operator, remedy="give at least one by a name")
    for name, data_set in data_sets.items():
        if not isinstance(data_set, DataSet):
            raise PipelineError(
                f"{name!r} is a {type(data_set).__name__} and no data set", operator=operator,
                remedy="give what data_set() and its methods gave; of a stream: stream.data_set()",
            )  # fmt: skip
        if name in (SINK, MAIN) or not name.isidentifier():
            raise PipelineError(f"an output cannot be called {name!r}", operator=operator, remedy="give it another name")
    (first, data_set), *sides = data_sets.items()
    main = stream_of_epoch(rows_of_epoch(data_set), operator, {name: rows_of_epoch(side) for name, side in sides})
    streams = {first: main, **{name: main.side_output(name) for name, _ in sides}}
    return {name: stream_over_all(data_sets[name], stream, f"{operator}_{name}_over_all") for name, stream in streams.items()}
