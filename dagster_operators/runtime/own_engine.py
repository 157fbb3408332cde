"""A Spark session that the user made: any object with ``session()`` is an engine, as are the ones of this package.

What the engines of this package do when they start a session is done to it, too: the functions of the user's own are made known
to it, PySpark's functions are those of its kind, and what its queries mean is made sure of.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from dagster_operators.errors import EngineError
from dagster_operators.functions.install import install
from dagster_operators.runtime.engine import Engine, PreparedEngine, select_api
from dagster_operators.runtime.spark_process import stopped_by_itself, was_stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KINDS: Final = ("spark", "connect", "sail")
_TIMES: Final = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
_ZONE: Final = "spark.sql.session.timeZone"
_UTC: Final = frozenset({"UTC", "ETC/UTC", "GMT", "Z", "+00:00"})


@dataclass(frozen=True)
class OwnEngine:
    """An engine by an object that has a session.

    Attributes:
        given: The object. If it has a ``name`` that is a kind of engine, that is its kind.
    """

    given: Engine
    prepares_sessions: ClassVar[bool] = True
    _seen: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """``spark``, ``connect`` or ``sail``; by the session as soon as there is one."""
        told = getattr(self.given, "name", None)
        return told if told in _KINDS else self._seen.get("kind", "spark")

    def session(self) -> SparkSession:
        """The user's session, ready for a pipeline.

        Raises:
            EngineError: It is no session, it was stopped, or it does not compute in UTC.
        """
        session = self.given.session()
        kind = kind_of(session)
        if not kind:
            raise EngineError(
                f"session() of {type(self.given).__name__} gave {type(session).__name__}, which is no SparkSession",
                remedy="let it return a SparkSession of Spark, Spark Connect or Databricks Connect",
            )
        if was_stopped(session):
            raise EngineError(
                f"the session of {type(self.given).__name__} was stopped",
                remedy="let session() make a new one then, as SparkSession.builder.getOrCreate() does",
            )
        if stopped_by_itself(session):
            raise EngineError(
                f"Spark stopped by itself, or its process ended, and the session of {type(self.given).__name__} with it",
                remedy="let session() stop() it before it makes a new one; SparkSession.builder.getOrCreate() gives it again",
            )
        self._seen["kind"] = kind
        select_api(connect=kind == "connect")
        zone = str(session.conf.get(_ZONE))
        if zone.upper() not in _UTC:
            raise EngineError(
                f"the session of {type(self.given).__name__} has the time zone {zone}, and a pipeline computes in UTC",
                remedy=f"session.conf.set({_ZONE!r}, 'UTC'); if others use the session, give the pipeline one of its own: "
                "session.newSession()",
            )
        session.conf.set(*_TIMES)  # else Spark writes times in a format that readers take for nanoseconds
        install(session)
        return session


def in_use(engine: Engine, *, begins: bool = False) -> contextlib.AbstractContextManager[None]:
    """While a step of an epoch is at work: the engine's session stays the same one.

    Args:
        engine: The engine; one of the user's own says for itself what its session is.
        begins: Whether it is the beginning of an epoch.
    """
    known: Any = getattr(engine, "in_use", None)
    return known(begins=begins) if known is not None else contextlib.nullcontext()


def prepared(engine: Engine) -> PreparedEngine:
    """The engine itself if it is one of this package; else one that makes its sessions ready."""
    return cast("PreparedEngine", engine) if getattr(engine, "prepares_sessions", False) else OwnEngine(engine)


def kind_of(session: object) -> str:
    """``spark`` for a classic session, ``connect`` for one of Spark Connect, empty for anything else.

    >>> kind_of("local[2]")
    ''
    """
    modules = [kind.__module__ for kind in type(session).__mro__ if kind.__name__ == "SparkSession"]
    if any(module.startswith("pyspark.sql.connect") for module in modules):
        return "connect"
    return "spark" if modules else ""
