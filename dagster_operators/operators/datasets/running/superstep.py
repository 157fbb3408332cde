"""A superstep of an iteration as a record: all that another attempt needs to go on behind it, and where its rows are.

A record is read from a storage root that somebody else may have changed: a digest tells damage, names of files have a form that
stays in their folder, and values are read back as those of rows are.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Final

from dagster_operators.errors import StorageError
from dagster_operators.operators.datasets.running.exchange_files import Chunk, Stored
from dagster_operators.operators.datasets.running.packed_rows import packed, unpacked

FORMAT: Final = 2
"""The version of the form of records. A record of another one is not read."""

_FILE: Final = re.compile(r"[\w-]+\.(rows|parquet)")
_BEGIN_ANEW: Final = "run again: the iteration begins at its first superstep"


@dataclass(frozen=True)
class Superstep:
    """An iteration behind one of its supersteps, with the rest of the program as it is then.

    Attributes:
        iteration: The iteration's place among those of the plan.
        number: The number of the superstep, from 1.
        ends: Whether it is the iteration's last one.
        workset: The rows that go round: the workset, or the partial solution of a bulk iteration.
        solution: The solution set; None of a bulk iteration.
        stored: The other data sets that are read later, by number.
        fragments: The places of the plan's fragments that have run.
        iterations: The places of the iterations that have ended.
        aggregators: The value of each aggregator in the superstep.
        accumulators: The values of the functions' accumulators so far.
        supersteps: The number of supersteps of each iteration so far.
        rows: The number of rows that came out of each operator so far.
        sinks: The rows of sinks so far, by the sink's name.
        plan: A digest of the plan.
        identity: A digest of the work, of which the rows are.
        inputs: The rows of each stream that came in.
        ways: In how many parts each operator worked by columns, and by rows, so far, by its name and the word.
    """

    iteration: int
    number: int
    ends: bool
    workset: Stored
    solution: Stored | None
    stored: Mapping[int, Stored]
    fragments: tuple[int, ...]
    iterations: tuple[int, ...]
    aggregators: Mapping[str, Any]
    accumulators: Mapping[str, Any]
    supersteps: Mapping[str, int]
    rows: Mapping[str, int]
    sinks: Mapping[str, tuple[Chunk, ...]]
    plan: str
    identity: str = ""
    inputs: tuple[tuple[Chunk, ...], ...] = field(default=())
    ways: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def progress(self) -> tuple[int, int]:
        """How far the work is: more is later."""
        return len(self.iterations), self.number

    @property
    def chunks(self) -> list[Chunk]:
        """All rows that the record names."""
        sets = [self.workset, *self.stored.values(), *([] if self.solution is None else [self.solution])]
        lists = [*(stored.chunks for stored in sets), *self.sinks.values(), *self.inputs]
        return [chunk for chunks in lists for chunk in chunks]

    @property
    def files(self) -> frozenset[str]:
        """The files that the rows are in."""
        return frozenset(chunk.file for chunk in self.chunks)

    def to_bytes(self) -> bytes:
        """The record.

        Raises:
            PipelineError: A value of an aggregator or accumulator is of a type that is not stored.
        """
        written: dict[str, Any] = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name in _VALUES:
            written[name] = base64.b64encode(packed(list(written[name].items()))).decode()
        for name in ("workset", "solution"):
            written[name] = None if written[name] is None else _of_stored(written[name])
        written["stored"] = {str(number): _of_stored(stored) for number, stored in self.stored.items()}
        written["ways"] = [[*place, number] for place, number in self.ways.items()]
        written["sinks"] = {name: [astuple(chunk) for chunk in chunks] for name, chunks in self.sinks.items()}
        written["inputs"] = [[astuple(chunk) for chunk in chunks] for chunks in self.inputs]
        body = json.dumps(written, separators=(",", ":")).encode()
        return b"%d %s\n%s" % (FORMAT, hashlib.sha256(body).hexdigest().encode(), body)

    @classmethod
    def from_bytes(cls, content: bytes) -> Superstep:
        """The superstep of a record.

        Raises:
            StorageError: The record is damaged, or of another format.
        """
        head, _, body = content.partition(b"\n")
        version, _, digest = head.partition(b" ")
        if version != b"%d" % FORMAT:
            raise StorageError("the record of a superstep is of another format", remedy=_BEGIN_ANEW)
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise StorageError("the record of a superstep is damaged", remedy=_BEGIN_ANEW)
        try:
            read = json.loads(body)
            values = {name: dict(unpacked(base64.b64decode(read[name]))) for name in _VALUES}
            solution = None if read["solution"] is None else _stored(read["solution"])
            stored = {int(number): _stored(parts) for number, parts in read["stored"].items()}
            sinks = {name: tuple(map(_chunk, chunks)) for name, chunks in read["sinks"].items()}
            inputs = tuple(tuple(map(_chunk, chunks)) for chunks in read["inputs"])
            ways = {(str(name), str(word)): int(number) for name, word, number in read["ways"]}
            places = {name: tuple(map(int, read[name])) for name in ("fragments", "iterations")}
            given = {**{entry.name: read[entry.name] for entry in fields(cls)}, **values, **places}
            rows = {"workset": _stored(read["workset"]), "solution": solution, "stored": stored, "sinks": sinks, "inputs": inputs}
            given["ways"] = ways
            return cls(**{**given, **rows})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StorageError(f"the record of a superstep cannot be read: {error}", remedy=_BEGIN_ANEW) from error


_VALUES: Final = ("aggregators", "accumulators")


def _of_stored(stored: Stored) -> dict[str, list[tuple[Any, ...]]]:
    return {str(part): [astuple(chunk) for chunk in chunks] for part, chunks in stored.parts.items()}


def _stored(parts: Mapping[str, Iterable[Sequence[Any]]]) -> Stored:
    return Stored({int(part): list(map(_chunk, chunks)) for part, chunks in parts.items()})


def _chunk(values: Sequence[Any]) -> Chunk:
    chunk = Chunk(*values)
    if not _FILE.fullmatch(chunk.file):
        raise ValueError(f"{chunk.file!r} is no file of exchanges")
    return chunk
