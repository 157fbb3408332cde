"""What a logical operator is: a named node with a configuration that maps input streams to one output stream.

A logical operator knows columns and time, nothing of Spark; what it lowers to lives beside it in ``operators`` (the split
between logical and physical operators is NebulaStream's and Spark's own).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import MARKS, ChangeKind, Changes
from dagster_operators.graph.expressions import is_repeatable
from dagster_operators.graph.ports import MAIN, InputPort
from dagster_operators.graph.traits import Trait
from dagster_operators.graph.user_functions import contents_of
from dagster_operators.graph.values import Fields, at_defaults, briefly, canonical_fields, check_fields
from dagster_operators.optimizer.properties.fields import NOTHING_FORWARDED, Forwarding
from dagster_operators.time.frontier import Frontier, meet
from dagster_operators.time.kinds import Times
from dagster_operators.time.watermark import format_duration
from dagster_operators.types.names import listed

Lineage = Mapping[str, frozenset[tuple[int, str]]]
"""For each output column, the (input index, column) pairs that it is computed from."""


RETIME: Final = "put do.frontier.retime(stream, ..., times=datetime) before it, which gives the rows event times"
"""What to do where rows with times of another kind are to have event times."""


def with_event_time(table: str, root: str = "root", time: str = "at") -> str:
    """What to do so that changes without an event time have one: their rows are put into a table, whose changes are read.

    Args:
        table: The calls that put them there.
        root: The pipeline's storage root, as it is written.
        time: The column with the time.
    """
    read = f"source('rows', PipelineSource({root}, 'rows', changes=True), event_time={time!r}).as_changes()"
    return f"put their rows into a table, {table}.to_table('rows'), and read its changes in another pipeline: {read}"


_BY_THE_TIME: Final = "group by the time: with_columns(hour=\"date_trunc('hour', at)\").key_by('hour')"
_LATEST: Final = "latest('id')"
_OF_CHANGES: Final = (
    "change events, extracts and what as_changes() reads have the event time that their source names; of others "
    f"{with_event_time(_LATEST)}; "
    f"or, in place of windows, {_BY_THE_TIME}"
)
_OF_CURRENT_ROWS: Final = (
    f"rows that replace each other have none, as it would change: {with_event_time('')}; or, in place of windows, {_BY_THE_TIME}"
)
_OF_WINDOWS: Final = (
    "rows of windows that change have none: group by the windows, key_by('window_start', 'window_end').aggregate(...), or by "
    "larger ones: with_columns(day=\"date_trunc('day', window_start)\").key_by('day').aggregate(...)"
)


@dataclass(frozen=True)
class StreamType:
    """What is known of a stream while the pipeline is being built, without Spark.

    Attributes:
        columns: The column names in order; None when they are only known once the pipeline is planned on an engine.
        event_time: The column that holds the event time, if the stream has one.
        changes: What its rows mean.
        complete_windows: Every window that the rows carry is complete in the epoch in which it comes out: all of its rows come in
            that epoch, since its watermark passes the event time of each of them. An operator over these windows keeps no state.
        times: The times of its rows, if they are no event times; then it has no event time.
        whole: Whether its rows of an epoch are all rows of a table, and not those that came.
    """

    columns: tuple[str, ...] | None
    event_time: str | None = None
    changes: Changes = Changes.APPEND
    complete_windows: bool = False
    times: Times | None = None
    whole: bool = False

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The key columns of an updating stream (one current row per key); None for other streams."""
        return self.changes.keys if self.updating else None

    @property
    def updating(self) -> bool:
        """Whether later rows replace earlier ones of the same key."""
        return self.changes.kind is ChangeKind.UPSERT

    @property
    def retracting(self) -> bool:
        """Whether each row is an addition or a removal."""
        return self.changes.kind is ChangeKind.RETRACT

    @property
    def marks(self) -> tuple[str, ...]:
        """The columns beside ``columns`` in which the rows say what they mean."""
        return MARKS[self.changes.kind]

    @property
    def timeless_remedy(self) -> str:
        """What to do about a stream that has no event time where one is needed."""
        if self.changes.kind is not ChangeKind.APPEND:
            of_windows = {"window_start", "window_end"} <= set(self.columns or ())
            return _OF_WINDOWS if of_windows else _OF_CURRENT_ROWS if self.updating else _OF_CHANGES
        return RETIME if self.times is not None else "give the source event_time=..., and hand that column on unchanged"

    def resolve(self, column: str) -> str | None:
        """The stream's spelling of a column, as Spark compares names: without regard to case."""
        if self.columns is None:
            return column
        return next((name for name in self.columns if name.lower() == column.lower()), None)

    def with_columns(self, columns: Sequence[str] | None) -> StreamType:
        """The same stream with other columns; the event time is kept if its column is."""
        kept = tuple(columns) if columns is not None else None
        time = self.event_time
        if kept is not None and time is not None and time not in kept:
            time = None
        lost = kept is not None and self.times is not None and not set(self.times.columns) <= set(kept)
        return replace(self, columns=kept, event_time=time, times=None if lost else self.times)


@dataclass(frozen=True, kw_only=True, eq=False)
class LogicalOperator(ABC):
    """A node of a dataflow: a value, equal to another of its class with the same settings.

    Attributes:
        name: Unique in its pipeline. State is addressed by it, so keep it when the pipeline changes.
        chain: Whether it may share a stage with the operator before it.
    """

    kind: ClassVar[str] = ""
    """What the catalog and plans call operators of the class; no other class has it."""
    label: ClassVar[str] = ""
    """What explain, fresh names and fingerprints call it: the kind, unless stored state knows it by another name."""
    texts: ClassVar[tuple[str, ...]] = ()
    """Settings that are texts of many lines, or pairs of a name and such a text: a change of one is told by its lines."""
    derived: ClassVar[tuple[str, ...]] = ()
    """Settings that follow from those texts."""
    row_wise: ClassVar[bool] = False
    """Whether each output row is made of one input row, and of nothing else."""
    repeatable: ClassVar[bool] = True
    """Whether it gives the same rows for the same rows, as long as its expressions do."""
    declares_state: ClassVar[bool] = False
    """Whether its state is what its author declared, so that no change of other settings changes what the state means."""
    stateless: ClassVar[bool] = False
    """Whether it keeps nothing from one epoch to the next, though its rows are not each made of one."""
    gives_all: ClassVar[bool] = False
    """Whether it gives all rows that there are in each epoch anew, whatever came in the epochs before."""
    by_epoch: ClassVar[bool] = False
    """Whether its rows are others where those that came in several epochs come in one."""
    keeps_rows: ClassVar[bool] = False
    """Whether it keeps the rows of all epochs; those of a loop are of one."""
    chooses_by_size: ClassVar[bool] = False
    """Whether its ways move different bytes, so that sizes of the last epoch decide between them."""
    rows_by_name: ClassVar[bool] = False
    """Whether it reads what an epoch chooses under its name, so that two alike may read different rows."""
    durations: ClassVar[tuple[str, ...]] = ()
    """The settings that are lengths of time, in microseconds."""

    name: str
    chain: bool = True

    @property
    def notes(self) -> tuple[str, ...]:
        """What explain says of it beside its settings."""
        return ()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "kind" in vars(cls) and "label" not in vars(cls):
            cls.label = cls.kind

    def __getstate__(self) -> dict[str, Any]:
        kinds = ((name, value) for base in type(self).__mro__ for name, value in vars(base).items())
        again = {name for name, value in kinds if isinstance(value, cached_property)}  # may hold what no pickle can
        return {name: value for name, value in vars(self).items() if name not in again}

    @property
    def reads_ahead(self) -> int | None:
        """Up to how much later than a row's event time those of the rows are that it is made of, microseconds; none is earlier.

        None if a row may be made of others, too. Rows of a time range can then not be computed from those of a range.
        """
        return 0 if self.row_wise else None

    @property
    def gives_one_at_most(self) -> bool:
        """Whether it gives at most one row for each row of its only input, in the epoch in which that comes."""
        return False

    @property
    def linear(self) -> bool:
        """Whether what it gives for several changes is what it gives for each of them, in whatever order they come."""
        return self.row_wise

    def keeps_state(self, inputs: Sequence[StreamType]) -> bool:  # noqa: ARG002 - for those that need some for some inputs
        """Whether its rows depend on those of earlier epochs, which it has in its state, or in the table that it writes.

        Args:
            inputs: The types of the inputs; without columns where those are not known.
        """
        return not (self.row_wise or self.linear or self.stateless)

    @property
    def takes_times(self) -> bool:
        """Whether it can read streams whose times are no event times: that work on rows by themselves, and keep their times."""
        return self.row_wise

    @property
    def gives_times(self) -> bool:
        """Whether it says by itself what the times of its rows are, whatever those of its inputs."""
        return False

    @property
    def leads_to(self) -> str | None:
        """The scope that its output is in, for an operator that leads into a loop or out of one; None for others."""
        return None

    @property
    def holds_time(self) -> bool:
        """Whether it says by itself what its output watermark is at the end of each epoch, instead of :meth:`watermark`."""
        return False

    @property
    def begins_origin(self) -> bool:
        """Whether its output has a time of its own: of a source, or where it does not merely pass on that of its inputs."""
        return self.holds_time or type(self).watermark is not LogicalOperator.watermark

    @property
    def unfit_for_loops(self) -> str:
        """Why it cannot work in the rounds of a loop; empty if it can."""
        if self.keeps_rows:
            return "it keeps the rows of all epochs, and those of a loop are of one"
        return "it holds time back, and time stands still until the loop has come to rest" if self.holds_time else ""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The settings as JSON values: what explain shows and the fingerprint covers."""

    @abstractmethod
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        """The type of the output stream; raises SchemaError where the inputs do not fit."""

    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        """Its input ports for streams of these types: by default each takes append streams, and rows stay where they are."""
        return tuple(InputPort(f"input_{number}" if len(types) > 1 else "input") for number in range(len(types)))

    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:  # noqa: ARG002
        """The types of further output streams, by port, as ``late`` for late rows; none unless the operator has some."""
        return {}

    def outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        """The types of all output streams by port, the main one first.

        Raises:
            SchemaError: The inputs do not fit.
        """
        return {MAIN: self.output(inputs), **self.side_outputs(inputs)}

    @abstractmethod
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        """Which input columns each output column comes from."""

    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:  # noqa: ARG002
        """The columns of the first input whose values the main output has unchanged, and their names there; by default none."""
        return NOTHING_FORWARDED

    def reads(self, inputs: Sequence[StreamType], wanted: frozenset[str]) -> Sequence[frozenset[str] | None]:  # noqa: ARG002
        """Which columns of each input it has to see, so that some columns of its main output are right.

        The planner takes the others out before they get here. An operator that keeps its input's rows, or hands them on, says
        nothing of the kind, since what it has stored would change with what is behind it.

        Args:
            inputs: The types of the inputs.
            wanted: Columns of the main output.

        Returns:
            For each input the columns, or None for all of them: by default that.
        """
        return [None] * len(inputs)

    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        """The same for a side output: by default the columns of equal names."""
        kind = self.side_outputs(inputs)[port]
        pairs = {
            column: [(i, column) for i, one in enumerate(inputs) if column in (one.columns or ())]
            for column in kind.columns or ()
        }
        return {column: frozenset(origins) for column, origins in pairs.items()}

    def lower(self, inputs: Sequence[StreamType]) -> object:  # noqa: ARG002
        """What does the work, for inputs of these types, unless lowering rules are registered.

        Returns:
            A physical operator; several as ``Parts``; ``()`` to have the only input handed on; or a sequence of
            :class:`~dagster_operators.graph.alternatives.Alternative`, the preferred one first.

        Raises:
            PipelineError: There is nothing that does the work.
        """
        raise PipelineError(
            f"nothing does the work of the operator kind {self.kind!r}", operator=self.name,
            remedy="register lowering rules with the catalog, or override lower",
        )  # fmt: skip

    def watermark(self, inputs: int) -> int:
        """The output watermark for an input watermark: the identity unless the operator delays rows."""
        return inputs

    def frontier(self, port: str, inputs: Sequence[Frontier]) -> Frontier:  # noqa: ARG002 - for those with several
        """The frontier of an output, for those of the inputs, if the operator holds nothing there."""
        together = meet(inputs)
        if type(self).watermark is LogicalOperator.watermark:
            return together
        return Frontier.from_watermark(self.watermark(together.to_watermark()))

    def keeps_times(self, port: str) -> bool:  # noqa: ARG002 - for those with several
        """Whether times that it holds at an output are the output's own; else those of scopes within are seen from outside."""
        return False

    def forgets(self, before: LogicalOperator) -> str:  # noqa: ARG002
        """What is to be told of state that it had before, and goes on without."""
        return ""

    def renamed_within(self, before: LogicalOperator) -> str:  # noqa: ARG002 - for those that keep state of several parts
        """What is to be told if parts of the operator may have other names, under which there is no state; else empty."""
        return ""

    def without_state(self) -> str:
        """What it means for the rows to come that it begins without state, where that is more than that they add up anew."""
        return ""

    def mixed_up(self, before: LogicalOperator) -> str:  # noqa: ARG002 - for those that keep state of several parts
        """What is to be told if parts of the operator would go on with the state of others, as it was before; else empty."""
        return ""

    def mixed_inputs(self, before: LogicalOperator, were: Sequence[str], are: Sequence[str]) -> str:  # noqa: ARG002
        """What is to be told if what it keeps of an input, by a name, would be another's or nobody's; else empty.

        Args:
            before: The operator as it was.
            were: The streams that it read, in the order of its inputs.
            are: Those that it reads now, as they were called then.
        """
        return ""

    def going_on(self, before: LogicalOperator, were: Sequence[str], are: Sequence[str]) -> LogicalOperator:  # noqa: ARG002
        """The operator with the settings of before where its author says nothing, so that what is stored goes on as it was.

        Args:
            before: The operator as it was.
            were: The streams that it read, in the order of its inputs.
            are: Those that it reads now, as they were called then.
        """
        return self

    def meaning(self) -> list[Any]:
        """What the operator computes: its kind, its settings, and the content of the user's functions that they call."""
        config = self.config()
        functions = contents_of(config)
        return [self.label, config, functions] if functions else [self.label, config]

    def fingerprint(self) -> str:
        """Changes when, and only when, the operator would compute something else."""
        text = json.dumps(self.meaning(), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # --- as a value --------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and canonical_fields(self.encode()) == canonical_fields(other.encode())

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def encode(self) -> Fields:
        """All settings by name, as values: what equality covers and plans store."""
        return {field.name: getattr(self, field.name) for field in _settings(type(self))}

    @classmethod
    def decode(cls, fields: Fields) -> Self:
        """The operator with these settings; nothing of the user's runs.

        Raises:
            PlanError: A setting is unknown or missing.
        """
        known = {field.name: field.default is MISSING and field.default_factory is MISSING for field in _settings(cls)}
        check_fields(f"an operator of the kind {cls.kind!r}", fields, known, operator=fields.get("name"))
        return cls(**fields)

    def sql(self) -> tuple[str, ...]:
        """The Spark SQL expressions among its settings."""
        return ()

    def left_out(self) -> tuple[str, ...]:
        """The names of the secrets that :meth:`encode` leaves out and that were not given again yet."""
        return ()

    def with_secrets(self, secrets: Mapping[str, Any]) -> Self:  # noqa: ARG002
        """The operator with secrets that were left out."""
        return self

    @property
    def traits(self) -> frozenset[Trait]:
        """What is known of it beside its settings."""
        has = {
            Trait.ROW_WISE: self.row_wise,
            Trait.REPEATABLE: self._repeats,
            Trait.HOLDS_TIME: self.holds_time,
        }
        return frozenset(trait for trait, holds in has.items() if holds)

    @property
    def _repeats(self) -> bool:
        return self.repeatable and not contents_of(self.sql()) and all(map(is_repeatable, self.sql()))

    def signature(self) -> str:
        """Equal signatures mean equal rows for equal input rows: how it is called and chained is left out.

        An operator that is not repeatable, or that reads what is chosen under its name, has one of its own.
        """
        fields = {name: value for name, value in self.encode().items() if name not in ("name", "chain")}
        own = self.name if self.rows_by_name or not self._repeats else ""
        text = f"{self.kind}/{own}/{canonical_fields(fields)}{sorted(contents_of(self.sql()).items())}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def explain(self, *, details: bool = False) -> str:
        """One line for people: the kind with the settings that were given; with details also its name, traits and signature."""
        left_out = {"name", "chain", *at_defaults(self)}
        settings = {name: value for name, value in self.encode().items() if name not in left_out and value is not None}
        shown = {
            name: format_duration(value) if name in self.durations and type(value) is int else briefly(value)
            for name, value in settings.items()
        }
        line = f"{self.kind}({', '.join(f'{name}={text}' for name, text in shown.items())})"
        if not details:
            return line
        return f"{self.name}: {line} [{', '.join(sorted(self.traits))}] {self.signature()}"

    def require(self, stream: StreamType, columns: Sequence[str] | frozenset[str], what: str) -> None:
        """Raise SchemaError for the first of the columns that the stream does not have."""
        if stream.columns is None:
            return
        for column in sorted(columns):
            if column == "*":
                raise SchemaError(
                    f"{what} has '*' within an expression", operator=self.name,
                    remedy=f"name the columns: {', '.join(stream.columns)}",
                )  # fmt: skip
            if stream.resolve(column) is None:
                raise SchemaError(
                    f"{what} uses column {column!r}, which its input does not have",
                    operator=self.name,
                    column=column,
                    remedy=f"use one of: {listed(stream.columns)}",
                )


def _settings(kind: type[LogicalOperator]) -> tuple[Field[Any], ...]:
    return tuple(field for field in fields(kind) if field.init)


def same_columns(stream: StreamType, change: Callable[[str], str] = lambda name: name) -> dict[str, frozenset[tuple[int, str]]]:
    """The lineage of columns handed on as they are, or renamed by ``change``."""
    return {change(column): frozenset({(0, column)}) for column in stream.columns or ()}
