"""Results of groups over all epochs: those of an epoch's rows, merged with those that are kept of the epochs before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.errors import located
from dagster_operators.functions.references import ObjectReference
from dagster_operators.functions.shipping import pickled_with
from dagster_operators.graph.changes import Changes
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, StreamType, same_columns
from dagster_operators.graph.ports import MAIN, InputPort
from dagster_operators.graph.state_tables import KeyedState, ListState, StateTable
from dagster_operators.graph.values import Fields
from dagster_operators.operators.batch_operator import BatchOperator, PortSchemas
from dagster_operators.operators.by_reference import ByReference
from dagster_operators.operators.datasets.over_epochs_program import ALL, LISTS, ROWS, MergedGroups
from dagster_operators.operators.physical import PhysicalState
from dagster_operators.optimizer.strategies import DriverStrategy
from dagster_operators.types.data_type import Field, Plain
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.datasets.drivers.driver import Work
    from dagster_operators.operators.worker_program import WorkerProgram


class GroupMerge(ABC):
    """What makes one result of the results of a group in several epochs.

    Attributes:
        outline: A line for each of its settings.
        functions: The user's functions.
        code: A digest of the functions and of what they are given.
        appends: Whether rows that came out stay as they are, and no others of their group take their place.
        several: Whether a group has several rows.
        result: The columns of results that are made of the rows that are kept, as DDL; empty where these are the results.
    """

    kept: ClassVar[tuple[str, ...]] = ("outline", "functions", "code", "appends", "several", "result")
    """The attributes that a stored plan has."""
    outline: tuple[str, ...]
    functions: tuple[Any, ...]
    code: str
    appends: bool
    several: bool
    result: str

    @property
    @abstractmethod
    def modules(self) -> tuple[str, ...]:
        """The user's modules that functions come from."""

    @abstractmethod
    def steps(self) -> Sequence[tuple[DriverStrategy, Work]]:
        """How the rows of groups are merged, and the work of it; and the same for results that are made of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupsOverEpochs(ByReference):
    """The results of groups over all epochs.

    Attributes:
        merge: What makes one result of several. A plan that was read gives a reference, resolved when it is asked for.
        keys: The columns that groups have in common; empty where all rows are one group.
    """

    kind: ClassVar[str] = "groups_over_epochs"
    referred: ClassVar[str] = "merge"
    repeatable: ClassVar[bool] = False
    texts: ClassVar[tuple[str, ...]] = ("merge",)
    merge: GroupMerge
    keys: tuple[str, ...]

    @override
    def _refer(self, given: GroupMerge) -> ObjectReference:
        return ObjectReference.to(given, tuple(name for name in vars(given) if name not in given.kept))

    @override
    def encode(self) -> Fields:
        return {"name": self.name, "chain": self.chain, "merge": self.reference, "keys": self.keys}

    @override
    def config(self) -> dict[str, Any]:
        known = vars(self.merge) if self.is_given else dict(self.reference.attributes)
        return {"merge": list(known["outline"]), "code": known["code"], "keys": list(self.keys)}

    def _said(self, name: str) -> Any:
        """What the merge says, also where a plan has it alone."""
        return getattr(self.merge, name) if self.is_given else dict(self.reference.attributes)[name]

    @property
    @override
    def unfit_for_loops(self) -> str:
        return "it keeps the results of all epochs, and the rows of a loop are of one"

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=by_keys(self.keys)),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        self.require(inputs[0], self.keys, "group_by")
        changes, result = Changes.APPEND if self._said("appends") else Changes.upsert(self.keys), self._said("result")
        columns = Schema.from_ddl(result).names if result else inputs[0].columns
        return StreamType(columns, changes=changes)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        if not self._said("result"):
            return same_columns(inputs[0])
        everything = frozenset((0, column) for column in inputs[0].columns or ())
        return dict.fromkeys(self.output(inputs).columns or (), everything)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> OverEpochsWork:
        """A program in the workers, behind a shuffle by key group."""
        return OverEpochsWork(self)


@dataclass(frozen=True)
class OverEpochsWork(BatchOperator):
    """The results of groups over all epochs, in the engine's workers.

    Attributes:
        logical: The operator that it was lowered from.
    """

    logical: GroupsOverEpochs

    @property
    @override
    def exclusive(self) -> bool:
        """Whether its rows are brought together by key, or in one place: they are."""
        return True

    @property
    def _table(self) -> str:
        return LISTS if self.logical.merge.several else ROWS

    @property
    def states(self) -> tuple[PhysicalState, ...]:  # type: ignore[override]
        """The rows of the groups."""
        return (PhysicalState(self._table),)

    @override
    def program(self) -> WorkerProgram:
        name, merge = self.logical.name, self.logical.merge
        steps = pickled_with(merge.steps(), merge.modules, name)
        return MergedGroups(steps, self.logical.keys, self._table, appends=merge.appends)

    @override
    def outputs(self, inputs: Sequence[pa.Schema]) -> Mapping[str, pa.Schema]:
        result = self.logical.merge.result
        return {MAIN: Schema.from_ddl(result).with_nulls().to_arrow() if result else inputs[0]}

    @override
    def tables(self, ports: PortSchemas) -> Mapping[str, StateTable]:
        fields = Schema.from_arrow(ports.inputs[0]).fields
        keys: tuple[str, ...] = self.logical.keys
        if not keys:
            fields, keys = (Field(ALL, _ALL), *fields), (ALL,)
        kind = ListState if self.logical.merge.several else KeyedState
        with located(operator=self.logical.name):
            table = kind(Schema(fields).to_ddl(), keys)
            table.check_types()
        return {self._table: table}


_ALL: Final = Plain("int")
