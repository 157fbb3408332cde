"""The order of messages of sources: by time, node, and place there, however the rows are cut into epochs.

A row waits until no row can come that is before it. Rows at a source's watermark itself need not wait for further rows of that
source, which come behind them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.graph.places import FILE, PLACE, UNPLACED
from dagster_operators.operators.batch_operator import NUMBERS, ORIGIN, SEQUENCE
from dagster_operators.operators.events.closings import Closings, Turn, known_early
from dagster_operators.operators.events.message import Message
from dagster_operators.operators.events.message_rows import SourceMessages
from dagster_operators.operators.events.value_digest import digest_of
from dagster_operators.operators.events.wiring import EventSource
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

_EPOCH: Final = 40
"""The bits of a row's number within its epoch."""

_TIME: Final = "__do_time"
"""The time of a row that waits between epochs: the column may have another name in the next one."""

Place: TypeAlias = tuple[Any, ...]
"""A row's place in the order: time, rank of its node, and what decides between rows of one time and node."""


class _Content:
    """The content of a row as it stands in an order, made where a row of the same time and node is compared with it.

    Args:
        rows: The batch that the row is in.
        number: Which row of the batch it is.
    """

    __slots__ = ("_key", "_number", "_rows")

    def __init__(self, rows: pa.RecordBatch, number: int) -> None:
        self._rows = rows
        self._number = number
        self._key = ""

    @property
    def key(self) -> str:
        """A text that rows of equal content have."""
        if not self._key:
            row = self._rows.slice(self._number, 1)
            try:
                self._key = repr(row.to_pylist())
            except (OverflowError, ValueError):  # a time that Python's calendar does not reach
                self._key = repr([digest_of(column).hex() for column in row.columns])
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self.key == other.key

    def __lt__(self, other: _Content) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(slots=True)
class Waiting:
    """A row of a source that waits for its turn.

    Attributes:
        place: Its place in the order.
        key: The value that its operators are partitioned by.
        port: The number of its source.
        messages: The messages that it is, with the addresses of their outputs.
        rows: The batch that it is in.
        number: Which row of the batch it is.
    """

    place: Place
    key: Any
    port: int
    messages: list[tuple[str, Message]]
    rows: pa.RecordBatch
    number: int

    @property
    def time(self) -> int:
        """Its time."""
        return int(self.place[0])

    @property
    def turn(self) -> Turn:
        """Its time, and the rank of its node."""
        return self.place[0], self.place[1]


class MessageOrder:
    """The rows of sources, in one order.

    Args:
        sources: The sources.
        time: The column with the time.
        partition_by: The column that operators are partitioned by; empty if they are not.
        begin: The watermark as the epoch begins: earlier rows are late.

    Attributes:
        closings: Where sources that have ended are closed among the rows.
    """

    def __init__(self, sources: Sequence[EventSource], time: str, partition_by: str, begin: int) -> None:
        self._sources = sources
        self._messages = [SourceMessages(one, time) for one in sources]
        self._time = time
        self._by = partition_by
        self._begin = begin
        names = sorted(one.node for one in sources)
        self._ranks = [names.index(one.node) for one in sources]
        self._limits = [MIN_WATERMARK - 1] * len(sources)
        self._until = MAX_WATERMARK
        self._due: list[Waiting] = []
        self._later: list[Waiting] = []
        self.closings = Closings({}, self._ranks, self._limits)

    def move(self, marks: Sequence[int]) -> None:
        """Let rows be due that no row can come before.

        Args:
            marks: The watermark of each source.
        """
        self._limits = [self._limit(port, marks) for port in range(len(marks))]
        later, self._later = self._later, []
        self._sort_in(later)

    def expect(self, marks: Sequence[int], last: Sequence[int]) -> None:
        """Let sources be closed, as far as that is known before the rows of the epoch have come.

        Args:
            marks: The watermark that each source has when they have.
            last: The last event time of each one's sources, if it is known.
        """
        ended, self._until = known_early(self._sources, marks, last)
        self.closings = Closings(ended, self._ranks, self._limits)

    def end(self, marks: Sequence[int], last: Sequence[int]) -> None:
        """Let sources be closed, now that all rows of the epoch are there.

        Args:
            marks: The watermark of each source.
            last: The last event time of each one's sources.
        """
        ended = {port: last[port] if last else MIN_WATERMARK for port, mark in enumerate(marks) if mark == MAX_WATERMARK}
        self.closings = Closings(ended, self._ranks, self._limits, chain(self._due, self._later))

    def _limit(self, port: int, marks: Sequence[int]) -> int:
        """The last time of a source's rows that are due."""
        found = MAX_WATERMARK
        for other, mark in enumerate(marks):
            comes_behind = self._ranks[other] > self._ranks[port] or (other == port and not self._sources[port].derived)
            inclusive = comes_behind or mark == MAX_WATERMARK
            found = min(found, mark if inclusive or mark == MIN_WATERMARK else mark - 1)
        return found if found > MIN_WATERMARK else MIN_WATERMARK - 1

    def put(self, port: int, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """Take rows of a source; those of them that are too late, without their numbers."""
        late = None
        if self._begin > MIN_WATERMARK:
            times = rows.column(self._time).cast(pa.timestamp("us")).cast(pa.int64())
            is_late = pc.fill_null(pc.less(times, min(self._begin, MAX_WATERMARK)), True)  # noqa: FBT003
            if pc.any(is_late).as_py():
                late = rows.filter(is_late)
                late = late.select([name for name in late.schema.names if name not in NUMBERS])
                rows = rows.filter(pc.invert(is_late))
        self._sort_in(self._waiting(port, rows))
        return late

    def put_back(self, port: int, rows: pa.RecordBatch, schema: pa.Schema) -> None:
        """Take rows that waited as the epoch before ended.

        Args:
            port: The number of their source.
            rows: The rows.
            schema: The columns that the source has now: those that the rows lack are null, and others are left out.
        """
        rows = rows.rename_columns([self._time if name == _TIME else name for name in rows.schema.names])
        there = rows.schema.names
        columns = {
            field.name: rows.column(field.name) if field.name in there else pa.nulls(rows.num_rows, field.type)
            for field in schema
        }
        numbers = {name: rows.column(name) for name in there if name in NUMBERS}
        self._sort_in(self._waiting(port, pa.record_batch(columns | numbers)))

    def before(self, time: int) -> list[Waiting]:
        """The rows that are due before a time, in their order; none behind a closing whose place is not known yet."""
        time = min(time, self._until)
        self._due.sort(key=_place)
        count = next((number for number, one in enumerate(self._due) if one.time >= time), len(self._due))
        found, self._due = self._due[:count], self._due[count:]
        return found

    def due(self) -> list[Waiting]:
        """All rows that are due, in their order."""
        found, self._due = sorted(self._due, key=_place), []
        return found

    def rest(self) -> Mapping[Any, Mapping[str, list[pa.RecordBatch]]]:
        """The rows that wait for later epochs, by the operators' key and the name under which those of their source are kept."""
        grouped: dict[Any, dict[int, dict[int, list[Waiting]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        for one in sorted(self._later, key=_place):
            grouped[one.key][one.port][id(one.rows)].append(one)
        return {
            key: {self._sources[port].kept_as: [self._kept(some) for some in parts.values()] for port, parts in ports.items()}
            for key, ports in grouped.items()
        }

    def nodes_waiting(self) -> Mapping[Any, set[str]]:
        """The nodes with rows that wait for later epochs, by the value that operators are partitioned by."""
        found: dict[Any, set[str]] = defaultdict(set)
        for one in self._later:
            found[one.key].add(self._sources[one.port].node)
        return found

    def _kept(self, some: Sequence[Waiting]) -> pa.RecordBatch:
        rows = some[0].rows.take(pa.array([one.number for one in some], pa.int64()))
        return rows.rename_columns([_TIME if name == self._time else name for name in rows.schema.names])

    def _sort_in(self, rows: Iterable[Waiting]) -> None:
        for one in rows:
            (self._due if one.time <= self._limits[one.port] else self._later).append(one)

    def _waiting(self, port: int, rows: pa.RecordBatch) -> Iterator[Waiting]:
        keys = rows.column(self._by).to_pylist() if self._by else [None] * rows.num_rows
        tie, rank = self._ties(port, rows), self._ranks[port]
        for number, (key, (time, messages)) in enumerate(zip(keys, self._messages[port].of(rows), strict=True)):
            yield Waiting((time, rank, *tie(number)), key, port, messages, rows, number)

    def _ties(self, port: int, rows: pa.RecordBatch) -> Callable[[int], Place]:
        """What decides between rows of one time and node: the place there; of what operators put out, the content."""
        if self._sources[port].derived:
            own = rows.select([name for name in rows.schema.names if name not in NUMBERS])
            return lambda number: (_Content(own, number),)
        origins, numbers = rows.column(ORIGIN).to_pylist(), rows.column(SEQUENCE).to_pylist()
        files, places = (
            rows.column(name).to_pylist() if name in rows.schema.names else [UNPLACED] * rows.num_rows for name in (FILE, PLACE)
        )
        return lambda number: (
            numbers[number] >> _EPOCH, origins[number], files[number], places[number], numbers[number]
        )  # fmt: skip


def _place(one: Waiting) -> Place:
    return one.place
