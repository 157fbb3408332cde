"""Stages of an epoch that do not depend on each other run at the same time, as many as there is room for.

The calling thread takes part, so a pipeline whose stages follow each other needs no other thread. What is ready is begun in the
order of how many stages still follow one after another behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Threads(Protocol):
    """Threads beside the calling one."""

    def start(self, work: Callable[[], None]) -> None:
        """Do some work in one of them."""

    def interrupt(self) -> None:
        """Let the work that is going on there end early, as far as that is possible."""


class SideBySide(Generic[T]):
    """The stages of one epoch while they run; of other things too that depend on each other.

    Args:
        upstream: What each stage waits for; names that are no stages here are taken to be there.
        run: Runs a stage; called in several threads.
        at_once: So many stages at most run at the same time.
        threads: Where stages run beside the one that the calling thread runs.
        go_on: Whether stages that do not depend on one that failed are still begun.
    """

    def __init__(
        self,
        upstream: Mapping[str, Collection[str]],
        run: Callable[[str], T],
        at_once: int,
        threads: Threads,
        *,
        go_on: bool = False,
    ) -> None:
        self._upstream = {name: set(upstream[name]) & upstream.keys() for name in by_height(upstream)}
        self._run = run
        self._at_once = at_once
        self._threads = threads
        self._go_on = go_on
        self._changed = threading.Condition()
        self._begun: set[str] = set()
        self._running: set[str] = set()
        self._handed: set[str] = set()
        """Of those that run, what other threads were given and have not begun with."""
        self._made: dict[str, T] = {}
        self._failed: dict[str, BaseException] = {}
        self._stopped = False

    def run_all(self) -> Mapping[str, T]:
        """What became of every stage.

        Raises:
            BaseException: The first error of a stage, once those that were running have ended; what else failed is in its notes.
        """
        try:
            while (name := self._next()) is not None:
                self._attempt(name)
        except BaseException:  # this thread was interrupted
            self.stop()
            raise
        if self._failed:
            raise _first(self._failed)
        return self._made

    def run_one(self, name: str) -> T:
        """What became of one stage: this thread runs it, unless another one has; meanwhile others run what else is ready.

        A stage that failed is run anew when it is asked for again.

        Raises:
            BaseException: The stage's own error.
        """
        if self._is_mine(name):
            self._attempt(name)
        with self._changed:
            self._begin_others()
            if name in self._failed:
                raise self._failed.pop(name)
            return self._made[name]

    def has_begun(self, name: str) -> bool:
        """Whether the stage is running or done."""
        with self._changed:
            return name in self._running or name in self._made

    def stop(self) -> None:
        """Begin no further stage, interrupt those that run in other threads, and wait for their end."""
        with self._changed:
            self._stopped = True
            if self._running:
                self._threads.interrupt()
            while self._running:
                self._changed.wait()

    def _is_mine(self, name: str) -> bool:
        """Whether the calling thread is to run the stage, as soon as there is room; else it has ended elsewhere."""
        with self._changed:
            while name not in self._made and name not in self._failed:
                if name not in self._running and len(self._running) < self._at_once:
                    self._take_beside_others(name)
                    return True
                self._changed.wait()
            return False

    def _next(self) -> str | None:
        """A stage for the calling thread, as soon as there is one; None when no further one will be begun."""
        with self._changed:
            while True:
                ready = self._ready()
                if ready:
                    self._take_beside_others(ready[0])
                    return ready[0]
                if not self._running:
                    return None
                self._changed.wait()

    def _ready(self) -> list[str]:
        """What may be begun now."""
        if self._stopped or (self._failed and not self._go_on):
            return []
        return ready(self._upstream, self._begun, self._made.keys())[: max(0, self._at_once - len(self._running))]

    def _take(self, name: str) -> None:
        self._begun.add(name)
        self._running.add(name)

    def _take_beside_others(self, name: str) -> None:
        self._take(name)
        try:
            self._begin_others()
        except BaseException:  # interrupted: nobody is to wait for its end
            self._give_back(name)
            raise

    def _give_back(self, name: str) -> None:
        self._begun.discard(name)
        self._running.discard(name)
        self._changed.notify_all()

    def _begin_others(self) -> None:
        """Let other threads run what is ready."""
        for name in self._ready():
            self._take(name)
            self._handed.add(name)
            try:
                self._threads.start(lambda name=name: self._attempt_beside(name))  # type: ignore[misc]
            except BaseException:  # interrupted: nobody knows whether it was given to a thread, which then finds it taken back
                self._handed.discard(name)
                self._give_back(name)
                raise

    def _attempt_beside(self, name: str) -> None:
        with self._changed:
            if name not in self._handed:
                return
            self._handed.discard(name)
        try:
            self._attempt(name)
        finally:
            with self._changed:
                self._begin_others()

    def _attempt(self, name: str) -> None:
        try:
            made = self._run(name)
        except Exception as error:  # noqa: BLE001 - it is told to whoever asked for the stage
            self._end(name, error)
        except BaseException as error:
            self._end(name, error)
            raise
        else:
            with self._changed:
                self._made[name] = made
                self._end(name)

    def _end(self, name: str, error: BaseException | None = None) -> None:
        with self._changed:
            if error is not None:
                self._failed[name] = error
            self._running.discard(name)
            self._changed.notify_all()


def ready(upstream: Mapping[str, Collection[str]], begun: Collection[str], made: Collection[str]) -> list[str]:
    """The stages that have not begun and for which all is there.

    >>> ready({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, begun={"a", "b"}, made={"a"})
    ['c']
    """
    return [name for name, before in upstream.items() if name not in begun and all(one in made for one in before)]


def by_height(upstream: Mapping[str, Collection[str]]) -> list[str]:
    """The stages, those first behind which most others wait one after another; ``upstream`` is in topological order.

    >>> by_height({"a": [], "b": [], "c": ["b"]})
    ['b', 'a', 'c']
    """
    height = dict.fromkeys(upstream, 0)
    for name in reversed(list(upstream)):
        for before in upstream[name]:
            if before in height:
                height[before] = max(height[before], height[name] + 1)
    return sorted(upstream, key=lambda name: -height[name])


def _first(failed: Mapping[str, BaseException]) -> BaseException:
    """The first error, with the others as notes."""
    (_, first), *others = failed.items()
    for name, error in others:
        if error is not first:
            first.add_note(f"the stage {name}, which ran beside it, failed too: {error}")
    return first
