"""From a plan to a pipeline: the user's code is imported then and not before, and secrets have to be given again."""

from __future__ import annotations

import importlib
import linecache
import shutil
import sys
import textwrap

import pytest

import dagster_operators as do
from dagster_operators.errors import PlanError, SchemaError
from dagster_operators.graph.user_functions import forget
from dagster_operators.planner.stages import cut_stages

THEIRS = """
    import dagster_operators as do

    @do.udf("long")
    def their_double(v):
        return {body}

    def keep(frame):
        return frame

    class Pass(do.ArrowOperator):
        def __init__(self, factor, lock=None):
            self.factor, self.lock = factor, lock

        def output_schema(self, schema):
            return schema

    class Numbers(do.SourceOperator):
        def __init__(self, url, password):
            self.url, self.password = url, password

        def output_schema(self):
            return "v long"

        def run(self, ctx, out):
            return "final"

    class Discard(do.Sink):
        def __init__(self, token):
            self.token = token

        write = prepare = commit = abort = recover = None
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Writes the module of a user's own, and gives it imported afresh."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(body="v"):
        forgotten()
        (tmp_path / "their_pipeline.py").write_text(textwrap.dedent(THEIRS.format(body=body)))
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        linecache.checkcache()
        importlib.invalidate_caches()
        return importlib.import_module("their_pipeline")

    yield write
    forgotten()


def forgotten():
    sys.modules.pop("their_pipeline", None)
    forget("their_double")


def flow(module):
    secret = "hunter2"  # noqa: S105
    pipeline = do.Pipeline("p", root="unused", storage_options={"aws_secret_access_key": secret})
    rows = pipeline.source("rows", do.FileSource("s3://in", schema="k string, v long", storage_options={"secret": secret}))
    numbers = pipeline.source("numbers", module.Numbers("tcp://host", secret))
    kept = rows.filter("their_double(v) > 1").transform(module.keep, columns=["k", "v"]).key_by("k").apply(module.Pass(2))
    kept.to_table("kept", checks={"known": "their_double(v) > 2"})
    numbers.to_sink(do.PostgresSink(f"postgresql://me:{secret}@host/db", "t"), name="warehouse")
    rows.to_sink(do.PostgresSink("env:WAREHOUSE", "u"), name="other")
    rows.to_sink(module.Discard(secret), name="nowhere")
    return pipeline


SECRETS = {
    "numbers": {"password": "other"},
    "warehouse": {"dsn": "postgresql://me:other@host/db"},
    "nowhere": {"token": "other"},
}


def again(data, **more):
    return do.Pipeline.from_plan(data, root="unused", **{"storage_options": {"secret": "other"}, "secrets": SECRETS, **more})


def test_no_secret_is_in_a_plan(theirs):
    assert b"hunter2" not in flow(theirs()).to_plan()


def test_secrets_that_are_not_given_again_are_asked_for(theirs):
    data = flow(theirs()).to_plan()
    with pytest.raises(PlanError, match="'storage_options' of 'rows' is left out") as caught:
        again(data, storage_options=None)
    assert "from_plan with storage_options={'option': 'the secret'} or secrets={'rows'" in caught.value.remedy
    for name, given in SECRETS.items():
        secret = next(iter(given))
        with pytest.raises(PlanError, match=f"'{secret}' of '{name}' is left out") as caught:
            again(data, secrets={other: value for other, value in SECRETS.items() if other != name})
        assert caught.value.remedy == f"give it again: from_plan with secrets={{'{name}': {{'{secret}': 'the secret'}}}}"
    with pytest.raises(PlanError, match="secrets are given for 'nobody'"):
        again(data, secrets={**SECRETS, "nobody": {}})


def test_reading_showing_and_writing_a_plan_imports_nothing(theirs):
    data = flow(theirs()).to_plan()
    forgotten()
    pipeline = again(data)
    assert pipeline.to_plan() == data
    assert [node.operator.explain(details=True) for node in pipeline.logical_plan().nodes]
    assert (pipeline.name, "their_pipeline" in sys.modules) == ("p", False)


def test_the_pipeline_of_a_plan_has_the_code_and_the_secrets(theirs):
    data = flow(theirs()).to_plan()
    forgotten()
    pipeline = again(data)
    nodes, sinks = pipeline.dataflow.nodes, pipeline.dataflow.sinks
    module = sys.modules["their_pipeline"]
    assert nodes["rows"].operator.connector.storage_options == {"secret": "other"}
    source = nodes["numbers"].operator.connector
    assert (source.operator.url, source.operator.password, source.root) == ("tcp://host", "other", "unused")
    assert isinstance(nodes["pass"].operator.arrow, module.Pass)
    assert (sinks["warehouse"].sink._dsn, sinks["other"].sink._dsn) == ("postgresql://me:other@host/db", "env:WAREHOUSE")
    assert vars(sinks["nowhere"].sink) == {"token": "other"}
    assert [s.fingerprint for s in cut_stages(pipeline.dataflow)] == [s.fingerprint for s in cut_stages(flow(module).dataflow)]
    assert pipeline.to_plan() == data


def test_a_function_that_changed_is_named(theirs):
    data = flow(theirs()).to_plan()
    theirs("v + 1")
    forgotten()
    with pytest.raises(PlanError, match=r"function 'their_double' of their_pipeline.* is not what it was") as caught:
        again(data).dataflow  # noqa: B018
    assert caught.value.pipeline == "p"


def test_code_that_is_not_installed_is_named(theirs, tmp_path):
    data = flow(theirs()).to_plan()
    forgotten()
    (tmp_path / "their_pipeline.py").unlink()
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    importlib.invalidate_caches()
    with pytest.raises(PlanError, match="'their_double' cannot be imported from 'their_pipeline'") as caught:
        again(data).dataflow  # noqa: B018
    assert "install what has the module" in caught.value.remedy


def test_a_function_without_a_module_must_be_declared_again():
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.FileSource("in", schema="v long"))

    def declare():
        return do.udf("long", name="declared_here")(lambda v: v)

    try:
        declare()
        rows.filter("declared_here(v) > 1").to_table("out")
        data = pipeline.to_plan()
        forget("declared_here")
        read = do.Pipeline.from_plan(data, root="unused")
        with pytest.raises(PlanError, match="'declared_here', which expressions call, is not known"):
            read.dataflow  # noqa: B018
        declare()
        assert list(read.dataflow.nodes) == ["rows", "filter"]
    finally:
        forget("declared_here")


def test_a_setting_that_no_plan_can_hold_is_refused_when_the_plan_is_written(theirs):
    import threading

    module = theirs()
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.FileSource("in", schema="v long"))
    rows.apply(module.Pass(1, lock=threading.Lock()), name="locked")
    with pytest.raises(PlanError, match=r"the setting 'lock' is, or has in it, a _thread\.lock") as caught:
        pipeline.to_plan()
    assert (caught.value.operator, caught.value.attribute) == ("locked", "lock")


def test_what_no_longer_fits_is_told_where_it_is(theirs):
    pipeline = do.Pipeline("p", root="unused")
    pipeline.source("rows", do.FileSource("in", schema="k string, v long")).filter("v > 1").to_table("out")
    data = pipeline.to_plan().replace(b"k string, v long", b"k string, w long")
    with pytest.raises(SchemaError, match="uses column 'v'") as caught:
        do.Pipeline.from_plan(data, root="unused").dataflow  # noqa: B018
    assert (caught.value.pipeline, caught.value.operator) == ("p", "filter")


def test_rows_in_memory_are_in_a_plan_unless_they_are_left_out():
    def flow_of(rows):
        pipeline = do.Pipeline("p", root="unused")
        pipeline.source("rows", do.MemorySource(rows, schema="v long")).to_table("out")
        return pipeline

    plans = [flow_of([[{"v": number}]]).logical_plan() for number in (1, 2)]
    assert plans[0] != plans[1]
    assert plans[0].without_rows() == plans[1].without_rows()
    again = do.Pipeline.from_plan(flow_of([[{"v": 7}]]).to_plan(), root="unused")
    assert again.dataflow.nodes["rows"].operator.connector.batches == [[{"v": 7}]]
