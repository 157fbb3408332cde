"""What an operator's classes hold, before and after an epoch: it is not saved, so that a change of it would be lost."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain, count
from types import ModuleType
from typing import Any, Final

import pyarrow as pa

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.saved_attributes import save

_REMEDY: Final = (
    "assign it in __init__ (self.name = ...) and change it there, so that it is saved; or give the operator get_state() and "
    "set_state(value), which take out and put back what is to be kept"
)
_UNCHANGING: Final = (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)
"""Types whose values may be large, and are never changed in their place."""


class ClassState:
    r"""The attributes of the classes in an operator's modules.

    Args:
        modules: The modules.

    >>> module = ModuleType("counting")
    >>> exec("class Operator:\n    values = []", vars(module))
    >>> before = ClassState([module])
    >>> before.check()
    >>> module.Operator.values.append(1)
    >>> before.check()
    Traceback (most recent call last):
    dagster_operators.errors.OperatorFailedError: the class attribute Operator.values changed, and is not saved ...
    """

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self._modules: list[ModuleType] = []
        self._names: set[str] = set()
        self._alive: list[Any] = []
        self._before: dict[str, Any] = {}
        self.add(modules)

    def add(self, modules: Iterable[ModuleType]) -> None:
        """Look at those among some modules, too, that were loaded just now."""
        new = [module for module in modules if module.__name__ not in self._names]
        self._modules += new
        self._names.update(module.__name__ for module in new)
        self._before |= self._now(new)

    def check(self, **where: Any) -> None:
        """See that nothing has changed.

        Raises:
            OperatorFailedError: An attribute of a class is another one, is new or is gone.
        """
        now = self._now(self._modules)
        changed = sorted(name for name in self._before.keys() | now.keys() if self._before.get(name) != now.get(name))
        if changed:
            raise OperatorFailedError(
                f"the class attribute {changed[0]} changed, and is not saved between epochs",
                **where, attribute=changed[0], remedy=_REMEDY,
            )  # fmt: skip

    def _now(self, modules: Iterable[ModuleType]) -> dict[str, Any]:
        return {
            f"{one.__qualname__}.{name}": self._told(value)
            for one in chain.from_iterable(map(_classes, modules))
            for name, value in list(vars(one).items())
            if not (name.startswith("__") and name.endswith("__"))
        }

    def _told(self, value: Any) -> Any:
        """What tells a value from what it was before: its content if it can be read, else which one it is."""
        if isinstance(value, count):
            return repr(value)
        if isinstance(value, random.Random):
            return value.getstate()
        own = type(value).__module__ in self._names and not isinstance(value, type) and hasattr(value, "__dict__")
        if not isinstance(value, _UNCHANGING):
            try:
                return sha256(save({"": vars(value) if own else value})).digest()
            except OperatorFailedError:
                pass
        self._alive.append(value)
        return id(value)


def _classes(module: ModuleType) -> Iterator[type]:
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield value
