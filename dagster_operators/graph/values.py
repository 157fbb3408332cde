"""Settings as values: what a plan stores of an operator, and what makes two operators equal.

A value is None, a truth value, a number, text, bytes, a tuple of values, or an object that says its kind and what it is made of
(:class:`Encodable`), as windows, connectors and references to functions do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from dagster_operators.errors import PlanError

Fields: TypeAlias = Mapping[str, Any]
"""The values that something is made of, by name."""


@runtime_checkable
class Encodable(Protocol):
    """An object that is made of values; its class has ``decode``, which makes an equal object of them.

    Attributes:
        kind: What plans call objects of the class.
    """

    @property
    def kind(self) -> str:
        """What plans call objects of the class."""

    def encode(self) -> Fields:
        """All that makes it equal to another object of its kind."""


def canonical(value: Any) -> str:
    """A value as text: the same text for equal values, in every process.

    >>> canonical(("a", 1, True, None)), canonical(1.0) == canonical(1)
    ("('a',1,True,None)", False)

    Raises:
        PlanError: It is no value.
    """
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, tuple):
        return f"({','.join(map(canonical, value))})"
    if isinstance(value, Encodable):
        return f"{value.kind}{canonical_fields(value.encode())}"
    raise PlanError(
        f"{value!r} is no setting that a plan can hold", remedy="use None, numbers, text, bytes, tuples and registered values"
    )


def canonical_fields(fields: Fields) -> str:
    """Values by name as text, whatever their order.

    >>> canonical_fields({"b": 1, "a": ()})
    '{a=(),b=1}'
    """
    return "{" + ",".join(f"{name}={canonical(fields[name])}" for name in sorted(fields)) + "}"


def leaves(value: Any) -> Iterator[Any]:
    """The parts of nested mappings, lists and tuples that are none of these.

    >>> list(leaves({"a": [1, (2, {"b": None})], "c": "d"}))
    [1, 2, None, 'd']
    """
    if isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from leaves(part)
    else:
        yield value


def shown(value: Any) -> str:
    """A value as people read it.

    >>> shown(("a", 1)), shown((("x", "count(*)"),))
    ("('a', 1)", "(('x', 'count(*)'),)")
    """
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))}{',' if len(value) == 1 else ''})"
    return repr(value) if value is None or isinstance(value, bool | int | float | str | bytes) else str(value)


def briefly(value: Any) -> str:
    """A value as people read it, without the settings that are as they are by default.

    >>> from dataclasses import make_dataclass
    >>> Limits = make_dataclass("Limits", [("path", str), ("most_files", int, None), ("most_rows", int, None)])
    >>> briefly((Limits("in", most_rows=3), "append"))
    "(Limits(path='in', most_rows=3), 'append')"
    """
    if isinstance(value, tuple):
        return f"({', '.join(map(briefly, value))}{',' if len(value) == 1 else ''})"
    if not is_shown_by_fields(value):
        return shown(value)
    left_out = at_defaults(value)
    given = [each.name for each in fields(value) if each.repr and each.name not in left_out]
    return f"{type(value).__name__}({', '.join(f'{name}={briefly(getattr(value, name))}' for name in given)})"


def at_defaults(value: Any) -> frozenset[str]:
    """The fields of a dataclass's object that are as they are by default.

    >>> from dataclasses import make_dataclass
    >>> at_defaults(make_dataclass("Limits", [("path", str), ("most_files", int, None)])("in"))
    frozenset({'most_files'})
    """
    return frozenset(each.name for each in fields(value) if _is_default(each, value)) if is_dataclass(value) else frozenset()


def is_shown_by_fields(value: Any) -> bool:
    """Whether the text of an object is the one that dataclasses make: a class may have its own, as windows do.

    >>> is_shown_by_fields("a text"), is_shown_by_fields(None)
    (False, False)
    """
    kind = type(value)
    return is_dataclass(kind) and kind.__str__ is object.__str__ and hasattr(kind.__repr__, "__wrapped__")


def _is_default(setting: Field[Any], value: Any) -> bool:
    made = setting.default if setting.default_factory is MISSING else setting.default_factory()
    if made is MISSING:  # and is not asked for: of a plan that was read the user's code would be imported
        return False
    own = getattr(value, setting.name)
    return type(made) is type(own) and bool(made == own)


def check_fields(what: str, fields: Fields, known: Mapping[str, bool], **where: Any) -> None:
    """Refuse values that something is not made of, and ask for those that it needs.

    Args:
        what: What is to be made of the values, for the error.
        fields: The values.
        known: The names it knows, and whether it cannot do without them.
        where: The place, for the error.

    Raises:
        PlanError: A name is unknown or missing.
    """
    unknown = sorted(fields.keys() - known.keys())
    missing = sorted(name for name, needed in known.items() if needed and name not in fields)
    if unknown or missing:
        told = f"has no field {unknown[0]!r}" if unknown else f"needs the field {missing[0]!r}"
        raise PlanError(
            f"{what} {told}", **where, field=(unknown or missing)[0],
            remedy=f"its fields are: {', '.join(known) or 'none'}; use the version of the package that wrote them",
        )  # fmt: skip
