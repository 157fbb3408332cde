"""Settings that may be secret: they are taken from the environment where they name a variable, and starred out of texts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from dagster_operators.errors import PipelineError

_FROM: Final = "env:"


def only_names(value: str) -> bool:
    """Whether a value only says in which environment variable it is found, and so is no secret.

    >>> only_names("env:WAREHOUSE"), only_names("dbname=lake")
    (True, False)
    """
    return value.startswith(_FROM)


def found(value: str, what: str) -> str:
    """The value itself, from the environment where it is ``env:NAME``.

    Args:
        value: As the user wrote it.
        what: What it is, for errors.

    Raises:
        PipelineError: The environment variable is not set.

    >>> found("dbname=lake", "the connection string")
    'dbname=lake'
    """
    if not only_names(value):
        return value
    name = value.removeprefix(_FROM)
    if name not in os.environ:
        raise PipelineError(f"the environment variable {name} is not set", remedy=f"set {name} to {what}")
    return os.environ[name]


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret starred out.

    >>> redacted('password "x1" is wrong', ["x1"])
    'password "***" is wrong'
    """
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
