"""The Python files of a dataflow's operators, with what they import from beside them: operators go to workers by content."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dagster_operators.errors import PipelineError
from dagster_operators.operators.events.native_library import NEEDED
from dagster_operators.operators.events.native_process import packed
from dagster_operators.operators.events.state_methods import one_alone

LARGEST: Final = 32 * 2**20
"""How many bytes of a library a plan may hold."""

_IDLE: Final = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.Assign, ast.AnnAssign, ast.Constant)
"""Statements at the top level that define something; what a script does is in others."""


class PythonFiles:
    """Files by their paths in a folder.

    Args:
        folder: The folder.

    Attributes:
        texts: The text of each file that was added, by its path with / between folders.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.texts: dict[str, str] = {}

    def has(self, name: str) -> bool:
        """Whether there is a file."""
        return (self._folder / name).is_file()

    def add(self, name: str) -> str:
        """Add an operator's file and what it imports from beside it.

        Returns:
            The file's path.

        Raises:
            OSError: It cannot be read.
            SyntaxError: It is no Python, or not UTF-8.
        """
        path = self._folder / name
        key = _key(path, self._folder)
        self._add(path, key, path.parent)
        return key

    def add_installed(self, command: str) -> str | None:
        """Add a node that is installed: the function that a command of a package calls, with the package.

        Args:
            command: The command, as the package declares it among its scripts.

        Returns:
            The path of a file that calls the function; None if no installed package has the command.
        """
        point = next(iter(entry_points(group="console_scripts", name=command)), None)
        if point is None:
            return None
        top = point.module.partition(".")[0]
        spec = find_spec(top)
        if spec is None or spec.origin is None:
            return None
        beside, folder = Path(spec.origin).parent.parent, f"installed/{command}"
        self._collect(point.module, top, beside, folder)
        key = f"{folder}/__main__.py"
        called = f"{point.attr.partition('.')[0]}"
        self.texts[key] = f"import sys\n\nfrom {point.module} import {called}\n\nsys.exit({point.attr}())\n"
        return key

    def add_missing(self, command: str) -> str:
        """Add a file for a command that is not installed, where a dataflow is looked at alone; nobody runs it.

        Returns:
            The file's path.
        """
        key = f"installed/{command}/__main__.py"
        self.texts[key] = f"raise ModuleNotFoundError({f'the command {command!r} is not installed'!r})\n"
        return key

    def _collect(self, module: str, top: str, beside: Path, folder: str) -> None:
        """Add a module of an installed package, and those of the same package that it imports."""
        if module.partition(".")[0] != top:
            return
        for path in _beside(module, beside):
            key = f"{folder}/{_key(path, beside)}"
            if key not in self.texts:
                self.texts[key] = text = path.read_text("utf-8")
                for other in _imported(ast.parse(text, str(path)), path.parent.relative_to(beside).parts):
                    self._collect(other, top, beside, folder)

    def add_library(self, name: str) -> str:
        """Add a shared library, by the name that dora gives it (``target/release/name``) or that of its file.

        Returns:
            The file's path.

        Raises:
            PipelineError: There is none, or it is too large for a plan.
        """
        given = self._folder / name
        names = (given.name, f"lib{given.name}.so", f"{given.name}.so", f"lib{given.name}.dylib", f"lib{given.name}.dll")
        path = next((given.with_name(one) for one in names if given.with_name(one).is_file()), None)
        if path is None:
            prefixed = names[2] if given.name.startswith("lib") else names[1]
            of_file = given.name.endswith((".so", ".dylib", ".dll"))
            beside = f"{prefixed} is looked for beside {given.name}, too"
            where = "its path is as seen from the dataflow's file" if of_file else beside
            raise PipelineError(f"there is no library {name!r}", remedy=f"build it, or correct its name: {where}")
        data = path.read_bytes()
        for function in NEEDED:
            if function.encode() not in data:
                raise PipelineError(
                    f"the library {name!r} is no operator of dora: it has no function {function}",
                    remedy="build it with dora's operator API, and keep its symbols",
                )
        text = packed(data)
        if len(text) > LARGEST:
            raise PipelineError(
                f"the library {name!r} has {len(text) >> 20} MiB, compressed", remedy="build it for release, and strip it"
            )
        key = _key(path, self._folder)
        self.texts[key] = text
        return key

    def digest(self, key: str) -> str:
        """The SHA-256 of a file's bytes."""
        return hashlib.sha256((self._folder / key).read_bytes()).hexdigest()

    def defines(self, key: str, name: str) -> bool:
        """Whether a file has something of a name at its top level, as far as can be seen without running it."""
        return any(name in _bound(statement) for statement in ast.parse(self.texts[key]).body)

    def lacks(self, key: str, kind: str, method: str) -> bool:
        """Whether a file has a class at its top level that has not a method, as far as can be seen without running it."""
        found = [one for one in ast.parse(self.texts[key]).body if isinstance(one, ast.ClassDef) and one.name == kind]
        if len(found) != 1 or found[0].decorator_list or found[0].keywords:
            return False
        if any(not isinstance(base, ast.Name) or base.id != "object" for base in found[0].bases):
            return False
        bound = {name for part in found[0].body for name in _bound(part)} | {
            part.name for part in found[0].body if isinstance(part, ast.AsyncFunctionDef)
        }
        return method not in bound and "__getattr__" not in bound

    def method_alone(self, key: str) -> str | None:
        """Which of ``get_state`` and ``set_state`` the operator in a file has without the other, as far as can be seen."""
        return one_alone(self.texts[key])

    def is_operator_alone(self, key: str) -> bool:
        """Whether a file has a class ``Operator``, names no ``Node``, and does nothing when it is run."""
        tree = ast.parse(self.texts[key])
        named = {getattr(node, "id", getattr(node, "attr", getattr(node, "name", None))) for node in ast.walk(tree)}
        done = [one.value if isinstance(one, ast.Expr) else one for one in tree.body]
        return self.defines(key, "Operator") and "Node" not in named and all(isinstance(one, _IDLE) for one in done)

    def _add(self, path: Path, key: str, beside: Path) -> None:
        if key in self.texts:
            return
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise SyntaxError(f"the file is no UTF-8: {error}") from None
        tree = ast.parse(text, str(path))
        self.texts[key] = text
        for module in _imported(tree, path.parent.relative_to(beside).parts):
            for found in _beside(module, beside):
                self._add(found, _key(found, self._folder), beside)


def _key(path: Path, folder: Path) -> str:
    """The path of a file as seen from a folder.

    >>> _key(Path("/flows/ops/../plot.py"), Path("/flows")), _key(Path("/ops/plot.py"), Path("/flows"))
    ('plot.py', '../ops/plot.py')
    """
    import os.path

    return Path(os.path.relpath(path, folder)).as_posix()


def _imported(tree: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """The modules that a file of a package imports, by their whole names; of ``from a import b`` also ``a.b``.

    >>> list(_imported(ast.parse("from .b import g"), ("pkg",))), list(_imported(ast.parse("import x.y"), ("pkg",)))
    (['pkg.b', 'pkg.b.g'], ['x.y'])
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: max(0, len(package) - node.level + 1)] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{one.name}".strip(".") for one in node.names)


def _beside(module: str, folder: Path) -> Iterator[Path]:
    """The files of a module that lies in a folder, its packages included; none if one of the standard library has its name.

    What is installed or lies in the current folder does not count: which that is differs from machine to machine.
    """
    parts = module.split(".")
    if not parts[0] or parts[0] == "dora" or parts[0] in sys.stdlib_module_names:
        return
    for count in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:count])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                yield path


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement at the top level may bind."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return {statement.name}
    found = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found |= {one.asname or one.name for node in ast.walk(statement) if isinstance(node, ast.ImportFrom) for one in node.names}
    return found | {node.name for node in ast.walk(statement) if isinstance(node, ast.ClassDef)}
