"""Results over all epochs: which data sets have some, and how they are merged with those of the epochs before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag, Translation
from dagster_operators.api.datasets.functions import around
from dagster_operators.api.datasets.keys import Keys
from dagster_operators.api.datasets.numbering import InPart
from dagster_operators.api.datasets.operations.grouped import GroupedOperation, ReducedBag
from dagster_operators.api.datasets.operations.paired import Pairs, Product
from dagster_operators.api.datasets.over_all import OverAll
from dagster_operators.api.datasets.stream_input import StreamInput
from dagster_operators.api.datasets.stream_program import bags_before, functions_of, modules_of, settings_shown
from dagster_operators.errors import PipelineError
from dagster_operators.functions.content import exact_digest_of
from dagster_operators.operators.datasets.arrow_function import ArrowFunction
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.over_epochs import GroupMerge, GroupsOverEpochs
from dagster_operators.operators.datasets.row_maker import RowMaker
from dagster_operators.operators.datasets.rows import Row, key_of
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.binary_descriptors import JoinType
from dagster_operators.optimizer.properties.fields import Fields
from dagster_operators.optimizer.strategies import DriverStrategy

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream

B = TypeVar("B", bound=Bag)
Over: TypeAlias = Literal["epoch", "all"]
"""Of which rows results are: those of each epoch, or those of all epochs so far."""

_LEFT_OUT: Final = frozenset({"combine_hint", "partitioner", "keys"})
"""Settings that change no result, or are told elsewhere."""


def is_over_all(over: str, operator: str) -> bool:
    """Whether results are over all epochs.

    Raises:
        PipelineError: It is neither said so, nor that they are of each epoch.

    >>> is_over_all("all", "Reduce"), is_over_all("epoch", "Reduce")
    (True, False)
    """
    if over not in ("epoch", "all"):
        raise PipelineError(
            f"over={over!r} says nothing of epochs", operator=operator, remedy="write over='all', or leave it out"
        )
    return over == "all"


def require_column_keys(keys: Keys, operator: str) -> None:
    """Refuse groups that are not kept by columns.

    Raises:
        PipelineError: Their key is computed, or within a field.
    """
    if keys.function is not None or not all(isinstance(field, int) for field in keys.fields):
        raise PipelineError(
            "results over all epochs are kept by columns, and the key is none", operator=operator,
            remedy="make it a column before: map(lambda row: (row.name.lower(), row.v), schema='k string, v long').group_by('k')",
        )  # fmt: skip


def require_functions_of_rows(functions: Iterable[object], operator: str) -> None:
    """Refuse functions over Arrow for groups whose combined rows are kept.

    Raises:
        PipelineError: One is over Arrow.
    """
    if any(isinstance(function, ArrowFunction) for function in functions):
        raise PipelineError(
            "combined rows are kept as rows, and a function over Arrow takes none", operator=operator,
            remedy="give functions of rows: reduce_group(function, combine=fewer, schema='k string, v long', over='all')",
        )  # fmt: skip


def require_key_columns(keys: Keys, names: Sequence[str] | None, results: Collection[str], operator: str) -> None:
    """Refuse results that lack a key column, by which the next epoch finds them.

    Args:
        keys: The key.
        names: The names of the rows' fields; None where they have none.
        results: The names of the results' columns.
        operator: The operator, for errors.

    Raises:
        PipelineError: They lack one.
    """
    missing = next((names[int(key)] for key in keys.fields if names and names[int(key)] not in results), None)
    if missing is not None:
        raise PipelineError(
            f"results over all epochs are found by their key, and have no column {missing!r}", operator=operator,
            column=missing, remedy="let the function hand on the key columns, and declare them",
        )  # fmt: skip


@dataclass(frozen=True)
class _KeepingKey:
    function: Callable[[Any, Any], Any]
    fields: Fields
    names: tuple[str, ...] | None

    @cached_property
    def _make_row(self) -> Callable[[Any], Row]:
        return RowMaker(self.names, None) if self.names else lambda row: row

    def __call__(self, first: Row, second: Row) -> Row:
        result = self._make_row(self.function(first, second))
        key = key_of(self.fields)
        if key(result) != key(first):
            raise PipelineError(
                f"the function made the key {key(result)!r} of {key(first)!r}, and the next epoch would not find its group",
                remedy="let the function hand on the key columns as they are",
            )
        return result


def keeping_key(function: Callable[[Any, Any], Any], keys: Keys, names: tuple[str, ...] | None) -> Callable[[Any, Any], Any]:
    """A function of two rows of a group, which must leave the key as it is: another epoch looks for it.

    Args:
        function: The user's.
        keys: The key.
        names: The names of the rows' fields; None where they have none.

    >>> keeping_key(lambda first, second: (first[0], 7), Keys((0,)), None)(("a", 1), ("a", 2))
    ('a', 7)
    """
    if not keys.fields or isinstance(function, ArrowFunction):  # which is refused as of any reduce
        return function
    return around(function, _KeepingKey(function, keys.fields, names))


def over_all(data_set: B, *, appends: bool = False, several: bool = False) -> B:
    """The data set with its results over all epochs.

    Args:
        data_set: The results of an epoch.
        appends: Whether rows that came out stay as they are.
        several: Whether a group has several rows.

    Raises:
        PipelineError: The rows that they are of depend on what comes in one epoch.
    """
    _require_any_cut(data_set)
    data_set.over = OverAll(appends, several)
    return data_set


def made_of_kept(data_set: B, kept: Bag) -> B:
    """The data set with its results over all epochs, which are made of other rows that are kept.

    Args:
        data_set: The results of an epoch.
        kept: The rows of an epoch that are kept.

    Raises:
        PipelineError: The rows that they are of depend on what comes in one epoch.
    """
    _require_any_cut(data_set)
    kept.parameters = data_set.parameters  # those that are given later, too
    data_set.over = OverAll(several=True, kept=kept)
    return data_set


def rows_of_epoch(data_set: Bag) -> Bag:
    """The data set that is computed in each epoch: the results, or the rows that are kept in place of them."""
    return data_set if data_set.over is None or data_set.over.kept is None else data_set.over.kept


def stream_over_all(data_set: Bag, stream: Stream, name: str | None) -> Stream:
    """The stream of results over all epochs, behind the one of each epoch's results; the same where they are of an epoch.

    Args:
        data_set: The data set.
        stream: The results of an epoch.
        name: The operator's name.

    Raises:
        PipelineError: The rows have no names, or the function is given a data set.
    """
    if data_set.over is None:
        return stream
    kept, operation = rows_of_epoch(data_set), rows_of_epoch(data_set).operation
    if not isinstance(operation, GroupedOperation):
        return stream
    _require_any_cut(data_set)  # a broadcast set may have been given since
    if data_set.broadcasts:
        raise PipelineError(
            "a function of results over all epochs is given a data set, which is of one epoch", operator=data_set.shown,
            remedy="give the function plain values: with_parameters(factor=10)",
        )  # fmt: skip
    if kept.fields is None:
        raise PipelineError(
            "results over all epochs are kept by columns, and the rows have no names", operator=data_set.shown,
            remedy="declare them where the function is given: map(function, schema='k string, v long')",
        )  # fmt: skip
    keys = tuple(kept.fields[int(field)] for field in operation.keys)
    return stream.through(GroupsOverEpochs, name=name, merge=MergeOfOperation(data_set, data_set.over), keys=keys)


class MergeOfOperation(GroupMerge):
    """The merge of the results of an operation on groups, which merges results as it merges rows.

    Args:
        data_set: The results of an epoch.
        over: How results are kept.
    """

    def __init__(self, data_set: Bag, over: OverAll) -> None:
        self._data_set = data_set
        self._kept = over.kept
        operation = data_set.operation
        parameters = {name: exact_digest_of(value) for name, value in data_set.parameters.items()}
        self.outline = (f"{operation.kind} {', '.join(settings_shown(operation, _LEFT_OUT))}", f"parameters: {parameters}")
        self.functions = tuple(dict.fromkeys(functions_of(data_set)))
        self.code = exact_digest_of(*self.functions)
        self.appends = over.appends
        self.several = over.several
        self.result = "" if over.kept is None else data_set.declared or ""

    @property
    @override
    def modules(self) -> tuple[str, ...]:
        return modules_of(self.functions)

    @override
    def steps(self) -> list[tuple[DriverStrategy, Work]]:
        kept = [] if self._kept is None else [self._kept]
        return [_step(data_set) for data_set in (*kept, self._data_set)]


def _step(data_set: Bag) -> tuple[DriverStrategy, Work]:
    operation = data_set.operation
    if not isinstance(operation, GroupedOperation):
        raise PipelineError(
            "results over all epochs are those of groups", operator=data_set.shown, remedy="group the rows: group_by('k')"
        )
    work = operation.work(data_set, Translation(1))
    if isinstance(operation, ReducedBag):
        return strategies.SORTED_REDUCE if work.keys else strategies.ALL_REDUCE, work
    return strategies.SORTED_GROUP_REDUCE if work.keys else strategies.ALL_GROUP_REDUCE, work


def _require_any_cut(data_set: Bag) -> None:
    """Refuse rows that are others where those of two epochs come in one: then results are, too."""
    waiting = list(data_set.inputs) if _moves(data_set) else []  # of rows at hand there is one epoch
    while waiting:
        bag = waiting.pop()
        operation = bag.operation
        if isinstance(operation, StreamInput):
            if operation.origin._type.whole:  # noqa: SLF001 - both are the fluent interface
                raise PipelineError(
                    f"{bag.shown!r} has all rows of a table in each epoch, which would count again and again",
                    operator=data_set.shown, remedy="leave over='all' out: each epoch's results are over all of them",
                )  # fmt: skip
            continue
        moving = [source for source in bag.inputs if _moves(source)]
        paired = (isinstance(operation, Pairs) and operation.join is JoinType.INNER) or isinstance(operation, Product)
        knows_part = isinstance(getattr(operation, "function", None), InPart)
        fits = len(moving) == 1 if paired else operation.adds_up and not knows_part and len(moving) == len(bag.inputs)
        if not fits or any(map(_moves, bag.broadcasts.values())):
            raise PipelineError(
                f"{bag.shown!r} gives other rows where those of two epochs come in one, and so would results over all epochs",
                operator=data_set.shown,
                remedy="let map, flat_map, filter, select, project, union and joins with rows at hand come before, and nothing "
                "else; write what the others give to a table, and compute from the data set of that table with mode='replace'",
            )  # fmt: skip
        waiting += moving


def _moves(data_set: Bag) -> bool:
    """Whether a data set has rows of streams."""
    return any(isinstance(bag.operation, StreamInput) for bag in bags_before(data_set))
