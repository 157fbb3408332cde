"""Modules of dataflow files: nodes of another file in the place of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_operators.api.events.dataflow_file import DataflowFile
from dagster_operators.errors import QueryError

ECHO = "from dora import Node\nnode = Node()\nfor event in node:\n    node.send_output('out', [1])\n"
FLOW = """
nodes:
  - id: tick
    path: echo.py
    inputs: {tick: dora/timer/secs/1}
    outputs: [out]
  - id: two
    module: parts/two.yml
    env: {RATE: 5, DEPTH: 1}
    params: {speed: "7"}
    inputs: {rows: tick/out}
  - id: last
    path: echo.py
    inputs: {best: {source: two/best, queue_size: 2}}
"""
TWO = """
module: {name: two, inputs: [rows], inputs_optional: [more], outputs: [best]}
nodes:
  - id: first
    path: own.py
    args: --speed ${_param.speed}
    env: {DEPTH: 2}
    inputs: {rows: _mod/rows, more: _mod/more}
    outputs: [all]
  - id: within
    module: deep/one.yml
    inputs: {rows: first/all}
  - id: both
    operators:
      - {id: a, python: ops.py, inputs: {x: within/some}, outputs: [best]}
      - {id: b, python: ops.py, inputs: {x: a/best, y: {source: _mod/rows, queue_size: 3}}, outputs: []}
"""
ONE = """
module: {name: one, inputs: [rows], outputs: [some]}
nodes:
  - {id: leaf, path: leaf.py, inputs: {rows: _mod/rows}, outputs: [some]}
"""
OPERATOR = "class Operator:\n    def on_event(self, event, send_output):\n        return DoraStatus.CONTINUE\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts" / "deep").mkdir(parents=True)
    texts = {"echo.py": ECHO, "parts/own.py": ECHO, "parts/ops.py": OPERATOR, "parts/deep/leaf.py": ECHO, "parts/two.yml": TWO}
    for name, text in {**texts, "parts/deep/one.yml": ONE}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def read(folder: Path, text: str = FLOW) -> DataflowFile:
    return DataflowFile(text, "flow.yml", folder, {})


def test_the_nodes_of_modules_are_nodes_under_their_own_names(folder: Path) -> None:
    found = {one.path: one for one in read(folder).operators}
    assert {path: (one.file, {each.id: each.source for each in one.inputs}) for path, one in found.items()} == {
        "tick": ("echo.py", {"tick": "dora/timer/secs/1"}),
        "two.first": ("parts/own.py", {"rows": "tick/out"}),
        "two.within.leaf": ("parts/deep/leaf.py", {"rows": "two.first/all"}),
        "two.both/a": ("parts/ops.py", {"x": "two.within.leaf/some"}),
        "two.both/b": ("parts/ops.py", {"x": "two.both/a/best", "y": "tick/out"}),
        "last": ("echo.py", {"best": "two.both/a/best"}),
    }
    first = found["two.first"]
    assert (dict(first.env), first.args) == ({"RATE": "5", "DEPTH": "2", "SPEED": "7"}, ("--speed", "7"))
    assert dict(found["two.both/a"].env) == {"RATE": "5", "DEPTH": "1", "SPEED": "7"}
    assert [one.queue_size for one in (*found["two.both/b"].inputs, *found["last"].inputs)] == [None, 3, 2]


WRONG = {
    "input": ("inputs: {rows: tick/out}", "inputs: {row: tick/out}", [
        "the module 'two': its input 'rows' reads nothing", "the module 'two' has no input 'row'"]),
    "output": ("source: two/best", "source: two/worst", ["the module 'two' has no output 'worst'"]),
    "file": ("parts/two.yml", "parts/three.yml", ["the module 'two': the file 'parts/three.yml' is not there"]),
    "out": ("parts/two.yml", "../two.yml", ["the module 'two': the file '../two.yml' leads out of the dataflow's folder"]),
    "key": ("params:", "param:", ["the module 'two' has no key 'param'"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_error_names_the_module(folder: Path, name: str) -> None:
    old, new, wanted = WRONG[name]
    with pytest.raises(QueryError) as caught:
        read(folder, FLOW.replace(old, new))
    assert [one.problem for one in caught.value.where["errors"]] == wanted
    assert {one.where["file"] for one in caught.value.where["errors"]} == {"flow.yml"}


INNER = {
    "typo": (("outputs: [all]", "output: [all]"), 9, "has no key 'output'"),
    "not there": (("path: own.py", "path: my.py"), 5, "the file 'parts/my.py' is not there"),
    "nothing": (("x: within/some", "x: within/none"), 15, "the module 'within' has no output 'none'"),
    "twice": (("outputs: []", "outputs: [best]"), 2, "nodes within send it: two.both/a/best, two.both/b/best"),
    "itself": (("deep/one.yml", "two.yml"), 11, "is a module within itself"),
    "no yaml": (("nodes:", "nodes: {"), 4, "this is no YAML"),
}


@pytest.mark.parametrize("name", INNER)
def test_an_error_within_a_module_is_at_its_place_in_the_modules_file(folder: Path, name: str) -> None:
    (old, new), line, problem = INNER[name]
    (folder / "parts" / "two.yml").write_text(TWO.replace(old, new, 1))
    with pytest.raises(QueryError) as caught:
        read(folder)
    told = [(one.where["file"], one.where["line"], one.problem) for one in caught.value.where["errors"]]
    ((at, number, text),) = told
    assert (at, number) == ("parts/two.yml", line)
    assert problem in text


def test_a_module_alone_is_no_dataflow(folder: Path) -> None:
    with pytest.raises(QueryError, match="the file is a module, whose nodes run in a dataflow"):
        read(folder, TWO)


def test_keys_beside_git_are_no_further_errors(folder: Path) -> None:
    with pytest.raises(QueryError) as caught:
        read(folder, FLOW.replace("path: echo.py", "git: https://example.org/a\n    rev: abc\n    path: echo.py", 1))
    assert [one.problem for one in caught.value.where["errors"]] == ["the node 'tick': nothing is downloaded here"]
    with pytest.raises(QueryError, match="did you mean 'env'\\?"):
        read(folder, FLOW.replace("path: echo.py", "rev: abc\n    path: echo.py", 1))
