"""Files that are looked at several at a time: an object store takes its time for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_READERS: Final = 8

T = TypeVar("T")
R = TypeVar("R")


def some_at_a_time(look: Callable[[T], R], files: Sequence[T]) -> list[R]:
    """The results of a function for each of some files, in their order; the first error is raised.

    >>> some_at_a_time(str.upper, ["a", "b"])
    ['A', 'B']
    """
    if len(files) <= 1:  # starting threads would cost more than looking
        return [look(file) for file in files]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(look, files))
