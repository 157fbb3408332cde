"""How ``sample`` works: a relational operator that keeps rows by a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from dagster_operators.plugins import Stateless

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class KeepRows(Stateless):
    """The rows for which a condition is true.

    Attributes:
        condition: Spark SQL.
    """

    condition: str

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        return frame.filter(self.condition)
