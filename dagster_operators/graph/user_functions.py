"""The functions of the user's own that expressions may call: one per name in a process, known by their content.

What a function does lives in ``functions``; here is only what a dataflow needs to know: which names there are, and a digest of
what each one does, so that an operator whose function changed has changed.
"""

from __future__ import annotations

import re
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.spark_functions import BUILT_IN
from dagster_operators.graph.values import leaves

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_CALLED = re.compile(r"\b([A-Za-z]\w*)\b`?\s*\(")


class UserFunction(ABC):
    """What is known of a function by its name.

    Attributes:
        name: What expressions call it.
        is_aggregate: Whether it makes one value of many rows.
    """

    name: str
    is_aggregate: ClassVar[bool] = False

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it was defined, for people and to tell a definition that is run again from another one."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Changes when what the function does may have changed."""

    @property
    @abstractmethod
    def outline(self) -> str:
        """A digest of the definition alone, without what it takes from its module: that may still be being imported."""

    @abstractmethod
    def content(self) -> Sequence[Any]:
        """What the digests cover: Python functions, classes and plain values."""


Registered = TypeVar("Registered", bound=UserFunction)
_known: dict[str, UserFunction] = {}
_alike: dict[str, dict[str, UserFunction]] = {}
"""By name and place, functions of equal definition: what they take from their modules may differ."""
_lock = threading.Lock()


def register(function: Registered) -> Registered:
    """Make a function known by its name; the same definition may come again (a module that is loaded anew).

    In a notebook (``__main__``) a changed definition replaces the one of the same place.

    Raises:
        PipelineError: The name is none, or another function has it, such as one of Spark's own.
    """
    if not _NAME.fullmatch(function.name) or not _may_be_called(function.name):
        raise PipelineError(
            f"{function.name!r} is no name for a function", function=function.name,
            remedy='use letters, digits and underscores, a letter first, and no word of SQL: name="..."',
        )  # fmt: skip
    key = function.name.lower()
    if key in BUILT_IN:
        raise PipelineError(
            f"{function.name}() is one of Spark's own functions", function=function.name,
            remedy='give yours another name: name="..."',
        )  # fmt: skip
    with _lock:
        other = _known.get(key)
        if other is not None and other.outline != function.outline and not _defined_again(other, function):
            raise _two_of(function.name, other, function)
        _known[key] = function
        if other is None or other.outline != function.outline:
            _alike.pop(key, None)
        _alike.setdefault(key, {})[function.place] = function
    return function


def _two_of(name: str, one: UserFunction, other: UserFunction) -> PipelineError:
    return PipelineError(
        f"there are two different functions {name!r}: one of {one.place}, one of {other.place}",
        function=name, remedy='give one of them another name: name="..."',
    )  # fmt: skip


def _defined_again(other: UserFunction, function: UserFunction) -> bool:
    """Whether a definition of a notebook is run again; a place within a function or of a lambda can be several."""
    return other.place == function.place and function.place.startswith("__main__.") and "<" not in function.place


def _may_be_called(name: str) -> bool:
    """Whether expressions can call a function of this name: ``fetch(x)`` and ``values(x)`` mean something else in SQL."""
    try:
        return columns_of(f"{name}(x)") == {"x"}
    except SchemaError:
        return False


def forget(name: str) -> None:
    """Let the name go, so that another function may take it (for tests and notebooks)."""
    with _lock:
        _known.pop(name.lower(), None)
        _alike.pop(name.lower(), None)


def find(name: str) -> UserFunction | None:
    """The function of that name, whatever its case, as Spark compares names."""
    return _known.get(name.lower())


def known() -> tuple[UserFunction, ...]:
    """All functions there are."""
    with _lock:
        return tuple(_known.values())


def called_in(config: Any) -> Mapping[str, UserFunction]:
    """The functions that an operator's configuration calls anywhere in its texts, by their names in small letters.

    Raises:
        PipelineError: Two of a name, each of another module, are written alike and do not do the same.
    """
    if not _known:
        return {}
    called = {name.lower() for text in leaves(config) if isinstance(text, str) for name in _CALLED.findall(text)}
    found = {name: function for name in sorted(called) if (function := _known.get(name))}
    for name, function in found.items():
        _check_alike(name, function)
    return found


def _check_alike(name: str, function: UserFunction) -> None:
    """Refuse a function if another one of its name, of a module that is still there, takes something else from its module."""
    for other in list(_alike.get(name, {}).values()):
        if other is not function and _is_there(other) and other.digest != function.digest:
            raise _two_of(function.name, other, function)


def _is_there(function: UserFunction) -> bool:
    """Whether the module that defined it is still one; one that was loaded again may have another name."""
    return getattr(next(iter(function.content()), None), "__module__", "") in sys.modules


def contents_of(config: Any) -> Mapping[str, str]:
    """The digest of each function that an operator's configuration calls anywhere in its texts.

    >>> contents_of({"condition": "no_such_function(a) > 1"})
    {}
    """
    return {name: found.digest for name, found in called_in(config).items()}
