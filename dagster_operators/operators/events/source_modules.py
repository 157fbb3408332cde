"""Python files as modules, loaded from their text.

What an operator's file imports from beside it, and ``dora``, are found for it alone, so that two files of one name do not get
into each other's way and nothing that is installed is hidden.
"""

from __future__ import annotations

import builtins
import linecache
import posixpath
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from types import ModuleType
from typing import Any, Final

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.dora_module import DoraStatus, dora_module

_PREFIX: Final = "event_operators_"
_PLACES: Final = RLock()
"""``sys.modules`` is the whole process's: whose modules have a place in it, several of one operator say one after another."""


class SourceModules:
    """The modules of one operator.

    Args:
        files: The text of each file by its path, with / between folders.
        folder: The folder in which its imports are looked for.
        owner: What the modules' names begin with, so that they are the operator's alone.

    Attributes:
        on_loaded: Called when a module was loaded, with all that it imports.
    """

    def __init__(self, files: Mapping[str, str], folder: str, owner: str) -> None:
        self._files = files
        self._folder = folder
        self._owner = owner
        self.on_loaded: Callable[[], None] = lambda: None
        self._modules: dict[str, ModuleType] = {}
        self._loading = 0
        self._builtins = {**vars(builtins), "__import__": self._import}

    def load(self, path: str) -> ModuleType:
        """The module of a file, executed."""
        return self._execute(posixpath.splitext(posixpath.basename(path))[0], path, package=False)

    def run(self, path: str) -> None:
        """Execute a file as a script."""
        self._execute("__main__", path, package=False)

    def loaded(self) -> tuple[ModuleType, ...]:
        """All modules that were loaded by now."""
        return tuple(self._modules.values())

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Where pickle looks for classes it finds those of these modules, though that of another key has loaded them too."""
        with _PLACES:
            sys.modules.update({_name(self._owner, name): made for name, made in self._modules.items()})
            yield

    def of_class(self, module: str) -> str:
        """The name that the module of a pickled class has now: in earlier versions it had another.

        A module of these that nothing has imported yet is loaded: else pickle found none, or an earlier operator's of that name.

        Raises:
            OperatorFailedError: It was one of these, and its file is gone.
        """
        names = (*self._beside(), *self._modules)
        own = {spell(self._owner, name): name for spell in (_name_before, _name) for name in names}
        if module in own:
            return self.find(own[module]).__name__
        if module.startswith(_PREFIX):  # a living worker may still have that of the code before
            raise OperatorFailedError(
                f"its state has an object of a class of the module {_as_imported(module)}, which is no longer beside its file",
                remedy="put the module back; or restart: 1, or another value than now, to begin anew",
            )
        return module

    def find(self, name: str) -> ModuleType:
        """One of these by the name that imports give it, executed if it is not yet.

        Raises:
            ModuleNotFoundError: It does not lie in the folder.
        """
        if name in self._modules:
            return self._modules[name]
        parent, _, last = name.rpartition(".")
        before = self.find(parent) if parent else None
        path = self._path(name)
        if path is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        made = self._execute(name, path, package=path.endswith("/__init__.py"))
        if before is not None:
            setattr(before, last, made)
        return made

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What ``import`` calls in the operator's files."""
        if level == 0 and name == "dora":
            return dora_module()
        whole = _absolute(name, globals or {}, level)
        first = whole.partition(".")[0]
        if self._path(first) is None or (level == 0 and first in sys.stdlib_module_names):  # which Python has loaded already
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = self.find(whole)
        for part in fromlist or ():
            if not hasattr(found, part) and self._path(f"{whole}.{part}") is not None:
                setattr(found, part, self.find(f"{whole}.{part}"))
        return found if fromlist else self.find(whole.partition(".")[0])

    def _beside(self) -> Iterator[str]:
        """The names of all modules in the folder."""
        folder = posixpath.join(self._folder, "")
        for path in self._files:
            if path.startswith(folder) and path.endswith(".py"):
                yield path.removeprefix(folder).removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def _path(self, name: str) -> str | None:
        """The file of a module, if it lies in the folder."""
        place = posixpath.join(self._folder, *name.split("."))
        return next((path for path in (f"{place}.py", f"{place}/__init__.py") if path in self._files), None)

    def _execute(self, name: str, path: str, *, package: bool) -> ModuleType:
        text = self._files[path]
        made = ModuleType(_name(self._owner, name))
        made.__file__ = path
        made.__builtins__ = self._builtins  # type: ignore[attr-defined]
        made.DoraStatus = DoraStatus  # type: ignore[attr-defined] # files that use it without importing it are in use
        if name == "__main__":
            made.__dict__["__name__"] = name
        made.__package__ = name if package else name.rpartition(".")[0]
        if package:
            made.__path__ = []
        self._modules[name] = made
        own = _name(self._owner, name)
        with _PLACES:
            sys.modules[own] = made  # where dataclasses and pickle look for a class's module
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        self._loading += 1
        try:
            exec(compile(text, path, "exec"), vars(made))  # noqa: S102 - it is the user's operator
        except BaseException:  # so that who imports it again does not find a half of it
            self._modules.pop(name, None)
            with _PLACES:
                sys.modules.pop(own, None)
            raise
        finally:
            self._loading -= 1
        if not self._loading:
            self.on_loaded()
        return made


def _name(owner: str, module: str) -> str:
    """The name of an operator's module in ``sys.modules``, where no other has it.

    >>> _name("a-b", "op"), _name("a_b", "op"), _name("a", "b.op"), _name("a", "b_op")
    ('event_operators_a_2d_b_2f_op', 'event_operators_a__b_2f_op', 'event_operators_a_2f_b_2e_op', 'event_operators_a_2f_b__op')
    """
    return _PREFIX + re.sub(r"[\W_]", lambda found: "__" if found[0] == "_" else f"_{ord(found[0]):x}_", f"{owner}/{module}")


def _as_imported(name: str) -> str:
    """The name by which imports find an operator's module.

    >>> _as_imported(_name("a-b", "tools.my_boxes"))
    'tools.my_boxes'
    """
    plain = re.sub("__|_([0-9a-f]+)_", lambda found: chr(int(found[1], 16)) if found[1] else "_", name.removeprefix(_PREFIX))
    return plain.rpartition("/")[2]


def _name_before(owner: str, module: str) -> str:
    """The name that it had in earlier versions: what is pickled has it."""
    plain = re.sub(r"\W", "_", f"_{owner}")
    return f"{_PREFIX}{plain}_{module.replace('.', '_')}"


def _absolute(name: str, place: Mapping[str, Any], level: int) -> str:
    """The whole name of what is imported from a module.

    >>> _absolute("b", {"__package__": "a"}, 1), _absolute("b", {}, 0)
    ('a.b', 'b')
    """
    if not level:
        return name
    package = str(place.get("__package__") or "")
    parts = package.split(".")[: max(0, len(package.split(".")) - level + 1)]
    return ".".join([part for part in (*parts, name) if part])
