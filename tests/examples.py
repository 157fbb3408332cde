"""How tests try many examples: other ones on each run; and when one fails, smaller ones are looked for, but not for long."""

from __future__ import annotations

import functools
import inspect
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

T = TypeVar("T")

SHRINKING: Final = 30.0
"""So many seconds smaller examples are looked for: over an engine each one takes a second or more."""
TIMES: Final = int(os.environ.get("DAGSTER_OPERATORS_EXAMPLES", "1"))
"""How many times as many examples are tried: more than one is for a long search."""

settings.register_profile("tests", deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True)
settings.load_profile("tests")  # on a loaded machine an example may take any time, and a slow draw is no failure


def fresh_examples(count: int, *, shrinking: float = SHRINKING) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have a test, which ``given`` made, try so many examples that nobody has chosen, besides those it names.

    The failure tells the smallest example found, and how to have just that one run again.

    Args:
        count: How many; ``DAGSTER_OPERATORS_EXAMPLES`` says how many times as many.
        shrinking: How many seconds after the first failure no further example is tried.
    """

    def decorate(test: Any) -> Callable[..., Any]:
        asked = tuple(inspect.signature(test).parameters)  # fixtures and parameters of pytest; examples are no part of them
        test.hypothesis.inner_test = _shrunk_for(shrinking, test.hypothesis.inner_test, asked)
        return settings(
            max_examples=count * TIMES,
            deadline=None,
            derandomize=False,  # in CI, too
            database=None,  # a test leaves nothing behind
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )(test)

    return decorate


def unlike_the_simplest(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    """The same values but for the first one: Hypothesis begins with the simplest of all, which is a waste where few are tried."""
    return st.tuples(st.booleans().filter(bool), strategy).map(itemgetter(1))


def _shrunk_for(seconds: float, body: Callable[..., None], asked: Sequence[str]) -> Callable[..., None]:
    """A test's body which, some time after it failed for the first time, only fails for what it failed for before.

    Args:
        seconds: How much time.
        body: What it runs.
        asked: The arguments that tell one run of the test from another.
    """
    failures: dict[str, _Failures] = {}

    @functools.wraps(body)
    def bounded(*args: Any, **given: Any) -> None:
        run = failures.setdefault(repr([given.get(name) for name in asked]), _Failures())
        example = repr(sorted((name, value) for name, value in given.items() if name not in asked))
        if time.monotonic() > run.until and example not in run.examples:
            return
        try:
            body(*args, **given)
        except BaseException:  # what pytest.fail raises, too
            run.until = min(run.until, time.monotonic() + seconds)
            run.examples.add(example)
            raise

    return bounded


@dataclass
class _Failures:
    """The examples that one run of a test failed for, and when it stops looking for smaller ones."""

    until: float = math.inf
    examples: set[str] = field(default_factory=set)
