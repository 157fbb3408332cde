"""Threads of this process that give queries to an engine beside the one that runs an epoch."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Final

from dagster_operators.runtime.engine import PreparedEngine

_MOST: Final = 8
_ON_A_CLUSTER: Final = 4
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)[^\]]*\])?$")


class EngineThreads:
    """Threads that are kept from epoch to epoch, since each has a connection to the engine.

    What the calling thread has set for its queries (a job group, tags) holds for them too.

    Args:
        engine: The engine.
        at_once: How many things run on it at once, those of the calling thread included; by default as many as this machine, or
            the local master, has cores (at most eight), and four on a cluster.
    """

    def __init__(self, engine: PreparedEngine, at_once: int | None = None) -> None:
        self._engine = engine
        self._given = at_once
        self._tag = f"dagster_operators-{uuid.uuid4().hex[:8]}"
        self._interruptions = 0

    @cached_property
    def at_once(self) -> int:
        """How many things run on the engine at once."""
        if self._given is not None:
            return self._given
        if self._engine.name == "connect":
            return _ON_A_CLUSTER
        master = "local[*]" if self._engine.name == "sail" else self._engine.session().conf.get("spark.master", "local[*]")
        return at_once_on(str(master), os.cpu_count() or 1)

    def start(self, work: Callable[[], None]) -> None:
        """Do some work in one of the threads."""
        from pyspark.util import inheritable_thread_target

        session = self._engine.session()

        def tagged() -> None:
            if self._is_embedded:
                session.sparkContext.addJobTag(self._tag)
            else:
                session.addTag(self._tag)
            work()

        pool = self._pool
        try:
            pool.submit(inheritable_thread_target(session)(tagged))
        except BaseException:  # interrupted, perhaps in the start of a thread that the pool then does not know
            pool.shutdown(wait=False)  # such a thread ends when its work does; it would keep the process from its end
            self.__dict__.pop("_pool", None)
            raise

    def were_left_alone(self, since: int) -> bool:
        """Whether no query was made to end early since :attr:`interruptions` was so many."""
        return since % 2 == 0 and self._interruptions == since

    @property
    def interruptions(self) -> int:
        """How often it was begun and ended to interrupt; an odd number while it is at that."""
        return self._interruptions

    def interrupt(self) -> None:
        """Let the queries of these threads end early.

        Sail reports those as done, with the rows that there were: what they gave must not be used.
        """
        self._interruptions += 1
        try:
            self._end_early()
        finally:
            self._interruptions += 1

    def _end_early(self) -> None:
        session = self._engine.session()
        with contextlib.suppress(Exception):  # an engine that cannot do it goes on to their end
            if self._is_embedded:
                session.sparkContext.cancelJobsWithTag(self._tag)
            else:
                session.interruptTag(self._tag)

    @property
    def _is_embedded(self) -> bool:
        """Whether the session is in this process: its tags are each thread's own, and so no other one could interrupt."""
        return self._engine.name == "spark"

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.at_once, "stages")


def at_once_on(master: str, cores: int) -> int:
    """How many stages a Spark master runs at once.

    >>> at_once_on("local[2]", 16), at_once_on("local[*]", 4), at_once_on("local", 4), at_once_on("spark://host:7077", 2)
    (2, 4, 1, 4)
    """
    found = _LOCAL.match(master)
    if not found:
        return _ON_A_CLUSTER
    threads = found[1]
    return min(cores if threads == "*" else int(threads or 1), _MOST)
