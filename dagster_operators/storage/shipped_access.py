"""How access to an object store travels to other processes: by a name for its keys, which themselves are in no pickle.

In the same process (Sail's workers are threads of it) the name is known. A process of embedded or clustered Spark finds them in
its environment, where Spark puts what the driver says. Elsewhere (Spark Connect) what is not secret travels, and keys are those
of the environment or the role there.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dagster_operators.storage.access import Access

_VARIABLE: Final = "DAGSTER_OPERATORS_ACCESS_"

_names: dict[Access, str] = {}
_turn = threading.Lock()


def name_of(access: Access) -> str:
    """A name for what an access has, in this process and those that are told :func:`variable_of` it."""
    with _turn:
        return _names.setdefault(access, secrets.token_hex(8))


def variable_of(access: Access) -> dict[str, str]:
    """The variable of the environment by which another process knows the name; none without keys."""
    return {f"{_VARIABLE}{name_of(access)}": json.dumps(access.options)} if access.has_keys else {}


def restored(name: str, public: tuple[tuple[str, str], ...]) -> Access:
    """The access of that name, if it is known here; else without keys."""
    from dagster_operators.storage.access import Access

    with _turn:
        known = {name: access for access, name in _names.items()}
    if name in known:
        return known[name]
    told: Mapping[str, str] = dict(json.loads(os.environ.get(f"{_VARIABLE}{name}", "[]")))
    return Access.of(told) if told else Access(public)
