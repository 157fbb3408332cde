"""Another pipeline as its storage root tells of it: its tables' versions at an epoch, and how far time had come in them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from dagster_operators.errors import LedgerError, MissingInputError, PipelineError

if TYPE_CHECKING:
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.manifest import TableTime
    from dagster_operators.transactions.records import Complete


class Upstream:
    """A pipeline whose tables another one reads; it is only looked at, also while its epochs go on.

    Args:
        root: Its storage root.
        storage_options: Access to an object store.
    """

    def __init__(self, root: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._storage_options = storage_options

    @cached_property
    def _coordinator(self) -> Coordinator:
        from dagster_operators.storage.root import Root
        from dagster_operators.transactions.coordinator import Coordinator
        from dagster_operators.transactions.whose import pipeline_of

        name = pipeline_of(Root(self._root, self._storage_options))
        return Coordinator(name, self._root, storage_options=self._storage_options)

    @property
    def name(self) -> str | None:
        """The pipeline's name; None as long as there is nothing in its root."""
        try:
            return self._coordinator.pipeline
        except LedgerError:
            return None

    def epoch(self, number: int | None = None) -> Complete | None:
        """A completed epoch, by default the last one; None if none is complete.

        Raises:
            UnknownEpochError: There is no such completed epoch, or it was cleaned away.
        """
        if self.name is None or self._coordinator.last_complete() is None:
            return None
        return self._coordinator.versions(number)

    def version(self, epoch: Complete, table: str) -> int:
        """The version of a table at an epoch.

        Raises:
            PipelineError: The epoch has no such table.
        """
        version = epoch.versions.get(f"tables/{table}")
        if version is None:
            known = sorted(name.removeprefix("tables/") for name in epoch.versions if name.startswith("tables/"))
            raise PipelineError(
                f"the pipeline {self.name!r} has no table {table!r} in its epoch {epoch.epoch}", table=table,
                remedy=f"there are: {', '.join(known) or 'none'}; a new one is there after its pipeline's next epoch",
            )  # fmt: skip
        return version

    def time(self, epoch: Complete, table: str) -> TableTime | None:
        """How far time had come in a table at the end of an epoch; None if it has no event time."""
        return epoch.times.get(table)

    def is_updating(self, table: str) -> bool:
        """Whether rows of the table change, so that it cannot be read as rows that were added."""
        plan = self._coordinator.view().plan
        record = plan.datasets.get(f"tables/{table}") if plan else None
        return record is not None and record.kind == "updating"

    def made(self, table: str, version: int) -> Complete | None:
        """The epoch that made a version of a table, if one did."""
        name = f"tables/{table}"
        return next((done for done in self._coordinator.history() if done.versions.get(name, -1) >= version), None)


def nothing_there(root: str, table: str) -> MissingInputError:
    """That a table cannot be read yet."""
    return MissingInputError(
        "no epoch of the pipeline that is read is complete yet", file=root, table=table,
        remedy="run it first, or correct the root",
    )  # fmt: skip
