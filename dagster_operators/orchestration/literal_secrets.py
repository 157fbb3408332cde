"""Secrets written out in a resource are refused: Dagster shows a resource's configuration to whoever sees the code location."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import dagster as dg

from dagster_operators.errors import PipelineError
from dagster_operators.storage.access import is_secret, shown_setting
from dagster_operators.storage.uri import without_user

_OF_SPARK: Final = re.compile(r"secret|password|token|access[.]?key|account[.]key|[.]sas[.]", re.IGNORECASE)
"""What Spark takes for secret itself, and the keys of Azure."""

_OF_CONNECT: Final = re.compile(r"secret|password|token|key|credential|authorization", re.IGNORECASE)
"""Parameters of an address of Spark Connect."""

_NO_SECRET: Final = re.compile(
    r"file$|token_?length$|bit_?length$|provider([._]type)?$|application_credentials$|kms_key_id$|[.]secrets[.]|secretkeyref[.]",
    re.IGNORECASE,
)
"""Where a secret is found, how long it is, or what it is called: a file, a class, a key of a service, a mount."""

_ADDRESSES: Final = {"remote": "SPARK_REMOTE", "master": "SPARK_MASTER", "engine": "SPARK_REMOTE", "root": "PIPELINE_ROOT"}
"""A name of a variable for each field that is an address."""

_ELSE: Final = "then the configuration holds only its name"


class NoLiteralSecrets:
    """Has a resource refused that holds a secret in clear, as soon as Dagster is given it."""

    def refuse_literal_secrets(self) -> None:
        """See that the resource holds no secret in clear: what Dagster knows of it, everybody sees.

        Raises:
            PipelineError: It does.

        >>> NoLiteralSecrets().refuse_literal_secrets()
        """

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The fields for people, without secrets."""
        for name, value in super().__repr_args__():  # type: ignore[misc]  # of the resource that it is beside
            yield name, _shown(name or "", value)

    def get_resource_definition(self) -> Any:
        """The resource as Dagster has it.

        Raises:
            PipelineError: It holds a secret in clear.
        """
        self.refuse_literal_secrets()
        return super().get_resource_definition()  # type: ignore[misc]  # of the resource that it is beside


def refuse_in_options(resource: str, options: Mapping[str, str]) -> None:
    """Refuse options of an object store that hold a secret, and not where it is found.

    >>> refuse_in_options("PipelineResource", {"aws_region": "eu", "aws_secret_access_key": dg.EnvVar("AWS_SECRET_ACCESS_KEY")})
    """
    for name, value in options.items():
        if _holds_secret(value, by_name=is_secret(name) and not _NO_SECRET.search(name)):
            taken = f"storage_options={{{name!r}: dg.EnvVar({_variable(name)!r})}}: {_ELSE}"
            raise _refusal(
                resource, f"{name!r} of storage_options",
                f"{taken}; or leave it out, and set {_variable(name)}" if is_secret(name) else taken,
            )  # fmt: skip


def refuse_in_config(resource: str, config: Mapping[str, str]) -> None:
    """Refuse settings of Spark that hold a secret.

    >>> refuse_in_config("SparkEngine", {"spark.sql.mapKeyDedupPolicy": "LAST_WIN"})
    """
    for name, value in config.items():
        if _holds_secret(value, by_name=_OF_SPARK.search(name) is not None and not _NO_SECRET.search(name)):
            taken = f"config={{{name!r}: dg.EnvVar({_variable(name.rpartition('spark.')[2])!r})}}"
            raise _refusal(resource, f"{name!r} of config", f"{taken}: {_ELSE}")


def refuse_in_address(resource: str, field: str, address: str | None) -> None:
    """Refuse a URI that holds a secret.

    >>> refuse_in_address("SparkEngine", "remote", "sc://host:443/;user_id=ada")
    """
    if address is None or isinstance(address, dg.EnvVar):
        return
    named = [part.partition("=")[0] for part in address.split(";")[1:]] if address.startswith("sc://") else []
    if without_user(address) != address or any(_OF_CONNECT.search(name) for name in named):
        raise _refusal(resource, field, f"{field}=dg.EnvVar({_ADDRESSES[field]!r}), which has the whole address: {_ELSE}")


def _holds_secret(value: str, *, by_name: bool) -> bool:
    """Whether a value is a secret by its name, or has one in it: an address with a user, the content of a file of keys."""
    if isinstance(value, dg.EnvVar):
        return False
    return by_name or without_user(value) != value or "PRIVATE KEY" in value


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, dg.EnvVar):
        return value
    if isinstance(value, Mapping):
        return {each: _shown(each, inner) for each, inner in value.items()}
    return shown_setting(name, value) if isinstance(value, str) else value


def _refusal(resource: str, what: str, remedy: str) -> PipelineError:
    return PipelineError(
        f"{resource} would hold {what} in clear, which Dagster shows to everybody who sees the code location", remedy=remedy
    )


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()
