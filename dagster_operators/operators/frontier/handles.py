"""What the logic of an operator reads its rows from, and puts them out to: Arrow batches by time.

The time of a row is beside its columns, and in one of them: the stream's event time. An input cuts batches by it; an output
writes the time of the capability there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dagster_operators.errors import CapabilityError, PipelineError, SchemaError
from dagster_operators.graph.conform import conform
from dagster_operators.operators.frontier.capability import Capability, InputCapability, Outlet
from dagster_operators.time.antichain import MinimalTimes
from dagster_operators.types.exact_cast import exact_array

if TYPE_CHECKING:
    from typing import Self

    from dagster_operators.operators.frontier.time_columns import TimeColumns
    from dagster_operators.operators.worker_program import ProgramOutput, Rows


_LITTLE: Final = 1_000
"""Tables of fewer rows than this on average are put together: whoever writes them would spend its time on each."""


class InputHandle:
    """The rows of an input that are there now.

    Args:
        number: Which input it is.
        outlets: The operator's outputs.
        summaries: For each of them what the way there does to times.
        sees_frontier: Whether the operator is one that is told about frontiers.
    """

    def __init__(
        self, number: int, outlets: Sequence[Outlet], summaries: Sequence[Sequence[Any]] | None, *, sees_frontier: bool
    ) -> None:
        self.number = number
        self._outlets = outlets
        self._summaries = summaries
        self._sees_frontier = sees_frontier
        self._queue: list[tuple[InputCapability, pa.RecordBatch]] = []
        self._frontier: MinimalTimes | None = None

    @property
    def frontier(self) -> MinimalTimes:
        """The times that rows may still come with: a time is complete when ``not input.frontier.less_equal(time)``.

        Raises:
            PipelineError: The operator is of a kind that is not told about frontiers.
        """
        if self._frontier is None or not self._sees_frontier:
            raise PipelineError("this kind of operator is not told about frontiers", remedy="use unary_frontier, binary_frontier")
        return self._frontier

    def __iter__(self) -> Iterator[tuple[InputCapability, pa.RecordBatch]]:
        """The batches that are there, each with its time, in the order in which they came; each is given once."""
        queue, self._queue = self._queue, []
        yield from queue

    def for_each(self, logic: Callable[[InputCapability, pa.RecordBatch], object]) -> None:
        """Call the logic with each batch that is there and its time, in the order in which they came."""
        for capability, batch in self:
            logic(capability, batch)

    def by_time(self) -> Iterator[tuple[InputCapability, list[pa.RecordBatch]]]:
        """The batches that are there, all of one time together, in the order of time."""
        found: dict[Any, tuple[InputCapability, list[pa.RecordBatch]]] = {}
        for capability, batch in self:
            found.setdefault(capability.time, (capability, []))[1].append(batch)
        for time in sorted(found):
            yield found[time]

    def for_each_time(self, logic: Callable[[InputCapability, list[pa.RecordBatch]], object]) -> None:
        """Call the logic with each time of which rows are there, in the order of time, and its batches."""
        for capability, batches in self.by_time():
            logic(capability, batches)

    # --- what the program does with it -------------------------------------------------------------------------------

    def put(self, parts: Iterable[tuple[Any, pa.RecordBatch]]) -> list[InputCapability]:
        """Add rows with their times; the capabilities that they bring."""
        brought = [(InputCapability(time, self._outlets, self._summaries), batch) for time, batch in parts]
        self._queue += brought
        return [capability for capability, _ in brought]

    def move(self, frontier: MinimalTimes) -> None:
        """Let the frontier move."""
        self._frontier = frontier

    @property
    def is_empty(self) -> bool:
        """Whether all rows that came were read."""
        return not self._queue


class OutputHandle:
    """An output of an operator.

    Args:
        outlet: What is held at it.
        schema: Its columns, the time among them; within a loop those without the time, and None if none were declared.
        time: The columns with the time; None within a loop, where times are beside the rows alone.
        left_out: Columns that rows may have and the output does not: those with the time of the input, where that is another.

    Attributes:
        floor: What rows may be put out at, whatever the logic was given: nothing behind it.
        output_index: Its number, for ``retain`` and ``delayed`` of the capabilities of inputs.
    """

    floor: MinimalTimes | None = None

    def __init__(self, outlet: Outlet, schema: pa.Schema | None, time: TimeColumns | None, left_out: Sequence[str] = ()) -> None:
        self.outlet = outlet
        self.output_index = outlet.number
        self._schema = schema
        self._time = time
        self._names = () if time is None else (*time.names, *left_out)
        self._data = None if schema is None else pa.schema([field for field in schema if field.name not in self._names])
        self._tables: list[pa.Table] = []
        self._times: list[Any] = []
        self._rows: list[Mapping[str, Any]] = []

    def session(self, capability: Capability | InputCapability) -> Session:
        """Put rows out at the time of a capability.

        Raises:
            CapabilityError: It was dropped, is for another output, or brings nothing of its time here.
        """
        if isinstance(capability, InputCapability):
            capability.check(self.outlet)
        elif not isinstance(capability, Capability):
            raise CapabilityError(
                f"{capability!r} is no capability", output=self.outlet.name,
                remedy="give the one that came with the rows, or one that was kept",
            )  # fmt: skip
        elif capability.outlet is not self.outlet:
            raise CapabilityError(
                f"a capability of the output {capability.outlet.name!r} is used for the output {self.outlet.name!r}",
                output=self.outlet.name, remedy=f"take one for this output: retain({self.outlet.number})",
            )  # fmt: skip
        if self.floor is not None and not self.floor.less_equal(capability.time):
            raise CapabilityError(
                f"rows are put out at {capability.time!r}, and the output has come to {list(self.floor)!r} already",
                output=self.outlet.name, remedy="let the function that gives the new times give no earlier one for a later time",
            )  # fmt: skip
        return Session(self, capability)

    def give(self, time: Any, row: Mapping[str, Any]) -> None:
        """Put out one row."""
        if self._rows and self._times[-1] != time:
            self._close_rows()
        if not self._rows:
            self._times.append(time)
        self._rows.append(row)

    def give_batch(self, time: Any, rows: Rows) -> None:
        """Put out rows."""
        self._close_rows()
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if isinstance(table, pa.Table) and self._schema is not None and self._names and table.schema.equals(self._schema):
            self._tables.append(table)  # its time is taken out of many tables at once
            self._times.append(time)
            return
        if isinstance(table, pa.Table) and self._names:
            names = table.column_names
            there = [name for name in self._names if name in names]
            table = table.drop_columns(there) if there else table
        self._tables.append(table if self._data is None else conform(table, self._data))
        self._times.append(time)

    def flush(self, out: ProgramOutput) -> None:
        """Hand on what was put out, with the column of the time."""
        parts = self.take()
        if not parts or self._schema is None or self._time is None:
            return
        lengths = [table.num_rows for _, table in parts]
        rows = self._together([table for _, table in parts], self._time.names, len(self._schema))
        if rows.num_rows < _LITTLE * len(parts):
            rows = rows.combine_chunks()
        for name, moments in self._time.filled([time for time, _ in parts], lengths, self._schema, self.outlet.name):
            rows = rows.append_column(name, moments)
        out.collect(rows.select(self._schema.names), self.outlet.name)

    @staticmethod
    def _together(tables: Sequence[pa.Table], names: Sequence[str], count: int) -> pa.Table:
        """Tables as one, without the columns of the time, which those of so many columns still have."""
        timed = [table.num_columns == count for table in tables]
        if all(timed):
            return pa.concat_tables(tables).drop_columns(list(names))
        pairs = zip(tables, timed, strict=True)
        return pa.concat_tables([table.drop_columns(list(names)) if has_time else table for table, has_time in pairs])

    def take(self) -> list[tuple[Any, pa.Table]]:
        """What was put out since this was last asked, with its times."""
        self._close_rows()
        tables, times, self._tables, self._times = self._tables, self._times, [], []
        return list(zip(times, tables, strict=True))

    def _close_rows(self) -> None:
        rows, self._rows = self._rows, []
        if rows and self._data is None:
            raise PipelineError(
                "single rows are put out within a scope, and their columns are not declared", remedy='declare them: schema="..."'
            )
        if rows and self._data is not None:
            wanted = set(self._data.names)
            plain = [{name: value for name, value in row.items() if name not in self._names} for row in rows]
            names = sorted(set().union(*plain) - wanted)
            if names:
                raise PipelineError(
                    f"the output has no column {names[0]!r}", column=names[0], remedy=f"it has: {', '.join(self._data.names)}"
                )
            self._tables.append(_table_of(plain, self._data))


def _table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        try:
            columns.append(exact_array([row.get(field.name) for row in rows], field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"a value does not fit the column's type {field.type}: {str(error).splitlines()[0]}",
                column=field.name,
                remedy="give one of that type, or declare the other type: schema=",
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


class Session:
    """Puts rows out at one time, for as long as the capability that it was opened with allows it.

    Attributes:
        time: The time.
    """

    def __init__(self, output: OutputHandle, capability: Capability | InputCapability) -> None:
        self._output = output
        self._capability = capability
        self.time = capability.time

    def give(self, row: Mapping[str, Any] | None = None, /, **columns: Any) -> None:
        """Put out one row, as a mapping or by its columns. Whole batches are far quicker."""
        self._check()
        self._output.give(self.time, {**(row or {}), **columns})

    def give_iterator(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Put out rows one by one."""
        self._check()
        for row in rows:
            self._output.give(self.time, row)

    def give_batch(self, rows: Rows) -> None:
        """Put out a batch or table; if it has the column with the time, the session's time replaces it.

        Raises:
            SchemaError: The rows do not have the output's columns.
        """
        self._check()
        self._output.give_batch(self.time, rows)

    def give_batches(self, batches: Iterable[Rows]) -> None:
        """Put out batches or tables."""
        for rows in batches:
            self.give_batch(rows)

    def _check(self) -> None:
        """Refuse to put out what the capability allows no more: it was dropped or downgraded, or the rows are gone."""
        if isinstance(self._capability, InputCapability):
            self._capability.check(self._output.outlet)
        elif self._capability.outlet is not self._output.outlet or self._capability.time != self.time:
            raise CapabilityError(
                f"the session at {self.time!r} is used after its capability was downgraded to {self._capability.time!r}",
                output=self._output.outlet.name, remedy="put the rows out before, or open another session",
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing has to be closed: rows go on when the logic returns."""
