"""The variables of the environment that a file gives an operator, with those that they name put in, as dora does."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from dagster_operators.errors import OperatorFailedError

_NAMED: Final = re.compile(r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_]\w*)|\{(?P<braced>[^{}]*?)(?::-(?P<default>[^{}]*))?\})")


def environment(env: Sequence[tuple[str, str]], where: Mapping[str, Any]) -> dict[str, str]:
    """The variables and their values.

    Raises:
        OperatorFailedError: One names a variable that the environment does not have.

    >>> environment([("COST", "5$, $$5"), ("PLACE", "${NOT_THERE:-a}/b")], {})
    {'COST': '5$, $5', 'PLACE': 'a/b'}
    """

    def value(of: str, found: re.Match[str]) -> str:
        name = found["plain"] or found["braced"]
        if found["dollar"]:
            return "$"
        if name in os.environ:
            return os.environ[name]
        if found["default"] is not None:
            return found["default"]
        raise OperatorFailedError(
            f"the environment has no variable {name!r}, which {of} names", **where,
            remedy=f"set it, or say what it is otherwise: ${{{name}:-value}}; for the character itself write $$",
        )  # fmt: skip

    return {name: _NAMED.sub(partial(value, name), text) for name, text in env}
