"""Where the package writes remedies with calls on stored data: each function or constant, and the methods that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dagster_operators

PACKAGE = Path(dagster_operators.__file__).parent

CALLED = re.compile(r"(?<![\w.])pipeline\.(\w+)\(")

DECLARING = {"apply", "loop", "source"}
"""Calls of a program, which is the user's."""

SHOWN = {"testing", "cli"}
"""Folders whose texts are no errors of stored data, or repeat those of others."""


@cache
def places() -> dict[str, frozenset[str]]:
    """The methods that each place names, the place as ``runtime/resetting.py:_again``."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE)
        if module.parts[0] in SHOWN:
            continue
        for name, methods in _named_in(ast.parse(path.read_text())):
            found.setdefault(f"{module}:{name}", set()).update(methods)
    return {place: frozenset(methods) for place, methods in found.items()}


def _named_in(module: ast.Module) -> Iterator[tuple[str, set[str]]]:
    texts = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}

    def visit(node: ast.AST, name: str) -> Iterator[tuple[str, set[str]]]:
        for part in ast.iter_child_nodes(node):
            if id(part) in texts and isinstance(part, ast.Constant):
                continue
            inner = _name_of(part, name)
            if methods := _methods(part) - DECLARING:
                yield inner, methods
            if isinstance(part, ast.JoinedStr):  # its texts were looked at as one
                for value in part.values:
                    if isinstance(value, ast.FormattedValue):
                        yield from visit(value, inner)
            else:
                yield from visit(part, inner)

    return visit(module, "")


def _name_of(part: ast.AST, name: str) -> str:
    if isinstance(part, ast.FunctionDef | ast.ClassDef):
        return f"{name}.{part.name}".strip(".")
    if not name and isinstance(part, ast.Assign | ast.AnnAssign):
        target = part.targets[0] if isinstance(part, ast.Assign) else part.target
        return target.id if isinstance(target, ast.Name) else name
    return name


def _methods(part: ast.AST) -> set[str]:
    if isinstance(part, ast.JoinedStr):
        return {*CALLED.findall("".join(str(one.value) for one in part.values if isinstance(one, ast.Constant)))}
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return {*CALLED.findall(part.value)}
    made = isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "call_of"
    first = part.args[0] if made and isinstance(part, ast.Call) and part.args else None
    return {str(first.value)} if isinstance(first, ast.Constant) else set()
