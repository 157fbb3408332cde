"""Joins over all rows there are: after every epoch what DuckDB gives for the rows of then, of changes and of rows that stay."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError, SchemaError
from dagster_operators.graph.changes import ADDS, CHANGE
from dagster_operators.runtime.stages.state_runs import StagedState
from dagster_operators.state import compaction
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples, unlike_the_simplest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.sail

WAYS: Final = ("inner", "left", "right", "full", "semi", "anti")
LEFT, RIGHT = ("k", "s", "v"), ("l", "t", "w")
TYPES: Final = ("double", "string", "long")
CONDITIONS: Final = (None, "v < w", "w > 1 AND l > k - 1")
Row = tuple[Any, ...]


def schema(names: Sequence[str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in zip(names, TYPES, strict=True))


def plain(row: Sequence[Any]) -> Row:
    """A row as it compares: one zero, one NaN."""
    return tuple("nan" if isinstance(v, float) and math.isnan(v) else v + 0.0 if isinstance(v, float) else v for v in row)


@dataclass(frozen=True)
class Log:
    """The changes of one side in epochs: rows that come, and rows that go."""

    names: tuple[str, ...]
    epochs: tuple[tuple[tuple[str, Row], ...], ...]

    def source(self, pipeline: do.Pipeline, name: str) -> do.Stream:
        batches = [[{**dict(zip(self.names, row, strict=True)), "op": op} for op, row in epoch] for epoch in self.epochs]
        return pipeline.source(name, do.MemorySource(batches, schema=f"{schema(self.names)}, op string")).as_changes("op")

    def rows(self, epoch: int) -> list[Row]:
        """The rows there are after an epoch."""
        there: Counter[Row] = Counter()
        for op, row in (change for changes in self.epochs[: epoch + 1] for change in changes):
            there[row] += 1 if op in ADDS else -1
        return list(there.elements())


@st.composite
def logs(draw: Any, names: tuple[str, ...], epochs: int) -> Log:
    """Rows come, several of them equal, and some of those that are there go."""
    row = st.tuples(
        st.sampled_from([1.5, 0.0, -0.0, math.nan, None]), st.sampled_from(["a", None]), st.sampled_from([1, 2, 3, None])
    )
    there: list[Row] = []
    made = []
    for _ in range(epochs):
        epoch = []
        for _ in range(draw(st.integers(0, 4))):
            if there and draw(st.booleans()):
                epoch.append(("delete", there.pop(draw(st.integers(0, len(there) - 1)))))
            else:
                come = draw(row)
                there.extend([come] * (copies := draw(st.sampled_from([1, 1, 2]))))
                epoch.extend([("insert", come)] * copies)
        made.append(tuple(epoch))
    return Log(names, tuple(made))


def computed(left: Sequence[Row], right: Sequence[Row], query: str) -> list[Row]:
    """What DuckDB makes of rows."""
    with duckdb.connect() as connection:
        for table, names, rows in (("one", LEFT, left), ("other", RIGHT, right)):
            connection.execute(f"CREATE TABLE {table} ({names[0]} DOUBLE, {names[1]} VARCHAR, {names[2]} BIGINT)")
            for row in rows:
                connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", row)
        return sorted(map(plain, connection.execute(query).fetchall()), key=repr)


def asked(how: str, keys: int, condition: str | None) -> str:
    """The same join for DuckDB."""
    pairs = list(zip(LEFT, RIGHT, strict=True))
    met = " AND ".join([*(f"{one} = {other}" for one, other in pairs[:keys]), f"({condition or True})"])
    if how in ("semi", "anti"):
        return f"SELECT * FROM one WHERE {'NOT ' * (how == 'anti')}EXISTS (SELECT 1 FROM other WHERE {met})"
    columns = [*(f"coalesce({one}, {other})" for one, other in pairs[:keys]), *LEFT[keys:], *RIGHT[keys:]]
    return f"SELECT {', '.join(columns)} FROM one {how} JOIN other ON {met}"


def current(pipeline: do.Pipeline, table: str) -> list[Row]:
    """The rows that a table of changes comes to; none was taken back that was not there, and nothing came for nothing."""
    rows: Counter[Row] = Counter()
    for row in pipeline.read(table).collect():
        values = row.asDict()
        change = values.pop(CHANGE, ADDS[0])
        rows[plain(tuple(values.values()))] += 1 if change in ADDS else -1
    assert all(count >= 0 for count in rows.values())
    return sorted(rows.elements(), key=repr)


@dataclass(frozen=True)
class Case:
    """Two sides, and how they are joined."""

    left: Log
    right: Log
    how: Any
    keys: int
    condition: str | None

    def check(self, root: Path) -> None:
        """Run the join, a new process for each epoch, and compare."""
        for epoch in range(len(self.left.epochs)):
            pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
            one, other = self.left.source(pipeline, "one"), self.right.source(pipeline, "other")
            on = dict(zip(LEFT[: self.keys], RIGHT[: self.keys], strict=True))
            one.join(other, on=on, how=self.how, condition=self.condition, name="joined").to_table("joined")
            pipeline.run_epoch()
            rows = self.left.rows(epoch), self.right.rows(epoch)
            assert current(pipeline, "joined") == computed(*rows, asked(self.how, self.keys, self.condition))


cases = st.builds(
    Case,
    left=logs(LEFT, 3),
    right=logs(RIGHT, 3),
    how=st.sampled_from(WAYS),
    keys=st.integers(1, 2),
    condition=st.sampled_from(CONDITIONS),
)


@pytest.mark.slow
@fresh_examples(8)
@given(case=unlike_the_simplest(cases))
def test_any_changes(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "TIER_LENGTH", 2)
        case.check(tmp_path_factory.mktemp("join"))


def log(names: tuple[str, ...], *epochs: Sequence[tuple[str, Row]]) -> Log:
    return Log(names, tuple(map(tuple, epochs)))


NAN: Final = math.nan
ORDERS: Final = log(
    LEFT,
    [("insert", (1.5, "a", 1)), ("insert", (-0.0, "b", 2)), ("insert", (None, "c", 3)), ("insert", (NAN, "d", 4))],
    [("insert", (1.5, "a", 1)), ("update_before", (-0.0, "b", 2)), ("update_after", (2.5, "b", 2))],
    [("delete", (NAN, "d", 4)), ("delete", (1.5, "a", 1))],
)
ITEMS: Final = log(
    RIGHT,
    [("insert", (1.5, "x", 5)), ("insert", (0.0, "y", 1)), ("insert", (None, "z", 6)), ("insert", (NAN, "u", 7))],
    [("insert", (1.5, "x", 5)), ("insert", (2.5, "v", 1)), ("insert", (2.5, "v", 9)), ("delete", (2.5, "v", 9))],
    [("delete", (1.5, "x", 5)), ("delete", (1.5, "x", 5)), ("delete", (0.0, "y", 1))],
)


EVERY: Final[dict[Any, str | None]] = {"inner": None, "full": "v < w", "semi": None, "anti": "v < w"}


@pytest.mark.parametrize(("engine", "cases"), [
    ("sail", EVERY), pytest.param("spark", {"full": "v < w"}, marks=pytest.mark.spark),
], ids=["sail", "spark"])  # fmt: skip
def test_rows_come_and_go(tmp_path: Path, engine: str, cases: dict[Any, str | None]) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    one, other = ORDERS.source(pipeline, "one"), ITEMS.source(pipeline, "other")
    for how, condition in cases.items():
        one.join(other, on={"k": "l"}, how=how, condition=condition, name=how).to_table(f"t_{how}")
    for epoch in range(3):
        pipeline.run_epoch()
        rows = ORDERS.rows(epoch), ITEMS.rows(epoch)
        for how, condition in cases.items():
            assert current(pipeline, f"t_{how}") == computed(*rows, asked(how, 1, condition)), how


def test_a_filter_behind_a_join_leaves_out_rows_and_not_the_check(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    gone = log(LEFT, *ORDERS.epochs, [("delete", (2.5, "b", 3))])
    one, other = gone.source(pipeline, "one"), log(RIGHT, *ITEMS.epochs, []).source(pipeline, "other")
    ways: tuple[Any, ...] = ("inner", "left", "full")
    for how in ways:
        one.join(other, on={"k": "l"}, how=how, name=how).filter("v > 1 OR w > 5", name=f"some_{how}").to_table(f"t_{how}")
    for epoch in range(3):
        pipeline.run_epoch()
        rows = ORDERS.rows(epoch), ITEMS.rows(epoch)
        for how in ways:
            wanted = computed(*rows, f"SELECT * FROM ({asked(how, 1, None)}) WHERE v > 1 OR w > 5")
            assert current(pipeline, f"t_{how}") == wanted, how
    with pytest.raises(OperatorsError, match="a change takes a row back that is not there"):
        pipeline.run_epoch()


def growing(pipeline: do.Pipeline) -> tuple[do.Stream, do.Stream]:
    people = pipeline.source("people", do.MemorySource([[{"id": 1}], [{"id": 2}, {"id": 2}], []], schema="id int"))
    sold = [[{"seller": 2, "n": 1}], [{"seller": 1, "n": 2}], [{"seller": 2, "n": 3}, {"seller": 7, "n": 4}]]
    return people, pipeline.source("sales", do.MemorySource(sold, schema="seller long, n int"))


def test_rows_that_stay_make_pairs_that_stay(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    people, sales = growing(pipeline)
    pairs = people.join(sales, on={"id": "seller"}, name="pairs")
    pairs.to_table("pairs")
    people.join(sales, on={"id": "seller"}, how="semi", name="sellers").to_table("sellers")
    pairs.key_by("id").aggregate(sold="sum(n)").to_table("sold")
    found = []
    for _ in range(3):
        pipeline.run_epoch()
        found.append([sorted(map(tuple, pipeline.read(table).collect())) for table in ("pairs", "sellers", "sold")])
    assert found == [
        [[], [], []],
        [[(1, 2), (2, 1), (2, 1)], [(1,), (2,), (2,)], [(1, 2), (2, 2)]],
        [[(1, 2), (2, 1), (2, 1), (2, 3), (2, 3)], [(1,), (2,), (2,)], [(1, 2), (2, 8)]],
    ]
    assert "rows:" not in pipeline.explain()[pipeline.explain().index("pairs: join") :].partition("\nstage")[0]


def test_a_stream_is_joined_with_itself(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    one = ORDERS.source(pipeline, "one")
    one.join(one.rename(k="l", s="t", v="w"), on={"k": "l"}, how="full", name="joined").to_table("joined")
    for epoch in range(3):
        pipeline.run_epoch()
        assert current(pipeline, "joined") == computed(ORDERS.rows(epoch), ORDERS.rows(epoch), asked("full", 1, None))


def test_an_updating_stream_is_joined_by_what_changes(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    batches = [[{"k": "a", "v": 1}, {"k": "b", "v": 5}], [{"k": "a", "v": 2}]]
    rows = pipeline.source("rows", do.MemorySource(batches, schema="k string, v long"))
    totals = rows.key_by("k").aggregate(total="sum(v)", name="totals")
    shares = rows.join(totals, on="k", columns=["v", "total"], name="joined").select("k", "v", "total")
    shares.key_by().top(1, by="v / total, v", name="least").to_table("least")
    found = []
    for _ in batches:
        pipeline.run_epoch()
        found.append([tuple(row) for row in pipeline.read("least").collect()])
    assert found == [[(1, "a", 1, 1)], [(1, "a", 1, 3)]]
    assert "state table state/joined.left" in pipeline.explain()


@pytest.mark.parametrize("how", ["inner", "right"])
def test_a_row_that_is_not_there_is_not_taken_back(tmp_path: Path, how: Any) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    one = log(LEFT, [("insert", (1.0, "a", 1))], [("delete", (1.0, "a", 2))]).source(pipeline, "one")
    other = log(RIGHT, [], []).source(pipeline, "other")
    one.join(other, on={"k": "l"}, how=how, name="joined").to_table("joined")
    pipeline.run_epoch()
    with pytest.raises(OperatorsError, match="a change takes a row back that is not there"):
        pipeline.run_epoch()


def test_files_without_the_keys_that_came_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for = []
    read = StagedState.read_with_keys_of

    def counting(self: StagedState, tables: Any, keys: Any) -> Any:
        rows = read(self, tables, keys)
        asked_for.append(0 if rows is None else rows.count())
        return rows

    monkeypatch.setattr(StagedState, "read_with_keys_of", counting)
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    left = [[{"k": n, "v": n}] for n in range(3)]
    right = [[{"k": n, "w": n}] for n in (7, 0, 9)]
    one = pipeline.source("one", do.MemorySource(left, schema="k long, v long"))
    one.join(pipeline.source("other", do.MemorySource(right, schema="k long, w long")), on="k", name="joined").to_table("joined")
    for _ in left:
        pipeline.run_epoch()
    assert asked_for == [0, 0, 1, 0, 0, 0]


REFUSED: Final[dict[str, tuple[Callable[[do.Stream, do.Stream], Any], str]]] = {
    "no key": (lambda one, other: one.join(other, on=[]), "a join needs a key"),
    "no column": (lambda one, other: one.join(other, on="zz"), "the key of the left side uses column 'zz'"),
    "no column on the right": (
        lambda one, other: one.join(other, on={"k": "zz"}), "the key of the right side uses column 'zz'.*use one of: l, t, w"
    ),
    "no such way": (lambda one, other: one.join(other, on={"k": "l"}, how="outer"), "the join cannot be 'outer'"),
    "twice": (lambda one, other: one.join(other.rename(w="v"), on={"k": "l"}), "both sides have a column 'v'"),
    "condition twice": (
        lambda one, other: one.join(other.rename(w="v"), on={"k": "l"}, columns=["t"], condition="v > 1"),
        "reads a column 'v', which both sides have",
    ),
    "condition nowhere": (
        lambda one, other: one.join(other, on={"k": "l"}, condition="zz > 1"), "reads a column 'zz', which neither side has"
    ),
    "condition by chance": (lambda one, other: one.join(other, on={"k": "l"}, condition="rand() < 0.5"), "must be what it was"),
    "aggregate": (lambda one, other: one.join(other, on={"k": "l"}, condition="v < max(w)"), "looks at other rows"),
    "change": (lambda one, other: one.join(other.rename(w="_change"), on={"k": "l"}), "says so in a column '_change'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_joined_is_refused(tmp_path: Path, case: str) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    write, told = REFUSED[case]
    with pytest.raises(OperatorsError, match=told) as refused:
        write(ORDERS.source(pipeline, "one"), ITEMS.source(pipeline, "other"))
    assert refused.value.remedy


def test_keys_of_other_types_are_refused(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    one, other = ORDERS.source(pipeline, "one"), ITEMS.source(pipeline, "other")
    one.join(other, on={"k": "w"}, name="joined").to_table("joined")
    with pytest.raises(OperatorsError, match="the key 'k' is double on the left side, and 'w' bigint on the right"):
        pipeline.run_epoch()


@pytest.mark.parametrize(
    ("kinds", "values"),
    [(("decimal(10,2)", "decimal(12,3)"), (Decimal("1.51"), Decimal("1.508"))), (("bigint", "double"), (1, 1.5))],
    ids=["scales", "whole"],
)
def test_the_remedy_for_keys_of_other_types_rounds_none(kinds: tuple[str, str], values: tuple[Any, Any], tmp_path: Path) -> None:
    def run(root: str, *casts: dict[str, str]) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / root), engine=SAIL)
        sides = [
            pipeline.source(side, do.MemorySource([[{name: value}, {name: 7}]], schema=f"{name} {kind}")).with_columns(**cast)
            for side, name, kind, value, cast in zip(("left", "right"), "kq", kinds, values, casts, strict=True)
        ]
        sides[0].join(sides[1], on={"k": "q"}).to_table("t")
        pipeline.run_epoch()
        return pipeline

    same = {"k": "k"}, {"q": "q"}
    with pytest.raises(OperatorsError, match="the key 'k' is") as refused:
        run("refused", *same)
    told = re.findall(r"(\w+)\.with_columns\((\w)='([^']+)'\)", refused.value.remedy or "")
    casts = {side: {name: expression} for side, name, expression in told}
    mended = run("mended", casts.get("left", same[0]), casts.get("right", same[1]))
    assert [row.k for row in mended.read("t").collect()] == [7]


@pytest.mark.parametrize("how", ["inner", "semi", "full"])
def test_a_condition_that_is_no_truth_is_refused_when_the_pipeline_is_planned(tmp_path: Path, how: Any) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    one, other = ORDERS.source(pipeline, "one"), ITEMS.source(pipeline, "other")
    one.join(other, on={"k": "l"}, how=how, condition="v + w", name="joined").to_table("joined")
    with pytest.raises(SchemaError, match=r"the condition \(v \+ w\) is a bigint, not true or false") as told:
        pipeline.epochs.plan()
    assert told.value.operator == "joined"


@pytest.mark.parametrize("pair", [("n", "t"), ("t", "n")], ids="-".join)
def test_keys_of_other_kinds_can_be_joined_as_the_remedy_says(tmp_path: Path, pair: tuple[str, str]) -> None:
    def joined(name: str, **cast: str) -> do.Pipeline:
        pipeline = do.Pipeline(name, root=str(tmp_path / name), engine=SAIL)
        sides = [
            pipeline.source(
                side, do.MemorySource([[{"n": 7, "t": "7", side: 1}]], schema=f"n long, t string, {side} int")
            ).select(key, side)
            for side, key in zip(("left", "right"), pair, strict=True)
        ]
        text = pair.index("t")
        sides[text] = sides[text].with_columns(cast)
        sides[0].join(sides[1], on={pair[0]: pair[1]}, name="joined").to_table("joined")
        return pipeline

    with pytest.raises(SchemaError, match=f"the key '{pair[0]}' is a") as told:
        joined("as_they_are").epochs.plan()
    side = ("left", "right")[pair.index("t")]
    assert told.value.remedy == f"cast one of them before the join: with_columns(t='CAST(t AS bigint)') on the {side} side"
    assert not joined("cast", t="CAST(t AS BIGINT)").run_epoch().empty
