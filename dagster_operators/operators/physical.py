"""What logical operators lower to: relational operators, which map DataFrames and are compiled by the engine.

A physical operator is a value and remembers nothing. What an engine says about it for inputs of given types is data of its own,
:class:`Analysed`, which a plan keeps and every run is handed.

A relational operator sees Spark only through the DataFrames and the :class:`StageContext` handed to it, so this module imports
no Spark. ``None`` in place of a DataFrame means "known to hold no rows": the work for it is then left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeAlias

from typing_extensions import TypeVar, override

from dagster_operators.graph.exchange import Exchange
from dagster_operators.operators.one_task import made_of
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.operators.stage_parts import Exchanges, InputEdge

Rows: TypeAlias = "DataFrame | None"
"""A stream's rows in one epoch; None when there are none."""


Facts = TypeVar("Facts", default=None)
"""What an operator finds out of its inputs' types and needs when it runs: a frozen value of its own; None for most."""

Varying: TypeAlias = Callable[[int, str], str]
"""Writes a whole number as SQL, beside a whole-number column: see :meth:`StageContext.varying`."""


def constant(number: int, _: str = "") -> str:
    """A whole number as an engine may compile it into a query.

    >>> constant(5)
    '5L'
    """
    return f"{number}L"


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

    @property
    def files(self) -> Sequence[RunFile]:
        """The files that hold its rows now, this epoch's included."""

    def append(self, frame: DataFrame) -> None:
        """Write a run with the rows of the frame now; it is part of the state from then on."""

    def read(self, wanted: Callable[[RunFile], bool]) -> Rows:
        """The rows of the files that are wanted, this epoch's runs included."""

    def read_with_keys_of_fresh(self, keys: Sequence[str]) -> Rows:
        """The rows of earlier epochs, at least those that have the keys of this epoch's rows."""

    def read_with_keys_of(self, tables: Sequence[StateRuns], keys: Sequence[str]) -> Rows:
        """The rows of earlier epochs, at least those that have the keys of this epoch's rows in some of the operator's tables.

        Args:
            tables: State tables, perhaps with this one; their key columns have the same names and types as here.
            keys: The key columns.
        """

    def drop(self, unwanted: Callable[[RunFile], bool]) -> None:
        """Take files out of the state."""

    def fold(self, merge: Callable[[DataFrame], DataFrame], whole: Callable[[DataFrame], DataFrame] | None = None) -> None:
        """Replace many small files by one with the same meaning, if there are too many (tiered compaction).

        Args:
            merge: From the rows of some files to fewer with the same meaning.
            whole: What does it where these are all files there are; by default the same.
        """

    def rewrite(self, change: Callable[[DataFrame], DataFrame]) -> None:
        """Write all of its runs anew, with the rows that a function makes of theirs."""


@dataclass(frozen=True)
class Needed:
    """What those behind a source need of its rows.

    Attributes:
        columns: The only columns; None for all.
        any_of: Conditions of which each row that is needed meets one; without any all rows are needed.
    """

    columns: tuple[str, ...] | None = None
    any_of: tuple[str, ...] = ()

    def of(self, frame: DataFrame, *more: str) -> DataFrame:
        """A frame with the columns that are needed, and perhaps some more."""
        return frame if self.columns is None else frame.select(*map(quoted, (*self.columns, *more)))


EVERYTHING: Final = Needed()
"""All rows in all columns."""


class StageContext(Protocol):
    """What a running stage offers its operators."""

    @property
    def session(self) -> SparkSession:
        """The engine's session."""

    def source(self, operator: str, needed: Needed = EVERYTHING) -> Rows:
        """The slice of a source that belongs to this epoch.

        Args:
            operator: The source's name.
            needed: What of it has to be there.
        """

    @property
    def epoch(self) -> int:
        """The number of the epoch."""

    @property
    def round(self) -> int:
        """Which round of its loop the stage runs in, from 0; 0 outside of loops."""

    def fed_back(self, operator: str) -> Rows:
        """The rows of a loop variable: what was fed back to it in the round before."""

    def whole_table(self, operator: str) -> Rows:
        """All rows that the table has behind the epoch which the operator's input goes to."""

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

    def report(self, operator: str, figure: str, frame: DataFrame, value: str) -> DataFrame:
        """The same rows, of which an aggregate is a figure that the epoch reports of the operator when they are computed."""

    def figure(self, operator: str, name: str, value: float) -> None:
        """Take down a figure that the epoch reports of the operator."""

    def plan_ran(self, operator: str, plan: str) -> None:
        """Take down the plan by which the operator worked, as JSON, to be drawn."""

    def exchanges(self, operator: str) -> Exchanges:
        """The folder in which the operator's workers hand rows to each other."""

    def edges(self, operator: str) -> Sequence[InputEdge]:
        """The inputs of a physical operator as the planner chose to bring rows there; ``exchanged`` carries them out.

        Args:
            operator: The physical operator's name: that of the logical one, for a further part with the part's name behind it.
        """

    def put_out(self, operator: str, port: str, rows: Callable[[], Rows]) -> None:
        """Give the rows of one of the operator's side outputs; they are made only if somebody reads them."""

    def state(self, operator: str, table: str) -> StateRuns:
        """One of the operator's state tables."""


class OwnTable(Protocol):
    """The table that an operator's rows go to as they are, where it is the operator's state."""

    def beside(self, rows: DataFrame, reduced: Callable[[DataFrame], DataFrame]) -> tuple[Rows, Rows]:
        """New rows, and the table's current rows of their keys; all rows of these keys must be put out anew.

        Args:
            rows: New rows.
            reduced: Takes out of new rows what the operator will not need, should they be stored.

        Returns:
            The new rows, to be used in place of those given, and the current rows with their keys.
        """


INTERNAL: Final = "__"
"""How the names of columns begin that operators add to the rows in their state."""


@dataclass(frozen=True)
class PhysicalState:
    """A state table that an operator declares.

    Attributes:
        name: What it is called.
        range_column: The column that its files are pruned by.
        may_lack: Columns that earlier versions did not write: in their files they are null.
        of_rows: Whether it has rows with the columns they came with: a column that the input gains is null in those of before.
    """

    name: str
    range_column: str | None = None
    may_lack: tuple[str, ...] = ()
    of_rows: bool = False


@dataclass(frozen=True)
class Analysed(Generic[Facts]):
    """What is known of an operator once an engine has seen the types of its inputs: plain data, without DataFrames.

    Schemas are Spark's ``StructType`` as JSON.

    Attributes:
        output: The schema of the output.
        states: The schema of each state table.
        sides: The schema of each side output.
        facts: What the operator itself found out.
    """

    output: str
    states: Mapping[str, str]
    sides: Mapping[str, str]
    facts: Facts


@dataclass(frozen=True)
class Analysis(Generic[Facts]):
    """What an engine says about an operator for given input schemas.

    Attributes:
        output: An empty DataFrame of the output schema.
        states: For each state table an empty DataFrame of its schema.
        sides: For each side output an empty DataFrame of its schema.
        facts: What the operator itself found out.
    """

    output: DataFrame
    states: Mapping[str, DataFrame] = field(default_factory=dict)
    sides: Mapping[str, DataFrame] = field(default_factory=dict)
    facts: Facts = field(kw_only=True)

    def as_data(self) -> Analysed[Facts]:
        """What is to be kept of it."""
        states, sides = ({name: frame.schema.json() for name, frame in frames.items()} for frames in (self.states, self.sides))
        return Analysed(self.output.schema.json(), states, sides, self.facts)


class PhysicalOperator(ABC, Generic[Facts]):
    """What a logical operator lowers to: a frozen value, equal for equal work."""

    states: ClassVar[tuple[PhysicalState, ...]] = ()
    in_workers: ClassVar[bool] = False
    """Whether it is of the batch kind: Python in the engine's workers, behind the driver's own exchange."""
    keeps_places: bool = True
    """Whether rows of its only input stay where its exchange brought them, and the engine moves them nowhere else."""
    reads_twice: ClassVar[bool] = False
    """Whether it has the engine compute its inputs more than once, so that what comes in must be the same each time."""

    @property
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        """Sets of columns in each of which no two rows are equal that it gives in an epoch, or in a round of its loop."""
        return ()

    @property
    def asks_unique_by(self) -> tuple[str, ...] | None:
        """The columns by which it brings its rows together, unless no two of them are equal there; its edges say which it is."""
        return None

    @property
    def exclusive(self) -> bool:
        """Whether a stage may have one such operator only: by default one that keeps state."""
        return bool(self.states)

    def chains_after(self, before: PhysicalOperator[Any]) -> bool:
        """Whether it may share a stage with the operator before it; what comes out of workers is in files."""
        return not before.in_workers

    @abstractmethod
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[Facts]:
        """The output and state schemas for empty inputs; runs nothing and remembers nothing."""


class RelationalOperator(PhysicalOperator[Facts]):
    """A physical operator of the relational kind: from DataFrames to a DataFrame, compiled by the engine."""

    @abstractmethod
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[Facts]) -> Rows:
        """The output rows of this epoch. Stateful operators write their state while they run.

        Args:
            context: What the stage offers.
            inputs: The rows of each input.
            analysed: What the analysis of inputs of these types gave.
        """


class TableOperator(PhysicalOperator[Facts]):
    """A relational operator whose state is the table that its rows go to.

    Its output must tell all that it has to remember. An alternative with such an operator needs
    :class:`~dagster_operators.graph.alternatives.RowsGoToTable`.
    """

    remembers: ClassVar[bool] = True
    """Whether the table is its state. Otherwise the table is only its result, which it looks at, and may go elsewhere."""

    @property
    @override
    def exclusive(self) -> bool:
        return True

    @property
    @abstractmethod
    def replaces_by(self) -> tuple[str, ...]:
        """The columns by which its rows belong together: it puts out all rows of a key that it has new rows of."""

    @abstractmethod
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[Facts], table: OwnTable) -> Rows:
        """The output rows of this epoch, which take the place of the table's rows of their keys.

        Args:
            context: What the stage offers.
            inputs: The rows of each input.
            analysed: What the analysis of inputs of these types gave.
            table: The current rows.
        """


class Stateless(RelationalOperator):
    """A physical operator that maps the rows of one input, those of an epoch on their own."""

    @abstractmethod
    def rows(self, frame: DataFrame) -> DataFrame:
        """The output rows for input rows."""

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(self.rows(inputs[0]), facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        return None if inputs[0] is None else made_of(self.rows(inputs[0]), inputs[0])


@dataclass(frozen=True)
class HandOn(Stateless):
    """Hands its rows on: what is left of a logical operator that lowers to nothing."""

    @override
    def rows(self, frame: DataFrame) -> DataFrame:
        return frame


@dataclass(frozen=True)
class Part:
    """One of several physical operators that do the work of one logical operator.

    Attributes:
        name: Unique among the parts.
        operator: What does the work.
        inputs: What it reads: an input of the logical operator by its number, or another part by its name.
        exchanges: Which rows of another part must meet, by that part's name; by default they stay where they are.
    """

    name: str
    operator: PhysicalOperator[Any]
    inputs: tuple[int | str, ...]
    exchanges: Mapping[str, Exchange] = field(default_factory=dict)


@dataclass(frozen=True)
class Parts:
    """Several physical operators for one logical operator, such as the two halves of a join or of an aggregate.

    Attributes:
        parts: In topological order; the last one puts out the logical operator's rows.
    """

    parts: tuple[Part, ...]
