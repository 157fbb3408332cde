"""A program whose data sets are computed of a pipeline's streams, as the dataflow's operator needs it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields
from enum import Enum
from functools import cached_property
from types import FunctionType, MappingProxyType
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.api.datasets.arrow_calls import require_known_columns
from dagster_operators.api.datasets.base import Bag, Operation, Translation, explicit_parallelism
from dagster_operators.api.datasets.functions_within import function_kind, held_by, is_own, is_own_place, user_functions
from dagster_operators.api.datasets.operations.kept import KEPT, KeptRows
from dagster_operators.api.datasets.operations.rounds import DeltaRounds
from dagster_operators.api.datasets.operations.row_wise import RowsAtHand
from dagster_operators.api.datasets.stream_input import StreamInput
from dagster_operators.api.datasets.types_of_fields import KnownTypes, schema_of
from dagster_operators.errors import PlanError
from dagster_operators.functions.content import closed_over, exact_digest_of, former_digest_of
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.datasets.data_sets import KEPT_SINK, SINK, DataSetProgram
from dagster_operators.operators.datasets.drivers.driver import drivers_of
from dagster_operators.operators.datasets.running.packed_rows import is_record
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.optimizer.planning import OptimizedPlan, optimized
from dagster_operators.optimizer.program import Sink, name_apart, named_sources, ordered
from dagster_operators.optimizer.strategies import ExecutionMode
from dagster_operators.types.schema import Schema


class StreamProgram(DataSetProgram):
    """A program.

    Args:
        data_set: The data set that it computes.
        streams: The streams that it reads.
        sides: Further data sets that it computes, by the names of their outputs.
    """

    kept: ClassVar[tuple[str, ...]] = (*DataSetProgram.kept, "streams")
    _exact: StreamProgram | None = None
    """The program with the digest of this version, where it has that of an earlier one."""

    def __init__(self, data_set: Bag, streams: Sequence[StreamRef], sides: Mapping[str, Bag] = MappingProxyType({})) -> None:
        self.data_sets = {SINK: data_set, **sides}
        kept = iterations_that_keep(data_set, *sides.values())
        if kept:
            self.data_sets[KEPT_SINK] = kept[0]
        known = {bag: number for number, bag in enumerate(bags_before(*self.data_sets.values()))}
        outputs = [f"{name}: {known[bag]}" for name, bag in self.data_sets.items()] if sides else []
        self.outline = (*(_line(bag, known, streams) for bag in known), *outputs)
        self.functions = tuple(dict.fromkeys(function for bag in known for function in functions_of(bag)))
        self.code = exact_digest_of(*self.functions, *_rows_at_hand(known), *self._from_outside(list(known)))
        kinds = ((function_kind(bag.operation), bag.shown) for bag in known)
        self.function_kinds = tuple(dict.fromkeys((kind, name) for kind, name in kinds if kind))
        self.streams = tuple(map(str, streams))
        self.columns = _columns(data_set)
        self.sides = {name: _columns(bag) for name, bag in sides.items()}

    def _from_outside(self, known: Sequence[Bag]) -> list[type]:
        """The classes of operations of other packages, and of the drivers that do their work."""
        operations = [type(bag.operation) for bag in known if not is_own(bag.operation)]
        if not operations:
            return []
        try:
            translation = Translation(1, types_of=None)  # nobody asks what comes in
            nodes = ordered([translation.node(bag) for bag in self.data_sets.values()])
            drivers = [driver for node in nodes for way in node.descriptors for driver in drivers_of(way.driver) if driver]
        except Exception:  # noqa: BLE001 - of an operation from outside: it is raised again as the program is planned
            drivers = []
        return list(dict.fromkeys([*operations, *(driver for driver in drivers if not is_own_place(driver.__module__))]))

    @cached_property
    def _program(self) -> Mapping[str, Bag]:
        if "data_sets" not in vars(self):
            raise PlanError(
                "a program of data sets is not in a stored plan, but for what it is made of",
                remedy="run the program that defines the pipeline",
            )
        return self.data_sets

    @cached_property
    def _refs(self) -> list[StreamRef]:
        """The streams as the program's own operations name them, in the order of the operator's inputs."""
        inputs = [bag.operation for bag in bags_before(*self._program.values()) if isinstance(bag.operation, StreamInput)]
        by_name = {str(operation.stream): operation.stream for operation in inputs}
        return [by_name[name] for name in self.streams]

    @property
    def _inputs(self) -> list[StreamRef]:
        """The streams, and behind them the kept solution set."""
        return [*self._refs, KEPT] if KEPT_SINK in self._program else self._refs

    @override
    def as_stored(self, outline: Sequence[str], code: str) -> StreamProgram:
        exact = self._exact or self
        if code in (self.code, exact.code) or "data_sets" not in vars(self) or tuple(outline) != self.outline:
            return self if code == self.code else exact
        functions = tuple(function for function in exact.functions if not isinstance(function, type))
        if former_digest_of(*functions, *_rows_at_hand(bags_before(*self._program.values()))) != code:
            return exact
        program = copy(exact)
        program.code, program.functions, program._exact = code, functions, exact  # noqa: SLF001 - it is of this class
        return program

    @property
    @override
    def modules(self) -> tuple[str, ...]:
        return modules_of((self._exact or self).functions)

    @cached_property
    @override
    def records(self) -> tuple[type, ...]:
        return tuple(dict.fromkeys(kind for function in (self._exact or self).functions for kind in _records_of(function)))

    @override
    def schemas(self, inputs: Sequence[Schema]) -> Mapping[str, Schema]:
        of_streams = dict(zip(self._refs, inputs, strict=True))
        schemas = {name: schema_of(bag, of_streams) for name, bag in self._program.items()}
        require_known_columns(bags_before(*self._program.values()), KnownTypes(of_streams).of)
        return schemas

    @override
    def plan(
        self, parallelism: int, estimates: Sequence[Estimate], columns: Sequence[Schema] = ()
    ) -> tuple[OptimizedPlan, Mapping[str, int | list[Any]]]:
        types = KnownTypes(dict(zip(self._refs, columns, strict=bool(columns))))
        translation = Translation(parallelism, estimates=dict(zip(self._inputs, estimates, strict=True)), types_of=types.of)
        sinks = [
            Sink(name, translation.node(bag), parallelism=explicit_parallelism(bag) or parallelism)
            for name, bag in self._program.items()
        ]
        name_apart(sinks)
        sources = dict(_sources(sinks, self._inputs))  # gives them names of their own, which the plan has
        return optimized(sinks, ExecutionMode.BATCH), sources


def _columns(data_set: Bag) -> tuple[str, ...] | None:
    return None if data_set.fields is None else tuple(data_set.fields)


def _sources(sinks: Sequence[Sink], streams: Sequence[StreamRef]) -> Iterator[tuple[str, int | list[Any]]]:
    """The sources of a program by names of their own, which they are given, each with its stream's number or its rows."""
    for source in named_sources(sinks):
        given: Any = KEPT if isinstance(source.work, KeptRows) else source.work
        yield source.name, streams.index(given) if isinstance(given, StreamRef) else given


def _rows_at_hand(data_sets: Iterable[Bag]) -> list[Any]:
    return [bag.operation.rows for bag in data_sets if isinstance(bag.operation, RowsAtHand)]


def bags_before(*data_sets: Bag) -> list[Bag]:
    """Data sets and all that they are made of, each once, behind those that it reads."""
    found: dict[Bag, None] = {}
    waiting = [*reversed(data_sets)]
    while waiting:
        current = waiting[-1]
        missing = [bag for bag in _read_by(current) if bag not in found]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        found[current] = None
    return list(found)


def iterations_that_keep(*data_sets: Bag) -> list[Bag]:
    """The iterations before some data sets that go on from their solution set of the last epoch."""
    found = bags_before(*data_sets)
    return [bag for bag in found if isinstance(bag.operation, DeltaRounds) and bag.operation.kept is not None]


def _read_by(bag: Bag) -> list[Bag]:
    within = [getattr(bag.operation, field.name) for field in _settings(bag.operation)]
    return [*bag.inputs, *bag.broadcasts.values(), *(value for value in within if isinstance(value, Bag))]


def _settings(operation: Operation) -> tuple[Any, ...]:
    return fields(operation) if hasattr(operation, "__dataclass_fields__") else ()  # type: ignore[arg-type]


def _line(bag: Bag, known: Mapping[Bag, int], streams: Sequence[StreamRef]) -> str:
    """An operation with its settings, in which functions and other data sets are numbers."""
    operation = bag.operation
    if isinstance(operation, StreamInput):
        return f"{known[bag]}: stream {streams.index(operation.stream)}"
    shown = settings_shown(operation, operation.without_effect | {"rows"}, known)
    reads = [str(known[source]) for source in bag.inputs]
    more = [f"{name}: {known[source]}" for name, source in bag.broadcasts.items()]
    of = {
        "name": bag.shown, "fields": bag.fields, "declared": bag.declared, "parallelism": bag.own_parallelism,
        "forwarded": [(number, moves) for number in range(len(bag.inputs)) if (moves := bag.forwarding(number).moves)] or None,
        "parameters": {name: exact_digest_of(value) for name, value in bag.parameters.items()} or None,
    }  # fmt: skip
    said = [f"{name}={value}" for name, value in of.items() if value is not None]
    return f"{known[bag]}: {operation.kind}({', '.join(reads + more)}) {', '.join([*shown, *said])}"


def settings_shown(operation: Operation, left_out: Collection[str], known: Mapping[Bag, int] = MappingProxyType({})) -> list[str]:
    """The settings of an operation, in which functions and other data sets are numbers.

    Args:
        operation: The operation.
        left_out: The names of settings that are left out.
        known: The numbers of data sets.
    """
    named = {field.name: getattr(operation, field.name) for field in _settings(operation)}
    return [f"{name}={_shown(value, known)}" for name, value in named.items() if name not in left_out and value is not None]


def modules_of(functions: Iterable[Any]) -> tuple[str, ...]:
    """The modules that functions come from, each once."""
    places = (getattr(function, "__module__", None) or type(function).__module__ for function in functions)
    return tuple(dict.fromkeys(places))


def _shown(value: Any, known: Mapping[Bag, int]) -> str:
    """A setting as text, the same in every process; a function of the user's by that word, since its digest tells it apart."""
    parts: list[Any] | None = None
    name = type(value).__qualname__
    if isinstance(value, Bag):
        return str(known[value])
    if value is None or isinstance(value, str | int | float | bool):
        return repr(value)
    if isinstance(value, Enum | type):
        return value.name if isinstance(value, Enum) else value.__qualname__
    if isinstance(value, Mapping):
        name, parts = "", [part for item in value.items() for part in item]
    elif isinstance(value, tuple | list):
        name, parts = "", list(value)
    elif is_own(value):
        name, parts = getattr(value, "__qualname__", name), held_by(value)
    else:
        name = "function" if callable(value) else f"{name} {exact_digest_of(value)}"
    return name if parts is None else f"{name}({', '.join(_shown(part, known) for part in parts)})"


def functions_of(bag: Bag) -> Iterator[Any]:
    """The user's own functions in the settings of an operation."""
    for field in _settings(bag.operation):
        value = getattr(bag.operation, field.name)
        if isinstance(value, type) and _is_users(value.__module__):
            yield value  # a class that makes rows, whose code is the user's
        yield from user_functions(value, set())


def _is_users(module: str) -> bool:
    return not is_own_place(module) and module.partition(".")[0] not in sys.stdlib_module_names


def _records_of(function: Any) -> Iterator[type]:
    """The types of records that a function of the user's may make: those of its module, and those that it is given."""
    call = function if isinstance(function, FunctionType) else type(function).__call__
    if not isinstance(call, FunctionType):
        return
    around = [held for _, held in closed_over(call)]
    of_module = [value for value in call.__globals__.values() if getattr(value, "__module__", None) == call.__module__]
    yield from (value for value in (*around, *of_module) if is_record(value))
