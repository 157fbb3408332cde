"""What is known of an operator beside its settings: traits that planning and rules look at."""

from __future__ import annotations

from enum import StrEnum


class Trait(StrEnum):
    """A property of an operator that does not depend on its input's rows."""

    ROW_WISE = "row-wise"
    """Each output row is made of one input row, and of nothing else."""

    REPEATABLE = "repeatable"
    """The same input rows give the same output rows, however often they are computed."""

    HOLDS_TIME = "holds time"
    """It says by itself what its output watermark is."""
