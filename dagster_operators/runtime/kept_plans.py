"""The logical plans that a storage root keeps: one file for each that an epoch was begun with, named by its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dagster_operators.errors import LedgerError, PlanError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.storage.root import Root

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan

_FOLDER = "plans"


class KeptPlans:
    """The plans of one storage root.

    A plan is written before the begin record that names it, so that whoever reads the record finds it; one that no record names
    is left by a run that ended between the two.

    Args:
        root: The storage root.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._written: tuple[LogicalPlan, bytes, str] | None = None

    def keep(self, dataflow: Dataflow) -> str:
        """Store a pipeline's plan unless it is there, without rows that sources hold themselves.

        Returns:
            What it is called; nothing if an operator is not registered, so that no plan can hold the pipeline.
        """
        from dagster_operators.plans.codec import packed

        data, name = self._as_written(dataflow)
        if name and self._content(name) != data:  # not there, or left by a run that ended while it wrote
            self._root.write(f"{_FOLDER}/{name}.plan", packed(data))
        return name

    def with_tables_renamed(self, name: str, names: Mapping[str, str]) -> str:
        """Store a plan that is there with other names of tables.

        Args:
            name: What it is called.
            names: What tables are called in it, by their other names.

        Returns:
            What the other one is called.
        """
        from dagster_operators.plans.codec import packed, to_bytes
        from dagster_operators.plans.logical_plan import digest

        data = to_bytes(self.read(name).with_tables_renamed(names))
        renamed = digest(data)
        self._root.write(f"{_FOLDER}/{renamed}.plan", packed(data))
        return renamed

    def name_of(self, dataflow: Dataflow) -> str:
        """What :meth:`keep` would call a pipeline's plan; stores nothing."""
        return self._as_written(dataflow)[1]

    def read(self, name: str) -> LogicalPlan:
        """The plan of that name, to show and to compare: of packages that are not installed it has :class:`UnknownOperator`.

        Raises:
            LedgerError: It is no longer there, or damaged.
            PlanError: A newer version of the package wrote it, in a way that is not known here.
        """
        from dagster_operators.plans.codec import from_bytes

        return from_bytes(self.data(name), to_run=False)

    def data(self, name: str) -> bytes:
        """The same as bytes.

        Raises:
            LedgerError: It is no longer there, or damaged.
        """
        from dagster_operators.plans.logical_plan import digest

        data = self._content(name)
        if data is None or digest(data) != name:
            raise LedgerError(
                f"the plan is {'no longer there' if data is None else 'damaged'}", file=self._root.join(_FOLDER, f"{name}.plan"),
                remedy="restore the file from a backup; or run an epoch of the pipeline as it was then, which writes it again",
            )  # fmt: skip
        return data

    def find(self, name: str) -> LogicalPlan | None:
        """The plan of that name, if it is there and can be read."""
        try:
            return self.read(name)
        except (LedgerError, PlanError):
            return None

    def _as_written(self, dataflow: Dataflow) -> tuple[bytes, str]:
        """A pipeline's plan as bytes, and what they are called: asked for in every epoch, made when it is another plan."""
        from dagster_operators.plans.codec import to_bytes
        from dagster_operators.plans.logical_plan import LogicalPlan, digest

        try:
            plan = LogicalPlan.of(dataflow).without_rows()
            if self._written is None or self._written[0] != plan:
                data = to_bytes(plan)
                self._written = (plan, data, digest(data))
        except PlanError:  # an operator is not registered
            return b"", ""
        return self._written[1:]

    def _content(self, name: str) -> bytes | None:
        from dagster_operators.plans.codec import unpacked

        content = self._root.read(f"{_FOLDER}/{name}.plan")
        try:
            return None if content is None else unpacked(content)
        except PlanError:
            return b""
