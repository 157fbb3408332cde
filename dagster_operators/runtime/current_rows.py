"""The current rows of an operator whose state is the table it writes: what an epoch reads of them, beside its new rows.

Which files hold rows of the new keys is known once these keys are known in this process (``changed_keys.py``). So the new rows'
keys are written first, and the rows themselves computed with the next query; or, where computing them twice would cost much or
might not give the same, the rows are written and read back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster_operators.errors import StageFailedError
from dagster_operators.graph.user_functions import contents_of
from dagster_operators.operators.physical import Rows, quoted
from dagster_operators.planner.plan import without_marks
from dagster_operators.runtime.changed_keys import ChangedKeys, Held
from dagster_operators.runtime.updating_table import BROADCAST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dagster_operators.runtime.stage_work import StageWork
    from dagster_operators.runtime.staged_files import StagedFiles
    from dagster_operators.transactions.manifest import FileEntry

_REPEATABLE = frozenset({"source", "filter", "select", "with_columns", "rename", "drop", "union"})
_CHANGING = re.compile(
    r"(?i)\b(rand\w*|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id|now|current_\w+|localtimestamp|"
    r"input_file_\w+|reflect|java_method|try_reflect)\b"
)
"""Spark's functions that may give something else the next time (a column of such a name only costs time)."""


class CurrentRows:
    """The rows of one operator's table during an attempt at its stage.

    Args:
        files: Reads and writes below the root.
        work: The attempt.
        operator: The operator.
        keys: Its key columns.
    """

    def __init__(self, files: StagedFiles, work: StageWork, operator: str, keys: Sequence[str]) -> None:
        self._files = files
        self._work = work
        self._operator = operator
        self._keys = tuple(keys)
        self._dataset = work.plan.kept_in[operator]
        self._seen: ChangedKeys | None = None

    def beside(self, rows: DataFrame) -> tuple[Rows, Rows]:
        """New rows, to be used in place of those given, and the current rows of their keys."""
        work, before = self._work, self._work.before(self._dataset)
        if not before:
            return rows, None
        again = self._may_compute_again()
        stored, scratch = rows.selectExpr(*map(quoted, self._keys)) if again else rows, f"streams/{self._operator}.new"
        entries = self._files.write(stored, scratch, work.directory(scratch))
        new = self._files.read(scratch, entries, stored.schema.json())
        if new is None:
            return None, None
        self._seen = ChangedKeys(work.coordinator.root, scratch, entries, stored.schema.json(), self._keys)
        held = self._seen.held_by(self._dataset, before)
        touched = [file for file in before if held[file.path] is not Held.NONE]
        old = self._files.read(self._dataset, touched, without_marks(work.plan.schemas[self._operator]))
        return rows if again else new, None if old is None else self._of_keys(old, new)

    def check(self, staged: Sequence[FileEntry]) -> None:
        """See that the rows that were written have no other keys than the current rows were looked up for.

        Raises:
            StageFailedError: They have, so that current rows may be missing.
        """
        if self._seen is None:
            return
        schema = self._work.plan.schemas[self._operator]
        written = ChangedKeys(self._work.coordinator.root, self._dataset, staged, schema, self._keys)
        if not self._seen.covers(written):
            raise StageFailedError(
                "the operator's input had other keys when it was computed a second time",
                operator=self._operator,
                remedy="take out of the expressions before it what gives something else each time, or write its input to a table",
            )

    def _of_keys(self, old: DataFrame, new: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        if not self._keys:
            return old
        keys = new.selectExpr(*map(quoted, self._keys))
        wanted = F.broadcast(keys) if self._seen is not None and self._seen.rows <= BROADCAST else keys
        same = " AND ".join(f"old.{quoted(key)} <=> new.{quoted(key)}" for key in self._keys)
        return old.alias("old").join(wanted.alias("new"), F.expr(same), "left_semi")

    def _may_compute_again(self) -> bool:
        """Whether what comes before the operator in its stage is cheap, and the same the next time."""
        work = self._work
        for name in work.stage.operators:
            operator = work.dataflow.nodes[name].operator
            if name == self._operator:
                return True
            config = operator.config()
            if operator.kind not in _REPEATABLE or contents_of(config) or _CHANGING.search(json.dumps(config, default=str)):
                return False
        return True
