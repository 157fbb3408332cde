"""Which runs of a state table to fold together.

The policy is size-tiered (as in Apache Paimon's universal compaction, and in LSM stores before it): files of about the same
number of rows form a tier, and a tier that has grown to :data:`TIER_LENGTH` files becomes one file of the next. So an epoch
rewrites little, and each row is rewritten once per tier, of which there are logarithmically many. Which files are chosen needs no
order, because the runs hold mergeable partial results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

TIER_LENGTH = 8
"""How many files a tier may hold before they are folded."""


class Sized(Protocol):
    """A file with a number of rows."""

    @property
    def rows(self) -> int:
        """The number of rows in the file."""


File = TypeVar("File", bound=Sized)
"""Any record of a file."""


def tier(rows: int) -> int:
    """The tier of a file: how often its rows divide by the tier length.

    >>> tier(5), tier(100), tier(1000)
    (0, 2, 3)
    """
    level = 0
    while rows >= TIER_LENGTH:
        rows //= TIER_LENGTH
        level += 1
    return level


def choose_fold(files: Iterable[File], keep: Callable[[File], bool] = lambda _: False) -> list[File]:
    """The files to fold into one, or none.

    Args:
        files: All files of the state.
        keep: Files to leave alone.

    >>> from types import SimpleNamespace as File
    >>> len(choose_fold([File(rows=10)] * 7)), len(choose_fold([File(rows=10)] * 8 + [File(rows=5000)]))
    (0, 8)
    """
    tiers: dict[int, list[File]] = defaultdict(list)
    for file in files:
        if not keep(file):
            tiers[max(tier(file.rows), 1)].append(file)
    for level in sorted(tiers):
        if len(tiers[level]) >= TIER_LENGTH:
            return [file for smaller in range(level + 1) for file in tiers.get(smaller, [])]
    return []
