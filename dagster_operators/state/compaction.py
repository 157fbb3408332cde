"""Which runs of a state table to fold together.

The policy is size-tiered (as in Apache Paimon's universal compaction, and in LSM stores before it): runs of about the same
number of rows form a tier, and a tier that has grown to :data:`TIER_LENGTH` runs becomes one run of the next. So an epoch
rewrites little, and each row is rewritten once per tier, of which there are logarithmically many. Which runs are chosen needs no
order, because they hold mergeable partial results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol, TypeVar

from dagster_operators.storage.tiers import tier

TIER_LENGTH = 8
"""How many runs a tier may hold before they are folded."""


class Sized(Protocol):
    """Something with a number of rows: a file, or the files of one run."""

    @property
    def rows(self) -> int:
        """How many rows."""


R = TypeVar("R", bound=Sized)


def choose_fold(runs: Iterable[R]) -> list[R]:
    """The runs to fold into one, or none.

    Args:
        runs: All runs of the state.

    >>> from types import SimpleNamespace as run
    >>> len(choose_fold([run(rows=10)] * 7)), len(choose_fold([run(rows=10)] * 8 + [run(rows=5000)]))
    (0, 8)
    """
    tiers: dict[int, list[R]] = defaultdict(list)
    for run in runs:
        tiers[max(tier(run.rows, TIER_LENGTH), 1)].append(run)
    for level in sorted(tiers):
        if len(tiers[level]) >= TIER_LENGTH:
            return [run for smaller in range(level + 1) for run in tiers.get(smaller, [])]
    return []
