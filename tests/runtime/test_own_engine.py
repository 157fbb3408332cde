"""An engine of one's own: any object with a session, which pipelines use as they use the engines of this package."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import dagster_operators as do
from dagster_operators.errors import EngineError
from dagster_operators.runtime import engine as engine_module
from dagster_operators.runtime.engine import Spark
from dagster_operators.runtime.own_engine import OwnEngine, kind_of, prepared
from tests.engines import CONNECT, EMBEDDED, SAIL

ZONE = "spark.sql.session.timeZone"


@dataclass
class Mine:
    """What a user writes who has a session."""

    made: Any

    def session(self) -> Any:
        return self.made


@dataclass
class MySail(Mine):
    """One that says of what kind it is."""

    name: str = field(default="sail")


class MyResource(dg.ConfigurableResource["MyResource"]):
    """A resource of Dagster's own kind."""

    setting: str
    name: str = "sail"

    def session(self) -> Any:
        assert self.setting == "as given"
        return a_session_of_sails()


@functools.cache
def a_session_of_sails() -> Any:
    """A session that no engine of this package has made ready."""
    from pyspark.sql.connect.session import SparkSession

    SAIL.session()
    port = engine_module._sail_servers[SAIL._key].port
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    session.conf.set(ZONE, "UTC")
    return session


def thirds(engine: Any, root: Path) -> do.Pipeline:
    """A pipeline with a function of the user's own and a time."""

    @do.udf("long", name="a_third_of")
    def third(x: pa.Array) -> pa.Array:
        return pc.divide(x, 3)

    pipeline = do.Pipeline("mine", root=str(root), engine=engine)
    source = do.MemorySource([[(3, "2024-01-01T00:00:00Z"), (9, "2024-01-01T01:00:00Z")]], schema="v long, t timestamp")
    rows = pipeline.source("rows", source, event_time="t")
    rows.select("a_third_of(v) AS third", "hour(t) AS hour", "t").to_table("thirds")
    return pipeline


def results(pipeline: do.Pipeline) -> list[tuple[Any, ...]]:
    pipeline.run_epoch()
    return sorted((row.third, row.hour) for row in pipeline.read("thirds").collect())


EXPECTED = [(1, 0), (3, 1)]


@pytest.mark.sail
def test_a_session_of_sails_has_the_functions_of_the_users_own(tmp_path):
    pipeline = thirds(MySail(a_session_of_sails()), tmp_path)
    assert results(pipeline) == EXPECTED
    assert prepared(Mine(a_session_of_sails())).session() is a_session_of_sails()
    assert kind_of(a_session_of_sails()) == "connect"


def test_so_has_one_of_classic_spark(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    pipeline = thirds(Mine(session), tmp_path)
    assert results(pipeline) == EXPECTED
    assert pipeline.epochs.planning.engine.name == "spark"
    file = next((tmp_path / "tables/thirds").rglob("*.parquet"))
    assert pq.read_schema(file).field("t").type == pa.timestamp("us", "UTC")


@pytest.mark.sail
def test_another_time_zone_is_refused_until_it_is_utc(tmp_path):
    session = a_session_of_sails()
    session.conf.set(ZONE, "America/New_York")
    pipeline = thirds(MySail(session), tmp_path)
    with pytest.raises(EngineError, match="time zone America/New_York, and a pipeline computes in UTC") as refused:
        pipeline.run_epoch()
    assert "session.conf.set('spark.sql.session.timeZone', 'UTC')" in str(refused.value)
    session.conf.set(ZONE, "UTC")
    assert results(pipeline) == EXPECTED


def test_what_is_no_session_and_one_that_was_stopped_are_refused():
    with pytest.raises(EngineError, match=r"session\(\) of Mine gave NoneType, which is no SparkSession"):
        prepared(Mine(None)).session()

    class Stopped(SparkSession):
        """A session whose context is gone."""

        def __init__(self):
            pass

        sparkContext = type("Context", (), {"_jsc": None})()  # noqa: N815

    with pytest.raises(EngineError, match="the session of Mine was stopped"):
        prepared(Mine(Stopped())).session()


@pytest.mark.sail
def test_in_dagster_it_is_a_resource_as_it_was_given(tmp_path):
    pipeline = thirds(None, tmp_path)
    defs = do.build_definitions(pipeline, engine=MyResource(setting="as given"))
    result = defs.resolve_job_def("mine_epoch").execute_in_process(instance=dg.DagsterInstance.ephemeral())
    assert result.success
    rows = do.StoredPipeline(str(tmp_path)).to_arrow("thirds").to_pylist()
    assert sorted((row["third"], row["hour"]) for row in rows) == EXPECTED


def test_the_engines_of_this_package_are_left_as_they_are():
    for engine in (SAIL, CONNECT, EMBEDDED, Spark(), do.SparkEngine(remote="sail")):
        assert prepared(engine) is engine
    assert isinstance(prepared(Mine(None)), OwnEngine)
    assert prepared(MySail(None)).name == "sail"
    assert prepared(Mine(None)).name == "spark"
