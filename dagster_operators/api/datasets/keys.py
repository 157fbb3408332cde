"""Keys of data sets: fields by position or name, nested fields, the whole row, or a function that computes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.rows import WHOLE
from dagster_operators.optimizer.properties.fields import Field, Fields

KeyFunction: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Keys:
    """A key of a data set.

    Attributes:
        fields: Its fields; of a computed key the first one, which the key takes in front of the row.
        function: What computes it; None where it is of fields.
    """

    fields: Fields
    function: KeyFunction | None = None


def keys_of(given: Sequence[Field | KeyFunction], names: Sequence[str] | None) -> Keys:
    """A key, as the user writes it.

    Args:
        given: Fields, or one function.
        names: The names of the data set's fields; None where they have none.

    Raises:
        PipelineError: There is no key, a field that is not there, or a function beside others.

    >>> keys_of(["v", 0], ["k", "v"]).fields, keys_of(["f1"], None).fields, keys_of(["*"], ["k", "v"]).fields
    ((1, 0), (1,), (0, 1))
    """
    if not given:
        raise PipelineError("there is no key", remedy="name fields, by position or name, or give a function")
    functions = [key for key in given if callable(key)]
    if functions:
        if len(given) > 1:
            raise PipelineError(
                "a function computes a key alone", remedy="let one function give a tuple with all parts of the key"
            )
        return Keys((0,), functions[0])
    fields: list[Field] = []
    for key in given:
        if not isinstance(key, int | str):
            raise PipelineError(f"{key!r} is no field", remedy="name fields by position or name")
        fields += range(len(names)) if key == WHOLE and names else [position(key, names)]
    return Keys(tuple(fields))


def position(field: Field, names: Sequence[str] | None) -> Field:
    """A field by its position, as far as it has one; nested fields and the whole row stay as they are.

    Raises:
        PipelineError: The data set has no such field.

    >>> position("v", ["k", "v"]), position("f0.f1", None), position("f2", None)
    (1, 'f0.f1', 2)
    """
    if isinstance(field, int):
        if field < 0 or (names is not None and field >= len(names)):
            known = f": {', '.join(names)}" if names else ""
            raise PipelineError(f"there is no field {field}", remedy=f"count fields from 0{known}")
        return field
    if names is not None and field in names:
        return names.index(field)
    if field[:1] == "f" and field[1:].isdecimal():
        return position(int(field[1:]), names)
    first = field.partition(".")[0]
    if names is not None and "." not in field and field != WHOLE:
        raise PipelineError(f"there is no field {field!r}", column=field, remedy=f"use one of: {', '.join(names)}")
    if names is not None and "." in field and first not in names:
        raise PipelineError(f"there is no field {first!r}", column=first, remedy=f"use one of: {', '.join(names)}")
    return field
