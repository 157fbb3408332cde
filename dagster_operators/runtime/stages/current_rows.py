"""The current rows of an operator whose state is the table it writes: what an epoch reads of them, beside its new rows.

Which files hold rows of the new keys is known once these keys are known in this process (``changed_keys.py``). So the new rows'
keys are written first, and the rows themselves computed with the next query; or, where computing them twice would cost much or
might not give the same, the rows are written and read back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dagster_operators.errors import StageFailedError, located
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.traits import Trait
from dagster_operators.operators.physical import Rows
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.union import Union
from dagster_operators.planner.plan import without_marks
from dagster_operators.runtime.stages.changed_keys import ChangedKeys, Held
from dagster_operators.runtime.stages.updating_table import with_keys
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dagster_operators.runtime.stages.stage_work import StageWork
    from dagster_operators.runtime.stages.staged_files import StagedFiles

_ROW_FORMATS = ("csv", "json")
"""Files of which every column must be read to get at one."""


class CurrentRows:
    """The rows of one operator's table during an attempt at its stage.

    Args:
        files: Reads and writes below the root.
        work: The attempt.
        operator: The operator.
        keys: Its key columns.

    Attributes:
        keys: Its key columns.
    """

    def __init__(self, files: StagedFiles, work: StageWork, operator: str, keys: Sequence[str]) -> None:
        self._files = files
        self._work = work
        self._operator = operator
        self.keys = tuple(keys)
        self._dataset = work.stage.main.dataset
        self._asked_for: ChangedKeys | None = None

    def beside(self, rows: DataFrame, reduced: Callable[[DataFrame], DataFrame]) -> tuple[Rows, Rows]:
        """New rows, to be used in place of those given, and the current rows of their keys.

        Args:
            rows: The new rows.
            reduced: Takes out of them what the operator will not need, should they be stored.
        """
        before, schema = self._work.before(self._dataset), without_marks(self._work.plan.schemas[StreamRef(self._operator)])
        if not before or not self.keys:
            return rows, self._files.read(self._dataset, before, schema)
        again = self._may_compute_again()
        if again:
            stored, keys = self._store(rows.select(*map(quoted, self.keys)), "keys")
            again = keys.are_known
        if again:
            self._asked_for = keys
        else:
            stored, keys = self._store(reduced(rows), "rows")
        if stored is None:
            return None, None
        held = keys.held_by(self._dataset, before)
        old = self._files.read(self._dataset, [file for file in before if held[file.path] is not Held.NONE], schema)
        return rows if again else stored, None if old is None else with_keys(old, stored, keys, "left_semi")

    def check(self, written: ChangedKeys) -> None:
        """See that the rows that were written have no other keys than the current rows were looked up for.

        Raises:
            StageFailedError: They have, so that current rows may be missing.
        """
        if self._asked_for is not None and written.are_known and not self._asked_for.covers(written):
            raise StageFailedError(
                "the operator's input had other keys when it was computed a second time",
                operator=self._operator,
                remedy="take out of the expressions before it what gives something else each time, or write its input to a table",
            )

    def _store(self, rows: DataFrame, what: str) -> tuple[Rows, ChangedKeys]:
        dataset, schema = f"streams/{self._operator}.new", rows.schema.json()
        with located(operator=self._operator):
            entries = self._files.write(rows, dataset, f"{self._work.directory(dataset)}/{what}", schema)
        keys = ChangedKeys(self._work.coordinator.root, dataset, entries, schema, self.keys)
        return self._files.read(dataset, entries, schema), keys

    def _may_compute_again(self) -> bool:
        """Whether what comes before the operator in its stage is cheap, and the same the next time."""
        work = self._work
        for name in work.stage.operators[: work.stage.operators.index(self._operator)]:
            operator = work.dataflow.nodes[name].operator
            is_cheap = Trait.ROW_WISE in operator.traits or isinstance(operator, Source | Union)
            if not is_cheap or Trait.REPEATABLE not in operator.traits:
                return False
            if isinstance(operator, Source) and operator.connector.config().get("format") in _ROW_FORMATS:
                return False
        return True
