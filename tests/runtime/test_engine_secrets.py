"""Secrets of engines and stores: in no text for people, in no pickle, in no argument of a process."""

from __future__ import annotations

import pickle
import subprocess
import sys

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.errors import EngineError, PipelineError
from dagster_operators.runtime.engine import Spark, engine_given
from dagster_operators.storage.access import Access

SECRET = "hidden0123"  # noqa: S105 - none at all
CONFIG = {
    "spark.hadoop.fs.s3a.secret.key": SECRET,
    "spark.hadoop.fs.s3a.endpoint": f"https://me:{SECRET}@store:9000",
    "spark.hadoop.fs.azure.endpoint": f"https://store?sv=1&sig={SECRET}",
    "spark.sql.shuffle.partitions": "2",
}
REMOTE = f"sc://host:1/;token={SECRET};user_id=ada"


def test_engines_show_what_they_are_without_their_secrets():
    for engine in (Spark(remote=REMOTE, config=CONFIG), do.SparkEngine(remote=REMOTE, config=CONFIG)):
        for shown in (repr(engine), str(engine)):
            assert SECRET not in shown
            assert "user_id=ada" in shown
            assert "shuffle.partitions" in shown
    assert SECRET not in repr(do.PipelineResource(root=f"s3://me:{SECRET}@b/r", storage_options={"secret_access_key": SECRET}))
    assert "KEY" in repr(do.SparkEngine(config={"spark.hadoop.fs.s3a.secret.key": dg.EnvVar("KEY")}))


@pytest.mark.parametrize("given", [f"http://me:{SECRET}@host", f"engine:;token={SECRET}"])
def test_an_address_that_is_none_is_echoed_without_its_secrets(given):
    with pytest.raises(EngineError) as refused:
        Spark(remote=given)
    with pytest.raises(PipelineError) as given_so:
        engine_given(f" {given}")
    assert SECRET not in f"{refused.value} {given_so.value}"


def test_urls_with_secrets_are_in_no_pickle_and_starred_out_of_errors():
    urls = {"proxy_url": f"http://me:{SECRET}@proxy:80", "endpoint": f"https://store?sig={SECRET}"}
    for name, url in urls.items():
        access = Access.of({name: url, "region": "eu"})
        assert SECRET.encode() not in pickle.dumps(access)
        assert pickle.loads(pickle.dumps(access)) == access  # noqa: S301 - our own
        assert SECRET not in access.redact(f"cannot reach {url}: {SECRET} is wrong")
    assert b"http://proxy" in pickle.dumps(Access.of({"proxy_url": "http://proxy:80"}))


_PROGRAM = """
import psutil, sys
from dagster_operators.runtime.engine import Spark
session = Spark(master="local[2]", config={"spark.hadoop.fs.s3a.secret.key": sys.argv[1], "spark.app.name": "seen"}).session()
assert session.range(3).count() == 3
context = session.sparkContext
assert context.getConf().get("spark.hadoop.fs.s3a.secret.key") == sys.argv[1]
assert context._jsc.hadoopConfiguration().get("fs.s3a.secret.key") == sys.argv[1]
java = [each for each in psutil.Process().children(recursive=True) if "java" in each.name()]
assert java and any("seen" in " ".join(each.cmdline()) for each in java)
assert not any(sys.argv[1] in " ".join(each.cmdline()) for each in java)
places = [each.laddr.ip.removeprefix("::ffff:") for one in java for each in one.net_connections("tcp") if each.status == "LISTEN"]
assert places and set(places) <= {"127.0.0.1", "::1"}, places
assert context.getConf().get("spark.authenticate") == "true"
"""


@pytest.mark.slow
def test_java_is_given_no_secret_to_show_and_listens_to_nobody_else():
    done = subprocess.run([sys.executable, "-c", _PROGRAM, SECRET], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
