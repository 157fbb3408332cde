"""What operators of every family that runs in workers lower to: programs over Arrow batches behind the driver's exchange."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.graph.exchange import Exchange, HashBy
from dagster_operators.graph.places import PLACES
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.engine_schema import empty_as_declared, schema_of
from dagster_operators.operators.physical import Analysis, PhysicalOperator
from dagster_operators.types.arrow_schema import spark_type
from dagster_operators.types.data_type import DataType
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from dagster_operators.graph.state_tables import StateTable
    from dagster_operators.operators.worker_program import Isolation, WorkerProgram


@dataclass(frozen=True)
class PortSchemas:
    """The rows that a batch operator takes and puts out, as Arrow.

    Attributes:
        inputs: The schema of each input.
        outputs: The schema of each output, by port.
    """

    inputs: tuple[pa.Schema, ...]
    outputs: Mapping[str, pa.Schema]


@dataclass(frozen=True)
class BatchOperator(PhysicalOperator[PortSchemas]):
    """A physical operator of the batch kind: Python over Arrow batches in the engine's workers.

    Which rows meet in a subtask follows from the exchanges of its inputs. Of inputs hashed by keys, all have as many.
    """

    in_workers: ClassVar[bool] = True

    @property
    def holds_time(self) -> bool:
        """Whether it may hold the time of its outputs; then a stage begins behind it, because it counts for all subtasks."""
        return False

    @property
    def ordered_by(self) -> tuple[str, ...]:
        """Columns of all its inputs that a subtask is to get its rows of an epoch in the order of, nulls first."""
        return ()

    @property
    def is_numbered(self) -> bool:
        """Whether its rows come with their numbers, in the further columns of :func:`numbered`."""
        return False

    @property
    def is_placed(self) -> bool:
        """Whether numbered rows that are equal in ``ordered_by`` come in the order of their source, as far as that knows it."""
        return False

    @property
    def wants_order(self) -> bool:
        """Whether it cannot take rows as another program puts them out; then a graph of programs begins with it."""
        return self.is_numbered or bool(self.ordered_by)

    @override
    def chains_after(self, before: PhysicalOperator[Any]) -> bool:
        """As others do; but only rows that are in files have numbers."""
        return not (self.is_numbered or before.in_workers)

    @property
    def belongs_together(self) -> bool:
        """Whether it must be in the same subtasks as the other parts of its logical operator, with which it shares something."""
        return False

    @property
    def isolation(self) -> Isolation | None:
        """How it is to run in a process of its own, if it is."""
        return None

    @property
    def module(self) -> str | None:
        """The user's module that the program comes from; what is defined there is sent along."""
        return None

    @abstractmethod
    def program(self) -> WorkerProgram:
        """What runs in the workers; it is pickled."""

    @abstractmethod
    def outputs(self, inputs: Sequence[pa.Schema]) -> Mapping[str, pa.Schema]:
        """The schema of each output port for inputs of these schemas, that of the main one first.

        Raises:
            SchemaError: The inputs do not fit.
        """

    def tables(self, ports: PortSchemas) -> Mapping[str, StateTable]:  # noqa: ARG002
        """Its state tables by name, which are those of ``states``, for inputs of these schemas.

        Raises:
            SchemaError: Their types do not fit those of the inputs, or cannot be stored.
        """
        return {}

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[PortSchemas]:
        session = inputs[0].sparkSession
        schemas = tuple(schema_of(frame).with_nulls().to_arrow() for frame in inputs)
        ports = PortSchemas(schemas, self.outputs(schemas))
        frames = {port: empty_as_declared(session, _ddl(schema)) for port, schema in ports.outputs.items()}
        states = {name: empty_as_declared(session, table.stored_ddl) for name, table in self.tables(ports).items()}
        return Analysis(frames[MAIN], states, frames, facts=ports)


ORIGIN: Final = "__do_origin"
"""The column with the stream that a row comes from."""

SEQUENCE: Final = "__do_sequence"
"""The column with the row's number in it, unique and ascending from epoch to epoch."""


NUMBERS: Final = (*PLACES, ORIGIN, SEQUENCE)
"""All columns that such rows may have beside their own."""


def numbered(schema: pa.Schema, *, placed: bool = False) -> pa.Schema:
    """The schema of rows that come with their numbers, and perhaps with their places in their source.

    >>> import pyarrow as pa
    >>> numbered(pa.schema([("v", pa.int64())])).names
    ['v', '__do_origin', '__do_sequence']
    """
    import pyarrow as pa

    if placed:
        schema = pa.schema([*schema, *((name, pa.int64()) for name in PLACES)])
    return schema.append(pa.field(ORIGIN, pa.string())).append(pa.field(SEQUENCE, pa.int64()))


def keys_of(exchange: Exchange) -> tuple[str, ...]:
    """The columns that an exchange distributes rows by; none if it is not by keys.

    >>> from dagster_operators.graph.exchange import Gather
    >>> keys_of(HashBy(("k",))), keys_of(Gather())
    (('k',), ())
    """
    return exchange.keys if isinstance(exchange, HashBy) else ()


def key_types(keys: Sequence[str], schema: pa.Schema, tables: Mapping[str, StateTable]) -> list[DataType]:
    """The Spark types that key columns are hashed as: a state table's, where one has the column, else the stream's.

    >>> import pyarrow as pa
    >>> from dagster_operators import KeyedState
    >>> schema = pa.schema([("k", pa.int32()), ("j", pa.int32())])
    >>> list(map(str, key_types(["k", "j"], schema, {"totals": KeyedState("k long, total long", key="k")})))
    ['bigint', 'int']
    """
    declared = column_types(tables)
    return [declared.get(key) or spark_type(schema.field(key).type) for key in keys]


def column_types(tables: Mapping[str, StateTable]) -> dict[str, DataType]:
    """The Spark types of the columns that state tables declare; of several of one name the first counts."""
    found: dict[str, DataType] = {}
    for table in tables.values():
        for field in table.fields:
            found.setdefault(field.name, field.type)
    return found


def _ddl(schema: pa.Schema) -> str:
    return Schema.from_arrow(schema).with_nulls().to_ddl(everything=False)
