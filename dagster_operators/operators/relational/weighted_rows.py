"""Rows that come and go, each with how often it is there: what the state of operators on changes is made of.

A row's weight is how often it was added less how often it was taken back, so rows of any epochs merge by adding up (a Z-set:
Budiu et al., DBSP, 2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dagster_operators.graph.changes import ADDS, CHANGE, DELETE, INSERT
from dagster_operators.operators.key_join import with_keys_of
from dagster_operators.operators.one_task import all_of
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from dagster_operators.operators.physical import Rows, StateRuns

WEIGHT: Final = "__rows"
"""How often a row is there."""

ADDED: Final = f"{CHANGE} IN ({', '.join(map(repr, ADDS))})"
"""SQL for whether a change brings a row."""

NOT_THERE: Final = "a change takes a row back that is not there"
"""What a query says that fails on such a change."""

_LONGEST: Final = 100
"""How many characters of a key are told."""


def raised(keys: Sequence[str], operator: str = "") -> str:
    """SQL that fails the query where a row is taken back that is not there, with the key of that row, and no other columns of it.

    Args:
        keys: The key columns, as SQL names; those of the package's own, as ``__since``, are not told.
        operator: What it is told of.

    >>> print(raised([]))
    CAST(raise_error('a change takes a row back that is not there') AS BIGINT)
    """
    told = f"{operator}: {NOT_THERE}" if operator else NOT_THERE
    named = ", ', ', ".join(f"{_text(key)}, {_value(key)}" for key in keys if not key.strip("`").startswith("__"))
    if not named:
        return f"CAST(raise_error('{told}') AS BIGINT)"
    return f"CAST(raise_error(concat('{told} (a delete or an update_before of the key ', {named}, ')')) AS BIGINT)"


def _text(key: str) -> str:
    """The name of a key column as SQL text, with what comes between it and its value."""
    return "'" + key.strip("`").replace("``", "`").replace("\\", "\\\\").replace("'", "\\'") + "='"


def _value(key: str) -> str:
    """A key's value as SQL text. Sail refuses to cast bytes that are no text: they are told as of an array, in hexadecimal."""
    other = f"IF({key} IS NULL, 'null', btrim(CAST(array({key}) AS STRING), '[]'))"
    return f"left(coalesce(TRY_CAST({key} AS STRING), {other}), {_LONGEST})"


def weight_of(*, retracting: bool) -> str:
    """SQL for the weight of a row that comes: 1, or of rows that may be taken back by what its change says.

    >>> weight_of(retracting=False)
    '1L'
    """
    return f"IF({ADDED}, 1L, -1L)" if retracting else "1L"


def weighted(changes: DataFrame) -> DataFrame:
    """Changes as rows with weights, without those that cancel out.

    Args:
        changes: Rows with the column ``_change``.
    """
    columns = [quoted(name) for name in changes.columns if name != CHANGE]
    return added_up(changes.selectExpr(*columns, f"{weight_of(retracting=True)} AS {WEIGHT}"))


def added_up(rows: DataFrame) -> DataFrame:
    """Rows with weights as few as can be, without those that cancel out."""
    columns = [quoted(name) for name in rows.columns if name != WEIGHT]
    summed = rows.groupBy(*columns).agg({WEIGHT: "sum"})
    return summed.selectExpr(*columns, f"`sum({WEIGHT})` AS {WEIGHT}").filter(f"{WEIGHT} <> 0")


def added_to_state(state: StateRuns, changes: DataFrame, keys: Sequence[str]) -> tuple[Rows, Rows]:
    """Append an epoch's rows with weights to a state of such rows.

    Args:
        state: The state.
        changes: The rows with weights.
        keys: The key columns; none if all rows belong together.

    Returns:
        This epoch's rows, and the rows of earlier epochs with the same keys; each None if there are none.
    """
    state.append(changes)
    new = state.read(lambda file: file.fresh)
    old = state.read_with_keys_of_fresh(keys)
    state.fold(added_up)
    return new, None if new is None or old is None else with_keys_of(old, new, keys)


def changes_of(rows: DataFrame) -> DataFrame:
    """Rows with weights as changes, each as often as its weight says: rows that come, and rows that are taken back."""
    columns = [quoted(name) for name in rows.columns if name != WEIGHT]
    change = f"IF({WEIGHT} > 0, '{INSERT}', '{DELETE}') AS {CHANGE}"
    copies = rows.selectExpr(*columns, change, f"explode(sequence(1L, abs({WEIGHT}))) AS __copy")
    return copies.selectExpr(*columns, CHANGE)


def repeated(rows: DataFrame, most: int | None = None, keys: Sequence[str] = ()) -> DataFrame:
    """All rows there are, each as often as it is there, from all rows with weights of some keys.

    The query fails where a row was taken back that was not there.

    Args:
        rows: Rows with weights.
        most: How many copies of a row are wanted at most.
        keys: The columns of a row that an error tells, as SQL names.
    """
    columns = [quoted(name) for name in rows.columns if name != WEIGHT]
    checked = f"CASE WHEN {WEIGHT} < 0 THEN {raised(keys)} ELSE {WEIGHT} END"
    copies = checked if most is None else f"least({checked}, {most}L)"
    return added_up(rows).selectExpr(*columns, f"explode(sequence(1L, {copies})) AS {WEIGHT}").selectExpr(*columns)


def there(rows: DataFrame) -> DataFrame:
    """The rows there are, of all rows with weights of some keys; the query fails if one was taken back that was not there."""
    return added_up(rows).filter(f"CASE WHEN {WEIGHT} < 0 THEN {raised(())} ELSE {WEIGHT} END > 0")


def not_there(rows: DataFrame, old: Rows) -> DataFrame:
    """No rows; the query fails if new rows take one back that was not there.

    Args:
        rows: The new rows, each once: added up.
        old: At least the rows with their keys that were there.
    """
    taken = rows.filter(f"{WEIGHT} < 0")
    names = [name for name in rows.columns if name != WEIGHT]
    before = None if old is None else _equal_to(taken, old, names)
    wrong = added_up(all_of(taken, before) if before is not None else taken).filter(f"{WEIGHT} < 0")
    # with CASE, since Sail computes what reads no column once, also of no rows: where a filter stands behind
    checked = f"CASE WHEN {WEIGHT} < 0 THEN {raised(())} ELSE {WEIGHT} END AS {WEIGHT}"
    return wrong.selectExpr(*map(quoted, names), checked)


def _equal_to(few: DataFrame, rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """The rows that are equal to one of few that are all different.

    The few stand first, since Sail makes of the first a table to look the others up in, be they more or fewer; so no semi join.
    """
    from pyspark.sql import functions as F

    asked = few.selectExpr(*(f"{quoted(name)} AS __asked_{number}" for number, name in enumerate(names)))
    equal = [f"__asked_{number} <=> {quoted(name)}" for number, name in enumerate(names)]
    return asked.join(rows, F.expr(" AND ".join(equal)), "inner").selectExpr(*map(quoted, names), WEIGHT)


def taken_back(rows: DataFrame) -> DataFrame:
    """Rows with the opposite weights."""
    return rows.selectExpr(*(quoted(name) for name in rows.columns if name != WEIGHT), f"-{WEIGHT} AS {WEIGHT}")


def all_or_none(*frames: Rows) -> Rows:
    """The rows of all frames that there are."""
    given = [frame for frame in frames if frame is not None]
    return all_of(*given) if given else None
