"""Imports within functions: what is imported as a function is called, by the source of its module.

No module is imported for it, but for packages that it is in. A module that is loaded in one process, and not in another one,
has the same text in both: the definitions that are imported, those of the same module that these name, and further imports of
the package.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

_ALL = "*"


@dataclass(frozen=True)
class Imported:
    """An import of a module.

    Attributes:
        module: The module's whole name.
        names: The names that are taken from it; none where it is imported as such.
    """

    module: str
    names: tuple[str, ...]


def imports_within(function: FunctionType, packages: Collection[str]) -> Iterator[str]:
    """The content of what a function imports when it is called, and of what that takes from its module, as lines.

    Args:
        function: The function.
        packages: The packages whose content counts.

    >>> def root(number):
    ...     import math
    ...     return math.sqrt(number)
    >>> list(imports_within(root, ["jobs"]))
    []
    """
    package = str(function.__globals__.get("__package__") or function.__module__.rpartition(".")[0])
    named = _names_in(function.__code__)
    yield from _described(_of_code(function.__code__, package), named, packages, set())


def _described(
    imports: Iterable[Imported], named: Collection[str], packages: Collection[str], seen: set[tuple[str, str]]
) -> Iterator[str]:
    waiting = list(imports)
    while waiting:
        imported = waiting.pop(0)
        if imported.module.partition(".")[0] not in packages:
            continue
        module = _module(imported.module)
        if module is None:
            continue
        for name in imported.names or sorted(module.definitions.keys() & set(named)):
            if name not in module.definitions:  # a module of the package, or made as the module is executed
                waiting.append(Imported(f"{imported.module}.{name}", ()))
            elif (imported.module, name) not in seen:
                seen.add((imported.module, name))
                definition = module.definitions[name]
                yield f"imports {imported.module}.{name}: {definition.text}"
                waiting += [Imported(imported.module, (other,)) for other in definition.names if other in module.definitions]
                waiting += definition.imports
                named = {*named, *definition.attributes}


@dataclass(frozen=True)
class _Definition:
    """A statement of a module that gives a name a meaning.

    Attributes:
        text: Its source, without comments.
        names: The names that it reads.
        attributes: The names of attributes in it.
        imports: What it imports.
    """

    text: str
    names: tuple[str, ...]
    attributes: tuple[str, ...]
    imports: tuple[Imported, ...]


@dataclass(frozen=True)
class _Module:
    definitions: Mapping[str, _Definition]


def _module(name: str) -> _Module | None:
    """The definitions of a module; None where it has no source, none of a package without a file."""
    try:
        spec = find_spec(name)
        origin = None if spec is None else spec.origin
        if spec is not None and origin is None and spec.submodule_search_locations is not None:
            return _Module({})  # a package without a file of its own
        if spec is None or origin is None or not origin.endswith(".py"):
            return None
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        return _parsed(origin, Path(origin).stat().st_mtime_ns, package)
    except (ImportError, AttributeError, ValueError, OSError, SyntaxError):
        return None


@lru_cache(256)
def _parsed(origin: str, _changed: int, package: str) -> _Module:
    definitions: dict[str, _Definition] = {}
    for statement in ast.parse(Path(origin).read_bytes()).body:
        for defined in _defined_by(statement):
            before = definitions.get(defined)
            made = _definition(statement, package)
            definitions[defined] = made if before is None else _both(before, made)
    return _Module(definitions)


def _both(first: _Definition, second: _Definition) -> _Definition:
    return _Definition(
        f"{first.text}\n{second.text}", (*first.names, *second.names), (*first.attributes, *second.attributes),
        (*first.imports, *second.imports),
    )  # fmt: skip


def _defined_by(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module gives a meaning, those within its branches, too."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _definition(statement: ast.stmt, package: str) -> _Definition:
    for node in ast.walk(statement):
        has_docstring = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node)
        if has_docstring and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = node.body[1:] or [ast.Pass()]
    nodes = list(ast.walk(statement))
    read = dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name))
    attributes = dict.fromkeys(node.attr for node in nodes if isinstance(node, ast.Attribute))
    imports = [imported for node in nodes for imported in _of_statement(node, package)]
    return _Definition(ast.unparse(statement), tuple(read), tuple(attributes), tuple(imports))


def _of_statement(node: ast.AST, package: str) -> Iterator[Imported]:
    if isinstance(node, ast.Import):
        yield from (Imported(alias.name, ()) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and (module := _resolved(node.module or "", node.level, package)):
        yield Imported(module, tuple(alias.name for alias in node.names if alias.name != _ALL))


def _of_code(code: CodeType, package: str) -> Iterator[Imported]:
    """The imports in the steps of a function, and in those of functions within it."""
    constants: list[Any] = []
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_CONST":
            constants.append(step.argval)
        elif step.opname == "IMPORT_NAME":
            level, names = constants[-2:]
            module = _resolved(str(step.argval), int(level), package)
            if module:
                yield Imported(module, tuple(name for name in names or () if name != _ALL))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant, package)


def _resolved(module: str, level: int, package: str) -> str:
    """The whole name of a module; empty where there is none."""
    try:
        return resolve_name("." * level + module, package or None) if level else module
    except ImportError:
        return ""


def _names_in(code: CodeType) -> frozenset[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return frozenset(code.co_names).union(*map(_names_in, inner))
