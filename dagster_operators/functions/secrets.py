"""Telling what seems to be a secret, so that it is left out of plans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_NAME: Final = re.compile(
    r"(?i)(?:^|_)(?:password|passwd|secret|token|credentials?|api_?key|access_?key|account_?key|private_?key|dsn)$"
)
_USER_INFO: Final = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def holds_secret(name: str, value: Any) -> bool:
    """Whether a setting seems to hold a secret anywhere: by its name, a name within it, or as a URL with a password.

    >>> holds_secret("api_key", "x"), holds_secret("key", "x"), holds_secret("url", "postgresql://me:pw@host/db")
    (True, False, True)
    >>> holds_secret("options", {"user": "me", "password": "x"})
    True
    """
    return _holds(name, value, set())


def _holds(name: str, value: Any, seen: set[int]) -> bool:
    if value is None or id(value) in seen:
        return False
    if _NAME.search(name):
        return True
    if isinstance(value, str):
        return _USER_INFO.search(value) is not None
    seen.add(id(value))
    if isinstance(value, Mapping):
        return any(_holds(str(key), item, seen) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_holds("", item, seen) for item in value)
    inner = getattr(value, "__dict__", None)
    return isinstance(inner, dict) and not isinstance(value, type) and any(_holds(key, item, seen) for key, item in inner.items())
