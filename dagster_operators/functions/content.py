"""What a Python function does, as a digest that stays the same in another process and with other formatting.

The digest covers the function's source (its syntax tree: no comments, no layout, no docstrings, no decorators), its defaults, and
what it takes from outside: constants, and the helper functions and classes of its own package, followed in turn. What other
packages define counts by name. Where there is no source, it is the bytecode.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import pickle
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from dagster_operators.graph.user_functions import UserFunction


def digest_of(*values: Any) -> str:
    """A digest of functions and plain values.

    >>> def double(x): return x * 2
    >>> digest_of(double) == digest_of(double), digest_of(double) == digest_of(lambda x: x * 3)
    (True, False)
    """
    seen: set[int] = set()
    packages = {_package(value) for value in values if isinstance(value, FunctionType | type)}
    text = "\n".join(line for value in values for line in _described(value, packages, seen))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", None) or "").partition(".")[0]


def _described(value: Any, packages: set[str], seen: set[int]) -> Iterator[str]:
    """Lines of text that change when the value means something else."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, UserFunction):
        yield from _user_function(value, packages, seen)
    elif isinstance(value, FunctionType) and _package(value) in packages:
        yield from _function(value, packages, seen)
    elif isinstance(value, type) and _package(value) in packages:
        yield from _class(value, packages, seen)
    elif type(value) in (tuple, list, set, frozenset, dict):
        yield from _container(value, packages, seen)
    else:
        yield _other(value)


def _container(value: Any, packages: set[str], seen: set[int]) -> Iterator[str]:
    yield f"{type(value).__name__} of {len(value)}"
    items = value.items() if isinstance(value, dict) else value
    texts = ["\n".join(_described(item, packages, seen)) for item in items]
    yield from sorted(texts) if isinstance(value, set | frozenset) else texts


def _user_function(value: UserFunction, packages: set[str], seen: set[int]) -> Iterator[str]:
    yield f"calls {value.name}"
    if id(value) not in seen:
        seen.add(id(value))
        content = value.content()
        yield from _described(tuple(content), packages | set(map(_package, content)), seen)


def _other(value: Any) -> str:
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return f"{getattr(value, '__module__', '')}.{name}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        return f"{kind} {hashlib.sha256(pickle.dumps(value, 5)).hexdigest()}"
    except Exception:  # noqa: BLE001 - what cannot be pickled is known by its kind only
        return kind


def _function(function: FunctionType, packages: set[str], seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    yield _source(function) or f"bytecode {function.__code__.co_code.hex()} {_constants(function.__code__)}"
    yield from _described((function.__defaults__, function.__kwdefaults__), packages, seen)
    for name, value in _taken(function):
        yield f"takes {name}"
        yield from _described(value, packages, seen)


def _class(kind: type, packages: set[str], seen: set[int]) -> Iterator[str]:
    if id(kind) in seen:
        return
    seen.add(id(kind))
    yield f"class {_source(kind) or kind.__qualname__}"
    for base in kind.__bases__:
        yield from _described(base, packages, seen)
    for value in vars(kind).values():
        plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if isinstance(plain, FunctionType):
            yield from _function(plain, packages, seen)


def _taken(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function takes from outside, by name: its closure, and the globals it or a function within it names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet: the function refers to itself
            continue
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _constants(code: CodeType) -> list[str]:
    return [repr(value) if not isinstance(value, CodeType) else value.co_code.hex() for value in code.co_consts]


def _source(thing: Callable[..., Any] | type) -> str | None:
    """The syntax of a definition without its name's decorators, comments and docstrings."""
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
