"""What Python has at a place, which is written as ``module:name``."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def found_at(module: str, name: str) -> Any:
    """What has a name in a module, which is imported; of ``A.b`` the ``b`` of ``A``.

    Raises:
        ImportError: The module cannot be imported.
        AttributeError: It has nothing of that name.

    >>> found_at("math", "pi"), found_at("datetime", "datetime.min").year
    (3.141592653589793, 1)
    """
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
