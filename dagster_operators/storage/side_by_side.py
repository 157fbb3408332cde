"""Doing something beside what is done next, where each is a request to a store and neither waits for the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def started(work: Callable[[], T]) -> Future[T]:
    """Begin the work in a thread of its own; what it gives, or raises, is told by the result.

    >>> started(lambda: 2 + 2).result()
    4
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result is told
            future.set_exception(error)

    threading.Thread(target=run, name="side-by-side", daemon=True).start()
    return future


def at_once(work: Callable[[U], T], items: Sequence[U], most: int) -> Iterator[T]:
    """What the work gives for each item, in order, of which so many at most are at work; an error is raised in its turn.

    >>> list(at_once(len, ["a", "bb"], 8))
    [1, 2]
    """
    with ThreadPoolExecutor(min(most, len(items)) or 1) as pool:
        yield from pool.map(work, items)
