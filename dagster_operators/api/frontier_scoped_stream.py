"""A stream within a scope: it goes through ``do.frontier``'s operators as one of a pipeline does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dagster_operators.api.additions import Built, building_methods
from dagster_operators.api.frontier_forms import FrontierForms
from dagster_operators.api.frontier_stream import exchanged
from dagster_operators.errors import PipelineError
from dagster_operators.functions.scalar import ScalarFunction
from dagster_operators.graph.expressions import parsed
from dagster_operators.graph.user_functions import find
from dagster_operators.operators.frontier.definition import Columns, Definition
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
from dagster_operators.operators.frontier.library.computing import Computed
from dagster_operators.operators.frontier.pacts import Pact, Pipeline
from dagster_operators.operators.relational.projection import named
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.api.frontier_scope import LoopHandle, Scope
    from dagster_operators.operators.frontier.scope_body import Source


@building_methods
class ScopedStream(FrontierForms, Built):
    """A stream within a scope; ``do.frontier``'s operators take it as any other.

    Attributes:
        scope: The scope.
        sources: Where its rows come from.
        schema: Its columns, if they were declared.
        computed: Otherwise the columns that the rows have beside those of the first stream that enters.
        partial: Those of them that only some of the rows have: of one of the streams that were put together.
    """

    def __init__(
        self,
        scope: Scope,
        sources: Sequence[Source],
        like: ScopedStream | None = None,
        *,
        schema: Columns = None,
        definition: Definition | None = None,
    ) -> None:
        self.scope = scope
        self.sources = tuple(sources)
        self.schema: Columns = schema if schema is not None or like is None else like.schema
        self.computed: tuple[str, ...] = () if schema is not None or like is None else like.computed
        self.partial: frozenset[str] = frozenset() if schema is not None or like is None else like.partial
        self._definition = definition
        self._like = like

    @override
    def _taking_back(self) -> Callable[[], None]:
        return self.scope._taking_back()  # noqa: SLF001

    @property
    def _dataflow(self) -> Scope:
        return self.scope

    def __repr__(self) -> str:
        return f"<stream of the scope {self.scope.name!r}>"

    if not TYPE_CHECKING:  # type checkers are to know the attributes that there are

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"a stream within a scope has no {name!r}: there rows go through the operators of do.frontier "
                "(do.frontier.filter, unary_frontier, ...); for others let it leave the scope: scope.leave(stream), scope.build()"
            )

    def concat(self, *others: ScopedStream) -> ScopedStream:
        """The rows of this and other streams of the scope."""
        for other in others:
            self.scope.check(other)
        made = ScopedStream(self.scope, [source for each in (self, *others) for source in each.sources], self)
        if self.schema is None:
            made.computed = tuple(dict.fromkeys(name for each in (self, *others) for name in each.computed))
            of_all = frozenset.intersection(*(frozenset(each.computed) - each.partial for each in (self, *others)))
            made.partial = frozenset(made.computed) - of_all
        return made

    def union(self, *others: ScopedStream, name: str | None = None) -> ScopedStream:  # noqa: ARG002 - as that of other streams
        """The same as :meth:`concat`."""
        return self.concat(*others)

    def connect_loop(self, handle: LoopHandle) -> None:
        """Send this stream around."""
        handle.connect(self)

    def key_by(self, *keys: str) -> Any:
        """What an exchange asks for: columns, or a function of the user's own that computes one.

        Raises:
            PipelineError: It is another expression.
        """
        stream, names = self, []
        for key in keys:
            expression, name = named(key)
            if name is None:
                remedy = f"write {f'{key} AS name'!r}"
                raise PipelineError(f"the key {key!r} has no name", operator=self.scope.name, remedy=remedy)
            if expression not in (name, quoted(name)):
                stream = stream._with_column(name, expression)
            names.append(name)
        return _Keyed(stream, names)

    def _with_column(self, name: str, expression: str) -> ScopedStream:
        """The rows with a further column, as no engine sees them within a scope: of a function over columns alone."""
        from sqlglot import exp

        call = parsed(expression)
        function = find(call.name) if isinstance(call, exp.Anonymous) else None
        arguments = [part.name for part in call.expressions if isinstance(part, exp.Column) and not part.table]
        if not isinstance(function, ScalarFunction) or not arguments or len(arguments) != len(call.expressions):
            raise PipelineError(
                f"{expression!r} is no column, and no engine sees the rows within a scope", operator=self.scope.name,
                remedy="compute it before rows enter the scope; or with a function of your own over columns: "
                f'@do.udf("long") def {name}_of(...), then Exchange("{name}_of(...) AS {name}")',
            )  # fmt: skip
        if self.schema is not None:
            has = [name in Schema.of(self.schema).names]
        else:
            entered = [name in columns for source in self.sources for columns in self.scope.root.entering(source)]
            has = [True, name not in self.partial] if name in self.computed else entered
        if any(has):
            some = not all(has)
            same = "" if some else f'exchange by Exchange("{name}") if it is the same; else '
            raise PipelineError(
                f"{'some of ' if some else ''}the rows have a column {name!r} already, which an exchange is to compute",
                operator=self.scope.name, column=name,
                remedy=f"{same}use another name, or leave the column out before by an operator that says its columns: schema=...",
            )  # fmt: skip
        column = f"{quoted(name)} {function.returns}"
        definition = Definition("unary", [Pipeline()], self.scope.fresh_name(f"with_{name}"), Computed(name, function, arguments))
        definition.adds = column
        made = self.scope.add(definition.name, definition, (self,))
        if self.schema is not None:
            made.schema = f"{Schema.of(self.schema).to_ddl()}, {column}"
        else:
            made.computed = (*self.computed, name)
        return made

    def through(self, _: Any, *others: ScopedStream, name: str, definition: Definition, chain: bool = True) -> ScopedStream:
        """Put an operator behind it.

        Raises:
            PipelineError: It is to begin a stage, or a stream is of another scope.
        """
        if not chain:
            raise PipelineError(
                f"{name!r} cannot begin a stage within the scope {self.scope.name!r}", operator=name,
                remedy="leave out chain=False: all of a scope is one; what enters may come from another, start_new_stage()",
            )  # fmt: skip
        return self.scope.add(name, definition, (self, *others))

    def side_output(self, port: str) -> ScopedStream:
        """A further output of the operator that it is the first output of."""
        if self._definition is None:
            raise PipelineError("the stream has no further outputs", operator=self.scope.name, remedy="ask an operator's stream")
        number = self._definition.ports.index(port)
        source = (self.sources[0][0], number)
        return ScopedStream(self.scope, [source], self._like, schema=self._definition.schemas[number])

    @override
    def _frontier(
        self,
        shape: str,
        streams: Sequence[tuple[ScopedStream, Pact]],
        name: str,
        function: Callable[..., Any],
        *,
        chain: bool,
        **settings: Any,
    ) -> ScopedStream:
        given = [exchanged(stream, pact) for stream, pact in streams]
        definition = Definition(shape, [pact for _, pact in given], name, function, **settings)
        first, *others = [stream for stream, _ in given]
        made: ScopedStream = first.through(FrontierOperator, *others, name=name, chain=chain, definition=definition)
        return made

    @override
    def _ended(self, stream: ScopedStream) -> ScopedStream:
        return stream  # it is part of the scope, so it runs without being read


class _Keyed:
    """A scoped stream and the columns that it is exchanged by."""

    def __init__(self, stream: ScopedStream, keys: Sequence[str]) -> None:
        self._stream = stream
        self.keys = tuple(keys)
