"""A program of data sets as an operator of a dataflow: rows of streams in, the rows of a data set out, epoch by epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import located
from dagster_operators.functions.references import ObjectReference
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.graph.values import Fields
from dagster_operators.operators.by_reference import ByReference
from dagster_operators.operators.datasets.attempt import Attempt
from dagster_operators.operators.datasets.plan_that_ran import drawn_of
from dagster_operators.operators.engine_schema import empty, schema_of
from dagster_operators.operators.physical import Analysed, Analysis, PhysicalState, RelationalOperator, Rows, StageContext
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.optimizer.planning import OptimizedPlan
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SINK: Final = "out"
"""The name of a program's sink whose rows are the operator's main output."""

KEPT_SINK: Final = "kept solution set"
"""The name of the sink whose rows are the solution set that the next epoch goes on from."""

_SOLUTION: Final = "solution"
"""The state table that it is in."""


class DataSetProgram(ABC):
    """A program whose data sets are computed of streams.

    Attributes:
        outline: A line for each operation, which says what it is and what its settings are.
        functions: The user's functions, in the order of the outline.
        code: A digest of the functions, and of the rows that the program has.
        columns: The names of the fields; None where only an engine knows the columns.
        sides: The same for each data set beside the first, by the name of its output.
    """

    kept: ClassVar[tuple[str, ...]] = ("outline", "functions", "code", "columns", "sides")
    """The attributes that a stored plan has."""
    outline: tuple[str, ...]
    functions: tuple[Any, ...]
    code: str
    columns: tuple[str, ...] | None
    sides: Mapping[str, tuple[str, ...] | None] = MappingProxyType({})  # stored plans of before have none
    function_kinds: tuple[tuple[str, str], ...] = ()
    """The kind of each of the user's functions with the data set that it makes; a stored plan does not have them."""

    @property
    @abstractmethod
    def modules(self) -> tuple[str, ...]:
        """The user's modules that functions come from."""

    @property
    @abstractmethod
    def records(self) -> tuple[type, ...]:
        """The types of the user's own records, which rows may be or have."""

    def as_stored(self, outline: Sequence[str], code: str) -> DataSetProgram:  # noqa: ARG002 - most programs have one digest
        """The program with the digest that an earlier version of the package stored, if that was of the same program.

        Args:
            outline: The outline that is stored.
            code: The digest that is stored.
        """
        return self

    @abstractmethod
    def schemas(self, inputs: Sequence[Schema]) -> Mapping[str, Schema]:
        """The columns of each data set, by the name of its sink.

        Args:
            inputs: The columns of each stream.

        Raises:
            PipelineError: They are not known.
        """

    @abstractmethod
    def plan(
        self, parallelism: int, estimates: Sequence[Estimate], columns: Sequence[Schema] = ()
    ) -> tuple[OptimizedPlan, Mapping[str, int | list[Any]]]:
        """The cheapest plan, and by the name of each of its sources the number of the stream, or the rows at hand.

        Args:
            parallelism: The number of parts of operators that say nothing else.
            estimates: How much there is of each stream, and behind them of the solution set that is kept.
            columns: The columns of each stream, where they are known.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSets(ByReference):
    """A program of data sets.

    Attributes:
        program: The program. A plan that was read gives a reference, resolved when it is asked for.
    """

    kind: ClassVar[str] = "data_sets"
    referred: ClassVar[str] = "program"
    stateless: ClassVar[bool] = True
    repeatable: ClassVar[bool] = False
    by_epoch: ClassVar[bool] = True
    texts: ClassVar[tuple[str, ...]] = ("program",)
    program: DataSetProgram

    @override
    def _refer(self, given: DataSetProgram) -> ObjectReference:
        return ObjectReference.to(given, tuple(name for name in vars(given) if name not in given.kept))

    @override
    def encode(self) -> Fields:
        return {"name": self.name, "chain": self.chain, "program": self.reference}

    @override
    def config(self) -> dict[str, Any]:
        if self.is_given:
            return {"program": list(self.program.outline), "code": self.program.code}
        known = dict(self.reference.attributes)  # a plan is compared where its functions are not found any more, as a lambda
        return {"program": list(known["outline"]), "code": known["code"]}

    @override
    def going_on(self, before: LogicalOperator, were: Sequence[str], are: Sequence[str]) -> DataSets:
        """With the digest of an earlier version of the package, where that is stored: an upgrade is no change of the program."""
        if not isinstance(before, DataSets) or not self.is_given:
            return self
        known = dict(before.reference.attributes)
        program = self.program.as_stored(known["outline"], known["code"])
        return self if program is self.program else replace(self, program=program)

    @property
    @override
    def notes(self) -> tuple[str, ...]:
        if not self.is_given:
            return ()
        names: dict[str, list[str]] = {}
        for kind, name in self.program.function_kinds:
            names.setdefault(kind, []).append(name)
        return tuple(f"functions, {kind}: {', '.join(several)}" for kind, several in names.items())

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return tuple(replace(port, whole=True) for port in super().inputs(types))

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return StreamType(self.program.columns)

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return {name: StreamType(columns) for name, columns in self.program.sides.items()}

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return dict.fromkeys(self.program.columns or (), _everything(inputs))

    @override
    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        return dict.fromkeys(self.program.sides[port] or (), _everything(inputs))

    @override
    def lower(self, inputs: Sequence[StreamType]) -> DataSetWork:
        """Fragments of the cheapest plan, as jobs of the engine."""
        return DataSetWork(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSetsWithState(DataSets):
    """A program of data sets, an iteration of which goes on from its solution set of the last epoch."""

    kind: ClassVar[str] = "data_sets_with_state"
    stateless: ClassVar[bool] = False

    @override
    def lower(self, inputs: Sequence[StreamType]) -> DataSetWork:
        """The same, with the solution set as state."""
        return DataSetWorkWithState(self)


def _everything(inputs: Sequence[StreamType]) -> frozenset[tuple[int, str]]:
    return frozenset((index, column) for index, stream in enumerate(inputs) for column in stream.columns or ())


@dataclass(frozen=True)
class ProgramColumns:
    """The columns of a program's rows, each as a schema in JSON.

    Attributes:
        results: Those of each data set, by the name of its sink.
        streams: Those of each stream.
    """

    results: Mapping[str, str]
    streams: tuple[str, ...]


@dataclass(frozen=True)
class DataSetWork(RelationalOperator[ProgramColumns]):
    """A program of data sets at work.

    Attributes:
        logical: The operator that it was lowered from.
    """

    logical: DataSets

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[ProgramColumns]:
        streams = [schema_of(frame) for frame in inputs]
        with located(operator=self.logical.name):
            schemas = self.logical.program.schemas(streams)
            for schema in schemas.values():
                schema.to_arrow()  # workers are given the types
        texts = {name: schema.to_json() for name, schema in schemas.items()}
        frames = {name: empty(inputs[0].sparkSession, text) for name, text in texts.items()}
        states = {_SOLUTION: frames.pop(KEPT_SINK)} if self.states else {}
        facts = ProgramColumns(texts, tuple(schema.to_json() for schema in streams))
        return Analysis(frames.pop(SINK), states, frames, facts=facts)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[ProgramColumns]) -> Rows:
        program, name = self.logical.program, self.logical.name
        attempt = Attempt(program, name, context, analysed.facts.results, analysed.facts.streams)
        state = context.state(name, _SOLUTION) if self.states else None
        plan, results = attempt.run(inputs if state is None else [*inputs, state.read(lambda _: True)])
        if text := drawn_of(plan, results):
            context.plan_ran(name, text)
        for side in program.sides:
            context.put_out(name, side, partial(attempt.rows, results, side))
        if state is not None:
            state.drop(lambda _: True)
            if (kept := attempt.rows(results, KEPT_SINK)) is not None:
                state.append(kept)
        return attempt.rows(results, SINK)


@dataclass(frozen=True)
class DataSetWorkWithState(DataSetWork):
    """A program at work, an iteration of which goes on from its solution set of the last epoch."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState(_SOLUTION),)
