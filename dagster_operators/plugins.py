"""What packages that bring operators import: all that operators and rules need.

These names stay where they are. ``docs/plugins.md`` is the recipe; ``dagster_operators.testing`` is what such packages test with.
"""

from dagster_operators.catalog.catalog import Catalog
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError
from dagster_operators.graph.alternatives import Alternative, Cost, RowsGoToTable
from dagster_operators.graph.changes import ChangeKind, Changes
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.exchange import Broadcast, Exchange, Forward, Gather, HashBy, by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import MAIN, InputPort, StreamRef
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.graph.state_tables import GlobalState, KeyedState, ListState, StateTable, TimeState
from dagster_operators.operators.batch_operator import BatchOperator, PortSchemas, key_types
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.exchanged import exchanged
from dagster_operators.operators.executable.executable_operator import ExecutableOperator
from dagster_operators.operators.executable.execution_context import ExecutionContext
from dagster_operators.operators.executable.operator_handler import OperatorHandler, Termination
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    Part,
    Parts,
    PhysicalOperator,
    PhysicalState,
    RelationalOperator,
    Rows,
    RunFile,
    StageContext,
    Stateless,
    StateRuns,
)
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.projection import Drop, Rename, Select, WithColumns
from dagster_operators.operators.relational.ranking import NUMBER, first_rows
from dagster_operators.operators.relational.union import Union
from dagster_operators.operators.stage_parts import InputEdge
from dagster_operators.operators.worker_program import Isolation, ProgramContext, ProgramOutput, WorkerProgram
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.types.data_type import DataType
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

__all__ = [
    "MAIN",
    "NUMBER",
    "Alternative",
    "Analysed",
    "Analysis",
    "BatchOperator",
    "Broadcast",
    "Catalog",
    "ChangeKind",
    "Changes",
    "Cost",
    "DataType",
    "Dataflow",
    "Drop",
    "Exchange",
    "ExecutableOperator",
    "ExecutionContext",
    "Filter",
    "Forward",
    "Forwarding",
    "Gather",
    "GlobalState",
    "HashBy",
    "InputEdge",
    "InputPort",
    "Isolation",
    "KeyedState",
    "Lineage",
    "ListState",
    "LogicalOperator",
    "OperatorHandler",
    "OperatorsError",
    "Part",
    "Parts",
    "PhysicalOperator",
    "PhysicalState",
    "PipelineError",
    "PortSchemas",
    "ProgramContext",
    "ProgramOutput",
    "RelationalOperator",
    "Rename",
    "Rewriting",
    "Rewritten",
    "Rows",
    "RowsGoToTable",
    "Rule",
    "RunFile",
    "Schema",
    "SchemaError",
    "Select",
    "StageContext",
    "StateRuns",
    "StateTable",
    "Stateless",
    "StreamRef",
    "StreamType",
    "Termination",
    "TimeState",
    "Union",
    "WithColumns",
    "WorkerProgram",
    "by_keys",
    "exchanged",
    "first_rows",
    "key_types",
    "quoted",
    "same_columns",
    "schema_of",
]
