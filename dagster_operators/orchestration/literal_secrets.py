"""Secrets written out in a resource are refused: Dagster shows a resource's configuration to whoever sees the code location."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import dagster as dg

from dagster_operators.errors import PipelineError
from dagster_operators.storage.access import is_secret
from dagster_operators.storage.uri import without_user

_OF_SPARK: Final = re.compile(r"secret|password|token|access[.]?key|account[.]key|[.]sas[.]", re.IGNORECASE)
"""What Spark takes for secret itself, and the keys of Azure."""

_OF_CONNECT: Final = re.compile(r"secret|password|token|key|credential|authorization", re.IGNORECASE)
"""Parameters of an address of Spark Connect."""

_ADDRESSES: Final = {"remote": "SPARK_REMOTE", "master": "SPARK_MASTER", "engine": "SPARK_REMOTE", "root": "PIPELINE_ROOT"}
"""A name of a variable for each field that is an address."""

_ELSE: Final = "then the configuration holds only its name"


def refuse_in_options(resource: str, options: Mapping[str, str]) -> None:
    """Refuse options of an object store that hold a secret, and not the name of a variable of the environment.

    >>> refuse_in_options("PipelineResource", {"aws_region": "eu", "aws_secret_access_key": dg.EnvVar("AWS_SECRET_ACCESS_KEY")})
    """
    for name, value in options.items():
        if is_secret(name) and not isinstance(value, dg.EnvVar):
            taken = f"storage_options={{{name!r}: dg.EnvVar({_variable(name)!r})}}"
            raise _refusal(
                resource, f"{name!r} of storage_options", f"{taken}: {_ELSE}; or leave it out, and set {_variable(name)}"
            )


def refuse_in_config(resource: str, config: Mapping[str, str]) -> None:
    """Refuse settings of Spark that hold a secret.

    >>> refuse_in_config("SparkEngine", {"spark.sql.mapKeyDedupPolicy": "LAST_WIN"})
    """
    for name, value in config.items():
        if not isinstance(value, dg.EnvVar) and (_OF_SPARK.search(name) or without_user(value) != value):
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


def _refusal(resource: str, what: str, remedy: str) -> PipelineError:
    return PipelineError(
        f"{resource} would hold {what} in clear, which Dagster shows to everybody who sees the code location", remedy=remedy
    )


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()
