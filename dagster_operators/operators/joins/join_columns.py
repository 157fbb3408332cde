"""What the joins of two streams have in common: the keys, the columns of the output, and the checks of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.types.data_type import DataType, Decimal, Field, Plain
from dagster_operators.types.names import quoted
from dagster_operators.types.wider_type import wider_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIDES: Final = ("left", "right")
LATE: Final = ("late_left", "late_right")
"""The ports of the sides' late rows."""

_FLOAT: Final = Plain("float")
_FLOATING: Final = (_FLOAT, Plain("double"))

_T = TypeVar("_T")

How = Literal["inner", "left", "right", "full"]
"""Which rows come out without a partner: none, those of the left, of the right, or of both sides."""

HowInWindows = Literal["inner", "left", "right", "full", "semi", "anti"]
"""The same; or the left side's rows alone, once each, if they have a partner or if they have none."""

ONE_SIDED = frozenset({"semi", "anti"})
"""Joins that hand on no column of the right side."""


@dataclass(frozen=True)
class JoinColumns:
    """The columns of a join's output.

    Attributes:
        keys: The pairs of key columns; the output has the left one's name.
        own: Columns that the join itself adds behind the keys.
        left: The left side's further columns.
        right: The right side's.
        chosen: The columns that the user wants, in this order; None: all of the left, then all of the right.
    """

    keys: tuple[tuple[str, str], ...]
    own: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    chosen: tuple[str, ...] | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """The columns behind the keys and the join's own."""
        return self.chosen if self.chosen is not None else (*self.left, *self.right)

    @property
    def output(self) -> tuple[str, ...]:
        """All columns in order."""
        return (*(left for left, _ in self.keys), *self.own, *self.values)

    def lineage(self, own: frozenset[tuple[int, str]]) -> Lineage:
        """Where each column comes from; the join's own ones all from ``own``."""
        keys = {left: frozenset({(0, left), (1, right)}) for left, right in self.keys}
        sides = {column: frozenset({(0, column)}) for column in self.left}
        sides |= {column: frozenset({(1, column)}) for column in self.right}
        return {**keys, **dict.fromkeys(self.own, own), **sides}


def join_columns(
    operator: LogicalOperator,
    inputs: Sequence[Sequence[str]],
    *,
    keys: Sequence[Sequence[str]],
    own: Sequence[str] = (),
    hidden: Sequence[str] = (),
    chosen: Sequence[str] | None = None,
) -> JoinColumns:
    """Settles what a join puts out.

    Args:
        operator: The join, for errors.
        inputs: The columns of the left and of the right side.
        keys: The key columns of the left and of the right side.
        own: Columns that the join itself adds behind the keys.
        hidden: Columns that neither side hands on.
        chosen: What the user wants of the rest; None for everything.

    Raises:
        SchemaError: Two columns of the output have one name, or a chosen column is missing.
    """
    pairs = tuple(zip(*keys, strict=True))
    left, right = (
        [column for column in columns if column.lower() not in {name.lower() for name in (*side, *hidden)}]
        for columns, side in zip(inputs, keys, strict=True)
    )
    names = [column.lower() for column in (*left, *right)]
    wanted: tuple[str, ...] | None = None
    if chosen is not None:
        known = {column.lower(): column for column in (*left, *right)}
        for name in chosen:
            if name.lower() not in known:
                raise SchemaError(
                    f"columns= names {name!r}, which the join does not have besides the key", operator=operator.name, column=name,
                    remedy=f"use some of: {', '.join(known.values())}",
                )  # fmt: skip
        wanted = tuple(known[name.lower()] for name in chosen)
        left, right = ([column for column in side if column in wanted] for side in (left, right))
    taken = {name.lower() for name in (*(pair[0] for pair in pairs), *own)}
    for column in (*left, *right):
        if names.count(column.lower()) > 1 or column.lower() in taken:
            whose = "both sides have" if names.count(column.lower()) > 1 else "a side has"
            raise SchemaError(
                f"{whose} a column {column!r}" + (", which the join's output has too" if column.lower() in taken else ""),
                operator=operator.name,
                column=column,
                remedy=f"rename or drop it on one side before the join: .rename({{{column!r}: 'other_{column}'}}); "
                "or leave it out of columns=",
            )
    return JoinColumns(pairs, tuple(own), tuple(left), tuple(right), wanted)


class Joining(Protocol):
    """A join of two streams, as much of it as its lineage asks."""

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns that the user wants; None for all."""

    @property
    def how(self) -> str:
        """Which rows come out without a partner."""

    def joined(self, inputs: Sequence[Sequence[str]]) -> JoinColumns:
        """The output's columns for inputs with these columns."""


def join_lineage(join: Joining, inputs: Sequence[StreamType], own: frozenset[tuple[int, str]] = frozenset()) -> Lineage:
    """Where each column of a join comes from, as far as it is known before anybody has looked into the sources.

    Of a side whose columns are not known are those that the user names and that the other side does not have. Where
    neither side's are known, it is known of the keys alone.

    Args:
        join: The join.
        inputs: Its sides.
        own: What its own columns come from.
    """
    given = [stream.columns for stream in inputs]
    if join.how in ONE_SIDED:
        given[1] = ()
    if None not in given or join.columns is None:
        return join.joined([columns or () for columns in given]).lineage(own)
    there = {name.lower() for columns in given for name in columns or ()}
    others = [name for name in join.columns if name.lower() not in there]
    if given[0] is None and given[1] is None:
        found = join.joined((others, ())).lineage(own)
        return {column: origins for column, origins in found.items() if column not in others}
    return join.joined([others if columns is None else columns for columns in given]).lineage(own)


def sides(
    keys: Sequence[tuple[str, ...]], *, window: bool = False, accepts: frozenset[ChangeKind] = frozenset({ChangeKind.APPEND})
) -> tuple[InputPort, ...]:
    """The input ports of a join on these keys of its sides, which take rows of some kinds."""
    remedy = "write join(other, on=...), which takes rows that change; or join before the aggregate, or aggregate in windows"
    return tuple(
        InputPort(side, accepts, by_keys(columns, window=window), remedy) for side, columns in zip(SIDES, keys, strict=True)
    )


def late_outputs(inputs: Sequence[_T]) -> dict[str, _T]:
    """The ports of late rows, which have what each side has.

    >>> late_outputs(["flights", "airports"])
    {'late_left': 'flights', 'late_right': 'airports'}
    """
    return dict(zip(LATE, inputs, strict=True))


def late_lineage(port: str, inputs: Sequence[StreamType]) -> Lineage:
    """Where the columns of late rows come from: from their side."""
    side = LATE.index(port)
    return {column: frozenset({(side, column)}) for column in inputs[side].columns or ()}


def check_sides(
    operator: LogicalOperator, inputs: Sequence[StreamType], keys: Sequence[Sequence[str]], how: str, ways: Sequence[str]
) -> None:
    """Raise unless two streams are joined on as many keys in one of these ways."""
    if how not in ways:
        raise PipelineError(f"the join cannot be {how!r}", operator=operator.name, remedy=f"use one of {', '.join(ways)}")
    if len(keys[0]) != len(keys[1]):
        raise PipelineError(
            f"the left side has the keys {', '.join(keys[0]) or 'none'}, the right side {', '.join(keys[1]) or 'none'}",
            operator=operator.name,
            remedy="key both sides by as many columns; they are compared in order",
        )
    for side, stream, columns in zip(SIDES, inputs, keys, strict=True):
        operator.require(stream, columns, f"the key of the {side} side")


def check_key_kinds(columns: JoinColumns, left: DataFrame, right: DataFrame) -> None:
    """Raise for a pair of keys of different kinds: an engine would cast one, and fail or match nothing while an epoch runs.

    On Sail also for a pair that it makes another type of than Spark does.
    """
    for one, other in columns.keys:
        found = (schema_of(left).find(one), schema_of(right).find(other))
        kinds = [None if field is None else field.type.kind for field in found]
        if kinds[0] != kinds[1]:
            raise SchemaError(
                f"the key {one!r} is a {kinds[0]} on the left side, and {other!r} a {kinds[1]} on the right",
                column=one,
                remedy=_cast([(one, found[0]), (other, found[1])]),
            )
        types = [field.type for field in found if field is not None]
        if types_differ_on_sail(types) and not reads_like_spark(left.sparkSession):
            raise keys_of_two_types((one, other), types, ": Sail makes another type of both than Spark")


def types_differ_on_sail(types: Sequence[DataType]) -> bool:
    """Whether Sail makes another type of some than Spark, which makes doubles: a FLOAT, or a decimal with few places.

    >>> [types_differ_on_sail([one, Plain("bigint")]) for one in (Plain("float"), Plain("double"), Decimal(10, 2))]
    [True, False, False]
    """
    floating = [kind for kind in types if kind in _FLOATING]
    return bool(floating) and any(isinstance(kind, Decimal) or (_FLOAT in floating and kind.is_whole_number) for kind in types)


def keys_of_two_types(pair: Sequence[str], types: Sequence[DataType], why: str = "") -> SchemaError:
    """What is said of a pair of keys, of the left and of the right side, that are to have one type."""
    wider = wider_type(types[0], types[1]) or types[0]
    casts = [
        f"{side}.with_columns({name}='CAST({name} AS {wider})')"
        for side, name, kind in zip(SIDES, pair, types, strict=True)
        if kind != wider
    ]
    return SchemaError(
        f"the key {pair[0]!r} is {types[0]} on the left side, and {pair[1]!r} {types[1]} on the right{why}",
        column=pair[0],
        remedy=f"give both one type before the join: {', '.join(casts)}",
    )


def _cast(keys: Sequence[tuple[str, Field | None]]) -> str:
    """How keys of two kinds are made one: the one that is a string is read as the other's type."""
    types = ["STRING" if field is None else field.type.sql for _, field in keys]
    side = 0 if types[0].upper() == "STRING" else 1
    name, wanted = keys[side][0], types[1 - side]
    return f"cast one of them before the join: with_columns({name}='CAST({name} AS {wanted})') on the {SIDES[side]} side"


def side_rows(frame: DataFrame, side: str, keys: Sequence[str], values: Sequence[str], extra: Sequence[str] = ()) -> DataFrame:
    """One side's rows with keys named by the side and their position, and expressions of its own."""
    numbered = [f"{quoted(key)} AS __{side}_{position}" for position, key in enumerate(keys)]
    return frame.selectExpr(*numbered, *extra, *map(quoted, values))


def equal_keys(number: int) -> list[str]:
    """The conditions that the keys of two :func:`side_rows` are equal; null equals nothing."""
    return [f"__left_{position} = __right_{position}" for position in range(number)]


def merged_keys(columns: JoinColumns, how: str) -> list[str]:
    """The output's keys, whichever side has them."""
    return [f"{from_either(str(i), how)} AS {quoted(left)}" for i, (left, _) in enumerate(columns.keys)]


def from_either(column: str, how: str) -> str:
    """A column that both sides have under their names, from the one that has a row.

    >>> from_either("0", "full"), from_either("0", "semi")
    ('coalesce(__left_0, __right_0)', '__left_0')
    """
    return f"__left_{column}" if how in ONE_SIDED else f"coalesce(__left_{column}, __right_{column})"
