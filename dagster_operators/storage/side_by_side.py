"""Doing something beside what is done next, where each is a request to a store and neither waits for the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


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
