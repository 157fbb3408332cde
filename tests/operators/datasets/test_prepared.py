"""What is the same in all rounds of an iteration is prepared once in a process, within bounds, and gives the same rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout
from dagster_operators.operators.datasets.columns.joined import JoinedFields
from dagster_operators.operators.datasets.context import RichFunction
from dagster_operators.operators.datasets.prepared import MEMORY, PREPARED, USED_AGAIN, Memory, Origin
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.program import named_sources
from tests.examples import fresh_examples
from tests.operators.datasets.attempts import Attempts

PARTS, ROUNDS = 2, 5
EDGES = [(vertex, [vertex + 1]) for vertex in range(40)]


def origin(name: str, folder: str = "folder") -> Origin:
    return Origin(folder, ((name, 0),))


def test_what_was_not_used_for_longest_goes_first():
    memory = Memory(most_bytes=250)
    for name in ("a", "b", "a", "c", "a", "b"):
        memory.made(origin(name), "bytes", lambda: pa.array([0] * 12))
        assert memory.size <= 250
    kept = [name for name in "abc" if memory.made(origin(name), "bytes", lambda: None) is not None]
    assert kept == ["a", "b"]


def test_what_is_too_large_is_made_each_time():
    memory, rows = Memory(most_bytes=100), origin("a")
    for _ in range(3):
        memory.made(rows, "list", lambda: list(range(1000)))
    assert (rows.uses[PREPARED], rows.uses[USED_AGAIN], memory.size) == (3, 0, 0)


def test_what_fails_is_not_remembered():
    memory, rows = Memory(), origin("a")
    with pytest.raises(ZeroDivisionError):
        memory.made(rows, "list", lambda: 1 // 0)
    assert memory.made(rows, "list", lambda: 7) == 7


def test_an_iteration_that_has_ended_is_forgotten():
    seconds = 0.0
    memory = Memory(clock=lambda: seconds)
    for name, folder in (("a", "one"), ("b", "other")):
        memory.made(origin(name, folder), "list", lambda: [1])
    memory.forget("one")
    assert memory.made(origin("a", "one"), "list", lambda: [2]) == [2]
    seconds = 1000.0
    memory.forget_idle()
    assert memory.size == 0


class Along(RichFunction):
    """Goes along the edges of a broadcast set."""

    def open(self, context):
        self.edges = {edge[0]: edge for edge in context.broadcast("edges")}

    def __call__(self, row):
        return along(row, self.edges[row[0]])


def along(row, edge):
    """The next row; the edge is changed, which no later round may see."""
    edge[1].append(0)
    return (edge[1][0], row[1] + len(edge[1]))


WAYS = {
    "join": lambda rows, edges: rows.join(edges).where(0).equal_to(0).with_function(along),
    "outer join": lambda rows, edges: rows.left_outer_join(edges).where(0).equal_to(0).with_function(along),
    "co-group": lambda rows, edges: rows.co_group(edges).where(0).equal_to(0).with_function(
        lambda some, near: [along(row, edge) for edge in near for row in some]
    ),
    "cross": lambda rows, edges: rows.cross(edges).with_function(lambda row, edge: (row, edge)).flat_map(
        lambda pair: [along(*pair)] if pair[0][0] == pair[1][0] else []
    ),
    "broadcast set": lambda rows, edges: rows.map(Along()).with_broadcast_set(edges, "edges"),
}  # fmt: skip


def ran(way, place):
    """The rows of an iteration in rounds, and how often something was prepared and used again."""
    local = LocalProgram(PARTS)

    def plan():
        edges, start = local.rows(EDGES), local.rows([(vertex, 0) for vertex in range(9)])
        loop = start.iterate(ROUNDS)
        made = local.plan(loop.close_with(WAYS[way](loop.rows_of_round, edges)))
        sources.update((node.name, node.work) for node in named_sources([sink.node for sink in made.sinks]))
        return made

    sources = {}
    plan()
    place.mkdir()
    attempts = Attempts(place, sources, plan)
    rows = attempts.run()
    return sorted(rows["0"]), attempts.results.prepared


@pytest.mark.parametrize("way", WAYS)
def test_each_part_prepares_once_what_all_rounds_use(way, tmp_path, monkeypatch):
    rows, prepared = ran(way, tmp_path / "remembered")
    assert rows == [(vertex + ROUNDS, 2 * ROUNDS) for vertex in range(9)]
    assert 1 <= prepared[PREPARED] <= PARTS
    assert prepared[USED_AGAIN] == PARTS * ROUNDS - prepared[PREPARED]
    assert MEMORY.size == 0, "the iteration has ended"
    monkeypatch.setattr(MEMORY, "_most_bytes", 0)
    assert ran(way, tmp_path / "not") == (rows, {PREPARED: PARTS * ROUNDS})


def _table(rows, kind):
    columns = ([row[side] for row in rows] for side in (0, 1))
    return pa.table([pa.array(values, pa.int32()).cast(kind) for values in columns], ["0", "1"])


KEYS = st.integers(-3, 3)


@fresh_examples(60)
@given(
    many=st.lists(st.tuples(KEYS, KEYS), min_size=4, max_size=12), few=st.lists(st.tuples(KEYS, KEYS), max_size=3),
    kind=st.sampled_from([pa.int64(), pa.int8(), pa.string(), pa.date32(), pa.float64()]), two=st.booleans(), first=st.booleans(),
)  # fmt: skip
@example(many=[(1, 1), (1, 2), (2, 1), (1, 3)], few=[(1, 5), (1, 6)], kind=pa.int64(), two=False, first=True)
def test_a_few_rows_are_looked_up_in_many_in_the_order_of_the_many(many, few, kind, two, first):
    """Instead of the other way round, which is what the plan says, where the many are the same in all rounds."""
    layout = RowLayout((kind, kind), None)
    many_rows, few_rows = (ColumnRows.of(layout, _table(rows, kind)) for rows in (many, few))
    keys = (0, 1) if two else (0,)
    strategy = strategies.HYBRID_HASH_SECOND if first else strategies.HYBRID_HASH_FIRST
    work = JoinedFields(keys, keys, ((0, 0), (0, 1), (1, 1)), None)
    inputs = [many_rows, few_rows] if first else [few_rows, many_rows]
    expected = list(work.run(inputs, strategy))
    many_rows.origin = Origin("folder", (("many", 0),))
    try:
        assert list(work.run(inputs, strategy)) == expected
        assert list(work.run(inputs, strategy)) == expected
        assert many_rows.origin.uses[USED_AGAIN] >= 1
    finally:
        MEMORY.forget("folder")
