"""What goes from one round of a scope to the next: rows on their way to another subtask, and what each subtask knows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.operators.frontier.routes import ROUTE
from dagster_operators.operators.frontier.time_text import time_of, time_text
from dagster_operators.time.codec import decode_time, encode_time
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.reachability import InputOf, Location, OutputOf

if TYPE_CHECKING:
    import pyarrow as pa

TRAVELLING: Final = f"{ROUTE} bigint, node string, input int, at string, hops int, rows binary"
"""The columns of rows that travel: many rows of one time and key group in one."""

TOLD: Final = "told string"
"""The column of what subtasks tell each other."""

_ROWS: Final = 50_000


@dataclass(frozen=True)
class Parcel:
    """Rows of one time on their way to an input of an operator.

    Attributes:
        route: Where to.
        reader: The operator's name and the number of the input.
        time: Their time.
        hops: How often they went around.
        rows: The rows.
    """

    route: int
    reader: tuple[str, int]
    time: Any
    hops: int
    rows: pa.Table


def packed(parcels: Iterable[Parcel]) -> pa.Table:
    """Parcels as rows of ``TRAVELLING``."""
    import pyarrow as pa

    from dagster_operators.types.schema import Schema

    schema = Schema.from_ddl(TRAVELLING).to_arrow()
    found = [
        dict(zip(schema.names, (one.route, *one.reader, time_text(one.time), one.hops, data), strict=True))
        for one in parcels
        for data in written(one.rows)
    ]
    return pa.Table.from_pylist(found, schema)


def unpacked(batch: pa.RecordBatch) -> Iterator[Parcel]:
    """What :func:`packed` packed."""
    for row in batch.to_pylist():
        yield Parcel(row[ROUTE], (row["node"], row["input"]), time_of(row["at"]), row["hops"], rows_of(row["rows"]))


def written(rows: pa.Table) -> Iterator[bytes]:
    """Rows as bytes, so many at once that each part can be held in memory."""
    import pyarrow as pa

    for batch in rows.combine_chunks().to_batches(max_chunksize=_ROWS):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def rows_of(data: bytes) -> pa.Table:
    """The rows that ``written`` wrote."""
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()


@dataclass
class Told:
    """What one subtask, or all together, know at the end of a round.

    Attributes:
        number: The round's number.
        frontiers: The frontiers that operators were told of in it, and those of what leaves; the same in all subtasks.
        held: The times held at outputs of operators.
        sent: The times of rows on their way to other subtasks, by the inputs that they are for.
        holders: What holds which times, as they are outside.

    >>> told = Told(3, {InputOf("a", 0): Frontier([5])}, {OutputOf("a", 0): [5, 5]})
    >>> together = Told.together([told.to_json(), Told(3, told.frontiers, sent={InputOf("a", 0): [7]}).to_json()])
    >>> together.number, together.held, together.sent
    (3, {OutputOf(node='a', port=0): [5, 5]}, {InputOf(node='a', port=0): [7]})
    """

    number: int
    frontiers: Mapping[Location, Frontier]
    held: Mapping[Location, Sequence[Any]] = field(default_factory=dict)
    sent: Mapping[Location, Sequence[Any]] = field(default_factory=dict)
    holders: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def to_json(self) -> str:
        """As text."""
        return json.dumps(
            {
                "number": self.number,
                "frontiers": _plain(self.frontiers),
                "held": _plain(self.held),
                "sent": _plain(self.sent),
                "holders": {place: list(map(encode_time, times)) for place, times in self.holders.items()},
            }
        )

    @classmethod
    def together(cls, texts: Sequence[str]) -> Told | None:
        """What all subtasks told in the newest round that any tells of; None without any."""
        every = list(map(json.loads, texts))
        newest = max((one["number"] for one in every), default=None)
        if newest is None:
            return None
        own = [one for one in every if one["number"] == newest]
        holders = defaultdict[str, list[Any]](list)
        for one in own:
            for place, times in one["holders"].items():
                holders[place] += map(decode_time, times)
        frontiers = {location: Frontier(times) for location, times in _joined([own[0]], "frontiers").items()}
        return cls(newest, frontiers, _joined(own, "held"), _joined(own, "sent"), dict(holders))


def _plain(times: Mapping[Location, Iterable[Any]]) -> list[Any]:
    return [
        [isinstance(location, OutputOf), location.node, location.port, list(map(encode_time, found))]
        for location, found in times.items()
    ]


def _joined(several: Sequence[Mapping[str, Any]], what: str) -> dict[Location, list[Any]]:
    found = defaultdict[Location, list[Any]](list)
    for one in several:
        for is_output, node, port, times in one[what]:
            found[OutputOf(node, port) if is_output else InputOf(node, port)] += map(decode_time, times)
    return dict(found)
