"""The columns of a data set's rows, once those of the streams are known."""

from __future__ import annotations

from collections.abc import Mapping

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.row_types import Types
from dagster_operators.api.datasets.stream_input import StreamInput
from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import StreamRef
from dagster_operators.types.data_type import Field
from dagster_operators.types.schema import Schema


def schema_of(data_set: Bag, inputs: Mapping[StreamRef, Schema]) -> Schema:
    """The columns that a data set's rows are written as.

    Args:
        data_set: The data set.
        inputs: The columns of each stream.

    Raises:
        PipelineError: A field has no name, or its type is not known; or types within the program do not fit.
    """
    types = types_of(data_set, inputs)
    if data_set.declared is not None:
        return Schema.of(data_set.declared).with_nulls()
    if data_set.fields is None:
        raise _unknown(data_set, "the names of the fields are not known")
    if types is None:
        raise _unknown(data_set, "the types of the fields are not known")
    fields = []
    for name, kind in zip(data_set.fields, types, strict=True):
        if kind is None:
            raise _unknown(data_set, f"the type of the field {name!r} is not known")
        fields.append(Field(name, kind))
    return Schema(tuple(fields)).with_nulls()


def _unknown(data_set: Bag, problem: str) -> PipelineError:
    return PipelineError(
        problem, operator=data_set.shown,
        remedy="declare them where the function is given: map(function, schema='k string, v long'), or when the rows go out: "
        "to_table('t', schema='k string, v long')",
    )  # fmt: skip


def types_of(data_set: Bag, inputs: Mapping[StreamRef, Schema]) -> Types:
    """The types of a data set's fields.

    Args:
        data_set: The data set.
        inputs: The columns of each stream.

    Raises:
        PipelineError: Types within the program do not fit: keys of different types, a union of different rows, and the like.
    """
    return KnownTypes(inputs).of(data_set)


class KnownTypes:
    """The types of data sets' fields, once the columns of the streams are known.

    Args:
        inputs: The columns of each stream.
    """

    def __init__(self, inputs: Mapping[StreamRef, Schema]) -> None:
        self._inputs = inputs
        self._known: dict[Bag, Types] = {}

    def of(self, data_set: Bag) -> Types:
        """The types of a data set's fields.

        Raises:
            PipelineError: Types within the program do not fit: keys of different types, a union of different rows, and the like.
        """
        waiting, known = [data_set], self._known
        while waiting:
            current = waiting[-1]
            missing = [source for source in current.read if source not in known]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            operation = current.operation
            if isinstance(operation, StreamInput) and operation.stream in self._inputs:
                known[current] = tuple(field.type for field in self._inputs[operation.stream].fields)
            else:
                known[current] = current.typed(known)
        return known[data_set]
