"""Results of groups over all epochs against plain Python, for drawn programs and cuts. Without an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.api.datasets.over_epochs import MergeOfOperation, rows_of_epoch
from dagster_operators.errors import PipelineError
from dagster_operators.functions.shipping import pickled_with
from dagster_operators.operators.batch_operator import PortSchemas
from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.over_epochs import GroupsOverEpochs, OverEpochsWork
from dagster_operators.operators.datasets.over_epochs_program import LISTS, ROWS, MergedGroups
from dagster_operators.operators.worker_program import ProgramContext, Report
from dagster_operators.state.store import StateStore
from dagster_operators.time.frontier import Frontier
from dagster_operators.types.schema import Schema
from tests.examples import fresh_examples

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "k string, v long"
Rows = Sequence[tuple[Any, Any]]


class Table:
    """A table that a program writes, and the program's state."""

    def __init__(self, made: Any, schema: str) -> None:
        self._made = made
        self._ddl = schema
        self._schema = Schema.from_ddl(schema)
        self._rows = ArrowRows(self._schema)
        self._program = LocalProgram()
        bag = made(self._program.rows([], schema=schema))
        merge = MergeOfOperation(bag, bag.over)
        self._keys = tuple(self._schema.names[field] for field in bag.operation.keys)
        self._work = OverEpochsWork(GroupsOverEpochs(name="groups", merge=merge, keys=self._keys))
        self._steps, self._appends = pickled_with(merge.steps(), (), "groups"), merge.appends
        self._results = ArrowRows(Schema.from_ddl(merge.result)) if merge.result else self._rows
        arrow = self._rows.arrow_schema
        self._store = StateStore(self._work.tables(PortSchemas((arrow,), {})))
        self.rows: dict[Any, Any] = {}
        self.appended: list[Any] = []
        self.changes: list[int] = []

    def epoch(self, rows: Rows, parallelism: int) -> None:
        """Take the rows of an epoch."""
        program = LocalProgram(parallelism)
        partial = program.collect(rows_of_epoch(self._made(program.rows(rows, schema=self._ddl))))
        table = LISTS if self._work.logical.merge.several else ROWS
        merged = MergedGroups(self._steps, self._keys, table, appends=self._appends)
        out = Out()
        schema = self._results.arrow_schema
        merged.open(
            ProgramContext(
                "groups", 1, 0, 1, self._keys, {"main": schema}, frozenset({"main"}), Frontier([0]), {}, self._store, Report()
            )
        )
        for row in partial:  # a batch for each row: they are merged at the end
            merged.on_batch(0, self._rows.encode([row]), out)
        merged.on_end("stop", out)
        merged.close()
        changed = [row for batch in out.batches for row in self._results.decode(batch)]
        self.changes.append(len(changed))
        self.appended += changed
        if not self._appends:
            keys = [tuple(getattr(row, key) for key in self._keys) for row in changed]
            assert len(set(keys)) == len(keys), "one change of each key"
            self.rows.update(zip(keys, changed, strict=True))

    @property
    def content(self) -> list[Any]:
        """The rows of the table."""
        return self.appended if self._appends else list(self.rows.values())


class Out:
    """Takes what is put out."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def collect(self, rows: pa.RecordBatch, port: str | int = 0) -> None:
        self.batches.append(rows)


def product(first: Any, second: Any) -> Any:
    return (first[0], first[1] * second[1] % 1009)


def grouped(rows: Rows, keyed: bool) -> Mapping[Any, list[Any]]:  # noqa: FBT001 - a setting of the drawn program
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(row[:1] if keyed else (), []).append(tuple(row))
    return groups


EXACT = {
    "sum": (lambda of: of.sum("v", over="all"), lambda rows: (..., sum(v for _, v in rows))),
    "min": (lambda of: of.min("v", over="all"), lambda rows: (..., min(v for _, v in rows))),
    "max": (lambda of: of.aggregate("max", "v", over="all"), lambda rows: (..., max(v for _, v in rows))),
    "min_by": (lambda of: of.min_by("v", over="all"), lambda rows: (..., min(v for _, v in rows))),
    "max_by": (lambda of: of.max_by("v", over="all"), lambda rows: (..., max(v for _, v in rows))),
    "reduce": (lambda of: of.reduce(product, over="all"), lambda rows: (..., reduce(product, rows)[1])),
}
EPOCHS = st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9)), max_size=6), min_size=1, max_size=5)


@fresh_examples(8)
@given(name=st.sampled_from(sorted(EXACT)), keyed=st.booleans(), epochs=EPOCHS, parallelism=st.integers(1, 3))
@example(name="min_by", keyed=True, epochs=[[("a", 5)], [], [("a", 7)], [("a", 1), ("b", 1)]], parallelism=2)
def test_results_are_those_of_all_rows_for_every_cut(name, keyed, epochs, parallelism):
    made, expected = EXACT[name]
    table = Table(lambda rows: made(rows.group_by("k") if keyed else rows), SCHEMA)
    before: list[Any] = []
    for rows in epochs:
        table.epoch(rows, parallelism)
        before += rows
        groups = grouped(before, keyed)
        assert {row[0] if keyed else ...: row[1] for row in table.content} == {
            key[0] if keyed else ...: expected(of_key)[1] for key, of_key in groups.items()
        }


@fresh_examples(5)
@given(count=st.integers(1, 3), keyed=st.booleans(), epochs=EPOCHS, parallelism=st.integers(1, 3))
def test_the_first_rows_stay_and_no_more_come(count, keyed, epochs, parallelism):
    table = Table(lambda rows: (rows.group_by("k") if keyed else rows).first(count, over="all"), SCHEMA)
    before: list[Any] = []
    for rows in epochs:
        stayed = list(table.content)
        table.epoch(rows, parallelism)
        before += rows
        assert table.content[: len(stayed)] == stayed
        assert not Counter(map(tuple, table.content)) - Counter(before), "rows that there are"
        numbers = {key: min(count, len(of_key)) for key, of_key in grouped(before, keyed).items()}
        assert {key: len(of_key) for key, of_key in grouped(table.content, keyed).items()} == numbers


@fresh_examples(5)
@given(by_key=st.booleans(), epochs=EPOCHS, parallelism=st.integers(1, 3))
def test_each_key_is_there_once(by_key, epochs, parallelism):
    table = Table(lambda rows: rows.distinct(*(["k"] if by_key else []), over="all"), SCHEMA)
    before: list[Any] = []
    for rows in epochs:
        table.epoch(rows, parallelism)
        before += rows
        keys = [row[:1] if by_key else tuple(row) for row in table.content]
        assert len(set(keys)) == len(keys)
        assert set(keys) == {row[:1] if by_key else row for row in before}
        assert {tuple(row) for row in table.content} <= set(before)


def sums(group):
    rows = list(group)
    return [(rows[0][0], sum(row[1] for row in rows))]


def squared(group):
    return [(row[0], row[1] ** 2, "of one") for row in group]


@fresh_examples(5)
@given(epochs=EPOCHS, parallelism=st.integers(1, 3))
def test_a_function_of_groups_sees_what_was_combined_of_all_epochs(epochs, parallelism):
    table = Table(
        lambda rows: rows.group_by("k").reduce_group(
            squared, combine=sums, schema="k string, squared long, note string", over="all"
        ),
        SCHEMA,
    )
    before: list[Any] = []
    for rows in epochs:
        table.epoch(rows, parallelism)
        before += rows
        expected = {(key[0], sum(v for _, v in of_key) ** 2, "of one") for key, of_key in grouped(before, keyed=True).items()}
        assert set(map(tuple, table.content)) == expected


@pytest.mark.parametrize(
    ("function", "problem"),
    [(lambda group: [], r"0 rows of the group \('a',\)"), (lambda group: [("b", 1)], "of the group|of no group"),
     (lambda group: [("a", 1), ("a", 2)], "2 rows of the group")],
)  # fmt: skip
def test_a_function_of_groups_gives_one_row_of_each(function, problem):
    table = Table(
        lambda rows: rows.group_by("k").reduce_group(function, combine=sums, schema="k string, n long", over="all"), SCHEMA
    )
    with pytest.raises(PipelineError, match=problem):
        table.epoch([("a", 1), ("a", 2)], 1)


@pytest.mark.parametrize("combine", [lambda group: [], lambda group: [("b", 1) for _ in group][:1]])
def test_what_combines_rows_keeps_their_key(combine):
    table = Table(
        lambda rows: rows.group_by("k").reduce_group(squared, combine=sums, schema="k string, n long, note string", over="all"),
        SCHEMA,
    )
    other = Table(
        lambda rows: rows.group_by("k").reduce_group(
            squared, combine=combine, schema="k string, n long, note string", over="all"
        ),
        SCHEMA,
    )
    table._steps = other._steps  # the epoch's rows are right, and only those of several epochs are not
    with pytest.raises(PipelineError, match="what combines rows gave"):
        table.epoch([("a", 1)], 1)


def test_the_first_row_of_an_order_is_the_current_one():
    table = Table(lambda rows: rows.group_by("k").sort_group("v", "descending").first(1, over="all"), SCHEMA)
    for rows in ([("a", 1), ("a", 3)], [("a", 2), ("b", 0)], [("a", 9)]):
        table.epoch(rows, 2)
    assert sorted(map(tuple, table.content)) == [("a", 9), ("b", 0)]
    assert table.changes == [1, 1, 1], "a group whose result stays is not written again"


def test_nothing_is_put_out_where_nothing_changed():
    table = Table(lambda rows: rows.group_by("k").max("v", over="all"), SCHEMA)
    for rows in ([("a", 5), ("b", 5)], [("a", 4)], [], [("b", 6)]):
        table.epoch(rows, 2)
    assert table.changes == [2, 0, 0, 1]


def test_a_nan_is_a_key_and_zero_has_no_sign():
    schema = "k double, v long"
    table = Table(lambda rows: rows.group_by("k").sum("v", over="all"), schema)
    nan = float("nan")
    for rows in ([(nan, 1), (0.0, 1)], [(float("nan"), 2), (-0.0, 2)]):
        table.epoch(rows, 1)
    assert sorted(row.v for row in table.appended) == [1, 1, 3, 3]


def test_a_function_that_changes_the_key_fails():
    table = Table(lambda rows: rows.group_by("k").reduce(lambda a, b: (a[0] + "b", a[1]), over="all"), SCHEMA)
    table.epoch([("a", 1), ("b", 2)], 1)
    with pytest.raises(PipelineError, match=r"made the key \('ab',\) of \('a',\)"):
        table.epoch([("a", 1)], 1)
