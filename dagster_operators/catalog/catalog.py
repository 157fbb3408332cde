"""The catalog itself: registrations by kind, fluent methods by name, values by kind, Arrow operators by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from dagster_operators.catalog.registration import STREAMS, FluentMethod, Lowering, Registration, RuleEntry, ValueKind, loaded
from dagster_operators.errors import PipelineError
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.graph.values import Encodable
from dagster_operators.operators.arrow.registry import Registry

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from dagster_operators.graph.rule import Rule

OWN = "dagster_operators"
"""The distribution that this package comes in."""


@dataclass
class _Contents:
    """What all views of a catalog share."""

    operators: dict[str, Registration] = field(default_factory=dict)
    values: dict[str, ValueKind] = field(default_factory=dict)
    methods: dict[tuple[str, str], Registration] = field(default_factory=dict)
    arrow_operators: Registry = field(default_factory=Registry)
    reserved: dict[tuple[str, str], str] = field(default_factory=dict)
    rules: dict[str, RuleEntry] = field(default_factory=dict)
    others: Callable[[Catalog], None] | None = None


class Catalog:
    """What there is to build pipelines of. A package is handed one that knows the package's name, and registers what it brings.

    Args:
        package: In whose name things are registered.
        others: Registers what other packages bring; called when something is asked for that is not there yet.

    Example:
        >>> from dagster_operators.operators.relational.filter import Filter
        >>> catalog = Catalog()
        >>> catalog.add_operator(Filter, stream={"only": lambda stream, condition: stream.filter(condition)})
        >>> catalog.operator("filter").operator is Filter, catalog.method("stream", "only") is not None
        (True, True)
        >>> catalog.of("another-package").add_operator("filter", "their_package:Filter")
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: the operator 'filter' comes with 'dagster_operators' and with ...
    """

    def __init__(self, package: str = OWN, others: Callable[[Catalog], None] | None = None) -> None:
        self.package = package
        self._contents = _Contents(others=others)

    def of(self, package: str) -> Catalog:
        """The same catalog for another package to register in."""
        view = Catalog(package)
        view._contents = self._contents
        return view

    def complete(self) -> Catalog:
        """The catalog with what other packages bring.

        Raises:
            PipelineError: A package cannot be loaded, or two have a kind or name in common.
        """
        others = self._contents.others
        if others is not None:
            others(self)
            self._contents.others = None
        return self

    # --- registering -------------------------------------------------------------------------------------------------

    def add_operator(
        self,
        operator: type[LogicalOperator] | str,
        where: str | None = None,
        *,
        message: type[Message] | str | None = None,
        lowerings: Mapping[str, Lowering | str] | None = None,
        stream: Mapping[str, FluentMethod | str] | None = None,
        keyed_stream: Mapping[str, FluentMethod | str] | None = None,
        windowed_stream: Mapping[str, FluentMethod | str] | None = None,
        docs: str = "",
        samples: Callable[[], Iterable[LogicalOperator]] | str | None = None,
    ) -> None:
        """Register a kind of operator.

        Args:
            operator: Its class; or its kind, if the class is to be imported only when it is needed.
            where: That class as ``"module:Class"``, as the following may be given too.
            message: The class of its Protocol Buffers message, whose fields are named as its settings; without one plans hold
                its settings as names and values.
            lowerings: Lowering rules by name, the preferred one first, if it does not lower itself.
            stream: Fluent methods on streams by name: functions of the stream and what else they take.
            keyed_stream: The same for what comes behind ``key_by``.
            windowed_stream: The same for what comes behind ``window``.
            docs: Where it is explained.
            samples: Gives operators of the kind, which tests try everything with that must hold for every operator.

        Raises:
            PipelineError: Another package has registered the kind or a fluent method of that name.
        """
        kind, place = (operator, where) if isinstance(operator, str) else (operator.kind, operator)
        if not kind or place is None:
            raise PipelineError(
                f"{operator!r} says no kind, or the kind no class", remedy="give a class with kind = '...', or a kind and a class"
            )
        methods = dict(zip(STREAMS, (stream or {}, keyed_stream or {}, windowed_stream or {}), strict=True))
        made = Registration(kind, self.package, place, message, dict(lowerings or {}), methods, docs, samples)
        self._check("operator", kind, _package_of(self._contents.operators.get(kind)))
        for receiver, named in methods.items():
            for name in named:
                self._check(f"method of a {receiver.replace('_', ' ')}", name, self._owner(receiver, name))
        self._contents.methods.update(((receiver, name), made) for receiver, named in methods.items() for name in named)
        self._contents.operators[kind] = made

    def add_value(self, value: type[Encodable] | str, where: str | None = None) -> None:
        """Register a kind of value: a class with ``kind``, ``encode`` and ``decode``, or its kind and ``"module:Class"``.

        Raises:
            PipelineError: Another package has registered the kind.
        """
        kind: Any = value if isinstance(value, str) else value.kind
        self._check("value", kind, _package_of(self._contents.values.get(kind)))
        self._contents.values[kind] = ValueKind(kind, self.package, where or value)

    def add_rule(self, rule: type[Rule] | str, where: str | None = None) -> None:
        """Register a rule of the planner: a subclass of ``Rule``, or its name and ``"module:Class"``.

        Raises:
            PipelineError: Another package has registered a rule of that name.
        """
        name = rule if isinstance(rule, str) else rule.name
        self._check("rule", name, _package_of(self._contents.rules.get(name)))
        self._contents.rules[name] = RuleEntry(name, self.package, where or rule)

    def reserve(self, receiver: str, names: Iterable[str]) -> None:
        """Keep names on one of :data:`STREAMS` from being taken for fluent methods of other packages."""
        self._contents.reserved.update(((receiver, name), self.package) for name in names)

    def _owner(self, receiver: str, name: str) -> str | None:
        key = (receiver, name)
        return self._contents.reserved.get(key) or _package_of(self._contents.methods.get(key))

    def _check(self, what: str, name: str, owner: str | None) -> None:
        if owner is not None and owner != self.package:
            raise PipelineError(
                f"the {what} {name!r} comes with {owner!r} and with {self.package!r}", kind=name,
                remedy="uninstall one of the two, or have its author choose another name",
            )  # fmt: skip

    # --- looking up --------------------------------------------------------------------------------------------------

    @property
    def arrow_operators(self) -> Registry:
        """Arrow operators by the name that ``apply`` takes in place of an operator."""
        return self._contents.arrow_operators

    def _find(self, kind: Any, where: Mapping[Any, Any]) -> Any:
        if kind not in where:
            self.complete()
        return where.get(kind)

    @property
    def registrations(self) -> tuple[Registration, ...]:
        """The kinds of operators, in the order of registration."""
        self.complete()
        return tuple(self._contents.operators.values())

    def operator(self, kind: str) -> Registration | None:
        """The registration of a kind of operator."""
        found: Registration | None = self._find(kind, self._contents.operators)
        return found

    def value(self, kind: str) -> ValueKind | None:
        """The registration of a kind of value."""
        found: ValueKind | None = self._find(kind, self._contents.values)
        return found

    def method(self, receiver: str, name: str) -> FluentMethod | None:
        """The fluent method of that name on one of :data:`STREAMS`."""
        registration: Registration | None = self._find((receiver, name), self._contents.methods)
        found: FluentMethod | None = loaded(registration.methods[receiver][name]) if registration else None
        return found

    def methods(self, receiver: str) -> dict[str, Registration]:
        """The names of all fluent methods on one of :data:`STREAMS`, and what they belong to."""
        self.complete()
        return {name: registration for (of, name), registration in self._contents.methods.items() if of == receiver}

    def owner_of(self, name: str) -> str | None:
        """The package whose operator, or method on one of :data:`STREAMS`, has that name; None if it is free."""
        self.complete()
        owners = (self._owner(receiver, name) for receiver in STREAMS)
        return _package_of(self._contents.operators.get(name)) or next(filter(None, owners), None)

    def rules(self) -> dict[str, Rule]:
        """The planner's rules by name, in the order of registration."""
        self.complete()
        return {name: entry.made for name, entry in self._contents.rules.items()}

    def lower(self, operator: LogicalOperator, inputs: Sequence[StreamType]) -> dict[str, Any]:
        """What an operator can be lowered to, by the name of the lowering rule, the preferred one first."""
        registration = self.operator(operator.kind)
        rules = registration.lowerings if registration is not None and isinstance(operator, registration.operator) else {}
        return {name: loaded(rule)(operator, inputs) for name, rule in rules.items()} or {operator.kind: operator.lower(inputs)}


def _package_of(entry: Registration | ValueKind | RuleEntry | None) -> str | None:
    return None if entry is None else entry.package


def near(name: str, names: Iterable[str]) -> str:
    """The names that somebody may have meant, for an error.

    >>> near("filtr", ["filter", "select"])
    "did you mean 'filter'?"
    """
    close = get_close_matches(name, list(names), n=3)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""
