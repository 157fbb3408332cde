"""Tables by key and the like, of rows that are the same in all rounds of an iteration: made once in a process.

The memory of a process is bounded. Entries that were not used for longest go first, and larger ones are made anew in each round.
A process that has not made it, such as another worker of the engine, or one that goes on behind a kill, makes it.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any, Final, TypeVar

from dagster_operators.operators.datasets.rows import Row, in_order
from dagster_operators.optimizer.properties.ordering import Ordering

PREPARED: Final = "static inputs prepared"
USED_AGAIN: Final = "static inputs used again"
"""How often tasks made something of such rows, and how often it was there already, as an epoch's figures name it."""

_MOST_BYTES: Final = 512 << 20
_IDLE: Final = 120.0
"""After so many seconds without use it goes: its iteration has ended in another process."""
_SAMPLE: Final = 64
T = TypeVar("T")


@dataclass(frozen=True)
class Origin:
    """Rows that are the same in all rounds, entry by the chunks that they are in: nobody writes others under these names.

    Attributes:
        folder: The folder of their files.
        chunks: The file and the place of each chunk.
        uses: Counts what was made of them, and what was used again.
    """

    folder: str
    chunks: tuple[tuple[str, int], ...]
    uses: Counter[str] = field(default_factory=Counter, compare=False)


def prepared(rows: Iterable[Any], form: Hashable, make: Callable[[], T]) -> T:
    """What is made of rows: where they are the same in all rounds, it is remembered.

    Args:
        rows: The rows, which have an ``origin`` where they are the same in all rounds.
        form: What is made of them.
        make: Makes it. Nobody may change it then.

    >>> prepared([1, 2], "sum", lambda: 3)
    3
    """
    origin = getattr(rows, "origin", None)
    return make() if origin is None else MEMORY.made(origin, form, make)


class SameRows:
    """Rows that are the same in all rounds, read each time anew.

    Args:
        read: Reads them.
        origin: Where they are.
        order: The order that they are to be in, and are not yet.
    """

    def __init__(self, read: Callable[[], Iterable[Row]], origin: Origin, order: Ordering | None = None) -> None:
        self._read = read
        self.origin = origin
        self.order = order

    def __iter__(self) -> Iterator[Row]:
        """The rows, one by one."""
        return iter(self._read() if self.order is None else in_order(self._read(), self.order))


def rows_at_hand(rows: Iterable[Row]) -> Iterable[Row]:
    """The rows; where they are the same in all rounds, they are read once.

    Args:
        rows: The rows.

    >>> rows_at_hand([(1,)])
    [(1,)]
    """
    if not is_same(rows):
        return rows
    return prepared(rows, ("rows", order_of(rows)), lambda: list(rows))


def is_same(rows: Iterable[Row]) -> bool:
    """Whether rows are the same in all rounds of an iteration."""
    return getattr(rows, "origin", None) is not None


def order_of(rows: Iterable[Row]) -> Ordering | None:
    """The order that rows are to be in, and are not yet."""
    order: Ordering | None = getattr(rows, "order", None)
    return order


class Memory:
    """What a process remembers.

    Args:
        most_bytes: About so many bytes at most.
        clock: The seconds.

    >>> memory, origin = Memory(), Origin("folder", (("file", 0),))
    >>> memory.made(origin, "sum", lambda: 3), memory.made(origin, "sum", lambda: 4), origin.uses[USED_AGAIN]
    (3, 3, 1)
    """

    def __init__(self, most_bytes: int = _MOST_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[tuple[Origin, Hashable], _Entry] = OrderedDict()

    @property
    def size(self) -> int:
        """About how many bytes there are."""
        with self._lock:
            return sum(entry.size for entry in self._entries.values())

    def made(self, origin: Origin, form: Hashable, make: Callable[[], T]) -> T:
        """What is made of rows, made now unless it is remembered.

        Args:
            origin: Where the rows are.
            form: What is made of them.
            make: Makes it.
        """
        moment, key = self._clock(), (origin, form)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                entry.used = moment
                self._entries.move_to_end(key)
                origin.uses[USED_AGAIN] += 1
                value: T = entry.value
                return value
        value = make()
        origin.uses[PREPARED] += 1
        size = size_of(value)
        if size <= self._most_bytes:
            with self._lock:
                self._entries[key] = _Entry(value, size, moment)
                self._make_room()
        return value

    def forget_idle(self) -> None:
        """Forget what was not used for some time."""
        oldest = self._clock() - _IDLE
        with self._lock:
            for key in [key for key, entry in self._entries.items() if entry.used < oldest]:
                del self._entries[key]

    def forget(self, folder: str) -> None:
        """Forget what was made of the rows of a folder.

        Args:
            folder: The folder.
        """
        with self._lock:
            for key in [key for key in self._entries if key[0].folder == folder]:
                del self._entries[key]

    def _make_room(self) -> None:
        size = sum(entry.size for entry in self._entries.values())
        while size > self._most_bytes:
            size -= self._entries.popitem(last=False)[1].size


@dataclass
class _Entry:
    value: Any
    size: int
    used: float


MEMORY: Final = Memory()
"""That of this process."""


def size_of(value: Any) -> int:
    """About how many bytes a value has, of many parts by some of them.

    >>> size_of([(1, 2)] * 1000) > 50_000
    True
    """
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    shell = sys.getsizeof(value, 64)
    if isinstance(value, Mapping):
        return shell + _of_parts(len(value), ((key, part) for key, part in value.items()))
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return shell + _of_parts(len(value), value)
    return shell


def _of_parts(count: int, parts: Iterable[Any]) -> int:
    some = list(islice(parts, _SAMPLE))
    return sum(map(size_of, some)) * count // len(some) if some else 0
