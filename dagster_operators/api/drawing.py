"""The part of a pipeline that draws how its epochs ran."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster_operators.transactions.coordinator import Coordinator


class Drawing(ABC):
    """What is drawn of a pipeline's epochs."""

    @property
    @abstractmethod
    def _coordinator(self) -> Coordinator:
        """Access to the pipeline's ledger and tables."""

    def picture(self, *operators: str) -> str:
        """The plans by which programs of data sets ran in the last epoch, as SVG.

        Estimated rows are beside the actual ones, costly operators in colour, and each way says how rows moved.

        Args:
            operators: The operators whose plans are drawn, as ``explain`` names them; all by default.

        Raises:
            PipelineError: The last epoch has no plan of such an operator.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail", parallelism=2)
        >>> rows = pipeline.source("rows", MemorySource([[("a", 1), ("a", 2)]], schema="k string, v long"))
        >>> sums = rows.data_set().group_by("k").sum("v").name("sum of v").to_table("sums")
        >>> epoch = pipeline.run_epoch()
        >>> svg = pipeline.picture("sums")
        >>> svg[:4], "sum of v" in svg, "Hash Partition on [0]" in svg
        ('<svg', True, True)
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.drawn_plans import picture_of_last_epoch

        return picture_of_last_epoch(self._coordinator, operators or None)
