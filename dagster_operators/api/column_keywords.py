"""Columns that are given as keywords, beside the keyword ``name``, which is the operator's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import is_name


def columns_and_more(
    given: Mapping[str, str] | None,
    more: Mapping[str, str],
    name: str | None,
    argument: str,
    could_be_meant: Callable[[str], bool] = lambda _: False,
    **where: Any,
) -> dict[str, str]:
    """All columns of a call: those of its mapping, then those of its keywords.

    A column may be called ``name``, and the keyword of that name is the operator's. Where a text could be meant for the column,
    the call is refused: the column would stay as it was, without a word. A mapping says what is meant.

    Args:
        given: The columns of the mapping; None where there is no mapping.
        more: The columns of keywords.
        name: What the keyword ``name`` was given.
        argument: What the mapping is called in YAML.
        could_be_meant: Whether such a text is as good for the column as for the operator.
        where: What the error says of the place.

    Raises:
        PipelineError: It is no name of an operator, or is as good for the column.

    >>> columns_and_more({"a b": "x"}, {"c": "y"}, "renamed", "names")
    {'a b': 'x', 'c': 'y'}
    >>> columns_and_more({"c": "y"}, {}, "label", "names", lambda _: True)
    {'c': 'y'}
    >>> columns_and_more(None, {"c": "y"}, "upper(label)", "expressions")
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: 'upper(label)' is no name for an operator. To do: use letters, digits and ...
    """
    if isinstance(name, str):
        columns = {**(given or {}), "name": name, **more}
        column = f"for a column called name give the columns as one mapping: {columns!r} (in YAML as {argument!r})"
        if not is_name(name):
            raise PipelineError(
                f"{name!r} is no name for an operator", **where,
                remedy=f"use letters, digits and underscores, a letter first; {column}",
            )  # fmt: skip
        if given is None and could_be_meant(name):
            raise PipelineError(
                f"name={name!r} may be the name of the operator, or of a column called name", **where,
                remedy=f"{column}; for the operator's name the others: {dict(more)!r}, name={name!r}",
            )  # fmt: skip
    return {**(given or {}), **more}


def is_one_of(columns: Sequence[str] | None, text: str) -> bool:
    """Whether a text is the name of a column, in any case; of columns that are not known it is none.

    >>> is_one_of(("Label",), "label"), is_one_of(None, "label")
    (True, False)
    """
    return columns is not None and text.lower() in map(str.lower, columns)
