"""The way of a data set's rows back into its pipeline: as a stream, into a table, or into a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from dagster_operators.api.additions import undone
from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.operations.rounds import RowsOfRound
from dagster_operators.api.datasets.other_names import OtherNames
from dagster_operators.api.datasets.over_epochs import rows_of_epoch, stream_over_all
from dagster_operators.api.datasets.stream_input import StreamInput
from dagster_operators.api.datasets.stream_program import StreamProgram, bags_before, iterations_that_keep
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.data_sets import DataSets, DataSetsWithState

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream


def stream_of(data_set: Bag, name: str | None) -> Stream:
    """The stream of a data set's rows: of an epoch, or with those of all epochs before.

    Args:
        data_set: The data set.
        name: The operator's name.

    Raises:
        PipelineError: It is computed of no stream, or of streams of several pipelines.
    """
    of_epoch = name if name is None or data_set.over is None else f"{name}_of_epoch"
    return stream_over_all(data_set, stream_of_epoch(rows_of_epoch(data_set), of_epoch), name)


def stream_of_epoch(data_set: Bag, name: str | None, sides: Mapping[str, Bag] = MappingProxyType({})) -> Stream:
    """The stream of a data set's rows of an epoch, whose operator computes further data sets beside it.

    Args:
        data_set: The data set.
        name: The operator's name.
        sides: The further data sets, by the names of their side outputs.

    Raises:
        PipelineError: One of them is computed of no stream, or they are computed of streams of several pipelines.
    """
    for bag in (data_set, *sides.values()):
        _require_stream(bag)
    kept = iterations_that_keep(data_set, *sides.values())
    if len(kept) > 1:
        raise PipelineError(
            f"{len(kept)} iterations of a program keep their solution sets", operator=kept[1].shown,
            remedy="put each into a program of its own; the second one can read the table of the first",
        )  # fmt: skip
    inputs = _inputs(data_set, *sides.values())
    first, *others = {id(operation.origin._dataflow): operation.origin for operation in inputs}.values()  # noqa: SLF001
    if others:
        raise PipelineError(
            f"stream {others[0].name!r} belongs to pipeline {others[0]._dataflow.name!r}", operator=data_set.shown,  # noqa: SLF001
            pipeline=first._dataflow.name,  # noqa: SLF001
            remedy="write it to a table there and read that table with PipelineSource here",
        )  # fmt: skip
    origins = {operation.stream: operation.origin for operation in inputs}
    stream: Stream = first._join(  # noqa: SLF001 - both are the fluent interface
        DataSetsWithState if kept else DataSets,
        tuple(origins.values()),
        name,
        chain=True,
        program=StreamProgram(data_set, tuple(origins), sides),
    )
    return stream


def _require_stream(data_set: Bag) -> None:
    if _inputs(data_set):
        return
    if any(isinstance(bag.operation, RowsOfRound) for bag in bags_before(data_set)):
        raise PipelineError(
            "the rows of a round leave no iteration", operator=data_set.shown,
            remedy="close the iteration, and go on from its result: loop.close_with(...)",
        )  # fmt: skip
    raise PipelineError(
        "a data set that is computed of no stream cannot go back into a pipeline", operator=data_set.shown,
        remedy="begin with a stream: pipeline.source(...).data_set()",
    )  # fmt: skip


def _inputs(*data_sets: Bag) -> list[StreamInput]:
    return [bag.operation for bag in bags_before(*data_sets) if isinstance(bag.operation, StreamInput)]


class Leaving(OtherNames, Bag):
    """A bag of rows that may leave for the pipeline whose streams it is computed of."""

    def to_stream(self, *, name: str | None = None, schema: str | None = None) -> Stream:
        """The rows of the data set as a stream: in each epoch those that are computed of the epoch's rows.

        Args:
            name: The operator's name.
            schema: The columns, as DDL, where they do not follow from those of the streams.

        Raises:
            PipelineError: The data set is computed of no stream, or of streams of several pipelines.

        >>> from dagster_operators import FileSource, Pipeline
        >>> rows = Pipeline("p", root="data").source("rows", FileSource("in", schema="k string, v long"))
        >>> rows.data_set().group_by("k").sum("v").to_stream(name="sums").columns
        ('k', 'v')
        """
        return stream_of(self if schema is None else self.declaring(schema), name)

    def to_table(
        self,
        table: str,
        *,
        mode: Literal["append", "replace", "upsert"] | None = None,
        key: Sequence[str] = (),
        name: str | None = None,
        schema: str | None = None,
        **settings: Any,
    ) -> Stream:
        """Write the rows of the data set to a table, in each epoch those that are computed of the epoch's rows.

        Args:
            table: The table's name.
            mode: ``append``, the default; or ``replace``, with which the table has the rows of the last epoch alone; or
                ``upsert``, with which a row takes the place of the one with its key. Two rows of a key in one epoch fail it:
                group by the key first. Results over all epochs need no mode: their table has the current row of each key.
            key: The key columns, with ``mode="upsert"``.
            name: The operator's name; by default the table's.
            schema: The columns, as DDL, where they do not follow from those of the streams.
            settings: As :meth:`Stream.to_table` takes them.

        Raises:
            PipelineError: There is a table of that name, the data set is computed of no stream, or a mode and a key do not fit.
            SchemaError: A key column is none of the data set's.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> epochs = [[("a", 1), ("a", 2), ("b", 5)], [("a", 4)]]
        >>> rows = pipeline.source("rows", MemorySource(epochs, schema="k string, v long"))
        >>> tens = rows.data_set().map(lambda row: (row.k, row.v * 10), schema="k string, v long")
        >>> sums = tens.group_by("k").reduce(lambda first, second: (first.k, first.v + second.v))
        >>> stream = sums.to_table("sums", mode="upsert", key=["k"])
        >>> epochs = pipeline.run_until_caught_up()
        >>> pipeline.to_arrow("sums").sort_by("k").to_pylist()
        [{'k': 'a', 'v': 40}, {'k': 'b', 'v': 50}]
        >>> folder.cleanup()
        """
        with self._undone():
            return self.to_stream(name=name or table, schema=schema).to_table(table, mode=mode, key=key, **settings)

    def to_sink(self, sink: Any, *, name: str | None = None, schema: str | None = None, **settings: Any) -> Stream:
        """Hand the rows of the data set to something outside of the storage root, in the same commit as the tables.

        Args:
            sink: The sink.
            name: The operator's name.
            schema: The columns, as DDL, where they do not follow from those of the streams.
            settings: As :meth:`Stream.to_sink` takes them.

        Raises:
            PipelineError: It is no sink, or the data set is computed of no stream.

        >>> from dagster_operators import FileSource, Pipeline, PostgresSink
        >>> rows = Pipeline("p", root="data").source("rows", FileSource("in", schema="k string, v long"))
        >>> rows.data_set().distinct("k").to_sink(PostgresSink("dbname=shop", "keys"), name="keys").name
        'keys'
        """
        with self._undone():
            return self.to_stream(name=name, schema=schema).to_sink(sink, **settings)

    @property
    def _streams(self) -> list[StreamInput]:
        """The streams that it is computed of."""
        return [bag.operation for bag in bags_before(self) if isinstance(bag.operation, StreamInput)]

    def _undone(self) -> AbstractContextManager[None]:
        """Where a refused call leaves no operator behind: the name would be taken when it is written again."""
        return undone({"streams": [operation.origin for operation in self._streams]})
