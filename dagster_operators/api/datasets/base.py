"""Data sets as graphs: inputs, an operation and the user's settings; and their translation to the optimizer's operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

from typing_extensions import override

from dagster_operators.api.datasets.arrow_calls import ColumnUse, require_use
from dagster_operators.api.datasets.calls.annotated import Annotated
from dagster_operators.api.datasets.functions import Adapted, MakeRow, giving_one, giving_several, require_function
from dagster_operators.api.datasets.functions_within import function_kind
from dagster_operators.api.datasets.over_all import OverAll, require_of_epoch
from dagster_operators.api.datasets.row_types import RowType, Types
from dagster_operators.api.datasets.schemas import names_in
from dagster_operators.api.datasets.typed_by import TypedBy
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.datasets.columns.column_rows import RowLayout
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.row_maker import RowMaker
from dagster_operators.optimizer.estimates import Estimate, Hints
from dagster_operators.optimizer.program import Node
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.data_type import Field
from dagster_operators.types.schema import Schema


class Operation(ColumnUse, ABC):
    """The operation that makes a data set."""

    kind: ClassVar[str]
    """The kind that plans show."""
    is_union: ClassVar[bool] = False
    takes_over_parallelism: ClassVar[bool] = False
    """Whether it has as many parts as its input where nobody says otherwise, so that both work in one task."""

    adds_up: ClassVar[bool] = False
    """Whether it gives of the rows of several epochs together what it gives of those of each."""

    @property
    def fixed_parallelism(self) -> int | None:
        """The number of parts that it has whatever the user says; None where there is no such number."""
        return None

    @property
    def ends_of_round(self) -> tuple[Bag, ...]:
        """The data sets at the end of a round, of an iteration."""
        return ()

    @property
    def without_effect(self) -> frozenset[str]:
        """The settings with other values of which it gives the same rows, or fails."""
        return frozenset()

    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        """The types of the result's fields, as far as they follow from those that it reads; None where they do not.

        Args:
            operator: Its name, for errors.
            rows: The fields of its inputs, and then those of the data sets within.

        Raises:
            PipelineError: The types do not fit: keys that are never equal, a union of different rows, and the like.
        """
        del operator, rows
        return None

    @abstractmethod
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        """The operator.

        Args:
            data_set: What it makes.
            inputs: The operators of its inputs.
            translation: The program that it is in.
        """


class Bag(Annotated):
    """A bag of rows.

    Args:
        operation: The operation that makes it.
        inputs: The data sets that the operation reads.
        fields: The names of its rows' fields; None where they have none.
    """

    def __init__(self, operation: Operation, inputs: Sequence[Bag] = (), fields: Sequence[str] | None = None) -> None:
        super().__init__()
        self.operation = operation
        self.inputs = tuple(inputs)
        self.fields = None if fields is None else tuple(fields)
        self.own_parallelism: int | None = None
        self.declared: str | None = None
        """The fields with their types, where their author declares them."""
        self.typed_by: TypedBy | None = None
        """The types of its fields, where they do not follow from those of the inputs."""
        self.over: OverAll | None = None
        """How its rows become those over all epochs; None where they are of one."""
        self.called: Bag | None = None
        """The data set whose operation calls the user's function, where this one only takes off what was computed for it."""
        self._types: list[Types] = []
        self.broadcasts: dict[str, Bag] = {}
        self.parameters: dict[str, Any] = {}
        self.hints = Hints()
        self._name = ""

    def derive(
        self,
        operation: Operation,
        *more: Bag,
        fields: Sequence[str] | None = None,
        schema: str | None = None,
        typed_by: TypedBy | None = None,
    ) -> Self:
        """A data set that is made of this one, and perhaps of more.

        Args:
            operation: The operation.
            more: The further inputs.
            fields: The names of its fields.
            schema: Its fields with their types, as its author declares them.
            typed_by: The types of its fields, where they do not follow from those of the inputs.

        Raises:
            PipelineError: The types of the inputs' fields do not fit, what is given as a function is none, or an input is over
                all epochs.
        """
        sources: tuple[Bag, ...] = (self, *more)
        for source in sources:
            require_of_epoch(source.over, source.shown)
        if (given := getattr(operation, "function", None)) is not None:
            require_function(given, operation.kind)
            require_use(given, operation.kind, schema, operation)
        result = type(self)(operation, (self, *more), fields or names_in(schema))
        result.declared = schema
        result.typed_by = typed_by
        _ = result.types  # types that do not fit are refused here, where the operation is written
        return result

    def declaring(self, schema: str) -> Self:
        """The data set with its fields as somebody declares them."""
        result = copy(self)
        result.declared, result.fields = schema, tuple(names_in(schema) or ())
        result._types = []  # noqa: SLF001 - of the same class
        return result

    def declaring_as(self, fields: Sequence[str] | None, typed_by: TypedBy) -> Self:
        """The data set with other names of its fields, and other types."""
        result = copy(self)
        result.fields, result.typed_by = None if fields is None else tuple(fields), typed_by
        result._types = []  # noqa: SLF001 - of the same class
        return result

    @property
    def types(self) -> Types:
        """The types of its fields, as far as they are known without those of the streams."""
        if not self._types:
            self._types.append(self.typed({bag: bag.types for bag in self.read}))
        return self._types[0]

    @property
    @override
    def row_type(self) -> RowType:
        """Its fields."""
        return RowType(self.fields, self.types, self.shown)

    @property
    def read(self) -> tuple[Bag, ...]:
        """The data sets that it is made of, those within a round too, and those that its types follow from."""
        typed_by = () if self.typed_by is None else self.typed_by.bags
        return (*self.inputs, *self.broadcasts.values(), *self.operation.ends_of_round, *typed_by)

    def typed(self, known: Mapping[Bag, Types]) -> Types:
        """The types of its fields.

        Args:
            known: The types of the data sets that it is made of.

        Raises:
            PipelineError: They do not fit.
        """
        rows = {bag: RowType(bag.fields, known[bag], bag.shown) for bag in self.read}
        types = self.operation.types(self.shown, [rows[bag] for bag in (*self.inputs, *self.operation.ends_of_round)])
        if self.declared is not None:
            return tuple(field.type for field in Schema.of(self.declared))
        return types if self.typed_by is None else self.typed_by.rule(*(rows[bag] for bag in self.typed_by.bags))

    @property
    @override
    def shown(self) -> str:
        """The name that plans and errors have."""
        return self._name or self.operation.kind

    def name(self, name: str) -> Self:
        """Give the operator a name, which plans and errors have.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> [step.node.name for step in program.plan(program.rows([1]).map(str).name("as text"))]
        ['Data Source', 'as text', '0']
        """
        self._name = name
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Say in how many parts it works.

        Raises:
            PipelineError: It is less than one, or the operation has no parts of its own.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram(parallelism=4)
        >>> rows = program.rows([1, 2, 3]).map_partition(lambda part: [sum(part)])
        >>> program.collect(rows.set_parallelism(1))
        [6]
        """
        if self.operation.is_union:
            raise PipelineError("a union has no parts of its own", operator=self.shown, remedy="say it of what reads the union")
        if type(parallelism) is not int or parallelism < 1:
            raise PipelineError(f"{parallelism} is no number of parts", operator=self.shown, remedy="give it one at least")
        self.own_parallelism = parallelism
        return self

    def with_broadcast_set(self, data_set: Bag, name: str) -> Self:
        """Give all rows of a data set to each part of the operator: ``context.broadcast(name)``.

        >>> import dagster_operators as do
        >>> class Share(do.data_sets.RichFunction):
        ...     def open(self, context):
        ...         (self.total,) = context.broadcast("total")
        ...     def __call__(self, value):
        ...         return value / self.total
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 3])
        >>> program.collect(rows.map(Share()).with_broadcast_set(rows.reduce(lambda a, b: a + b), "total"))
        [0.25, 0.75]
        """
        require_of_epoch(data_set.over, data_set.shown)
        (self.called or self).broadcasts[name] = data_set
        return self

    def with_parameters(self, **parameters: Any) -> Self:
        """Give the function values: ``context.parameters``.

        >>> import dagster_operators as do
        >>> class Times(do.data_sets.RichFunction):
        ...     def open(self, context):
        ...         self.factor = context.parameters["factor"]
        ...     def __call__(self, value):
        ...         return value * self.factor
        >>> program = do.data_sets.LocalProgram()
        >>> program.collect(program.rows([1, 2]).map(Times()).with_parameters(factor=10))
        [10, 20]
        """
        (self.called or self).parameters.update(parameters)
        return self

    def with_hints(
        self, *, size: int | None = None, rows: int | None = None, row_size: float | None = None,
        filter_factor: float | None = None,
    ) -> Self:  # fmt: skip
        """Say what is known of the output.

        Args:
            size: Its bytes.
            rows: How many rows it has.
            row_size: The bytes of a row.
            filter_factor: The part of the rows that a filter keeps.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rare = program.rows([1, 2], count=1000).filter(lambda value: value > 1).with_hints(rows=10)
        >>> [step.estimate.rows for step in program.plan(rare)]
        [1000, 10, 10]
        """
        self.hints = Hints(size, rows, row_size, filter_factor)
        return self

    @property
    def make_row(self) -> MakeRow:
        """The function that makes its rows of a user function's results."""
        if self.fields is None:
            return lambda values: values
        if self.declared is not None:
            return RowMaker(self.fields, Schema.from_ddl(self.declared))
        types = self.types if self.types is not None and len(self.types) == len(self.fields) else ()
        known = [Field(name, kind) for name, kind in zip(self.fields, types, strict=False) if kind is not None]
        return RowMaker(self.fields, Schema(tuple(known)) if len(known) == len(self.fields) else None)

    def function(self, function: Any, *, several: bool = False, call: Any = None) -> Adapted:
        """A function of the user's as a driver calls it.

        Args:
            function: The user's.
            several: Whether it gives any number of rows each time.
            call: How it is called, where that is another way.
        """
        way = call or (giving_several(self.make_row) if several else giving_one(self.make_row))
        return Adapted(function, way, self.parameters)


class Translation:
    """Data sets on their way into a program: each becomes an operator once, but for unions, of which each reader has its own.

    Args:
        parallelism: The number of parts of operators that say nothing else.
        nodes: The operators that are there already, by their data sets.
        forced: Whether all operators have that number, as those of a round.
        estimates: How much there is of the streams.
        types_of: The types of a data set's fields, as far as they are known; None where no rows will come.
    """

    def __init__(
        self,
        parallelism: int,
        nodes: Mapping[Bag, Node] | None = None,
        *,
        forced: bool = False,
        estimates: Mapping[StreamRef, Estimate] | None = None,
        types_of: Callable[[Bag], Types] | None = lambda bag: bag.types,
    ) -> None:
        self.parallelism = parallelism
        self.forced = forced
        self.estimates = estimates or {}
        self.types_of = types_of
        self.nodes = dict(nodes or {})
        self._unions: set[Bag] = set()
        """The unions whose inputs have their operators."""

    def node(self, data_set: Bag) -> Node:
        """The operator of a data set, for one reader of it."""
        waiting = [data_set]
        while waiting:
            current = waiting.pop()
            if current in self.nodes or current in self._unions:
                continue
            sources = (*current.inputs, *current.broadcasts.values())
            missing = [source for source in sources if source not in self.nodes and source not in self._unions]
            if missing:
                waiting += [current, *missing]
            elif current.operation.is_union:
                self._unions.add(current)
            else:
                self.nodes[current] = self._operator(current)
        return self._read(data_set)

    def _operator(self, data_set: Bag) -> Node:
        node = data_set.operation.node(data_set, list(map(self._read, data_set.inputs)), self)
        node.function = function_kind(data_set.operation)
        if isinstance(node.work, Work):
            declares = node.work.declares_forwarded or data_set.declares_forwarded
            node.work = replace(node.work, declares_forwarded=declares, layout=self.layout_of(data_set))
        return node

    def _read(self, data_set: Bag) -> Node:
        """The operator that a reader reads: of a union one of its own, and of the unions behind that; there may be a thousand."""
        waiting, ready = [(data_set, False)], list[Node]()
        while waiting:
            current, has_inputs = waiting.pop()
            if not current.operation.is_union:
                ready.append(self.nodes[current])
            elif has_inputs:
                second, first = ready.pop(), ready.pop()
                ready.append(current.operation.node(current, [first, second], self))
            else:
                waiting += [(current, True), *((source, False) for source in reversed(current.inputs))]
        return ready.pop()

    def broadcasts(self, data_set: Bag) -> dict[str, Node]:
        """The operators of its broadcast data sets, by name."""
        return {name: self.node(source) for name, source in data_set.broadcasts.items()}

    def layout_of(self, data_set: Bag) -> RowLayout | None:
        """The layout of a data set's rows in Arrow batches; None where a type is not known, or Arrow's takes more values."""
        types = None if self.types_of is None else self.types_of(data_set)
        if not types or (data_set.fields is not None and len(data_set.fields) != len(types)):
            return None
        known = [kind for kind in types if kind is not None]
        if len(known) < len(types) or any(getattr(kind, "most_characters", None) is not None for kind in known):
            return None
        try:
            return RowLayout(tuple(map(arrow_type, known)), data_set.fields)
        except SchemaError:  # a type that Arrow has not
            return None

    def within(self, parallelism: int, starts: Mapping[Bag, Node]) -> Translation:
        """The translation of a round, which may read what is outside."""
        return Translation(parallelism, {**self.nodes, **starts}, forced=True, estimates=self.estimates, types_of=self.types_of)

    def parallelism_of(self, data_set: Bag) -> int:
        """How many parts a data set has: its own number, that of its input where it takes it over, or the program's."""
        return self.parallelism if self.forced else explicit_parallelism(data_set) or self.parallelism


def explicit_parallelism(data_set: Bag) -> int | None:
    """The number of parts that somebody said, of a data set or of those that it takes it over from; None if nobody did."""
    current = data_set
    while (parts := current.operation.fixed_parallelism or current.own_parallelism) is None:
        if not current.operation.takes_over_parallelism or not current.inputs:
            break
        current = current.inputs[0]
    return parts
