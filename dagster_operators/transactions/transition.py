"""What an epoch that computes nothing makes of a pipeline: where its sources and its time stand behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from dagster_operators.graph.slice import JSON
from dagster_operators.time.frontier import Frontier
from dagster_operators.transactions.codec import added
from dagster_operators.transactions.manifest import TableTime

TransitionKind: TypeAlias = Literal["rollback", "reset", "rebuild", "compact", "rename", "widen"]
"""Why there is such an epoch. Its one stage is called so, too."""

_UNFINISHED: Final = (".incomplete", ".called_again_at")
"""How the figures end by which an operator says that it has work left, or will have."""


@dataclass(frozen=True)
class Transition:
    """The positions and times behind an epoch that reads nothing: what its tables hold is put there, not computed.

    It replaces what the epoch before left; nothing is carried over from there.

    Attributes:
        kind: Why there is such an epoch.
        told: What it did, for people.
        offsets: Where each source stands behind it.
        watermarks: Per source, and per operator that holds time, behind it.
        finished: Sources that have nothing more to give.
        held: The times that operators hold at their outputs behind it, by stream.
        epoch: The epoch that it goes back to; 0 for none.
        back: The sources that go back to it; empty for all.
        tables: Those that a rebuild computed anew.
        since: The first epoch of which it read something; 0 for all.
        epochs_at_once: Of how many epochs a rebuild read at once at most; 0 in those that earlier versions of the package began.
        cut: The operators of a rebuild whose rows depend on how it cut what it read into epochs.
        forgot: The operators that forgot keys when the last epoch of a rebuild ended: of what comes behind it they begin anew.
        taken: The ledger of the rebuild whose files it took over.
        sinks: The last epoch that each external participant is to have something of, of a rollback.
        times: How far time has come in each table behind it; None in those that earlier versions of the package began.
        emptied: The operators that begin anew behind a reset, with their tables: nothing of what they were goes on.
        renamed: What tables were called before it that have another name behind it, by that.
        between: The time range of which alone a rebuild put rows into its tables, from the first moment up to the second,
            microseconds; empty for all.
        unfinished: The figures of operators that have work left behind it, see :func:`unfinished_in`.
    """

    kind: TransitionKind
    told: str
    offsets: Mapping[str, JSON] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    finished: tuple[str, ...] = ()
    held: Mapping[str, Frontier] = added(2, {})
    epoch: int = added(2, 0)
    back: tuple[str, ...] = added(2, ())
    tables: tuple[str, ...] = added(2, ())
    since: int = added(2, 0)
    taken: str = added(2, "")
    unfinished: Mapping[str, float] = added(2, {})
    sinks: Mapping[str, int] = added(2, {})
    times: Mapping[str, TableTime] | None = added(2, None)
    emptied: tuple[str, ...] = added(2, ())
    renamed: Mapping[str, str] = added(2, {})
    between: tuple[int, ...] = added(2, ())
    epochs_at_once: int = added(2, 0)
    cut: tuple[str, ...] = added(2, ())
    forgot: tuple[str, ...] = added(2, ())


def unfinished_in(figures: Mapping[str, float]) -> dict[str, float]:
    """What of an epoch's figures holds behind it, too: which operators have work left for the next one.

    >>> unfinished_in({"slow.incomplete": 1.0, "slow.late": 3.0, "later.called_again_at": 7.0})
    {'slow.incomplete': 1.0, 'later.called_again_at': 7.0}
    """
    return {name: value for name, value in figures.items() if name.endswith(_UNFINISHED)}
