"""Map async: one answer of an asynchronous function beside each row, the rows in the order of their answers.

Within an expression a batch waits for its slowest row. Here a partition's rows are in flight across batches, and each is handed
on once it is answered (Flink's unordered async wait). The set of rows is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.functions.asynchronous import AsyncCall, AsyncFunction, submit
from dagster_operators.functions.shipping import EngineFunction
from dagster_operators.functions.values import as_array
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.graph.user_functions import find
from dagster_operators.operators.aggregates.aggregate_calls import Call, find_calls
from dagster_operators.operators.physical import Stateless
from dagster_operators.operators.relational.projection import from_columns, named
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.ddl import parse_type
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROWS = 1_000
"""So many answered rows are handed on at once, if none but them is waited for."""

_ARGUMENT = "__argument_"


@dataclass(frozen=True, kw_only=True)
class MapAsync(LogicalOperator):
    """Adds a column with the answers of an asynchronous function.

    Attributes:
        call: ``function(arguments) AS name``.
    """

    kind: ClassVar[str] = "map_async"
    row_wise: ClassVar[bool] = True
    call: str

    @override
    def sql(self) -> tuple[str, ...]:
        return (named(self.call)[0],)

    @override
    def config(self) -> dict[str, Any]:
        return {"call": self.call}

    @cached_property
    def parsed(self) -> tuple[AsyncFunction, Call, str]:
        """The function, its call, and the name of the new column."""
        expression, name = named(self.call)
        called = expression.partition("(")[0].strip().strip("`")
        function = find(called)
        if not isinstance(function, AsyncFunction) or name is None:
            raise SchemaError(
                f"{self.call!r} calls no asynchronous function, or its column has no name", operator=self.name,
                remedy="write function(arguments) AS name, for a function made with udf over an async def",
            )  # fmt: skip
        template = find_calls(expression, {called.lower()})
        if len(template.calls) != 1 or "".join(template.pieces).strip():
            raise SchemaError(
                f"{self.call!r} is more than one call", operator=self.name, remedy="compute the rest with with_columns"
            )
        return function, template.calls[0], name

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        _, call, name = self.parsed
        for argument in call.arguments:
            self.require(stream, columns_of_row(argument), f"{self.call!r}")
        if stream.columns is None:
            return stream
        if stream.resolve(name):
            raise SchemaError(
                f"there is a column {name!r} already", operator=self.name, column=name, remedy="give it another name"
            )
        return stream.with_columns((*stream.columns, name))

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        _, call, name = self.parsed
        return {**same_columns(inputs[0]), name: frozenset().union(*(from_columns(inputs[0], text) for text in call.arguments))}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> AnswerRows:
        """A function over batches in the workers; where order is to be kept an expression."""
        return AnswerRows(self)


@dataclass(frozen=True)
class AnswerRows(Stateless):
    """The lowering of :class:`MapAsync`."""

    logical: MapAsync

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql.types import StructType

        function, call, name = self.logical.parsed
        if function.calls.ordered:
            return frame.selectExpr("*", f"{function.name}({', '.join(call.arguments)}) AS {quoted(name)}")
        arguments = [f"{text} AS {_ARGUMENT}{number}" for number, text in enumerate(call.arguments)]
        answers = frame.selectExpr(f"CAST(NULL AS {function.returns}) AS {quoted(name)}").schema.fields
        pump = Pump(
            AsyncCall(function.name, function.function, arrow_type(parse_type(function.returns)), function.calls),
            name,
            len(arguments),
        )
        shipped = EngineFunction(function.name, function.returns, pump, function.function.__module__).shipped()
        return frame.selectExpr("*", *arguments).mapInArrow(shipped, StructType([*frame.schema.fields, *answers]))


@dataclass(frozen=True)
class Pump:
    """What a worker runs over the batches of a partition.

    Attributes:
        call: The function.
        name: The new column.
        arguments: How many of the last columns are its arguments.
    """

    call: AsyncCall
    name: str
    arguments: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with their answers, as they come."""
        flying: dict[Future[Any], tuple[pa.RecordBatch, int]] = {}
        answered: list[tuple[pa.RecordBatch, int, Any]] = []
        try:
            for batch, row, arguments in self._rows(batches):
                flying[submit(self.call.answer(arguments))] = batch, row
                if len(flying) >= self.call.calls.max_concurrency:
                    answered += self._landed(flying)
                if len(answered) >= _ROWS:
                    yield from self._together(answered)
                    answered = []
            while flying:
                answered += self._landed(flying)
            yield from self._together(answered)
        finally:
            for future in flying:
                future.cancel()

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, int, tuple[Any, ...]]]:
        for batch in batches:
            columns = [column.to_pylist() for column in batch.columns[batch.num_columns - self.arguments :]]
            kept = batch.select(range(batch.num_columns - self.arguments))
            for row, arguments in enumerate(zip(*columns, strict=True)):
                yield kept, row, arguments

    def _landed(self, flying: dict[Future[Any], tuple[pa.RecordBatch, int]]) -> list[tuple[pa.RecordBatch, int, Any]]:
        """Wait until one is answered; all that are, which then fly no more."""
        done, _ = wait(flying, return_when=FIRST_COMPLETED)
        return [(*flying.pop(future), future.result()) for future in done]

    def _together(self, answered: list[tuple[pa.RecordBatch, int, Any]]) -> Iterator[pa.RecordBatch]:
        """Answered rows as batches, one for each batch that they come from."""
        import pyarrow as pa

        by_batch: dict[int, list[tuple[pa.RecordBatch, int, Any]]] = {}
        for row in answered:
            by_batch.setdefault(id(row[0]), []).append(row)
        for rows in by_batch.values():
            found = rows[0][0].take(pa.array([row for _, row, _ in rows]))
            answers = as_array([answer for _, _, answer in rows], self.call.kind, len(rows), self.call.name)
            yield pa.RecordBatch.from_arrays([*found.columns, answers], names=[*found.schema.names, self.name])
