"""What every benchmark is made of: measured repeats, their spread, and the one JSON line that says whether a claim holds.

All claims are ratios of times taken in one run, because the absolute times of a shared machine mean little: what is compared runs
alternately, so that a slow minute slows both, and medians are compared, so that one slow repeat does not decide.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import psutil

Clock: TypeAlias = Callable[[], float]
"""Gives seconds."""


def processor_seconds() -> float:
    """The processor time that this process and those it has started have used: a clock that neighbours hardly disturb."""
    children = psutil.Process().children(recursive=True)  # counted in hundredths of a second, our own process exactly
    return time.process_time() + float(sum(sum(process.cpu_times()[:2]) for process in children))


@dataclass(frozen=True)
class Spread:
    """The smallest, middle and largest of several measured values.

    >>> Spread.of([3.0, 1.0, 2.0])
    Spread(min=1.0, median=2.0, max=3.0)
    """

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of values, rounded to four digits after the point."""
        return cls(*(round(value, 4) for value in (min(values), statistics.median(values), max(values))))


@dataclass(frozen=True)
class Claim:
    """One claim about speed, with what was measured.

    Attributes:
        name: The claim's name.
        ratio: What was measured.
        goal: What was promised.
        at_least: Whether the ratio should be at least the goal; else at most.
        spread: Of the ratio, repeat by repeat.
        details: Seconds and where they go.

    >>> Claim("a", 5.2, 5.0, True, Spread(5.0, 5.2, 5.5)).met, Claim("b", 1.3, 1.2, False, Spread(1.2, 1.3, 1.4)).met
    (True, False)
    """

    name: str
    ratio: float
    goal: float
    at_least: bool
    spread: Spread
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether the promise is kept."""
        return self.ratio >= self.goal if self.at_least else self.ratio <= self.goal

    def report(self) -> None:
        """Print the claim as one JSON line."""
        about = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
        line = {
            "name": self.name,
            "ratio": round(self.ratio, 3),
            "goal": f"{'>=' if self.at_least else '<='} {self.goal}",
            "spread": asdict(self.spread),
            "met": self.met,
            "details": {**self.details, **about},
        }
        print(json.dumps(line), flush=True)


def alternately(
    repeats: int, *runs: Callable[[], Any], before: Sequence[Callable[[], Any]] = (), clock: Clock = time.perf_counter
) -> list[list[float]]:
    """The seconds of each repeat of each run; the runs take turns, each repeat beginning with another.

    Args:
        repeats: How often each run is measured.
        runs: What is compared.
        before: For each run what goes before it and is not measured.
        clock: By default the time that passes; that of the processor for what never waits, so that neighbours disturb it less.
    """
    seconds: list[list[float]] = [[] for _ in runs]
    for repeat in range(repeats):
        for step in range(len(runs)):
            turn = (repeat + step) % len(runs)
            if before:
                before[turn]()
            seconds[turn].append(timed(runs[turn], clock))
    return seconds


def timed(run: Callable[[], Any], clock: Clock = time.perf_counter) -> float:
    """The seconds that a call takes, with Python's garbage of earlier calls out of the way."""
    gc.collect()
    started = clock()
    run()
    return clock() - started


def at_least(name: str, slow: Sequence[float], fast: Sequence[float], *, goal: float, details: Mapping[str, Any]) -> Claim:
    """The claim that one thing is at least ``goal`` times as fast as another that took turns with it."""
    ratio = statistics.median(slow) / statistics.median(fast)
    return Claim(name, ratio, goal, True, Spread.of([a / b for a, b in zip(slow, fast, strict=True)]), details)  # noqa: FBT003


def at_most(name: str, ours: Sequence[float], other: Sequence[float], *, goal: float, details: Mapping[str, Any]) -> Claim:
    """The claim that one thing takes at most ``goal`` times as long as another that took turns with it."""
    ratio = statistics.median(ours) / statistics.median(other)
    return Claim(name, ratio, goal, False, Spread.of([a / b for a, b in zip(ours, other, strict=True)]), details)  # noqa: FBT003


def medians(profiles: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each step over several profiles, the longest first; a step that a profile lacks took no time in it.

    >>> medians([{"read": 1.0, "write": 2.0}, {"read": 1.5, "write": 2.5}])
    {'write': 2.25, 'read': 1.25}
    """
    names = {name for profile in profiles for name in profile}
    found = {name: round(statistics.median(profile.get(name, 0.0) for profile in profiles), 4) for name in names}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder for one benchmark's data, gone when it ends."""
    with tempfile.TemporaryDirectory(prefix="dagster_operators-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
