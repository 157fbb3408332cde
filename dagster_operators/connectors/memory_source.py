"""Rows held in memory, one batch for each epoch: for tests, examples and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.connectors.connector import UNKNOWN, Connector, OnCorrupt, SliceChoice, Unknown, parse_schema
from dagster_operators.connectors.places import places_of
from dagster_operators.connectors.required_places import RequiredPlace
from dagster_operators.connectors.row_batch import batch_to_arrow, batch_values, infer_arrow
from dagster_operators.connectors.written_position import check_keys
from dagster_operators.errors import BadInputError, MissingInputError, PipelineError, SourceError
from dagster_operators.graph.places import PLACES
from dagster_operators.graph.slice import JSON, SourceSlice
from dagster_operators.operators.engine_schema import empty, struct
from dagster_operators.time.watermark import to_micros
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pandas import DataFrame as PandasDataFrame  # type: ignore[import-untyped]
    from pyarrow import Table
    from pyspark.sql import DataFrame, SparkSession

Batch: TypeAlias = "Sequence[Mapping[str, Any] | Sequence[Any]] | Table | PandasDataFrame"
"""The rows of one epoch: dicts, tuples in the order of the schema, an Arrow table or a pandas DataFrame."""


_BATCHES = "give a list of batches, each a list of rows: MemorySource([[('a', 1), ('b', 2)]], schema='k string, v long')"


@checked_constructor
@dataclass(frozen=True, eq=False)
class MemorySource(Connector):
    """A list of row batches, of which each epoch reads the next one.

    Positions are batch numbers: a process that continues a pipeline has to give the batches consumed before as well.

    Args:
        batches: The batches. Timestamps may be ISO strings or datetimes; without a time zone they are UTC.
        schema: The schema as DDL; inferred from all batches when None.

    >>> source = MemorySource([[{"k": "a", "v": 1}]], schema="k string, v long")
    >>> source.append([("b", 2)])
    >>> choice = source.choose(None, lambda: iter(()))
    >>> choice.slice.items, choice.more
    ([0], True)
    """

    kind: ClassVar[str] = "memory"

    batches: list[Batch] = field(default_factory=list)
    schema: str | None = None

    def __post_init__(self) -> None:
        given: object = self.batches
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise PipelineError(f"{given!r} is no list of batches", remedy=_BATCHES)
        object.__setattr__(self, "batches", list(self.batches))
        for batch in self.batches:
            first = next(iter(batch), None) if isinstance(batch, list | tuple) else None
            if isinstance(batch, Mapping | str) or isinstance(first, str | int | float):
                raise PipelineError(f"{batch!r} is a row, where a batch of rows is wanted", remedy=_BATCHES)

    @override
    def without_rows(self) -> MemorySource:
        return MemorySource([], self.schema)

    @property
    @override
    def holds_rows(self) -> bool:
        return True

    def append(self, batch: Batch) -> None:
        """Add the batch of a further epoch."""
        self.batches.append(batch)

    @property
    def uri(self) -> str:
        """Nowhere: the rows are part of the program."""
        return "memory:"

    @property
    @override
    def required(self) -> tuple[RequiredPlace, ...]:
        # Columns of its batches are looked at when they are made into Arrow.
        return tuple(place for place in super().required if place.is_nested)

    @property
    def declared_schema(self) -> str | None:
        """The schema as DDL."""
        return self.schema

    def config(self) -> dict[str, JSON]:
        """The schema; the rows are data, not settings."""
        return {"schema": self.schema}

    def identity(self) -> dict[str, JSON]:
        """Nothing but the kind."""
        return {}

    @override
    def check_position(self, position: JSON) -> None:
        check_keys(position, {"batches": int})

    def infer_schema(self, session: SparkSession) -> str:
        """The declared schema, or the one all batches show together."""
        if self.schema is not None:
            return parse_schema(session, self.schema)
        table = infer_arrow(self.batches)
        if table.num_columns == 0:
            raise MissingInputError("there are no rows to infer the schema from", remedy="give MemorySource a schema=")
        return str(session.createDataFrame(table).schema.json())

    def choose(self, start: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> SliceChoice | None:  # noqa: ARG002
        """The next batch."""
        number = start["batches"] if isinstance(start, dict) else 0
        if number > len(self.batches):
            raise BadInputError(
                f"the memory source has {len(self.batches)} batches, but {number} were consumed already",
                remedy="give all batches again, in the same order, with the new ones behind",
            )
        if number == len(self.batches):
            return None
        return SliceChoice(SourceSlice(start, {"batches": number + 1}, [number]), more=number + 1 < len(self.batches))

    @override
    def together(self, before: JSON, after: JSON) -> JSON | None:
        return [*before, *after] if isinstance(before, list) and isinstance(after, list) else None

    def verify(self, items: JSON, schema_json: str) -> None:  # noqa: ARG002
        """Look whether the batches are there."""
        self._batches(items)

    def read(
        self,
        session: SparkSession,
        items: JSON,
        schema_json: str,
        *,
        corrupt: OnCorrupt = "fail",  # noqa: ARG002  # values that do not fit always fail
    ) -> DataFrame:
        """The rows of the batches ``items``; a value that does not fit its column always fails."""
        import pyarrow as pa

        tables = [batch_to_arrow(batch, schema_json, number) for number, batch in self._batches(items)]
        schema = struct(schema_json)
        if not tables:
            return empty(session, schema_json)
        rows = pa.concat_tables(tables)
        if self.gives_places:
            for name, places in zip(PLACES, places_of(0, 0, len(rows)), strict=True):
                rows, schema = rows.append_column(name, places), schema.add(name, "long")
        return session.createDataFrame(rows, schema=schema)

    @property
    @override
    def knows_places(self) -> bool:
        return True

    def explain_failure(self, *_: object) -> SourceError | None:
        """Nothing: values are looked at before the engine sees them."""
        return None

    def largest_event_time(self, items: JSON, column: str) -> int | Unknown | None:
        """The largest timestamp of a column; ``UNKNOWN`` if a value is none."""
        moments: list[int] = []
        for _, batch in self._batches(items):
            for value in batch_values(batch, column, self._names()):
                micros = _micros(value)
                if micros is UNKNOWN:
                    return UNKNOWN
                if micros is not None:
                    moments.append(micros)
        return max(moments, default=None)

    def null_count(self, items: JSON, column: str) -> int:
        """How many rows have None in a column."""
        count = 0
        for _, batch in self._batches(items):
            count += sum(value is None for value in batch_values(batch, column, self._names()))
        return count

    def pin(self) -> JSON:
        """The batches there are now."""
        return list(range(len(self.batches)))

    def read_pinned(self, session: SparkSession, pin: JSON, schema_json: str) -> DataFrame:
        """All rows of the pinned batches."""
        return self.read(session, pin, schema_json)

    def _names(self) -> list[str]:
        return list(Schema.from_ddl(self.schema).names) if self.schema is not None else []

    def _batches(self, items: JSON) -> list[tuple[int, Batch]]:
        numbers = items if isinstance(items, list) else []
        missing = [number for number in numbers if number >= len(self.batches)]
        if missing:
            raise MissingInputError(
                f"batch {missing[0]} of the epoch is not in the memory source, which has {len(self.batches)}",
                remedy="rows in memory do not outlive the process: define the source with the same batches again",
            )
        return [(number, self.batches[number]) for number in numbers]


def _micros(value: object) -> int | Unknown | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return UNKNOWN
    if isinstance(value, datetime):
        return to_micros(value)
    return None if value is None else UNKNOWN
