"""An operator in Rust on the operator crate that dora publishes, built by cargo and run as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.message import other_event
from tests.api.events.test_guide import COMPLETE, TIMER_SOURCE, Running
from tests.engines import SAIL
from tests.operators.events.test_native_operator import SOURCES, Told

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FLOW = """
nodes:
  - id: rows
    source: {files: {path: FOLDER/in/*.json, format: json, schema: "t timestamp, s binary"}, event_time: t}
    outputs: {s: s}
  - id: tally
    operator: {shared-library: ./libtally.so, inputs: {s: rows/s}, outputs: [told]}
"""


def built(folder, crate="tally", **environment):
    """The library, built of the sources; cargo gets the crates from its registry."""
    cargo = shutil.which("cargo")
    if cargo is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs cargo, to build an operator in Rust")
    shutil.copytree(SOURCES / crate, folder / crate)
    variables = {"CARGO_TARGET_DIR": str(folder / "target"), **os.environ, **environment}
    command = [cargo, "build", "--lib", "--manifest-path", str(folder / crate / "Cargo.toml")]
    found = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if found.returncode and ("failed to download" in found.stderr or "Could not resolve host" in found.stderr):
        pytest.skip("needs the registry of cargo's crates")
    assert found.returncode == 0, found.stderr[-2000:]
    return shutil.copy(Path(variables["CARGO_TARGET_DIR"]) / "debug" / f"lib{crate}.so", folder / f"lib{crate}.so")


@pytest.fixture(scope="module")
def tally(tmp_path_factory):
    return built(tmp_path_factory.mktemp("rust"))


def test_it_is_told_of_events_sends_and_stops(tally):
    with Told(tally) as told:
        assert told.message(b"one") is DoraStatus.CONTINUE
        assert told.message(pa.array(list(b"xtwo"), pa.uint8()).slice(1)) is DoraStatus.CONTINUE
        assert told.message(b"stop") is DoraStatus.STOP
        told.event(other_event("INPUT_CLOSED", "in"))
        told.event(other_event("STOP", "ALL_INPUTS_CLOSED"))
    assert told.sent == [("told", text) for text in ("in one 1", "in two 2", "closed in 3", "stop 3")]


def test_it_is_told_again_what_it_was_told(tally):
    with Told(tally) as told:
        told.message(b"one")
        saved = told.operator.save()
    with Told(tally, saved) as again:
        again.message(b"two")
    assert again.sent == [("told", "in two 2")]


@pytest.mark.parametrize(("said", "told"), [(b"error", "no such thing"), (b"panic", "operator on_event panicked: what now")])
def test_an_error_and_a_panic_are_errors_with_its_node(tally, said, told):
    with Told(tally) as running, pytest.raises(OperatorFailedError, match=told) as caught:
        running.message(said)
    assert caught.value.where["node"] == "node"


def test_a_value_that_it_does_not_take_is_its_error(tally):
    with Told(tally) as told, pytest.raises(OperatorFailedError, match="dora_on_event returned the error"):
        told.message(pa.array([1.5]))


@pytest.mark.sail
def test_in_a_dataflow_it_goes_on_where_it_was(tally, tmp_path):
    shutil.copy(tally, tmp_path / "libtally.so")
    (tmp_path / "in").mkdir()
    (tmp_path / "dataflow.yml").write_text(FLOW.replace("FOLDER", str(tmp_path)))
    for epoch in range(2):
        lines = [f'{{"t": "2026-01-01T00:00:{epoch}{n}Z", "s": "AQ=="}}' for n in range(3)]
        (tmp_path / f"in/{epoch}.json").write_text("\n".join(lines))
        do.Pipeline.from_yaml(tmp_path / "dataflow.yml", root=str(tmp_path / "root"), engine=SAIL).run_epoch()
    pipeline = do.Pipeline.from_yaml(tmp_path / "dataflow.yml", root=str(tmp_path / "root"), engine=SAIL)
    told = [bytes(row.value) for row in pipeline.read("tally/told").collect()]
    assert told == [b"s \x01 %d" % number for number in range(1, 7)]


LOGGER = """
from dora import Node

for event in Node():
    if event["type"] == "INPUT":
        print(event["id"], event["value"][0].as_py())
"""


def test_the_guides_complete_dataflow(tmp_path, capfd):
    library = built(tmp_path, "counter_operator")
    (tmp_path / "target" / "release").mkdir(parents=True, exist_ok=True)
    shutil.copy(library, tmp_path / "target" / "release")
    running = Running(tmp_path, COMPLETE, {"timer-source.py": TIMER_SOURCE, "logger-sink.py": LOGGER})
    running.epoch(10, 13)
    running.epoch(14)
    assert running.messages("counter/count") == [[1], [2], [3], [4]]
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("count ")][:3] == ["count 1", "count 2", "count 3"]
