"""What logical operators lower to: relational operators, which map DataFrames and are compiled by the engine.

A relational operator sees Spark only through the DataFrames and the :class:`StageContext` handed to it, so this module imports
no Spark. ``None`` in place of a DataFrame means "known to hold no rows": the work for it is then left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

from typing_extensions import override

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows: TypeAlias = "DataFrame | None"
"""A stream's rows in one epoch; None when there are none."""


Varying: TypeAlias = Callable[[int, str], str]
"""Writes a whole number as SQL, beside a whole-number column: see :meth:`StageContext.varying`."""


def constant(number: int, _: str = "") -> str:
    """A whole number as an engine may compile it into a query.

    >>> constant(5)
    '5L'
    """
    return f"{number}L"


def quoted(column: str) -> str:
    """A column name as Spark SQL reads it, whatever characters it has.

    >>> quoted("mean delay")
    '`mean delay`'
    """
    return "`" + column.replace("`", "``") + "`"


@dataclass(frozen=True)
class RunFile:
    """One Parquet file of an operator's state, with what pruning and compaction need to know.

    Attributes:
        path: Relative to the state's own folder.
        rows: Number of rows.
        size: Bytes.
        low: The smallest value of the state's range column (event time in microseconds), None if it has none.
        high: The largest.
        fresh: Whether this epoch wrote it.
    """

    path: str
    rows: int
    size: int
    low: int | None = None
    high: int | None = None
    fresh: bool = False


class StateRuns(Protocol):
    """One state table of an operator during a stage: immutable runs of rows, appended, read and dropped by file."""

    def append(self, frame: DataFrame) -> None:
        """Write a run with the rows of the frame now; it is part of the state from then on."""

    def read(self, wanted: Callable[[RunFile], bool]) -> Rows:
        """The rows of the files that are wanted, this epoch's runs included."""

    def read_with_keys_of_fresh(self, keys: Sequence[str]) -> Rows:
        """The rows of earlier epochs, at least those that have the keys of this epoch's rows."""

    def drop(self, unwanted: Callable[[RunFile], bool]) -> None:
        """Take files out of the state."""

    def fold(self, merge: Callable[[DataFrame], DataFrame]) -> None:
        """Replace many small files by one with the same meaning, if there are too many (tiered compaction)."""


class StageContext(Protocol):
    """What a running stage offers its operators."""

    @property
    def session(self) -> SparkSession:
        """The engine's session."""

    def source(self, operator: str) -> Rows:
        """The slice of a source that belongs to this epoch."""

    def pinned(self, operator: str) -> DataFrame:
        """The static table of a lookup, as of the beginning of the epoch."""

    def watermark_begin(self, operator: str) -> int:
        """The operator's input watermark when the epoch began: what decides lateness."""

    def watermark_end(self, operator: str) -> int:
        """The operator's input watermark at the end of the epoch: what closes windows."""

    def varying(self, number: int, column: str) -> str:
        """A number that differs from epoch to epoch, as SQL that an engine need not compile anew for each.

        Args:
            number: The number.
            column: A whole-number column of the rows; where it is null, so is the expression.
        """

    def count_late(self, operator: str, frame: DataFrame, late: str) -> DataFrame:
        """The same rows, with those for which the condition holds counted as late when the frame is computed."""

    def put_out(self, operator: str, port: str, rows: Callable[[], DataFrame]) -> None:
        """Give the rows of one of the operator's side outputs; they are made only if somebody reads them."""

    def state(self, operator: str, table: str) -> StateRuns:
        """One of the operator's state tables."""

    def is_kept(self, operator: str) -> bool:
        """Whether the operator's state is the table that its rows go to."""

    def beside_kept(
        self, operator: str, keys: Sequence[str], rows: DataFrame, reduced: Callable[[DataFrame], DataFrame]
    ) -> tuple[Rows, Rows]:
        """The current rows of an operator whose state is its table; all rows of these keys must be put out anew.

        Args:
            operator: Its name.
            keys: The columns by which its rows belong together.
            rows: New rows.
            reduced: Takes out of new rows what the operator will not need, should they be stored.

        Returns:
            The new rows, to be used in place of those given, and the current rows with their keys.
        """


@dataclass(frozen=True)
class StateTable:
    """A state table that an operator declares: what it is called and which column its files are pruned by."""

    name: str
    range_column: str | None = None


@dataclass(frozen=True)
class Analysis:
    """What an engine says about an operator for given input schemas.

    Attributes:
        output: An empty DataFrame of the output schema.
        states: For each state table an empty DataFrame of its schema.
        sides: For each side output an empty DataFrame of its schema.
    """

    output: DataFrame
    states: Mapping[str, DataFrame] = field(default_factory=dict)
    sides: Mapping[str, DataFrame] = field(default_factory=dict)


class PhysicalOperator(ABC):
    """What a logical operator lowers to."""

    states: ClassVar[tuple[StateTable, ...]] = ()

    @abstractmethod
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        """The output and state schemas for empty inputs; runs nothing."""


class RelationalOperator(PhysicalOperator):
    """A physical operator of the relational kind: from DataFrames to a DataFrame, compiled by the engine.

    Attributes:
        output_is_state: Whether its output tells all that its state does, so that a table of these rows takes the state's place.
    """

    output_is_state: ClassVar[bool] = False

    @abstractmethod
    def run(self, context: StageContext, inputs: Sequence[Rows]) -> Rows:
        """The output rows of this epoch. Stateful operators write their state while they run."""


@dataclass(frozen=True)
class Stateless(RelationalOperator):
    """A physical operator that maps the rows of one input on their own.

    Attributes:
        function: From the input DataFrame to the output DataFrame.
    """

    function: Callable[[DataFrame], DataFrame]

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(self.function(inputs[0]))

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows]) -> Rows:
        return None if inputs[0] is None else self.function(inputs[0])
