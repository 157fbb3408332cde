"""Random schemas."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st

from dagster_operators.types.data_type import Array, DataType, Decimal, Field, Map, Plain, Struct
from dagster_operators.types.schema import Schema

CARRIED = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp",
    "timestamp_ntz",
)  # fmt: skip
"""The types that Arrow has one of its own for."""

_NAMES = st.text(string.ascii_letters + "_ 0`.ü<,:", min_size=1, max_size=5)
_TEXTS = st.text(string.ascii_letters + "'\\\" \n", max_size=8)
_DECIMALS = st.integers(1, 38).flatmap(lambda digits: st.builds(Decimal, st.just(digits), st.integers(0, digits)))


def types(*, plain: tuple[str, ...] = CARRIED, nulls: st.SearchStrategy[bool] | None = None) -> st.SearchStrategy[DataType]:
    """Types of these and of decimals, and arrays, maps and structs of them.

    Args:
        plain: The names of the types without anything in them.
        nulls: Whether elements, values and fields may be null; by default now and then.
    """
    may = st.booleans() if nulls is None else nulls
    return st.recursive(
        st.sampled_from(plain).map(Plain) | _DECIMALS,
        lambda inner: (
            st.builds(Array, inner, may)
            | st.builds(Map, inner, inner, may)
            | fields(inner, may, st.just({}), least=0).map(lambda parts: Struct(tuple(parts)))
        ),
        max_leaves=6,
    )


def fields(
    kinds: st.SearchStrategy[DataType],
    nulls: st.SearchStrategy[bool],
    metadata: st.SearchStrategy[dict[str, Any]],
    *,
    least: int = 1,
) -> st.SearchStrategy[list[Field]]:
    """Columns of different names."""
    field = st.builds(Field, _NAMES, kinds, nulls, metadata)
    return st.lists(field, min_size=least, max_size=3, unique_by=lambda one: one.name.lower())


def schemas(
    kinds: st.SearchStrategy[DataType] | None = None, metadata: st.SearchStrategy[dict[str, Any]] | None = None
) -> st.SearchStrategy[Schema]:
    """Schemas of columns of these types."""
    columns = fields(types() if kinds is None else kinds, st.booleans(), st.just({}) if metadata is None else metadata)
    return columns.map(lambda parts: Schema(tuple(parts)))


comments = _TEXTS.map(lambda text: {"comment": text}) | st.just({})
"""What DDL can say of a column."""

anything = st.dictionaries(_NAMES, st.none() | st.booleans() | st.integers() | _TEXTS, max_size=2)
"""What JSON can say of a column."""
