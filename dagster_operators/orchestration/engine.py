"""The engine as a Dagster resource, which can be used without Dagster as well."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import dagster as dg
from pydantic import Field
from typing_extensions import override

from dagster_operators.errors import EngineError
from dagster_operators.orchestration.literal_secrets import NoLiteralSecrets, refuse_in_address, refuse_in_config
from dagster_operators.runtime.engine import Spark, default_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine(NoLiteralSecrets, dg.ConfigurableResource["SparkEngine"]):
    """Where stages run: embedded Spark (the default), a cluster, a Spark Connect server, or embedded Sail.

    The session is started when a stage first needs it and shared by all stages and runs of the process; no run's end stops it.

    A secret in it (a token in ``remote``, keys in ``config``) is given to Dagster as ``dg.EnvVar("NAME")``.

    Attributes:
        master: A Spark master: ``local[4]``, ``spark://host:7077``.
        remote: ``sc://host:15002`` for a Spark Connect server, or ``sail``. With neither this nor ``master``,
            the environment variable ``DAGSTER_OPERATORS_ENGINE`` decides, else it is embedded Spark.
        config: Further Spark settings.

    Example:
        >>> SparkEngine(remote="sail").name
        'sail'
    """

    master: str | None = None
    remote: str | None = None
    config: dict[str, str] = Field(default_factory=dict)
    prepares_sessions: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The kind of engine: ``spark``, ``connect`` or ``sail``."""
        if isinstance(self.remote, dg.EnvVar) and self.remote.get_value() is None:  # where definitions are loaded it may be unset
            return "connect"
        return self._spark().name

    def session(self) -> SparkSession:
        """The process's session on this engine, started on first use.

        Raises:
            JavaMissingError: Embedded Spark needs Java 17 or newer and there is none.
            EngineError: The engine cannot be reached or started.
        """
        return self._spark().session()

    def in_use(self, *, begins: bool = False) -> AbstractContextManager[None]:
        """While a step of an epoch is at work with the session: until then it stays the same one."""
        return self._spark().in_use(begins=begins)

    @override
    def refuse_literal_secrets(self) -> None:
        """See that there is no secret in clear in it, as Dagster shows to everybody what it is made with.

        Raises:
            PipelineError: There is one.

        >>> SparkEngine(remote=dg.EnvVar("SPARK_REMOTE")).refuse_literal_secrets()
        """
        refuse_in_address("SparkEngine", "remote", self.remote)
        refuse_in_address("SparkEngine", "master", self.master)
        refuse_in_config("SparkEngine", self.config)

    def _spark(self) -> Spark:
        master, remote, config = _given(self.master), _given(self.remote), _all_given(self.config)
        if master or remote:
            return Spark(master=master, remote=remote, config=config)
        return replace(default_engine(), config=config)


def _all_given(config: Mapping[str, str]) -> dict[str, str]:
    return {name: _given(value) or "" for name, value in config.items()}


def _given(value: str | None) -> str | None:
    """A setting, from the environment if it names a variable there; in a run Dagster has looked there already."""
    if not isinstance(value, dg.EnvVar):
        return value
    found = value.get_value()
    if found is None:
        raise EngineError(
            f"the environment variable {value.env_var_name} is not set", remedy="set it where the pipeline runs, or leave it out"
        )
    return found
