"""The engine as a Dagster resource, which can be used without Dagster as well."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import dagster as dg
from pydantic import Field

from dagster_operators.runtime.engine import Spark, default_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine(dg.ConfigurableResource["SparkEngine"]):
    """Where stages run: embedded Spark (the default), a cluster, a Spark Connect server, or embedded Sail.

    The session is started when a stage first needs it and shared by all stages and runs of the process; no run's end stops it.

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

    def _spark(self) -> Spark:
        if self.master or self.remote:
            return Spark(master=self.master, remote=self.remote, config=self.config)
        return replace(default_engine(), config=self.config)
