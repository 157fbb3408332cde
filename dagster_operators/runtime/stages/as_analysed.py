"""Operators of other packages put out what they said when the engine was asked about them."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_operators.errors import SchemaError
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.physical import Analysed, Rows
from dagster_operators.planner.physical_plan import PhysicalNode
from dagster_operators.types.schema import Schema


def check_as_analysed(node: PhysicalNode, rows: Rows, analysed: Analysed[object]) -> None:
    """See that the rows of a plug-in operator have the columns and types that its analysis gave; this package's are not asked.

    Raises:
        SchemaError: They have others, which would be in files that say something else.
    """
    if rows is None or type(node.operator).__module__.startswith("dagster_operators."):
        return
    said, found = (list(schema.types.items()) for schema in (Schema.from_json(analysed.output), schema_of(rows)))
    if said != found:
        raise SchemaError(
            f"{type(node.operator).__name__} said that it puts out {_told(said)}, and puts out {_told(found)}",
            operator=node.logical, remedy="let analyse() and run() of the physical operator make the same columns",
        )  # fmt: skip


def _told(columns: Sequence[tuple[str, object]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)
