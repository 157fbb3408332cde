"""What a Python function does, as a digest that stays the same in another process and with other formatting.

The digest covers the function's source (its syntax tree: no comments, no layout, no docstrings, no decorators), its defaults, and
what it takes from outside: constants, and the helper functions and classes of its own package, followed in turn. What other
packages define counts by name. Where there is no source, as of a lambda amid a statement, it is the bytecode.

Stored state depends on these digests, so they stay as they were in earlier versions. :func:`exact_digest_of` covers more: names
in bytecode, a callable object by its class and attributes, a method by its object, a partial function by its arguments, and
imports within functions of the same package.
"""

from __future__ import annotations

import array
import ast
import collections
import datetime as dt
import decimal
import dis
import enum
import hashlib
import inspect
import operator
import pickle
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType, NoneType, SimpleNamespace
from typing import Any, ClassVar
from uuid import UUID
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

from typing_extensions import override

from dagster_operators.functions.inner_imports import imports_within
from dagster_operators.graph.user_functions import UserFunction

_PLAIN = (bool, int, float, complex, str, bytes)
_CONTAINERS = (tuple, list, set, frozenset, dict)
_SPOKEN = (dt.date, dt.time, dt.timedelta, decimal.Decimal, enum.Enum, re.Pattern, range)
_REDUCED = (partial, operator.itemgetter, operator.attrgetter, operator.methodcaller)
_VALUES = (
    UUID, Fraction, PurePath, ZoneInfo, bytearray, array.array, collections.deque, slice, SimpleNamespace
)  # fmt: skip
_STARRED = 0x0C
"""The flags of a function that takes any arguments, by position or by name."""
_PICKLED = frozenset({"numpy", "pandas", "pyarrow"})


def digest_of(*values: Any, follow: bool = True) -> str:
    """A digest of functions and plain values.

    Args:
        values: What is digested.
        follow: Whether it covers what functions take from their modules.

    >>> def double(x): return x * 2
    >>> digest_of(double) == digest_of(double), digest_of(double) == digest_of(lambda x: x * 3)
    (True, False)
    """
    return _digest(_Reader({_package(value) for value in values if isinstance(value, FunctionType | type)}, follow), values)


def exact_digest_of(*values: Any) -> str:
    """A digest of anything that can be called, and of plain values; another one for whatever may do something else.

    Args:
        values: What is digested.

    >>> exact_digest_of(partial(max, 1)) == exact_digest_of(partial(max, 2))
    False
    """
    return _exact_digest(_ExactReader, values)


def former_digest_of(*values: Any) -> str:
    """The exact digest as earlier versions made it, without imports within functions: their stored plans have it.

    Args:
        values: What is digested.

    >>> former_digest_of(partial(max, 1)) == exact_digest_of(partial(max, 1))
    True
    """
    return _exact_digest(_FormerReader, values)


def _exact_digest(reader: type[_ExactReader], values: Sequence[Any]) -> str:
    return _digest(reader({home for value in values for home in _homes(value)}, follow=True), values)


def _digest(reader: _Reader, values: Sequence[Any]) -> str:
    text = "\n".join(line for value in values for line in reader.described(value))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", None) or "").partition(".")[0]


def _homes(value: Any) -> Iterator[str]:
    """The packages of a function, or of the functions that a callable object is made of; none of Python's own."""
    if isinstance(value, partial):
        yield from _homes(value.func)
    elif isinstance(value, MethodType):
        yield from (_package(value.__func__), *_homes(value.__self__))
    elif isinstance(value, FunctionType | type):
        yield _package(value)
    elif callable(value) and (home := _package(type(value))) not in sys.stdlib_module_names:
        yield home


class _Reader:
    """Describes values by lines of text that change when a value means something else.

    Args:
        packages: The packages whose functions and classes are described by what they do, not by name.
        follow: Whether to describe what functions take from their modules.
    """

    def __init__(self, packages: set[str], follow: bool) -> None:  # noqa: FBT001
        self.packages = packages
        self.follow = follow
        self.seen: set[int] = set()

    def described(self, value: Any) -> Iterator[str]:
        if value is None or isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, _CONTAINERS):
            yield from self._container(value)
        elif id(value) not in self.seen:
            self.seen.add(id(value))
            yield from self._thing(value)

    def _container(self, value: Any) -> Iterator[str]:
        yield f"{type(value).__name__} of {len(value)}"
        items = value.items() if isinstance(value, dict) else value
        texts = ["\n".join(self.described(item)) for item in items]
        yield from sorted(texts) if isinstance(value, set | frozenset) else texts

    def _thing(self, value: Any) -> Iterator[str]:
        if isinstance(value, UserFunction):
            yield f"calls {value.name}"
            content = value.content()
            self.packages |= set(map(_package, content))
            yield from self.described(tuple(content))
        elif isinstance(value, FunctionType) and _package(value) in self.packages:
            yield from self._function(value)
        elif isinstance(value, type) and _package(value) in self.packages:
            yield from self._class(value)
        elif isinstance(value, ModuleType) or hasattr(value, "__qualname__"):
            yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
        else:
            yield from self._instance(value)

    def _function(self, function: FunctionType) -> Iterator[str]:
        yield from [source] if (source := _source(function)) else self._bytecode(function.__code__)
        yield from self.described((function.__defaults__, function.__kwdefaults__))
        for name, value in closed_over(function):
            yield f"takes {name}"
            yield from self.described(value)
        for name in sorted(_globals_of(function.__code__)) if self.follow else ():
            if name in function.__globals__:
                yield f"takes {name}"
                yield from self._global(function, name)

    def _global(self, function: FunctionType, name: str) -> Iterator[str]:
        yield from self.described(function.__globals__[name])

    def _bytecode(self, code: CodeType) -> Iterator[str]:
        """The steps of a function without a source."""
        yield f"bytecode {code.co_code.hex()} {_constants(code)}"

    def _class(self, kind: type) -> Iterator[str]:
        yield f"class {_source(kind) or kind.__qualname__}"
        for base in kind.__bases__:
            yield from self.described(base)
        for value in vars(kind).values():
            plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if isinstance(plain, FunctionType):
                yield from self.described(plain)

    def _instance(self, value: Any) -> Iterator[str]:
        """An object by its kind and, where that can be told in the same way by every process, its content."""
        package = _package(type(value))
        yield f"{package}.{type(value).__qualname__}"
        if isinstance(value, _SPOKEN):
            yield repr(value)
        elif package in _PICKLED:
            yield hashlib.sha256(pickle.dumps(value, 5)).hexdigest()
        elif package in self.packages:
            yield from self._attributes(value)

    def _attributes(self, value: Any) -> Iterator[str]:
        if hasattr(value, "__dict__"):
            yield from self.described(dict(vars(value)))


class _ExactReader(_Reader):
    """Describes all that can be called by what it does."""

    with_imports: ClassVar[bool] = True

    def __init__(self, packages: set[str], follow: bool) -> None:  # noqa: FBT001
        super().__init__(packages, follow)
        self._alive: list[Any] = []

    @override
    def _thing(self, value: Any) -> Iterator[str]:
        if isinstance(value, UserFunction):
            yield from super()._thing(value)
        elif isinstance(value, MethodType):
            yield f"method of {type(value.__self__).__qualname__}"
            yield from self.described((value.__func__, value.__self__))
        elif isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType | NoneType):
            yield f"method {value.__name__}"
            yield from self.described(value.__self__)
        elif isinstance(value, _REDUCED):
            yield f"{type(value).__qualname__}"
            yield from self._reduced(value)
        elif isinstance(value, MappingProxyType):
            yield from self.described(dict(value))
        elif isinstance(value, _VALUES):
            yield type(value).__qualname__
            yield from self._reduced(value)
        elif is_dataclass(value) and not isinstance(value, type) and _package(type(value)) not in self.packages:
            yield type(value).__qualname__
            yield from self.described([getattr(value, field.name) for field in fields(value)])
        else:
            yield from super()._thing(value)

    def _reduced(self, value: Any) -> Iterator[str]:
        """A value by that of which a copy of it is made."""
        parts = [list(part) if isinstance(part, Iterator) else part for part in value.__reduce_ex__(2)]
        self._alive.append(parts)  # values are known by their identities, which must not be given to others
        yield from self.described(parts)

    @override
    def _function(self, function: FunctionType) -> Iterator[str]:
        yield from super()._function(function)
        if self.with_imports:
            yield from imports_within(function, self.packages)

    @override
    def _global(self, function: FunctionType, name: str) -> Iterator[str]:
        """A global by its content; of a module of these packages the attributes that are named beside it."""
        value = function.__globals__[name]
        yield from self.described(value)
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in self.packages:
            for attribute in sorted(_names_in(function.__code__) & vars(value).keys()):
                yield f"takes {name}.{attribute}"
                yield from self.described(vars(value)[attribute])

    @override
    def _bytecode(self, code: CodeType) -> Iterator[str]:
        """The steps of a function without a source, with the names and constants that they mean by numbers."""
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _STARRED)
        yield f"bytecode {code.co_code.hex()} {code.co_names} {counts}"
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._bytecode(constant)
            else:
                yield from self.described(constant)

    @override
    def _attributes(self, value: Any) -> Iterator[str]:
        yield from self.described(type(value))
        slots = [name for kind in type(value).__mro__ for name in _slots_of(kind) if hasattr(value, name)]
        yield from self.described({**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}})


class _FormerReader(_ExactReader):
    """Describes all that can be called as earlier versions did."""

    with_imports: ClassVar[bool] = False


def _slots_of(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(name for name in slots if name not in ("__dict__", "__weakref__"))


def closed_over(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The values that a function takes from around it, by their names there, but for those that are not filled yet.

    >>> def adding(number):
    ...     return lambda row: row + number
    >>> list(closed_over(adding(3)))
    [('number', 3)]
    """
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet: the function refers to itself
            continue


@lru_cache(1024)
def _globals_of(code: CodeType) -> frozenset[str]:
    """The globals that a function, or one within it, reads."""
    steps = dis.get_instructions(code)
    own = frozenset(str(step.argval) for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return own.union(*map(_globals_of, inner))


@lru_cache(1024)
def _names_in(code: CodeType) -> frozenset[str]:
    """The names of globals and attributes in a function, and in those within it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return frozenset(code.co_names).union(*map(_names_in, inner))


def _constants(code: CodeType) -> str:
    """The constants of a function, sets in an order that is the same in every process."""
    return f"[{', '.join(map(_constant, code.co_consts))}]"


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return repr(value.co_code.hex())
    return repr(f"frozenset({{{', '.join(sorted(map(repr, value)))}}})" if isinstance(value, frozenset) else repr(value))


_sources: WeakKeyDictionary[Callable[..., Any] | type, str | None] = WeakKeyDictionary()
"""What is asked for in every epoch: of a class Python parses the whole file to find it."""


def _source(thing: Callable[..., Any] | type) -> str | None:
    """The syntax of a definition without its name's decorators, comments and docstrings."""
    if thing not in _sources:
        _sources[thing] = _parsed(thing)
    return _sources[thing]


def _parsed(thing: Callable[..., Any] | type) -> str | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):  # defined where there is no file, or a lambda amid something
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
            if node is tree.body[0]:
                node.decorator_list = []
    return ast.unparse(tree)
