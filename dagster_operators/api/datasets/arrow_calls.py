"""Functions over Arrow in operations: where they may be, and with which columns they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dagster_operators.api.datasets.row_types import RowType, Types
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.arrow_call import ArrowFunctionCall, CallShape
from dagster_operators.operators.datasets.arrow_function import ArrowFunction
from dagster_operators.types.data_type import Field
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.api.datasets.base import Bag, Translation

_NOTHING: Final = Schema(())


class ColumnUse:
    """What an operation does with columns."""

    takes_arrow: ClassVar[bool] = False
    """Whether its function may be one over Arrow."""
    reads_columns: ClassVar[bool] = False
    """Whether it reads columns whose types it has to know."""
    keeps_columns: ClassVar[bool] = False
    """Whether its rows have the columns that come."""


def require_use(function: Any, operator: str | None, schema: str | None, operation: ColumnUse | None = None) -> None:
    """Refuse a function over Arrow where rows are asked for, and one whose columns nobody declares.

    Args:
        function: The user's function.
        operator: The operator, for errors.
        schema: The columns of its result, as its author declares them.
        operation: The operation.

    Raises:
        PipelineError: The function is over Arrow, and one of both holds.

    >>> require_use(ArrowFunction(len), "Reduce", None)
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: the operator takes a function of rows, and not one over Arrow [operator 'Reduce']. \
To do: give a function of rows; map, flat_map, filter, map_partition, reduce_group and combine_group take functions over Arrow
    """
    if not isinstance(function, ArrowFunction):
        return
    if operation is None or not operation.takes_arrow:
        raise PipelineError(
            "the operator takes a function of rows, and not one over Arrow", operator=operator,
            remedy="give a function of rows; map, flat_map, filter, map_partition, reduce_group and combine_group take "
            "functions over Arrow",
        )  # fmt: skip
    if schema is None and not operation.keeps_columns:
        raise PipelineError(
            "the columns that a function over Arrow gives are not known", operator=operator,
            remedy="declare them: schema='k string, v long'",
        )  # fmt: skip


def columns_of(row: RowType, reader: str) -> Schema:
    """The columns of rows, as a function over Arrow gets them; fields without names are f0, f1 and so on.

    Args:
        row: The fields of the rows.
        reader: The operator that reads them, for errors.

    Raises:
        PipelineError: A type is not known.

    >>> from dagster_operators.types.data_type import Plain
    >>> columns_of(RowType(None, (Plain("int"), Plain("string"))), "map").to_ddl()
    '`f0` int, `f1` string'
    """
    types = row.types
    if types is None or None in types:
        of = f" of {row.operator!r}" if row.operator else ""
        raise PipelineError(
            f"the types of the rows{of} are not known, which a function over Arrow or an expression reads", operator=reader,
            remedy="declare them where the rows are made: map(function, schema='k string, v long')",
        )  # fmt: skip
    names = row.names or tuple(f"f{number}" for number in range(len(types)))
    return Schema(tuple(Field(name, kind) for name, kind in zip(names, types, strict=True) if kind is not None))


def require_known_columns(data_sets: Iterable[Bag], types_of: Callable[[Bag], Types]) -> None:
    """Refuse functions over Arrow that read rows whose types are not known.

    Args:
        data_sets: The data sets of a program.
        types_of: The types of a data set's fields.

    Raises:
        PipelineError: Those of one are not known.
    """
    for data_set in data_sets:
        operation = data_set.operation
        given = (getattr(operation, name, None) for name in ("function", "combine"))
        if operation.reads_columns or any(isinstance(function, ArrowFunction) for function in given):
            _columns_before(data_set, types_of)


def _columns_before(data_set: Bag, types_of: Callable[[Bag], Types]) -> Schema:
    source = data_set.inputs[0]
    return columns_of(RowType(source.fields, types_of(source), source.shown), data_set.shown)


def arrow_call(
    data_set: Bag,
    function: Callable[..., Any],
    shape: CallShape,
    translation: Translation,
    *,
    combines: bool = False,
    **groups: Any,
) -> ArrowFunctionCall:
    """A function over Arrow as a data set's operator calls it.

    Args:
        data_set: What the operator makes.
        function: The function.
        shape: How it is called.
        translation: The program that it is in.
        combines: Whether it gives rows like those that come, before they move.
        groups: The key of groups, and the order of their rows.
    """
    if translation.types_of is None:
        return ArrowFunctionCall(function, shape, _NOTHING, _NOTHING, None)
    source = data_set.inputs[0]
    columns = _columns_before(data_set, translation.types_of)
    kept = combines or (shape is CallShape.CONDITION and data_set.declared is None)
    results = columns if kept or data_set.declared is None else Schema.of(data_set.declared)
    names = source.fields if kept else data_set.fields
    parameters: Mapping[str, Any] = data_set.parameters
    return ArrowFunctionCall(function, shape, columns, results, names, parameters=parameters, **groups)
