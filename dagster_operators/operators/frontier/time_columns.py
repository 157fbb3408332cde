"""The columns in which the rows of a stream have their time: one for event times, one for each part of other times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dagster_operators.errors import CapabilityError
from dagster_operators.operators.frontier.cut_by_time import apart_from_late, cut_by_time, is_constant, whole_numbers
from dagster_operators.time.codec import know
from dagster_operators.time.kinds import assembled, fits, kind_text, names_of, parts_of, taken_apart
from dagster_operators.time.product import Product

if TYPE_CHECKING:
    from dagster_operators.time.antichain import MinimalTimes


@dataclass(frozen=True)
class TimeColumns:
    """Where rows have their time.

    Attributes:
        names: The columns.
        kind: The kind of the times.

    >>> TimeColumns.of(Product(datetime, int), "t").names
    ('t', 't_1')
    """

    names: tuple[str, ...]
    kind: Any = datetime

    def __post_init__(self) -> None:
        _make_known(self.kind)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _make_known(self.kind)

    @classmethod
    def of(cls, kind: Any, first: str) -> TimeColumns:
        """Those of a kind of times, by the name of the first."""
        return cls(names_of(kind, first), kind)

    @property
    def is_plain(self) -> bool:
        """Whether the times are whole numbers in one column."""
        return self.kind is datetime or self.kind is int

    def is_constant(self, batch: pa.RecordBatch) -> bool:
        """Whether all rows have the same time."""
        return all(is_constant(part) for part in self._parts(batch))

    def cut(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """The rows of each time, in an order in which no time comes after one that it is before; rows of one in theirs."""
        if self.is_plain:
            yield from cut_by_time(batch, self.names[0])
            return
        parts = self._parts(batch)
        order = np.lexsort(parts[::-1])
        batch, parts = batch.take(pa.array(order)), [part[order] for part in parts]
        changes = np.flatnonzero(np.any([part[1:] != part[:-1] for part in parts], axis=0)) + 1
        borders = [0, *changes.tolist(), batch.num_rows] if batch.num_rows else []
        found = [(self._time(parts, start), batch.slice(start, end - start)) for start, end in pairwise(borders)]
        yield from sorted(found, key=lambda pair: pair[0])

    def apart_from_late(self, batch: pa.RecordBatch, frontier: MinimalTimes) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The rows that may still come at a frontier, and those that may not, if there are any."""
        if self.is_plain:
            return apart_from_late(batch, self.names[0], frontier)
        timely, late = list[pa.RecordBatch](), list[pa.RecordBatch]()
        for time, rows in self.cut(batch):
            (timely if frontier.less_equal(time) else late).append(rows)
        if not late:
            return batch, None
        return pa.concat_batches([batch.slice(0, 0), *timely]), pa.concat_batches(late)

    def filled(self, times: Sequence[Any], lengths: Sequence[int], schema: pa.Schema, output: str) -> list[tuple[str, pa.Array]]:
        """The columns for runs of rows, each of one time.

        Raises:
            CapabilityError: A time is not of the kind, or none that a row can have.
        """
        kind = self.kind
        wrong = next((time for time in times if not fits(kind, time)), None)
        if wrong is not None:
            raise CapabilityError(
                f"rows are put out at {wrong!r}, which is no time that a row can have", output=output,
                remedy=_remedy(self.kind),
            )  # fmt: skip
        plain = times if self.is_plain else list(map(taken_apart, times))
        parts = np.array(plain, np.int64).reshape(len(times), len(self.names))
        columns = np.repeat(parts, lengths, axis=0)
        return [(name, pa.array(columns[:, place]).cast(schema.field(name).type)) for place, name in enumerate(self.names)]

    def fields(self, first: pa.Schema, given: TimeColumns) -> list[pa.Field]:
        """The columns as fields, for rows that come with columns of a time already."""
        before = first.field(given.names[0]).type
        moment = before if pa.types.is_timestamp(before) else pa.timestamp("us", "UTC")
        kinds = [moment if part is datetime else pa.int64() for part in parts_of(self.kind)]
        return [pa.field(name, kind) for name, kind in zip(self.names, kinds, strict=True)]

    def _parts(self, batch: pa.RecordBatch) -> list[np.ndarray]:
        return [whole_numbers(batch, name) for name in self.names]

    def _time(self, parts: Sequence[np.ndarray], place: int) -> Any:
        return assembled(self.kind, [int(part[place]) for part in parts])


def _remedy(kind: Any) -> str:
    if kind is datetime:
        return "times are whole microseconds since 1970, of 64 bits: delay to an earlier one"
    return f"the output has times of the kind {kind_text(kind)}, of whole numbers of 64 bits: give such a time"


def _make_known(kind: Any) -> None:
    """Make the classes of times in a kind known to whoever reads what was stored."""
    for inner in (kind.outer, kind.inner) if isinstance(kind, Product) else kind if isinstance(kind, tuple) else ():
        _make_known(inner)
    if isinstance(kind, type) and kind not in (int, datetime):
        know(kind)
