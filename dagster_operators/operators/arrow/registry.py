"""Operators by name: so that a pipeline can be built from names and configs, and a package can bring operators along.

The process's registry belongs to the catalog. A package announces one operator by an entry point of the group
``dagster_operators.operators`` whose value is an :class:`OperatorConstructor` or a class derived from ``ArrowOperator``; one
whose entry point is a function or module registers with the catalog. The idea, and ``with_config``, are Arroyo's.
"""

from __future__ import annotations

import inspect
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any, Final

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.errors import PipelineError
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator

ENTRY_POINTS: Final = "dagster_operators.operators"
"""The group of entry points that is looked at for operators."""


class _Required:
    """The default of a setting that has none."""


_REQUIRED: Final = _Required


@checked_constructor
@dataclass(frozen=True)
class Setting:
    """One entry of a config.

    Attributes:
        type: Its Python type.
        default: Its value where a config leaves it out.

    >>> Setting(int, 1).required, Setting(str).required
    (False, True)
    """

    type: Any
    default: Any = _REQUIRED

    @property
    def required(self) -> bool:
        """Whether a config must have it."""
        return self.default is _REQUIRED


class OperatorConstructor(ABC):
    """Makes operators from configs.

    Attributes:
        name: What the operator is called in configs.

    >>> class Doubling(OperatorConstructor):
    ...     name = "doubling"
    ...     schema = {"times": Setting(int, 1)}
    ...     def with_config(self, config, registry):
    ...         operator = ArrowOperator()
    ...         operator.name = f"{2 ** config.get('times', 1)} times"
    ...         return operator
    >>> registry = Registry()
    >>> registry.register(Doubling())
    >>> registry.create("doubling", {"times": 3}).name
    '8 times'
    """

    name: str

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, Setting]:
        """What a config may hold."""

    @abstractmethod
    def with_config(self, config: Mapping[str, Any], registry: Registry) -> ArrowOperator:
        """The operator for a config that fits the schema; ``registry`` has the operators that it may be made of."""


class ClassConstructor(OperatorConstructor):
    """Makes operators of a class; its config are the arguments of ``__init__``.

    Args:
        kind: The class.
        name: What it is called in configs; by default the class's ``name`` attribute, or its name.
    """

    def __init__(self, kind: type[ArrowOperator], name: str | None = None) -> None:
        if not issubclass(kind, ArrowOperator):
            raise PipelineError(f"{kind!r} is no operator", remedy="register a class derived from ArrowOperator")
        self.name = name or kind.name or kind.__name__
        _check_name(self.name, kind.__name__)
        self._kind = kind

    @cached_property
    @override
    def schema(self) -> Mapping[str, Setting]:
        init: Any = self._kind.__init__
        if init is object.__init__:
            return {}
        hints = typing.get_type_hints(init)
        parameters = list(inspect.signature(init).parameters.values())[1:]
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        defaults = [() if part.default is inspect.Parameter.empty else (part.default,) for part in parameters]
        return {
            part.name: Setting(hints.get(part.name, Any), *default)
            for part, default in zip(parameters, defaults, strict=True)
            if part.kind in named
        }

    @override
    def with_config(self, config: Mapping[str, Any], registry: Registry) -> ArrowOperator:
        return self._kind(**config)


class Registry:
    """Operators by name.

    Example:
        >>> class AtLeast(ArrowOperator):
        ...     def __init__(self, column: str, least: int = 0):
        ...         self.column, self.least = column, least
        >>> registry = Registry()
        >>> registry.register(AtLeast, name="at_least")
        >>> registry.create("at_least", {"column": "v", "least": 3}).least
        3
        >>> registry.create("at_least", {"column": "v", "least": "x"})
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: the setting 'least' is 'x', not int [operator 'at_least']. To do: correct it
    """

    def __init__(self) -> None:
        self._constructors: dict[str, OperatorConstructor] = {}

    def register(self, operator: type[ArrowOperator] | OperatorConstructor, *, name: str | None = None) -> None:
        """Add an operator: a class, or what constructs one.

        Args:
            operator: What makes it.
            name: What it is called in configs; by default its own name.

        Raises:
            PipelineError: Another operator has the name, or this is none.

        >>> registry = Registry()
        >>> registry.register(ArrowOperator, name="nothing")
        >>> registry.names()
        ['nothing']
        """
        made = ClassConstructor(operator, name) if isinstance(operator, type) else operator
        if not isinstance(made, OperatorConstructor):
            raise PipelineError(f"{operator!r} constructs no operator", remedy="register a class derived from ArrowOperator")
        key = name or made.name
        _check_name(key, type(made).__name__)
        if key in self._constructors and not _same(self._constructors[key], made):
            raise PipelineError(f"another operator is registered as {key!r}", operator=key, remedy="choose another name")
        self._constructors[key] = made

    def add(self, operator: type[ArrowOperator] | OperatorConstructor, *, name: str | None = None) -> None:
        """Add an operator: :meth:`register`, by the name that sources and catalogs have for it.

        Args:
            operator: A class, or a constructor of operators.
            name: The operator's name in configs; by default its own.

        Raises:
            PipelineError: Another operator has the name, or this is none.

        >>> registry = Registry()
        >>> registry.add(ArrowOperator, name="nothing")
        >>> registry.names()
        ['nothing']
        """
        self.register(operator, name=name)

    def names(self) -> list[str]:
        """The names there are.

        >>> Registry().names()
        []
        """
        return sorted(self._constructors)

    def schema(self, name: str) -> Mapping[str, Setting]:
        """What a config of the operator may hold.

        Raises:
            PipelineError: There is no such operator.

        >>> class AtLeast(ArrowOperator):
        ...     def __init__(self, least: int = 0): ...
        >>> registry = Registry()
        >>> registry.register(AtLeast)
        >>> registry.schema("AtLeast")["least"].default
        0
        """
        return self._constructor(name).schema

    def create(self, name: str, config: Mapping[str, Any] | None = None) -> ArrowOperator:
        """The operator of that name for a config.

        Raises:
            PipelineError: There is no such operator, or the config does not fit it.

        >>> Registry().create("at_least")
        Traceback (most recent call last):
        dagster_operators.errors.PipelineError: no operator is registered as 'at_least' ...
        """
        constructor, given = self._constructor(name), dict(config or {})
        schema = constructor.schema
        unknown = sorted(given.keys() - schema.keys())
        missing = sorted(key for key, setting in schema.items() if setting.required and key not in given)
        if unknown or missing:
            told = f"has no setting {unknown[0]!r}" if unknown else f"needs the setting {missing[0]!r}"
            raise PipelineError(f"the operator {told}", operator=name, remedy=f"its settings are: {', '.join(schema) or 'none'}")
        for key, value in given.items():
            if not _fits(value, schema[key].type):
                wanted = getattr(schema[key].type, "__name__", str(schema[key].type))
                raise PipelineError(f"the setting {key!r} is {value!r}, not {wanted}", operator=name, remedy="correct it")
        return constructor.with_config(given, self)

    def _constructor(self, name: str) -> OperatorConstructor:
        if name not in self._constructors:
            known = ", ".join(self.names()) or "none"
            raise PipelineError(f"no operator is registered as {name!r}", operator=name, remedy=f"there are: {known}")
        return self._constructors[name]

    def load_entry_points(self) -> None:
        """Add the operators that installed packages announce one by one.

        Raises:
            PipelineError: One cannot be loaded, or two have one name.

        >>> registry = Registry()
        >>> registry.load_entry_points()
        """
        for point in entry_points(group=ENTRY_POINTS):
            try:
                found = point.load()
            except Exception as error:
                raise PipelineError(
                    f"the operator cannot be loaded from {point.value!r}: {error}",
                    operator=point.name,
                    remedy="correct the package",
                ) from error
            if isinstance(found, type) and issubclass(found, OperatorConstructor):
                self.register(found(), name=point.name)
            elif isinstance(found, type | OperatorConstructor):
                self.register(found, name=point.name)


def _check_name(name: Any, of: str) -> None:
    if not isinstance(name, str):
        raise PipelineError(
            f"the name of {of} is no text", remedy="write name = '...' in the class, or name it: register(operator, name='...')"
        )


def _same(one: OperatorConstructor, other: OperatorConstructor) -> bool:
    if isinstance(one, ClassConstructor) and isinstance(other, ClassConstructor):
        return one._kind is other._kind  # noqa: SLF001
    return one is other


def _fits(value: Any, kind: Any) -> bool:
    """Whether a config's value has a type; a whole number is a float too, and truth values are no numbers."""
    if kind is Any:
        return True
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in arguments)
    if origin is typing.Literal:
        return value in arguments
    if kind is None or kind is type(None):
        return value is None
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    expected = origin or kind
    return isinstance(value, expected) if isinstance(expected, type) else True
