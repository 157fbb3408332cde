"""One entry of the catalog: all that belongs to a kind of operator, or of value that operators are made of.

What an entry consists of may be given as ``"module:name"``, which is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from dagster_operators.errors import PipelineError
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.graph.python_place import found_at
from dagster_operators.graph.rule import Rule
from dagster_operators.graph.values import Encodable

if TYPE_CHECKING:
    from google.protobuf.message import Message

Lowering: TypeAlias = Callable[[Any, Sequence[StreamType]], object]
"""A lowering rule: from a logical operator and the types of its inputs to what :meth:`LogicalOperator.lower` may return."""

FluentMethod: TypeAlias = Callable[..., Any]
"""A function whose first argument is the stream that it is called on."""

STREAMS = ("stream", "keyed_stream", "windowed_stream")
"""What fluent methods can be called on."""


@dataclass(frozen=True)
class Registration:
    """A kind of operator.

    Attributes:
        kind: Its kind, which plans call it by.
        package: The distribution that brings it.
        where: Its class.
        message: The class of its Protocol Buffers message; without one plans hold it as names and values.
        lowerings: Its lowering rules by name, the preferred one first; without any its own ``lower`` is the only one.
        methods: Its fluent methods by name, for each of :data:`STREAMS`.
        docs: Where it is explained, as a path or URL; its class says it in short.
        samples: Gives operators of the kind for tests.
    """

    kind: str
    package: str
    where: type[LogicalOperator] | str
    message: type[Message] | str | None = None
    lowerings: Mapping[str, Lowering | str] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, FluentMethod | str]] = field(default_factory=dict)
    docs: str = ""
    samples: Callable[[], Iterable[LogicalOperator]] | str | None = None

    @cached_property
    def operator(self) -> type[LogicalOperator]:
        """The class."""
        found: Any = loaded(self.where)
        if not (isinstance(found, type) and issubclass(found, LogicalOperator) and found.kind == self.kind):
            raise PipelineError(
                f"the package {self.package!r} registers {self.where!r} as the kind {self.kind!r}, which it is not",
                kind=self.kind, remedy=f"give its class derived from LogicalOperator with kind = {self.kind!r}",
            )  # fmt: skip
        kind: type[LogicalOperator] = found
        return kind

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (self.operator.__doc__ or "").strip().partition("\n")[0]

    def examples(self) -> list[LogicalOperator]:
        """Operators of the kind for tests."""
        return [] if self.samples is None else list(loaded(self.samples)())


@dataclass(frozen=True)
class ValueKind:
    """A kind of value that operators are made of: a window, a connector, a sink.

    Attributes:
        kind: Its kind, which plans call it by.
        package: The distribution that brings it.
        where: Its class.
    """

    kind: str
    package: str
    where: type[Encodable] | str

    @cached_property
    def type(self) -> Any:
        """The class."""
        return loaded(self.where)


@dataclass(frozen=True)
class RuleEntry:
    """A rule of the planner.

    Attributes:
        name: Its name.
        package: The distribution that brings it.
        where: Its class.
    """

    name: str
    package: str
    where: type[Rule] | str

    @cached_property
    def made(self) -> Rule:
        """The rule.

        Raises:
            PipelineError: The class is no rule of that name.
        """
        found: Any = loaded(self.where)
        if not (isinstance(found, type) and issubclass(found, Rule) and found.name == self.name):
            raise PipelineError(
                f"the package {self.package!r} registers {self.where!r} as the rule {self.name!r}, which it is not",
                rule=self.name, remedy=f"give its class, derived from Rule with name = {self.name!r}",
            )  # fmt: skip
        rule: Rule = found()
        return rule


def loaded(thing: Any) -> Any:
    """What ``"module:name"`` stands for; anything else stays itself.

    >>> loaded("math:pi") == loaded(loaded("math:pi"))
    True
    """
    if not isinstance(thing, str):
        return thing
    module, _, name = thing.partition(":")
    return found_at(module, name)
