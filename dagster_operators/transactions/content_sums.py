"""What the files of a table sum up to: an epoch knows it from that of the epoch before and its own change, without the table.

So whoever has the list of a version's files knows whether it is what epochs committed, wherever its log was written over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dagster_operators.transactions.manifest import Change
    from dagster_operators.transactions.view import LedgerView

EMPTY: Final = "0" * 16
"""That of a table without files."""


def sum_of(added: Iterable[str], removed: Iterable[str] = (), before: str = EMPTY) -> str:
    """What files sum up to, in whatever order.

    Args:
        added: Their paths in the table.
        removed: Those that are no longer there.
        before: What there was sums up to.

    >>> sum_of(["a", "b"]) == sum_of(["b"], before=sum_of(["a"])) == sum_of(["a"], ["c"], sum_of(["c", "b"])) != sum_of(["a"])
    True
    """
    total = int(before, 16) + sum(map(_number, added)) - sum(map(_number, removed))
    return f"{total % (1 << 64):016x}"


def _number(path: str) -> int:
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8])


def sums_after(view: LedgerView, changes: Mapping[str, Change]) -> Mapping[str, str]:
    """The sums of all datasets behind what a decided epoch changes, but of those where nobody knows what there was.

    Nobody knows where an earlier version of the package wrote, or what somebody else wrote was accepted.
    """
    last = view.last_complete
    unknown = accepted_in(view) | {name for record in view.decisions for name in record.emptied}
    known = {name: text for name, text in (last.contents if last else {}).items() if name in view.versions}
    begun = {name: text for name, text in known.items() if name not in unknown}
    for name, change in changes.items():
        before = begun.get(name) if view.versions.get(name) else EMPTY
        if before is not None and name not in unknown:
            begun[name] = sum_of((file.path for file in change.adds), change.removes, before)
    return begun


def accepted_in(view: LedgerView) -> frozenset[str]:
    """The datasets in which what others wrote was accepted since the last completed epoch, also where ours was put back since."""
    return frozenset(repair.dataset for repair in view.repairs() if repair.keep == "theirs")
