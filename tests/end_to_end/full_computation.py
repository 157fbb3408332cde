"""What a pipeline should come to, computed in plain Python over all rows at once: the other side of the property tests.

Only one thing depends on how the input is cut, and the design says how: a row is late for a window that ended at or before the
watermark with which the row's epoch began.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

SECOND = 1_000_000
START, END = -math.inf, math.inf
NAMES = {"a": "Ann", "b": "Bob"}
"""The lookup table: names by letter."""


@dataclass(frozen=True)
class Row:
    """An input row: a key of any type, a number, a letter, and the event time in microseconds."""

    k: Any
    v: int | None
    s: str | None
    ts: int

    def as_dict(self) -> dict[str, Any]:
        return {"k": self.k, "v": self.v, "s": self.s, "ts": moment(self.ts)}

    @property
    def is_kept(self) -> bool:
        return self.v is None or self.v % 5 != 0


@dataclass(frozen=True)
class Scenario:
    """Rows, how they are cut into epochs, and the pipeline's settings; times in seconds.

    Attributes:
        key_type: The type of column ``k``.
        sources: The epochs of every source; several are united.
        lateness: Of every source.
        size: Of all windows.
        slide: Of the sliding ones.
        offset: Of all windows.
        partitions: How many ways rows are spread and shuffled, epoch by epoch, over and over.
        rows_per_file: Up to how many rows files of an updating table are joined.
        here: Up to how many bytes they are written anew without the engine.
        tier_length: How many files of state make it be folded.
        restart: Whether every epoch runs in a pipeline object of its own.
    """

    key_type: str
    sources: tuple[list[list[Row]], ...]
    lateness: int
    size: int
    slide: int
    offset: int
    partitions: tuple[int, ...]
    rows_per_file: int
    here: int
    tier_length: int
    restart: bool

    def epochs(self) -> Iterator[tuple[list[Row], float]]:
        """The rows of every epoch that the filter keeps, with the watermark that the epoch began with."""
        marks = [START for _ in self.sources]
        for number in range(max(1, *map(len, self.sources))):
            read = [epochs[number] if number < len(epochs) else [] for epochs in self.sources]
            yield [row for rows in read for row in rows if row.is_kept], min(marks)
            for index, rows in enumerate(read):
                marks[index] = max([marks[index], *(row.ts - self.lateness * SECOND for row in rows)])
                if number + 1 >= len(self.sources[index]):
                    marks[index] = END


def moment(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def plain(value: Any) -> Any:
    """A value such that equal ones are one dictionary key: NaN is one, -0.0 is 0.0, moments are in UTC."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def starts_of(ts: int, size: int, slide: int, offset: int) -> list[int]:
    """The starts of the windows that hold a moment, by trying all."""
    size, slide, offset = size * SECOND, slide * SECOND, offset * SECOND
    first = (ts - size - offset) // slide
    last = (ts - offset) // slide + 1
    return [start for number in range(first, last + 1) if (start := number * slide + offset) <= ts < start + size]


def figures(rows: list[Row]) -> tuple[Any, ...]:
    """The aggregates that the pipeline asks for, of one group."""
    numbers = [row.v for row in rows if row.v is not None]
    letters = sorted({row.s for row in rows if row.s is not None})
    _, _, last = max((row.ts, row.s is not None, row.s or "") for row in rows)
    newest = last if any(row.ts == max(r.ts for r in rows) and row.s is not None for row in rows) else None
    return (
        len(rows),
        sum(numbers) if numbers else None,
        min(numbers, default=None),
        max(numbers, default=None),
        sum(numbers) / len(numbers) if numbers else None,
        len(letters),
        tuple(letters),
        newest,
    )


@dataclass(frozen=True)
class Results:
    """The rows of every table, each counted, and how many rows came too late for each operator."""

    tables: dict[str, Counter[Any]]
    late: dict[str, int]


def compute(scenario: Scenario) -> Results:
    """What the pipeline's tables hold once its sources are finished."""
    epochs = list(scenario.epochs())
    rows = [row for kept, _ in epochs for row in kept]
    tumbling, late_tumbling = _windows(scenario, epochs, scenario.size)
    sliding, late_sliding = _windows(scenario, epochs, scenario.slide)
    groups = _grouped(rows)
    totals = {key: figures(members) for key, members in groups.items()}
    tables = {
        "kept": Counter(
            (plain(row.k), row.v, row.s, plain(moment(row.ts)), (row.v or 0) * 2, NAMES.get(row.s or "")) for row in rows
        ),
        "tumbling": tumbling,
        "sliding": sliding,
        "coarse": _coarse(scenario, tumbling),
        "totals": Counter((key, *values) for key, values in totals.items()),
        "busy": Counter((key, values[0]) for key, values in totals.items() if (values[1] or 0) > 2),
    }
    return Results(tables, {"per_window": late_tumbling, "per_slide": late_sliding})


def _grouped(rows: list[Row]) -> dict[Any, list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[plain(row.k)].append(row)
    return groups


def _windows(scenario: Scenario, epochs: list[tuple[list[Row], float]], slide: int) -> tuple[Counter[Any], int]:
    """The rows of a windowed aggregate, and how many input rows came after all their windows had ended."""
    size = scenario.size
    members: dict[tuple[Any, int], list[Row]] = defaultdict(list)
    late = 0
    for kept, watermark in epochs:
        for row in kept:
            holding = starts_of(row.ts, size, slide, scenario.offset)
            still_open = [start for start in holding if start + size * SECOND > watermark]
            late += bool(holding) and not still_open
            for start in still_open:
                members[plain(row.k), start].append(row)
    return Counter(
        (key, moment(start), moment(start + size * SECOND), *figures(rows)) for (key, start), rows in members.items()
    ), late


def _coarse(scenario: Scenario, tumbling: Counter[Any]) -> Counter[Any]:
    """Windows three times as long over the windows; no row of those can be late."""
    size, offset = 3 * scenario.size * SECOND, scenario.offset * SECOND
    counts: Counter[Any] = Counter()
    for window in tumbling.elements():
        micros = (window[1] - moment(0)) // timedelta(microseconds=1)
        start = micros - (micros - offset) % size
        counts[window[0], moment(start)] += window[3]
    return Counter((key, start, n) for (key, start), n in counts.items())
