"""What is done to a pipeline's storage between epochs: tables and ledger are settled after damage, space is given back."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeVar

from dagster_operators.api.drawing import Drawing
from dagster_operators.api.turn import Turn
from dagster_operators.errors import PipelineError
from dagster_operators.time.watermark import parse_duration, require_unit

if TYPE_CHECKING:
    from dagster_operators.api.history import History
    from dagster_operators.runtime.compacting import Compaction
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.ledger_repair import LedgerRepair
    from dagster_operators.transactions.owner import Owner
    from dagster_operators.transactions.records import Repair

T = TypeVar("T")


class Settling(Drawing):
    """The part of a pipeline that settles and cleans its storage."""

    _turn: Turn

    @property
    @abstractmethod
    def name(self) -> str:
        """The pipeline's name."""

    @property
    @abstractmethod
    def _owner(self) -> Owner:
        """This process."""

    @abstractmethod
    def history(self) -> History:
        """The completed epochs."""

    def repair(self, table: str, keep: Literal["ours", "theirs"]) -> Repair | None:
        """Settle a table that someone else has written or put back to an older version; the next epoch then goes on.

        Args:
            table: A table's name, or as errors name it: ``tables/clean``, ``state/per_route.partials``.
            keep: ``"ours"`` puts the content of the last epoch back (what was written since stays in the table's history);
                ``"theirs"`` accepts the table as it is now.

        Returns:
            What was recorded in the ledger; None when nothing was wrong.

        Raises:
            PipelineBusyError: A run is at work.
            LedgerError: There is no such table, or it cannot be kept that way.
            RestoredTableError: The table, or the content that is to be put back, is gone.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> from deltalake import write_deltalake
        >>> import pyarrow as pa
        >>> write_deltalake(f"{folder.name}/tables/kept", pa.table({"v": [3]}), mode="append")  # somebody else's
        >>> repaired = pipeline.repair("kept", keep="ours")
        >>> sorted(row["v"] for row in pipeline.to_arrow("kept").to_pylist())
        [1, 2]
        >>> folder.cleanup()
        """
        return self._alone(lambda coordinator: coordinator.repair(table if "/" in table else f"tables/{table}", keep))

    def repair_all(self, keep: Literal["ours", "theirs"]) -> list[Repair]:
        """Settle every table that is not as the ledger says, as after a root was put back to a backup in part.

        Args:
            keep: As of :meth:`repair`.

        Returns:
            What was recorded in the ledger, for each table that was not as it should be.

        Raises:
            PipelineBusyError: A run is at work.
            LedgerError: A table cannot be kept that way.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> from deltalake import write_deltalake
        >>> import pyarrow as pa
        >>> write_deltalake(f"{folder.name}/tables/kept", pa.table({"v": [3]}), mode="append")  # somebody else's
        >>> [repaired.dataset for repaired in pipeline.repair_all(keep="theirs")]
        ['tables/kept']
        >>> folder.cleanup()
        """
        return self._alone(lambda coordinator: coordinator.repair_all(keep))

    def repair_ledger(self, last_epoch: int | None = None) -> LedgerRepair:
        """Make a damaged ledger whole, or go back to an epoch: what came after it is forgotten, and runs again from the sources.

        Records that the ledger's log has lost are found again where their files are there; the ledger ends before the first that
        is not. Every table is put back to what the ledger says then, as ``repair_all(keep="ours")`` does.

        Args:
            last_epoch: The last epoch to keep, for when files of a later one are lost; None for as much as there is.

        Returns:
            What was found and left out.

        Raises:
            PipelineBusyError: A run is at work, or was until just now.
            LedgerError: The ledger's beginning is lost, or what it would need was cleaned away.
            LostFileError: A file of an epoch that is kept is gone; the message says to which epoch to go back.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> repaired = pipeline.repair_ledger(last_epoch=1)
        >>> pipeline.to_arrow("kept").num_rows
        1
        >>> folder.cleanup()
        """
        return self._coordinator.repair_ledger(last_epoch)

    def _alone(self, do: Callable[[Coordinator], T]) -> T:
        """Do something while no run is at work."""
        with self._turn.taken(self.name):
            coordinator = self._coordinator
            coordinator.open(self._owner)
            try:
                return do(coordinator)
            finally:
                coordinator.close()

    def clean(self, keep: str | timedelta = "7 days", *, keep_epochs: int = 2) -> int:
        """Delete files that only old epochs need: state that was folded, rewritten files, what dead attempts left.

        Epochs older than what is kept can no longer be read, neither here nor with ``VERSION AS OF``.

        Args:
            keep: Epochs completed within this time stay readable.
            keep_epochs: At least so many epochs stay readable, however old.

        Returns:
            How many data files were deleted.

        Raises:
            PipelineBusyError: A run is at work.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> pipeline.clean("0 seconds", keep_epochs=1)  # files to which rows were only added are needed by the last epoch, too
        0
        >>> folder.cleanup()
        """
        try:
            require_unit(keep)
            kept = parse_duration(keep)
        except ValueError as error:
            raise PipelineError(f"keep: {error}", pipeline=self.name, remedy="write '7 days', say") from None
        if kept < 0:
            raise PipelineError(
                f"keep is not less than nothing, as {keep!r} is", pipeline=self.name, remedy="write '7 days', say"
            )
        oldest = time.time() - kept / 1e6
        done = self.history()[: -max(keep_epochs, 1)]
        horizon = next((complete.epoch + 1 for complete in reversed(done) if complete.committed_at < oldest), None)
        if horizon is None:
            return 0
        return self._alone(lambda coordinator: coordinator.clean(horizon))

    def compact(self, table: str | None = None, *, target_size: int | None = None) -> Compaction:
        """Join small files of a table, or of all tables, into larger ones, in an epoch that computes nothing.

        The rows stay as they are: who reads the table's changes sees none. The small files stay, too, for those who read older
        epochs, until :meth:`clean` deletes them.

        Args:
            table: The table; all when left out.
            target_size: About so many bytes a joined file has; files of half of it stay as they are. By default what
                ``to_table(target_file_size=...)`` says, else 128 MiB, of a table with ``cluster_by`` 16 MiB.

        Returns:
            The epoch, and what became of each table's files.

        Raises:
            PipelineBusyError: A run is at work.
            EpochUnderWayError: An epoch is begun and not complete; run it first.
            PipelineError: There is no such table.
            LostFileError: A file is gone.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> compaction = pipeline.compact("kept")
        >>> compaction.epoch, pipeline.to_arrow("kept").num_rows
        (3, 2)
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.compacting import compact

        given: object = target_size
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
            raise PipelineError(
                f"target_size is {given!r}", pipeline=self.name, remedy="give a number of bytes, such as 256 * 1024 * 1024"
            )
        return self._alone(lambda coordinator: compact(coordinator, table, target_size))
