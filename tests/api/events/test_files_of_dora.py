"""Settings of dora's files beyond a file beside them: build and installed commands, native programs, circles."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.api.events.building import build_all
from dagster_operators.api.events.dataflow_file import DataflowFile
from dagster_operators.cli.main import main
from dagster_operators.errors import PipelineError, QueryError
from dagster_operators.operators.events.event_loop import EventLoop
from dagster_operators.operators.events.message import Message
from tests.engines import SAIL

if TYPE_CHECKING:
    from pathlib import Path

ECHO = """import sys

from dora import Node

from .name import OUTPUT


def main():
    node = Node()
    for event in node:
        if event["type"] == "INPUT":
            node.send_output(OUTPUT, event["value"])


if __name__ == "__main__":
    main()
"""
COUNTDOWN = """from dora import DoraStatus
import pyarrow as pa


class Operator:
    def on_event(self, event, send_output):
        if event["type"] == "INPUT" and event["value"][0].as_py() > 0:
            send_output("n", pa.array([event["value"][0].as_py() - 1]))
        return DoraStatus.CONTINUE
"""
SCRIPTS = "[console_scripts]\ndora-echo-of-a-test = echo_of_a_test.main:main\n"
FLOW = """nodes:
  - id: numbers
    source: numbers
    outputs: {n: v}
  - id: echo
    build: |
      python -c "import pathlib; pathlib.Path('built').write_text('yes')"
    path: dora-echo-of-a-test
    inputs: {n: numbers/n}
    outputs: [echoed]
  - id: down
    operator: {python: countdown.py, inputs: {n: echo/echoed, again: down/n}, outputs: [n]}
"""


def sources(rows: list[list[dict[str, Any]]]) -> do.Sources:
    made = do.Sources()
    made.add("numbers", do.MemorySource(rows, schema="t timestamp, v long"), event_time="t")
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataflow, and an environment where the node that it names is installed."""
    site = tmp_path / "site"
    for path, text in {
        site / "echo_of_a_test" / "__init__.py": "",
        site / "echo_of_a_test" / "main.py": ECHO,
        site / "echo_of_a_test" / "name.py": "OUTPUT = 'echoed'",
        site / "echo_of_a_test-1.dist-info" / "METADATA": "Metadata-Version: 2.1\nName: echo_of_a_test\nVersion: 1\n",
        site / "echo_of_a_test-1.dist-info" / "entry_points.txt": SCRIPTS,
        tmp_path / "countdown.py": COUNTDOWN,
        tmp_path / "flow.yml": FLOW,
    }.items():  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(site)
    return tmp_path


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_an_installed_node_and_a_circle_run_until_nothing_is_sent(folder: Path) -> None:
    rows = [{"t": "2024-01-01T00:00:00", "v": 3}]
    pipeline = do.Pipeline.from_yaml(folder / "flow.yml", root=str(folder / "root"), sources=sources([rows]), engine=SAIL)
    pipeline.run_until_caught_up()
    sent = [row.value[0] for row in pipeline.read("down/n").orderBy("seq").collect()]
    assert sent == [2, 1, 0]
    assert not (folder / "built").exists()


def test_a_circle_that_does_not_come_to_rest_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster_operators.errors import EndlessLoopError
    from dagster_operators.operators.events import event_loop

    monkeypatch.setattr(event_loop, "_MOST_MESSAGES", 50)
    operators = DataflowFile(FLOW, "flow.yml", folder, sources([])).operators[1:]

    class Again:
        def on_event(self, event: Any, send: Any) -> Any:
            send("n", event["value"])

    import pyarrow as pa

    loop = EventLoop(operators, {"down": Again()}, lambda *_: None, {})
    with pytest.raises(EndlessLoopError, match="led to more than 50 messages"):
        loop.deliver("echo/echoed", Message(0, pa.array([1])))


def test_check_remarks_on_what_is_built_and_build_runs_it(folder: Path) -> None:
    remarks = DataflowFile(FLOW, "flow.yml", folder, sources([])).remarks
    assert [remark.partition(": ")[0] for remark in remarks] == ["flow.yml:6:12", "flow.yml:12:70"]
    assert "the node 'echo' is built by dagster-operators run --build alone" in remarks[0]
    build_all(folder / "flow.yml")
    assert (folder / "built").read_text() == "yes"
    (folder / "flow.yml").write_text(FLOW.replace("python -c", "python -c 'import sys; sys.exit(3)' #"))
    with pytest.raises(PipelineError, match="ended with the exit code 3"):
        build_all(folder / "flow.yml")


def test_what_is_built_in_place_is_found_by_this_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages, source = folder / "packages", folder / "site"
    packages.mkdir()
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(source)])
    monkeypatch.setattr("site.getsitepackages", lambda: [str(packages)])
    write = f"python -c \"import pathlib; pathlib.Path('packages/echo.pth').write_text({str(source)!r})\""
    text = FLOW.replace("python -c", f"{write} #")
    (folder / "flow.yml").write_text(text)
    with pytest.raises(QueryError, match="'dora-echo-of-a-test'"):
        DataflowFile(text, "flow.yml", folder, sources([]))
    build_all(folder / "flow.yml")
    assert DataflowFile(text, "flow.yml", folder, sources([])).operators[0].file == "installed/dora-echo-of-a-test/__main__.py"


@pytest.mark.parametrize(
    ("path", "build", "wanted"),
    [
        ("../target/debug/rust-node", "cargo build -p rust-node", "native program '../target/debug/rust-node'"),
        ("dora-missing", "pip install dora-missing", "command 'dora-missing', which is not installed"),
        ("dynamic", "", "is 'dynamic', which only dora's daemon has"),
        ("https://example.org/node", "", "is a URL"),
    ],
)
def test_what_no_file_and_no_installed_command_is_has_its_name(path: str, build: str, wanted: str, folder: Path) -> None:
    text = FLOW.replace("dora-echo-of-a-test", path).replace("python -c", f"{build}\n      python -c" if build else "python -c")
    (folder / "flow.yml").write_text(text)
    with pytest.raises(QueryError) as caught:
        do.Pipeline.from_yaml(folder / "flow.yml", root="nowhere", sources=sources([]))
    (only,) = caught.value.where["errors"]
    assert wanted in only.problem
    assert only.where["line"] == (9 if build else 8)
    assert build in only.remedy or "cargo" in build


def test_check_as_json_has_the_remarks(folder: Path) -> None:
    text = FLOW.replace("    source: numbers", "    source: {files: {path: in, schema: 't timestamp, v long'}, event_time: t}")
    (folder / "flow.yml").write_text(text)
    done = CliRunner().invoke(main, ["check", str(folder / "flow.yml"), "--json"], catch_exceptions=False)
    answer = json.loads(done.output)
    assert (answer["right"], len(answer["notes"]), sys.executable in done.output) == (True, 2, False)


def test_a_command_that_its_build_installs_may_be_missing_in_check_alone(folder: Path) -> None:
    own = "source: {files: {path: in, schema: 't timestamp, v long'}, event_time: t}"
    text = FLOW.replace("source: numbers", own).replace("dora-echo-of-a-test", "dora-missing")
    text = text.replace("python -c", "pip install dora-missing\n      python -c")
    (folder / "flow.yml").write_text(text)
    for command in ("check", "graph"):
        assert CliRunner().invoke(main, [command, str(folder / "flow.yml")]).exit_code == 0
    notes = CliRunner().invoke(main, ["check", str(folder / "flow.yml")]).output
    assert "its path is the command 'dora-missing', which is not installed" in notes
    assert "built by dagster-operators run --build alone: pip install dora-missing" in notes
    refused = CliRunner().invoke(main, ["run", str(folder / "flow.yml"), "--root", str(folder / "root")])
    assert (refused.exit_code == 0, (folder / "root").exists()) == (False, False)
    assert "run with --build: dagster-operators run FILE --build" in refused.output + refused.stderr


def test_scripts_that_read_each_other_alone_are_live_and_operators_that_nothing_comes_to_are_remarked_on(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from dora import Node\nfor event in Node():\n    pass\n")
    (tmp_path / "b.py").write_text(COUNTDOWN)
    first, second = ("path: a.py, inputs: {n: b/n}, outputs: [n]", "path: a.py, inputs: {n: a/n}, outputs: [n]")
    circle = f"nodes:\n  - {{id: a, {first}}}\n  - {{id: b, {second}}}\n"
    circle += "  - {id: c, operator: {python: b.py, inputs: {n: b/n}, outputs: []}}\n"
    read = DataflowFile(circle, "flow.yml", tmp_path, {})
    assert {one.path: one.state for one in read.operators} == {"a": "live", "b": "live", "c": "plain"}
    timed = DataflowFile(
        circle.replace("{n: b/n}, outputs: [n]", "{n: b/n, t: dora/timer/secs/1}, outputs: [n]"), "", tmp_path, {}
    )
    assert [one.state for one in timed.operators] == ["replay", "replay", "plain"]
    kept = DataflowFile(circle.replace("path: a.py,", "path: a.py, state: replay,"), "flow.yml", tmp_path, {})
    told = [text for text in kept.remarks if "is told of nothing: what it reads comes of no source" in text]
    assert [text.split("'")[1] for text in told] == ["a", "b", "c"]
