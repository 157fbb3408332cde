"""The process's catalog: the package's own registrations, and those of installed packages once something is asked for.

A package announces itself by an entry point of the group ``dagster_operators.operators``: a function that is called with the
catalog, a module with such a function ``register``, or, for a single Arrow operator, its class or an ``OperatorConstructor``.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from types import ModuleType
from typing import Any

from dagster_operators.catalog import own
from dagster_operators.catalog.catalog import OWN, Catalog
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
from dagster_operators.operators.arrow.registry import ENTRY_POINTS, OperatorConstructor, Registry

_default: list[Catalog] = []
_lock = RLock()


def catalog() -> Catalog:
    """The process's catalog."""
    with _lock:
        if not _default:
            made = Catalog(others=load_packages)
            own.register(made)
            _default.append(made)
        return _default[0]


def registry() -> Registry:
    """The catalog's Arrow operators by name, with those of all installed packages.

    >>> isinstance(registry().names(), list)
    True
    """
    return catalog().complete().arrow_operators


def load_packages(into: Catalog) -> None:
    """Register what all installed packages bring.

    Raises:
        PipelineError: One cannot be loaded, or two have a kind or name in common.
    """
    for point in entry_points(group=ENTRY_POINTS):
        if point.value != f"{own.__name__}:register":
            _load(point, into.of(point.dist.name if point.dist else point.value.partition(":")[0].partition(".")[0]))


def _load(point: EntryPoint, into: Catalog) -> None:
    try:
        _register(point.name, point.load(), into)
    except OperatorsError as error:
        raise error.at(package=into.package) from None
    except Exception as error:
        raise PipelineError(
            f"the operator cannot be loaded from {point.value!r}: {error}", operator=point.name, package=into.package,
            remedy="correct the package",
        ) from error  # fmt: skip


def _register(name: str, found: Any, into: Catalog) -> None:
    if isinstance(found, ModuleType):
        found.register(into)
    elif isinstance(found, type) and issubclass(found, OperatorConstructor):
        into.arrow_operators.register(found(), name=name)
    elif isinstance(found, OperatorConstructor) or (isinstance(found, type) and issubclass(found, ArrowOperator)):
        into.arrow_operators.register(found, name=name)
    elif callable(found):
        found(into)
    else:
        raise PipelineError(
            f"the entry point {name!r} is {found!r}, which registers nothing", remedy="name a function that takes the catalog"
        )


__all__ = ["OWN", "catalog", "load_packages", "registry"]
