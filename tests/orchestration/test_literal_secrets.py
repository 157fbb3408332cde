"""Secrets in what Dagster keeps of a code location: none is there, and what the refusals say works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_shared.serdes import serialize_value

import dagster_operators as do
from dagster_operators.errors import EngineError, PipelineError

ROOT = "s3://lake/p"
SECRET = "TOPSECRET9"  # noqa: S105  # of nobody
OPTIONS = {"aws_region": "eu", "aws_secret_access_key": SECRET}
REMOTE = f"sc://host:443/;token={SECRET}"


def snapshot(defs: dg.Definitions) -> str:
    """What Dagster's web server is told of a code location."""
    return serialize_value(RepositorySnap.from_def(defs.get_repository_def()))


def pipeline(root: str, **options: Any) -> do.Pipeline:
    made = do.Pipeline("p", root=root, **options)
    made.source("rows", do.MemorySource([[(1,)]], schema="v long")).to_table("t")
    return made


@pytest.mark.parametrize(
    ("resource", "remedy"),
    [
        (lambda: do.PipelineResource(root=ROOT, storage_options=OPTIONS), "dg.EnvVar('AWS_SECRET_ACCESS_KEY')"),
        (
            lambda: do.PipelineIOManager(source=do.PipelineResource(root=ROOT, storage_options=OPTIONS)),
            "dg.EnvVar('AWS_SECRET_ACCESS_KEY')",
        ),
        (lambda: do.PipelineResource(root=f"s3://key:{SECRET}@lake/p"), "root=dg.EnvVar('PIPELINE_ROOT')"),
        (lambda: do.PipelineResource(root=ROOT, engine=REMOTE), "engine=dg.EnvVar('SPARK_REMOTE')"),
        (
            lambda: do.PipelineResource(root=ROOT, storage_options={"proxy_url": f"http://me:{SECRET}@host"}),
            "storage_options={'proxy_url': dg.EnvVar('PROXY_URL')}: then the configuration holds only its name",
        ),
        (
            lambda: do.PipelineResource(
                root=ROOT,
                storage_options={"google_application_credentials": f"-----BEGIN PRIVATE KEY-----{SECRET}"},
            ),
            "dg.EnvVar('GOOGLE_APPLICATION_CREDENTIALS')",
        ),
        (lambda: do.SparkEngine(config={"spark.authenticate.secret": SECRET}), "dg.EnvVar('AUTHENTICATE_SECRET')"),
        (lambda: do.SparkEngine(remote=REMOTE), "remote=dg.EnvVar('SPARK_REMOTE')"),
        (lambda: do.SparkEngine(config={"spark.jars.repositories": f"https://me:{SECRET}@host/m"}), "config={'spark.jars.rep"),
        (
            lambda: do.SparkEngine(config={"spark.hadoop.fs.s3a.secret.key": SECRET}),
            "config={'spark.hadoop.fs.s3a.secret.key': dg.EnvVar('HADOOP_FS_S3A_SECRET_KEY')}",
        ),
    ],
)
def test_a_secret_in_clear_is_refused_and_not_quoted(resource: Any, remedy: str) -> None:
    with pytest.raises(PipelineError, match="in clear, which Dagster shows to everybody") as caught:
        snapshot(dg.Definitions(resources={"reader": resource()}))
    assert remedy in caught.value.remedy
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "azure_federated_token_file", "aws_web_identity_token_file", "aws_container_authorization_token_file",
        "google_application_credentials", "aws_sse_kms_key_id", "aws_sse_bucket_key_enabled",
    ],
)  # fmt: skip
def test_where_a_secret_is_found_may_be_said_of_a_store(name: str) -> None:
    resource = do.PipelineResource(root=ROOT, storage_options={name: "/run/x"})
    assert "/run/x" in snapshot(dg.Definitions(resources={"reader": resource}))


@pytest.mark.parametrize(
    "name",
    [
        "spark.sql.codegen.maxTokenLength", "spark.authenticate.secretFile", "spark.authenticate.secretBitLength",
        "spark.kubernetes.authenticate.driver.oauthTokenFile", "spark.kubernetes.driver.secrets.certs",
        "spark.kubernetes.executor.secretKeyRef.KEY", "spark.hadoop.fs.azure.sas.token.provider.type",
    ],
)  # fmt: skip
def test_where_a_secret_is_found_may_be_said_of_spark(name: str) -> None:
    assert "/run/x" in snapshot(dg.Definitions(resources={"engine": do.SparkEngine(config={name: "/run/x"})}))


def test_an_engine_with_a_secret_is_refused_where_the_definitions_are_made() -> None:
    with pytest.raises(PipelineError, match="SparkEngine would hold remote in clear"):
        do.build_definitions(pipeline("data/p", engine=do.SparkEngine(remote=REMOTE)))


def test_no_secret_is_in_the_snapshot_of_a_code_location(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEY", "ADDRESS", "PLACE"):
        monkeypatch.setenv(name, {"KEY": SECRET, "ADDRESS": REMOTE, "PLACE": f"s3://key:{SECRET}@lake/p"}[name])
    reader = do.PipelineResource(
        root=dg.EnvVar("PLACE"), storage_options={"aws_secret_access_key": dg.EnvVar("KEY")}, engine=dg.EnvVar("ADDRESS")
    )
    engine = do.SparkEngine(remote=dg.EnvVar("ADDRESS"), config={"spark.hadoop.fs.s3a.secret.key": dg.EnvVar("KEY")})
    made = do.build_definitions(pipeline(ROOT, storage_options=OPTIONS, engine=engine), sensor=True)
    by_address = do.Pipeline("q", root=f"s3://key:{SECRET}@lake/q", engine=REMOTE)
    by_address.source("rows", do.FileSource("s3://lake/in", format="csv", schema="v long")).to_table("t")
    readers = dg.Definitions(resources={"reader": reader, "io": do.PipelineIOManager(source=reader)})
    told = snapshot(dg.Definitions.merge(made, do.build_definitions(by_address, sensor=True), readers))
    assert "KEY" in told  # its name is
    assert SECRET not in told


def test_an_engine_from_the_environment_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    engine = do.SparkEngine(remote=dg.EnvVar("SPARK_REMOTE"))
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert engine.name == "connect"  # definitions are loaded all the same
    with pytest.raises(EngineError, match="the environment variable SPARK_REMOTE is not set"):
        engine.session()
    monkeypatch.setenv("SPARK_REMOTE", "sail")
    made = pipeline(str(tmp_path / "p"), engine=engine)
    assert do.build_definitions(made).resolve_job_def("p_epoch").execute_in_process(instance=instance).success
    assert made.to_arrow("t").to_pylist() == [{"v": 1}]


def test_a_reader_with_secrets_from_the_environment_has_them_in_a_run(
    monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    monkeypatch.setenv("KEY", SECRET)
    seen: list[str] = []

    @dg.asset
    def report(reader: do.PipelineResource) -> None:
        seen.append(reader.storage_options["aws_secret_access_key"])

    reader = do.PipelineResource(root=ROOT, storage_options={"aws_secret_access_key": dg.EnvVar("KEY")})
    defs = dg.Definitions(assets=[report], resources={"reader": reader})
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    assert seen == [SECRET]
    assert not [entry for entry in map(serialize_value, instance.all_logs(result.run_id)) if SECRET in entry]
