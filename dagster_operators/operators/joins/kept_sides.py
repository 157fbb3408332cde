"""What joins keep of their sides: the columns that are wanted, and the keys in one type, by which rows of both are looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dagster_operators.graph.changes import CHANGE
from dagster_operators.operators.aggregates.partial_results import one_zero_one_nan
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.joins.join_columns import JoinColumns, check_key_kinds, keys_of_two_types
from dagster_operators.operators.relational.weighted_rows import WEIGHT
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY: Final = "__key_"
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")


def key_names(number: int) -> tuple[str, ...]:
    """What so many keys are called in the state.

    >>> key_names(2)
    ('__key_0', '__key_1')
    """
    return tuple(f"{_KEY}{place}" for place in range(number))


@dataclass(frozen=True)
class JoinFacts:
    """What a join finds out of its inputs' types.

    Attributes:
        columns: What it puts out.
        kept: What it keeps of each side besides the keys.
        key_types: The types of the keys, as SQL.
        ordering: The right side's columns that say which row counts, of those of one time, with their names in the state.
    """

    columns: JoinColumns
    kept: tuple[tuple[str, ...], tuple[str, ...]]
    key_types: tuple[str, ...]
    ordering: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns of the state of both sides."""
        return key_names(len(self.columns.keys))

    def key_columns(self, side: int) -> Sequence[str]:
        """SQL for the key columns of the state, from the rows of a side."""
        pairs = zip(self.columns.keys, self.key_types, self.keys, strict=True)
        return [f"{one_zero_one_nan(f'CAST({quoted(pair[side])} AS {kind})', kind)} AS {name}" for pair, kind, name in pairs]

    def output(self, rows: DataFrame, keys: Sequence[str], values: Sequence[str], weight: str = WEIGHT) -> DataFrame:
        """Rows with the output's columns and weights, said to be nullable, for an engine that believes a union's first side.

        Args:
            rows: The rows.
            keys: SQL for the keys.
            values: SQL for the columns behind them.
            weight: SQL for the weight.
        """
        names = [*(left for left, _ in self.columns.keys), *self.columns.values]
        pairs = zip([*keys, *values], names, strict=True)
        named = (f"CASE WHEN {weight} <> 0 THEN {value} END AS {quoted(name)}" for value, name in pairs)
        return rows.selectExpr(*named, f"{weight} AS {WEIGHT}")


def without_changes(inputs: Sequence[DataFrame], retracting: Sequence[bool]) -> list[DataFrame]:
    """The sides' own columns: without what is done to a row, of the sides whose rows may be taken back."""
    return [frame.drop(CHANGE) if taken else frame for frame, taken in zip(inputs, retracting, strict=True)]


def key_types(columns: JoinColumns, left: DataFrame, right: DataFrame) -> tuple[str, ...]:
    """The types in which the keys of both sides are compared, as SQL.

    Raises:
        SchemaError: A pair of keys has two types, and not both are whole numbers.
    """
    check_key_kinds(columns, left, right)
    return tuple(_key_type(pair, left, right) for pair in columns.keys)


def _key_type(pair: tuple[str, str], left: DataFrame, right: DataFrame) -> str:
    """The type in which a pair of keys is compared: theirs, or the wider of two whole numbers.

    Raises:
        SchemaError: They have different types otherwise.
    """
    found = [schema_of(frame).find(name) for frame, name in zip((left, right), pair, strict=True)]
    types = [field.type for field in found if field is not None]
    kinds = [str(kind) for kind in types]
    if kinds[0] == kinds[1]:
        return kinds[0]
    if all(kind in _WHOLE for kind in kinds):
        return max(kinds, key=_WHOLE.index)
    raise keys_of_two_types(pair, types)
