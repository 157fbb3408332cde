"""Constructors of operators that make one value of many rows: of all of a time, or of those of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dagster_operators.errors import PipelineError
from dagster_operators.operators.frontier.frontier_batch import VALUE
from dagster_operators.types.exact_cast import exact_array

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle

StateFold = Callable[[Any, dict[str, Any], Any], tuple[bool, Iterable[dict[str, Any]], Any]]
"""From a key, a row and the key's state to whether the state is removed, the rows that come out, and the new state."""


class Accumulate:
    """Makes one row of all rows of each time, when the time is complete.

    Args:
        initial: The accumulator at first.
        fold: From the accumulator and the rows of the time to the accumulator.
        column: The column that it is put out in.
    """

    def __init__(self, initial: Any, fold: Callable[[Any, pa.Table], Any], column: str) -> None:
        self.initial = initial
        self.fold = fold
        self.column = column

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - it is dropped
        """The logic."""
        stash = info.state["stash"]

        def logic(given: InputHandle, output: OutputHandle) -> None:
            given.for_each(stash.add)
            for time, rows in stash.complete(given.frontier):
                output.session(time).give({self.column: self.fold(self.initial, rows)})

        return logic


def count_rows(before: int, rows: pa.Table) -> int:
    """How many rows there are, and were.

    >>> count_rows(1, pa.table({"v": [5, 6]}))
    3
    """
    return before + int(rows.num_rows)


class Aggregate:
    """Makes rows of those of each key and time, when the time is complete.

    Args:
        keys: The key columns.
        fold: From a key, the key's rows and the aggregate up to there, None at first, to the aggregate.
        emit: From a key and its aggregate to the row that comes out.
    """

    def __init__(self, keys: Sequence[str], fold: Callable[[Any, pa.Table, Any], Any], emit: Callable[[Any, Any], Any]) -> None:
        self.keys = tuple(keys)
        self.fold = fold
        self.emit = emit

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - it is dropped
        """The logic."""
        stash = info.state["stash"]

        def logic(given: InputHandle, output: OutputHandle) -> None:
            given.for_each(stash.add)
            for time, rows in stash.complete(given.frontier):
                session = output.session(time)
                for key, part in by_key(rows, self.keys):
                    session.give(self.emit(key, self.fold(key, part, None)))

        return logic


class StateMachine:
    """Goes from state to state with each row of a key, in the order of time; the state outlives times and epochs.

    Args:
        keys: The key columns.
        fold: What becomes of a row.
        initial: A key's state before its first row, and after it was removed.
    """

    def __init__(self, keys: Sequence[str], fold: StateFold, initial: Any) -> None:
        self.keys = tuple(keys)
        self.fold = fold
        self.initial = initial

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - it is dropped
        """The logic."""
        stash, values = info.state["stash"], info.state["values"]

        def logic(given: InputHandle, output: OutputHandle) -> None:
            given.for_each(stash.add)
            for time, rows in stash.complete(given.frontier):
                session = output.session(time)
                for key, part in by_key(rows, self.keys):
                    session.give_iterator(self._go_on(key, part, values))

        return logic

    def _go_on(self, key: Any, rows: pa.Table, values: Any) -> list[dict[str, Any]]:
        own = rows.select(self.keys).slice(0, 1)
        found = values.get(own)[VALUE].to_pylist()[0]
        state, out = self.initial if found is None else found, list[dict[str, Any]]()
        for row in rows.to_pylist():
            answer: Any = self.fold(key, row, state)
            if not isinstance(answer, tuple) or len(answer) != 3:  # noqa: PLR2004 - the three that are named below
                raise PipelineError(
                    "the function gave no tuple of three",
                    value=repr(answer),
                    remedy="let it give (whether to remove, rows, state)",
                )
            removed, put_out, state = answer
            out += put_out
            state = self.initial if removed else state
            kept = not removed
        if kept:
            values.put(own.append_column(VALUE, _state_as(state, values.get(own)[VALUE].type)))
        else:
            values.delete(own)
        return out


def _state_as(state: Any, kind: pa.DataType) -> pa.Array:
    try:
        return exact_array([state], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise PipelineError(
            f"the state of a key is no {kind}: {str(error).splitlines()[0]}",
            value=repr(state),
            remedy="name the type of the state: state_machine with value='string', say",
        ) from None


def by_key(rows: pa.Table, keys: Sequence[str]) -> Iterator[tuple[Any, pa.Table]]:
    """The rows of each key, in the order in which keys come first; a key of one column is its value, of several a tuple.

    >>> [(key, part["v"].to_pylist()) for key, part in by_key(pa.table({"k": ["b", "a", "b"], "v": [1, 2, 3]}), ["k"])]
    [('b', [1, 3]), ('a', [2])]
    """
    place = "place_"
    numbered = rows.append_column(place, pa.array(range(rows.num_rows), pa.int64()))
    groups = numbered.group_by(list(keys), use_threads=False).aggregate([(place, "list")])
    columns = [groups[key].to_pylist() for key in keys]
    for *key, places in zip(*columns, groups[f"{place}_list"].to_pylist(), strict=True):
        yield key[0] if len(key) == 1 else tuple(key), rows.take(pa.array(places))
