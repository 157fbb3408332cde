"""Spark is started with the packages that were asked for, and with S3A where data lies on S3."""

from __future__ import annotations

import threading

import pytest

from dagster_operators.runtime import spark_packages
from dagster_operators.runtime.spark_packages import merged, need_for, packages, s3a_package

DELTA = "io.delta.sql.DeltaSparkSessionExtension"
BUNDLE = "software.amazon.awssdk:bundle"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    """A Spark with Hadoop 3.5.0 and without S3A, that nobody needs S3 of."""
    monkeypatch.setattr(spark_packages, "_needed", threading.Event())
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "hadoop-client-api-3.5.0.jar").touch()


def names(config):
    return [name.rpartition(":")[0] for name in packages(config)]


def test_only_what_was_asked_for_where_nothing_is_on_s3():
    need_for(["data/shop", "gs://lake/shop"])
    assert (packages({}), merged({})) == ([], {"spark.sql.extensions": DELTA})
    asked = {"spark.jars.packages": "org.a:b:1", "spark.jars.excludes": "org.c:d", "spark.sql.extensions": f"org.e.F, {DELTA}"}
    assert (packages(asked), merged(asked)) == (["org.a:b:1"], {"spark.sql.extensions": f"{DELTA},org.e.F"})


def test_s3a_comes_with_the_modules_it_uses_and_what_was_asked_for_stays():
    need_for(["data/shop", "s3a://lake/shop"])
    asked = {"spark.jars.packages": "org.a:b:1,software.amazon.awssdk:s3:9.9.9", "spark.jars.excludes": "org.c:d"}
    assert packages(asked)[:3] == ["org.a:b:1", "software.amazon.awssdk:s3:9.9.9", "org.apache.hadoop:hadoop-aws:3.5.0"]
    assert names(asked)[3:] == ["software.amazon.awssdk:s3-transfer-manager", "software.amazon.awssdk:sts"]
    assert merged(asked)["spark.jars.excludes"] == f"org.c:d,{BUNDLE}"


@pytest.mark.parametrize("setting", ["spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"])
def test_s3a_that_is_given_is_left_as_it_is(setting):
    need_for(["s3://lake/shop"])
    given = {setting: "org.apache.hadoop:hadoop-aws:3.4.1"}
    assert packages(given) == ([given[setting]] if setting == "spark.jars.packages" else [])
    assert "spark.jars.excludes" not in merged(given)


def test_amazons_whole_library_where_it_was_asked_for_or_its_version_is_not_known(tmp_path):
    need_for(["s3://lake/shop"])
    asked = {"spark.jars.packages": f"{BUNDLE}:2.35.4"}
    assert names(asked) == [BUNDLE, "org.apache.hadoop:hadoop-aws"]
    assert "spark.jars.excludes" not in merged(asked)
    (tmp_path / "jars" / "hadoop-client-api-3.5.0.jar").rename(tmp_path / "jars" / "hadoop-client-api-9.9.9.jar")
    assert packages({}) == ["org.apache.hadoop:hadoop-aws:9.9.9"]
    assert "spark.jars.excludes" not in merged({})


@pytest.mark.parametrize("jar", ["hadoop-aws-3.5.0.jar", None])
def test_nothing_is_added_where_spark_has_s3a_or_no_hadoop_of_its_own(tmp_path, jar):
    need_for(["s3://lake/shop"])
    if jar:
        (tmp_path / "jars" / jar).touch()
    else:
        (tmp_path / "jars" / "hadoop-client-api-3.5.0.jar").unlink()
    assert packages({}) == []
    assert bool(s3a_package()) == bool(jar)
