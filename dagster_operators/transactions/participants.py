"""Anything outside the storage root that takes part in an epoch's commit: a database sink, a message queue."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Participant(Protocol):
    """The four calls of two-phase commit. Each may be repeated after a crash and must then do no more than the first time.

    ``commit_data`` is what the sink's stage put into ``Manifest.commit_data`` under the participant's name. It identifies the
    attempt, and a sink keeps what it prepared under it. Once prepared, data may be dropped by ``abort`` and ``recover`` only,
    never because time passed.

    ``generation`` is the fencing token of the run that calls. A run that was thought dead may call late, so a sink remembers the
    highest generation it has seen, in the same place and transaction as the data, and raises ``FencedError`` at a lower one.
    ``commit`` needs none: what is decided is committed by whoever comes first.

    Examples:
        A sink that stages rows in a table of its own and moves them by ``INSERT ... SELECT`` would note the epoch in the same
        database transaction, and skip the move when the epoch is already noted.
    """

    def prepare(self, epoch: int, commit_data: Any, generation: int) -> None:
        """Make sure that ``commit`` cannot fail for good. An error here leaves the epoch undecided."""

    def commit(self, epoch: int, commit_data: Any) -> None:
        """Make the prepared data visible. It is called until it succeeds; epochs come in order."""

    def abort(self, epoch: int, generation: int) -> None:
        """Drop what was prepared for the epoch, if anything: it was not decided. It may be prepared again afterwards."""

    def recover(self, decided_epoch: int, generation: int) -> None:
        """A new run took over. ``decided_epoch`` is the last one decided; what is prepared for a later one may be dropped.

        A sink that has already seen this generation does nothing: another process of the run has gone on.
        """
