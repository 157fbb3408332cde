"""Programs and typed rows drawn at random, and what comes out of them by columns and by rows."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from dagster_operators.api.datasets.data_set import DataSet
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.rows import Row
from dagster_operators.operators.datasets.running.exchange_files import ExchangeFolder
from dagster_operators.optimizer.planning import OptimizedPlan
from dagster_operators.optimizer.program import Source as SourceNode
from dagster_operators.optimizer.program import ordered
from dagster_operators.types.schema import Schema
from tests.operators.datasets.in_files import ExecutionInFiles

_DAY, _NOON = dt.date(1969, 12, 31), dt.datetime(2020, 2, 29, 12, tzinfo=dt.UTC)
USUAL: dict[str, Sequence[Any]] = {
    "int": [-1, 0, 1, 7], "long": [-3, -2, -1, 0, 1, 2, 2**40], "string": ["", "a", "b", "é", "𝄞"],
    "double": [0.1, 0.2, 0.3, -1.5, 1e9],
    "boolean": [True, False], "date": [_DAY, dt.date(2020, 1, 1)], "timestamp": [_NOON, _NOON - dt.timedelta(microseconds=1)],
    "decimal(5, 2)": [Decimal("1.50"), Decimal("-0.01"), Decimal("0.00")], "binary": [b"", b"\xff", b"a"],
    "timestamp_ntz": [dt.datetime(2020, 1, 1), dt.datetime(1960, 1, 1)], "float": [0.5, 0.25, 1e30], "tinyint": [1, 100],  # noqa: DTZ001
    "array<long>": [[1], []],
}  # fmt: skip
ODD: dict[str, Sequence[Any]] = {
    "long": [2**63 - 1, -(2**63), 2**61 - 1, 1 - 2**61, 2**61],
    "double": [float("nan"), -0.0, 0.0, float("inf"), -float("inf"), 1e308],
    "int": [2**31 - 1, -(2**31)], "decimal(5, 2)": [Decimal("999.99"), Decimal("-999.99")], "tinyint": [127, -128],
    "float": [-0.0, 0.0, float("nan")],
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """Rows as a source, by columns or as rows, in batches of which the parts take turns."""

    schema: str
    given: Sequence[Row]
    by_columns: bool
    of_batch: int = 3

    def rows(self, folder: ExchangeFolder, part: int, parts: int) -> Iterable[Row]:
        arrow = ArrowRows(Schema.from_ddl(self.schema))
        batches = [
            arrow.encode(list(self.given[begin : begin + self.of_batch])) for begin in range(0, len(self.given), self.of_batch)
        ]
        own = batches[part::parts]
        if not own:
            return ()
        table = ColumnRows.of(RowLayout.of(arrow.arrow_schema), pa.Table.from_batches(own))
        return table if self.by_columns else list(table)


@st.composite
def typed_rows(draw: Any, most: int = 12) -> tuple[str, list[Row]]:
    kinds = draw(st.lists(st.sampled_from(list(USUAL)), min_size=2, max_size=4))
    odd, nulls = draw(st.booleans()), draw(st.booleans())
    pools = [[*USUAL[kind], *(ODD.get(kind, ()) if odd else ()), *([None] if nulls else ())] for kind in kinds]
    rows = draw(st.lists(st.tuples(*map(st.sampled_from, pools)), max_size=most))
    return ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds)), rows


@st.composite
def many_rows(draw: Any) -> tuple[str, list[Row]]:
    """Rows with many different values, of which groups of some fields are large and those of others small."""
    kinds = draw(st.lists(st.sampled_from(["long", "string", "int", "date"]), min_size=2, max_size=4))
    drawn = random.Random(draw(st.integers(0, 2**32)))  # noqa: S311 - no secret; each value by itself would be slow to draw
    sizes = [draw(st.sampled_from([5, 30, 900])) for _ in kinds]
    of: dict[str, Callable[[int], Any]] = {"string": "v{}".format, "date": lambda number: _DAY + dt.timedelta(number)}
    rows = [
        tuple(of.get(kind, int)(drawn.randrange(size)) for kind, size in zip(kinds, sizes, strict=True))
        for _ in range(drawn.randrange(150))
    ]
    return ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds)), rows


class Choices:
    """Choices by numbers that were drawn, so that smaller examples are found; without numbers the first choice.

    Args:
        numbers: The numbers.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = list(numbers)

    def of(self, *several: Any) -> Any:
        return several[(self._numbers.pop(0) if self._numbers else 0) % len(several)]

    def fields(self, data: DataSet, most: int = 2) -> list[int]:
        width = range(len(data.types or data.fields or (None,)))
        return list(dict.fromkeys(self.of(*width) for _ in range(self.of(*range(1, most + 1)))))


def _aggregated(data: DataSet, choose: Choices) -> DataSet:
    keyed = choose.of(data.group_by(*choose.fields(data)), data)
    parts = [(choose.of("sum", "min", "max"), field) for field in choose.fields(data)]
    result = keyed.aggregate(*parts[0])
    for part in parts[1:]:
        result = result.and_aggregate(*part)
    return result


def _extreme(data: DataSet, choose: Choices) -> DataSet:
    keyed = choose.of(data.group_by(*choose.fields(data)), data)
    return getattr(keyed, choose.of("min_by", "max_by"))(*choose.fields(data))


HINTS = (
    "REPARTITION_SORT_MERGE", "REPARTITION_HASH_FIRST", "REPARTITION_HASH_SECOND", "OPTIMIZER_CHOOSES", "BROADCAST_HASH_FIRST",
)  # fmt: skip


def _joined(data: DataSet, choose: Choices) -> DataSet:
    keys = choose.fields(data)
    other = choose.of(data, data.rebalance(), data.distinct(keys[0]), data.rebalance().first(4))
    join = choose.of("join", "join_with_tiny", "join_with_huge", "left_outer_join", "right_outer_join", "full_outer_join")
    first, second = choose.of((data, other), (other, data))
    hints = HINTS if join == "join" else HINTS[:4] if "outer" in join else ()
    pairs = getattr(first, join)(second, *choose.of((), hints and (choose.of(*hints),))).where(*keys).equal_to(*keys)
    if "outer" not in join and choose.of(0, 1):  # an outer join has no pairs
        return pairs.pairs()
    return pairs.project_first(*choose.fields(data)).project_second(*choose.fields(data)).data_set()


def listed(rows: Iterable[Row]) -> list[Any]:
    """A group in one row: where a group is apart, there are several."""
    return [tuple(map(repr, rows))]


def _first(data: DataSet, choose: Choices) -> DataSet:
    grouped = data.group_by(*choose.fields(data))
    ways = ("ascending", "descending")
    made = choose.of(grouped, grouped.sort_group(choose.of(*choose.fields(data)), choose.of(*ways)), data)
    result: DataSet = made.first(choose.of(1, 2, 5))
    return result


class Number(int):
    """A number of a type of the user's own."""


MADE: dict[str, Sequence[Any]] = {
    "long": [1, 2, -3, 2**63 - 1, 2**63, Number(5), None, np.int64(4), 1.5],
    "int": [1, 2, 2**31, None], "double": [0.5, -0.0, float("nan"), 3, None, np.float64(2.5)],
    "float": [0.5, 0.1, 2, float("nan")],
    "string": ["a", "b", "\ud800", None, StrEnum("Letters", {"A": "a"}).A], "binary": [b"a", bytearray(b"b"), None],
    "decimal(5, 2)": [Decimal("1.50"), Decimal("1.5"), Decimal("-0.00"), 3, Decimal("99999.99")],
    "timestamp": [_NOON, _NOON.astimezone(ZoneInfo("Europe/Berlin")), _NOON.replace(fold=1), None],
    "timestamp_ntz": [_NOON.replace(tzinfo=None), _NOON.replace(tzinfo=None, fold=1)], "date": [_DAY, None, _NOON],
    "boolean": [True, False, 1], "array<long>": [[1], [2, 3]], "struct<a: long>": [(1,)], "varchar(2)": ["a", "abc"],
}  # fmt: skip
"""Values that functions of rows give for a type: some are not exact in Arrow, and some are of no type that is taken."""


def _made_rows(data: DataSet, choose: Choices) -> DataSet:
    kinds = [choose.of(*MADE) for _ in range(choose.of(1, 2, 3))]
    usual = choose.of(0, 1)
    pools = [MADE[kind][: 2 if usual else None] for kind in kinds]
    step = choose.of(1, 3, 7)

    def several(row: Row) -> list[Any]:
        start = len(repr(row)) * step
        return [tuple(pool[(start + number) % len(pool)] for pool in pools) for number in range(start % 3)]

    schema = ", ".join(f"m{number} {kind}" for number, kind in enumerate(kinds))
    flat = data.flat_map(several, schema=schema).name("made")
    return choose.of(flat, flat.filter(lambda row: len(repr(row)) % 3 > 0), flat.map(tuple, schema=schema))


CALLS: dict[str, Callable[[DataSet, Choices], DataSet]] = {
    "project": lambda data, choose: data.project(*choose.fields(data, 3)),
    "distinct": lambda data, choose: data.distinct(*choose.fields(data)),
    "aggregate": _aggregated,
    "extreme": _extreme,
    "first": _first,
    "join": _joined,
    "union": lambda data, choose: data.union(choose.of(data, data.rebalance())),
    "hash": lambda data, choose: data.partition_by_hash(*choose.fields(data)),
    "range": lambda data, choose: data.partition_by_range(*choose.fields(data)),
    "rebalance": lambda data, choose: data.rebalance().set_parallelism(choose.of(1, 2, 3)),
    "sort": lambda data, choose: data.sort_partition(choose.of(*choose.fields(data)), choose.of("ascending", "descending")),
    "rows": lambda data, choose: data.filter(lambda _: True),
    "made": _made_rows,
    "groups": lambda data, choose: data.group_by(*choose.fields(data)).reduce_group(listed),
}
_NUMBERS = st.lists(st.integers(0, 11), min_size=12, max_size=12)
STEPS = st.lists(st.tuples(st.sampled_from(list(CALLS)), _NUMBERS), min_size=1, max_size=3)
BEHIND_FUNCTIONS = st.tuples(_NUMBERS, st.sampled_from(list(CALLS)), _NUMBERS, st.sampled_from(list(CALLS)), _NUMBERS).map(
    lambda drawn: [("made", drawn[0]), drawn[1:3], drawn[3:]]
)
"""A function of rows, and calls behind it."""
JOINS = st.tuples(st.sampled_from(list(CALLS)), _NUMBERS, _NUMBERS).map(lambda drawn: [drawn[:2], ("join", drawn[2])])
"""A call, and a join behind it."""


def made(data: DataSet, steps: Sequence[tuple[str, Sequence[int]]]) -> DataSet:
    """The data set that some calls make of another one; a call that the types do not allow makes nothing."""
    for name, numbers in steps:
        with suppress(PipelineError):
            data = CALLS[name](data, Choices(numbers))
    return data


def without_columns(plan: OptimizedPlan) -> None:
    """Have each operator of a plan work row by row."""
    for candidate in (candidate for sink in plan.sinks for candidate in sink):
        if isinstance(candidate.node.work, Work):
            candidate.node.work = replace(candidate.node.work, columns=None, layout=None)


def results(
    schema: str, rows: Sequence[Row], steps: Any, parallelism: int, folder: Path, *, by_columns: bool, make: Any = made
) -> list[str]:
    """The rows that come out of a program, as texts that tell all values apart, or its failure."""
    program = LocalProgram(parallelism)
    plan = program.plan(make(program.rows([], schema=schema).set_parallelism(parallelism), steps))
    (source,) = (node for node in ordered([sink.node for sink in plan.sinks]) if isinstance(node, SourceNode))
    given = Given(schema, rows, by_columns)
    if not by_columns:
        without_columns(plan)
    try:
        (sink,) = ExecutionInFiles(plan, {source.name: given}, folder).run().values() or [[]]
    except OperatorsError as error:
        return [f"{type(error).__name__}: {error.problem} {error.where.get('operator')}"]
    return [f"{type(row).__name__} {getattr(row, '_fields', None)} {tuple(row)!r}" for row in sink]
