"""What each driver gives, alone and behind another one; and the life of a task. Without an engine."""

from __future__ import annotations

import datetime as dt

import pytest

from dagster_operators.errors import BadInputError, OperatorFailedError, PipelineError
from dagster_operators.operators.datasets.context import RichFunction, RuntimeContext
from dagster_operators.operators.datasets.drivers import grouping, joining, reducing, row_wise
from dagster_operators.operators.datasets.drivers.driver import ChainedDriver, Driver, Work, driver_for, drivers_of
from dagster_operators.operators.datasets.task import Step, run_task
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.properties.ordering import Direction, Ordering
from dagster_operators.optimizer.strategies import DriverStrategy

REGISTERED = (grouping, joining, reducing, row_wise)
ADD = Work(lambda first, second: (first[0], first[1] + second[1]), keys=(0,))
SUM = Work(lambda rows: [(sum(row[1] for row in rows),)], keys=(0,))
PAIRS = [(1, 1), (1, 2), (2, 5)]


def run(strategy, work, *inputs, chained=(), operator="op"):
    steps = [Step(step, step_work, RuntimeContext(f"behind_{at}")) for at, (step, step_work) in enumerate(chained)]
    return run_task(Step(strategy, work, RuntimeContext(operator)), inputs, steps)


@pytest.mark.parametrize(
    "strategy", [strategies.SORTED_REDUCE, strategies.SORTED_PARTIAL_REDUCE, strategies.HASHED_PARTIAL_REDUCE]
)
def test_a_reduce_leaves_one_row_of_each_key(strategy):
    assert run(strategy, ADD, PAIRS) == [(1, 3), (2, 5)]
    assert run(strategy, ADD, []) == []


def test_a_row_that_is_alone_is_not_given_to_the_function():
    def never(first, second):
        raise AssertionError

    assert run(strategies.SORTED_REDUCE, Work(never, keys=(0,)), [(1, 1), (2, 2)]) == [(1, 1), (2, 2)]


def test_all_rows_are_reduced_to_one_and_none_to_none():
    assert run(strategies.ALL_REDUCE, ADD, PAIRS) == [(1, 8)]
    assert run(strategies.ALL_REDUCE, ADD, []) == []


def test_a_function_of_groups_is_called_once_for_each_and_not_without_rows():
    assert run(strategies.SORTED_GROUP_REDUCE, SUM, PAIRS) == [(3,), (5,)]
    assert run(strategies.ALL_GROUP_REDUCE, SUM, PAIRS) == [(8,)]
    assert run(strategies.ALL_GROUP_REDUCE, SUM, []) == []


def test_a_combiner_sees_the_rows_of_a_group_in_the_order_of_the_group():
    first = Work(lambda rows: [next(iter(rows))], keys=(0,), within=Ordering(((1, Direction.DESCENDING),)))
    assert run(strategies.SORTED_GROUP_COMBINE, first, [(2, 5), (1, 1), (1, 2)]) == [(2, 5), (1, 2)]


def test_a_function_of_a_part_is_called_without_rows_too():
    assert run(strategies.MAP_PARTITION, Work(lambda rows: [len(list(rows))]), []) == [0]


@pytest.mark.parametrize(
    ("first", "second", "rows"),
    [
        (False, False, [("b", "B")]),
        (True, False, [("a", None), ("b", "B")]),
        (False, True, [("b", "B"), (None, "C")]),
        (True, True, [("a", None), ("b", "B"), (None, "C")]),
    ],
)
@pytest.mark.parametrize("strategy", [strategies.HYBRID_HASH_FIRST, strategies.HYBRID_HASH_SECOND, strategies.MERGE])
def test_a_join_gives_none_for_a_partner_that_is_not_there(strategy, first, second, rows):
    work = Work(
        lambda one, other: (one and one[1], other and other[1]),
        keys=(0,),
        second_keys=(0,),
        keeps_first=first,
        keeps_second=second,
    )
    found = run(strategy, work, [(1, "a"), (2, "b")], [(2, "B"), (3, "C")])
    assert sorted(found, key=str) == sorted(rows, key=str)


def test_a_co_group_has_each_key_of_either_side():
    work = Work(lambda firsts, seconds: [(len(list(firsts)), len(list(seconds)))], keys=(0,), second_keys=(0,))
    assert run(strategies.CO_GROUP, work, [(1,), (1,), (2,)], [(2,), (3,)]) == [(2, 0), (1, 1), (0, 1)]


def test_a_product_has_all_pairs():
    assert run(strategies.BLOCKED_LOOPS_FIRST, Work(lambda one, other: (one, other)), [1, 2], [3]) == [(1, 3), (2, 3)]


@pytest.mark.parametrize("strategy", [strategies.SORTED_REDUCE, strategies.HYBRID_HASH_FIRST, strategies.CO_GROUP])
def test_a_key_that_is_null_is_refused(strategy):
    rows = [[(None, 1)]] * len(strategy.dams)
    with pytest.raises(BadInputError, match=r"a key is null.*column 0.*leave such rows out"):
        run(strategy, Work(lambda *rows: [rows], keys=(0,), second_keys=(0,)), *rows)


def test_operators_are_chained_behind_another_one():
    double, keep = Work(lambda row: (row[0], row[1] * 2)), Work(lambda row: row[1] > 2, condition=True)
    chain = [(strategies.FLAT_MAP, keep), (strategies.SORTED_PARTIAL_REDUCE, ADD), (strategies.NO_OP, Work())]
    assert run(strategies.MAP, double, PAIRS, chained=chain) == [(1, 4), (2, 10)]
    with pytest.raises(OperatorFailedError, match=r"'CO_GROUP' cannot come behind another one.*behind_0"):
        run(strategies.MAP, double, PAIRS, chained=[(strategies.CO_GROUP, ADD)])


def test_a_failure_names_the_operator_whose_function_failed():
    fails = Work(lambda row: 1 // 0)
    with pytest.raises(OperatorFailedError, match=r"raised ZeroDivisionError.*operator 'op'"):
        run(strategies.MAP, fails, PAIRS)
    with pytest.raises(OperatorFailedError) as failure:
        run(strategies.MAP, Work(lambda row: dt.date.fromisoformat(row[0])), [("no day", 1)])
    assert failure.value.where["file"] == __file__
    assert failure.value.where["line"] > test_a_failure_names_the_operator_whose_function_failed.__code__.co_firstlineno
    with pytest.raises(OperatorFailedError, match=r"raised ZeroDivisionError.*operator 'behind_0'"):
        run(strategies.MAP, Work(lambda row: row), PAIRS, chained=[(strategies.MAP, fails)])


class Noted(RichFunction):
    """Notes what is called; fails where it is told to."""

    def __init__(self, notes: list[str], name: str, fails: str = "") -> None:
        self.notes, self.name, self.fails = notes, name, fails

    def _note(self, call: str) -> None:
        self.notes.append(f"{self.name} {call}")
        if call == self.fails:
            raise ValueError(call)

    def open(self, context: RuntimeContext) -> None:
        self._note("open")

    def close(self) -> None:
        self._note("close")

    def __call__(self, row):
        self._note("call")
        return row


@pytest.mark.parametrize(
    ("fails", "calls"),
    [
        ("", ["b open", "a open", "a call", "b call", "a close", "b close"]),
        ("call", ["b open", "a open", "a call", "a close", "b close"]),
        ("open", ["b open", "a open", "a close", "b close"]),
        ("close", ["b open", "a open", "a call", "b call", "a close", "b close"]),
    ],
)
def test_functions_that_were_opened_are_closed_whatever_fails(fails, calls):
    notes: list[str] = []
    first, second = Work(Noted(notes, "a", fails)), Work(Noted(notes, "b"))
    if fails:
        with pytest.raises(OperatorFailedError, match=f"raised ValueError: {fails}.*operator 'op'"):
            run(strategies.MAP, first, [(1,)], chained=[(strategies.MAP, second)])
    else:
        run(strategies.MAP, first, [(1,)], chained=[(strategies.MAP, second)])
    assert notes == calls


def test_a_driver_is_cleaned_up_after_a_failure_and_ends_when_it_is_cancelled():
    class Endless(Driver):
        ended: list[str] = []

        def run(self) -> None:
            for row in self.rows():
                self.context.collect(row)
                self.cancel()

        def cleanup(self) -> None:
            self.ended.append("cleaned up")

    strategy = strategies.driver(DriverStrategy("TEST_ENDLESS"))
    driver_for(strategy, Endless)
    assert run(strategy, Work(), iter(lambda: (1,), None)) == [(1,)]
    assert Endless.ended == ["cleaned up"]


def test_what_a_strategy_says_and_what_is_registered_must_fit():
    class Chained(ChainedDriver):
        def collect(self, row) -> None:
            self.context.collect(row)

    with pytest.raises(PipelineError, match="is chained, and there is no chained driver"):
        driver_for(DriverStrategy("TEST_CHAINED", chained=True), row_wise.RowWiseDriver)
    with pytest.raises(PipelineError, match="'MAP' has another driver"):
        driver_for(strategies.MAP, row_wise.RowWiseDriver, Chained)
    assert drivers_of(strategies.MAP) == (row_wise.RowWiseDriver, row_wise.ChainedRowWise)


def test_an_accumulator_has_one_type_and_a_broadcast_data_set_a_name():
    context = RuntimeContext("op")
    context.accumulator("rows", 0).add(2)
    assert context.accumulator("rows", 0).value == 2
    assert context.accumulator("largest", 0, max).value == 0
    with pytest.raises(PipelineError, match=r"'rows' is of the type int, and asked for as float.*operator 'op'"):
        context.accumulator("rows", 0.0)
    with pytest.raises(PipelineError, match=r"no broadcast data set 'set'.*with_broadcast_set\(data_set, 'set'\)"):
        context.broadcast("set")
