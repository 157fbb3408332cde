"""Work by key, in which keys are forgotten that nothing came of for a while, around an operator that knows nothing of it.

A state table has for each key when its rows begin and the newest event time that it had. A key begins with the first row that
comes of it, at what the watermark says then: rows further back than what is kept are late, then and later. When a key is
forgotten and a row of it comes again, it begins anew, with a greater beginning. The beginning is a key column of its own for the
operator within, so that for it these are two keys: what it has of the first one is nobody's any more, and goes in time.

A row and the change that takes it back have one event time, and so both are late or none is: what is forgotten is never half of
something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, cast

from typing_extensions import TypeVar, override

from dagster_operators.graph.changes import CHANGE, INSERT, Changes
from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.aggregates.partial_results import one_zero_one_nan
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.forgetful import ForgetfulByKey
from dagster_operators.operators.key_join import join_by_keys
from dagster_operators.operators.one_task import all_of
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    PhysicalOperator,
    PhysicalState,
    RelationalOperator,
    Rows,
    StageContext,
    StateRuns,
    Varying,
    constant,
)
from dagster_operators.operators.rows_by_time import TIME, micros_of
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, behind
from dagster_operators.types.data_type import DataType
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SINCE: Final = "__since"
"""The column that says when the rows of a key begin, in microseconds: a further key of the operator within."""

FORGOTTEN_KEYS: Final = "forgotten_keys"
"""The figure of an epoch: how many keys it forgot."""

_GROUPS: Final = "groups"
_FORGOTTEN: Final = "forgotten"
_LAST: Final = "__last"
_UP_TO: Final = "__up_to"
_KEYS: Final = "keys"
_BEGAN: Final = "__began"
_EVER: Final = -(2**62)
"""The beginning of keys that came before there was a watermark: microseconds before any event time."""

Facts = TypeVar("Facts", default=None)


@dataclass(frozen=True)
class KeyedInput:
    """One input of the operator within.

    Attributes:
        keys: Its key columns, in the order of those of the other inputs.
        event_time: The column with its event time.
        late: The port of its late rows.
        plain: Whether its rows stay, while the operator within takes changes.
    """

    keys: tuple[str, ...]
    event_time: str
    late: str = "late"
    plain: bool = False


@dataclass(frozen=True)
class ForgettingFacts(Generic[Facts]):
    """What is found out of the inputs' types.

    Attributes:
        within: What is known of the operator within.
        keys: SQL for the keys of each input, in one type.
    """

    within: Analysed[Facts]
    keys: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ForgettingKeys(RelationalOperator[ForgettingFacts[Facts]], Generic[Facts]):
    """An operator with state by key, and the keys that it has.

    Attributes:
        name: The logical operator's name.
        within: What does the work; :data:`SINCE` is the last one of its keys.
        keyed: Its inputs.
        state_keys: What the keys, :data:`SINCE` among them, are called in its state tables.
        forget_after: Microseconds.
    """

    name: str
    within: RelationalOperator[Facts]
    keyed: tuple[KeyedInput, ...]
    state_keys: tuple[str, ...]
    forget_after: int
    reads_twice: ClassVar[bool] = True

    @property
    def states(self) -> tuple[PhysicalState, ...]:  # type: ignore[override]
        """Those of the operator within, that of the keys, and how far it has forgotten."""
        return (*self.within.states, PhysicalState(_GROUPS, _LAST), PhysicalState(_FORGOTTEN, _UP_TO))

    @override
    def chains_after(self, before: PhysicalOperator[Any]) -> bool:
        return self.within.chains_after(before)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[ForgettingFacts[Facts]]:
        handed_in = [self._handed_in(side, rows.selectExpr("*", f"0L AS {SINCE}")) for side, rows in enumerate(inputs)]
        found = self.within.analyse(handed_in)
        facts = ForgettingFacts(found.as_data(), self._keys_of(inputs))
        begun = [self._keyed(side, rows, facts).selectExpr("*", f"0L AS {SINCE}") for side, rows in enumerate(inputs)]
        groups = self._groups(begun)
        states = {**found.states, _GROUPS: groups, _FORGOTTEN: self._forgotten(groups, 0, constant)}
        late = {one.late: rows for one, rows in zip(self.keyed, inputs, strict=True)}
        return Analysis(found.output.drop(SINCE), states, late, facts=facts)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[ForgettingFacts[Facts]]) -> Rows:
        facts = analysed.facts
        groups, floors = (context.state(self.name, table) for table in (_GROUPS, _FORGOTTEN))
        # What was forgotten once stays so, however much longer is kept now.
        floor = max([MIN_WATERMARK, *(file.high for file in floors.files if file.high is not None)])
        begin = max(behind(context.watermark_begin(self.name), self.forget_after), floor)
        keyed = [None if rows is None else self._keyed(side, rows, facts) for side, rows in enumerate(inputs)]
        known = self._known(groups, begin, context.varying, [rows for rows in keyed if rows is not None])
        begun = [None if rows is None else self._on_time(context, side, rows, known, begin) for side, rows in enumerate(keyed)]
        if given := [rows for rows in begun if rows is not None]:
            groups.append(self._groups(given))
        handed_in = [None if rows is None else self._handed_in(side, rows) for side, rows in enumerate(begun)]
        found = self.within.run(context, handed_in, facts.within)
        watermark = context.watermark_end(self.name)
        end = behind(watermark, self.forget_after)
        # Whether or not a key is forgotten: what would have been late by now stays late when more is kept.
        if watermark != MAX_WATERMARK and end > floor:
            self._forget(context, floor, begin, end, given)
        groups.fold(self._newest)
        return None if found is None else found.drop(SINCE)

    # --- when keys begin ---------------------------------------------------------------------------------------------

    @property
    def _names(self) -> list[str]:
        return [f"__group_{number}" for number in range(len(self.state_keys) - 1)]

    def _keys_of(self, inputs: Sequence[DataFrame]) -> tuple[tuple[str, ...], ...]:
        """SQL for the keys of each input, of which those of two are compared; both are whole numbers if their types differ."""
        kinds = [[str(kind) for kind in _types(rows, one.keys)] for rows, one in zip(inputs, self.keyed, strict=True)]
        same = [len(set(of_key)) == 1 for of_key in zip(*kinds, strict=True)]
        return tuple(
            tuple(
                one_zero_one_nan(quoted(key), kind) if alike else f"CAST({quoted(key)} AS BIGINT)"
                for key, kind, alike in zip(one.keys, of_input, same, strict=True)
            )
            for one, of_input in zip(self.keyed, kinds, strict=True)
        )

    def _keyed(self, side: int, rows: DataFrame, facts: ForgettingFacts[Facts]) -> DataFrame:
        """Rows with their keys and their event time."""
        keys = (f"{sql} AS {name}" for sql, name in zip(facts.keys[side], self._names, strict=True))
        return rows.selectExpr("*", *keys, f"{micros_of(self.keyed[side].event_time)} AS {TIME}")

    def _known(self, groups: StateRuns, bound: int, number: Varying, keyed: Sequence[DataFrame]) -> Rows:
        """The beginnings of the keys of some rows, of those that are not forgotten."""
        rows = groups.read(lambda file: file.high is None or file.high >= bound) if keyed else None
        if rows is None:
            return None
        came = all_of(*(one.select(*self._names) for one in keyed))
        known = self._newest(_with_keys_of(_at_least(rows, bound, number), came, self._names))
        return known.selectExpr(*(f"{name} AS {name}_known" for name in self._names), f"{SINCE} AS {_BEGAN}")

    def _on_time(self, context: StageContext, side: int, keyed: DataFrame, known: Rows, bound: int) -> DataFrame:
        """The rows that are not late, with the beginning of their key."""
        from pyspark.sql import functions as F

        columns = keyed.columns
        if known is None:
            placed = keyed.selectExpr("*", f"CAST(NULL AS BIGINT) AS {_BEGAN}")
        else:
            same = " AND ".join(f"{name} <=> {name}_known" for name in self._names)
            placed = keyed.join(known, F.expr(same), "left").selectExpr(*map(quoted, columns), _BEGAN)
        at_ends = bound in (MIN_WATERMARK, MAX_WATERMARK)
        since = f"coalesce({_BEGAN}, {constant(_EVER) if at_ends else context.varying(bound, TIME)})"
        late = "true" if bound == MAX_WATERMARK else f"{TIME} IS NULL OR {TIME} < {since}"
        port = self.keyed[side].late
        own = [quoted(name) for name in columns if name not in (*self._names, TIME)]
        context.put_out(self.name, port, lambda: placed.filter(late).selectExpr(*own))
        counted = self.name if port == "late" else f"{self.name}.{port.removeprefix('late_')}"
        kept = context.count_late(counted, placed, late).filter(f"NOT ({late})")
        return kept.selectExpr(*map(quoted, columns), f"{since} AS {SINCE}")

    def _handed_in(self, side: int, rows: DataFrame) -> DataFrame:
        """Rows as the operator within takes them."""
        columns = [quoted(name) for name in rows.columns if name not in (*self._names, TIME)]
        return rows.selectExpr(*columns, *([f"'{INSERT}' AS {CHANGE}"] if self.keyed[side].plain else []))

    # --- what is kept of keys ----------------------------------------------------------------------------------------

    def _groups(self, begun: Sequence[DataFrame]) -> DataFrame:
        """The newest event time of each key of an epoch's rows; first, since only a file's first columns have statistics."""
        named = [rows.selectExpr(f"{TIME} AS {_LAST}", *self._names, SINCE) for rows in begun]
        return self._newest(all_of(*named))

    def _newest(self, rows: DataFrame) -> DataFrame:
        """Each key once for each time that it began, with the newest of its event times."""
        from pyspark.sql import functions as F

        newest = rows.groupBy(*self._names, SINCE).agg(F.expr(f"max({_LAST})").alias("__newest"))
        return newest.selectExpr(f"__newest AS {_LAST}", *self._names, SINCE)

    def _forgotten(self, groups: DataFrame, bound: int, number: Varying) -> DataFrame:
        """How many of some keys a time has passed."""
        from pyspark.sql import functions as F

        counted = groups.filter(f"{_LAST} < {number(bound, _LAST)}").agg(F.expr("count(*)").alias(_KEYS))
        return counted.selectExpr(f"{number(bound, _KEYS)} AS {_UP_TO}", _KEYS)

    def _forget(self, context: StageContext, floor: int, begin: int, end: int, given: Sequence[DataFrame]) -> None:
        """Let go of the keys that time has passed since it was at a floor, and count them.

        What the operator within has of them is nobody's any more, whether it is there or not. It is written anew without, each
        time that time has gone on by as much as is kept.
        """
        groups, floors = (context.state(self.name, table) for table in (_GROUPS, _FORGOTTEN))
        rows = groups.read(lambda file: file.high is None or file.high >= floor)
        if rows is None and given:
            rows = self._groups(given)  # all of them were late
        if rows is not None:
            there = _at_least(rows, floor, context.varying)
            if any(file.low is None or file.low < end for file in groups.files):
                passed = there.filter(f"{_LAST} < {context.varying(end, _LAST)}")
                newest = self._newest(_with_keys_of(there, passed, [*self._names, SINCE]))
                forgotten = self._forgotten(newest, end, context.varying)
                floors.append(context.report(self.name, FORGOTTEN_KEYS, forgotten, f"sum({_KEYS})"))
            else:
                floors.append(self._forgotten(rows.filter("false"), end, context.varying))
            if begin != MIN_WATERMARK and end // self.forget_after != begin // self.forget_after:
                left = self._newest(_at_least(there, end, context.varying))
                pairs = zip([*self._names, SINCE], self.state_keys, strict=True)
                self._clean(context, left.selectExpr(*(f"{name} AS {quoted(key)}" for name, key in pairs)))
        groups.drop(lambda file: file.high is not None and file.high < end)
        floors.fold(_together)

    def _clean(self, context: StageContext, keys: DataFrame) -> None:
        """Write the states of the operator within anew, with the rows of some keys alone."""
        for table in self.within.states:
            context.state(self.name, table.name).rewrite(lambda rows: join_by_keys(rows, keys, self.state_keys, "left_semi"))


def forgetting_keys(logical: ForgetfulByKey, inputs: Sequence[StreamType], *, changes: bool = False) -> ForgettingKeys[Any]:
    """What does the work of an operator with one input that forgets.

    Args:
        logical: The operator.
        inputs: The type of its input.
        changes: Whether the operator within takes changes alone, and rows that stay are handed to it as such.
    """
    (stream,) = inputs
    keys = (*logical.keys, SINCE)
    read = replace(stream, changes=Changes.RETRACT) if changes else stream
    within = cast("RelationalOperator[Any]", replace(logical, keys=keys, forget_after=None).lower([read]))
    keyed = KeyedInput(logical.keys, logical.event_time or "", plain=changes and not stream.retracting)
    return ForgettingKeys(logical.name, within, (keyed,), keys, logical.forget_after or 0)


def _types(rows: DataFrame, columns: Sequence[str]) -> list[DataType]:
    """The types of some columns, however they are spelt."""
    found = [schema_of(rows).find(name) for name in columns]
    return [field.type for field in found if field is not None]


def _at_least(groups: DataFrame, bound: int, number: Varying) -> DataFrame:
    """The keys that a time has not passed."""
    return groups if bound == MIN_WATERMARK else groups.filter(f"{_LAST} >= {number(min(bound, -_EVER), _LAST)}")


def _with_keys_of(groups: DataFrame, few: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows of what may be many keys that are among those of few rows.

    The few stand first, since Sail makes of the first a table to look the others up in, be they more or fewer; so no semi join.
    """
    from pyspark.sql import functions as F

    asked = few.selectExpr(*(f"{key} AS {key}_asked" for key in keys)).distinct()
    same = " AND ".join(f"{key}_asked <=> {key}" for key in keys)
    return asked.join(groups, F.expr(same)).select(*groups.columns)


def _together(forgotten: DataFrame) -> DataFrame:
    """How many keys were forgotten up to the last of some times."""
    from pyspark.sql import functions as F

    summed = forgotten.agg(F.expr(f"max({_UP_TO})").alias("__last_one"), F.expr(f"sum({_KEYS})").alias("__all"))
    return summed.selectExpr(f"__last_one AS {_UP_TO}", f"__all AS {_KEYS}")
