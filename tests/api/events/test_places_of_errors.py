"""Errors of a dataflow's file are told where they begin, and nothing is told that only follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dagster_operators as do
from dagster_operators.errors import QueryError

if TYPE_CHECKING:
    from pathlib import Path

FLOW = """nodes:
  - id: first
    operator:
      python: count.py
      env: {A: "1", B: '2'}
      inputs: {tick: dora/timer/secs/1}
      outputs: [n]
  - id: second
    operator:
      python: count.py
      inputs: {n: first/n, b: "first/n"}
      outputs: [n]
  - id: third
    operator: {python: count.py, inputs: {n: second/n}}
"""
OPERATOR = "class Operator:\n    def on_event(self, event, send_output): ...\n"
TEXTS = {
    "quote open to the end": (
        "python: count.py\n      env: {A: \"1\", B: '2'}",
        "python: 'count.py\n",
        ["4:15: this is no YAML: a quote is not"],
    ),
    "quote open to the next": ('A: "1"', 'A: "1', ["5:16: this is no YAML: a quote is not closed where"]),
    "bracket": ("outputs: [n]\n  - id: second", "outputs: [n\n  - id: second", ["7:16: this is no YAML"]),
    "merge": ("      outputs: [n]\n  - id: second", "      <<: *one\n  - id: second", ["7:7: the key '<<'"]),
    "misspelt outputs": (
        "outputs: [n]\n  - id: second",
        "outputz: [n]\n  - id: second",
        ["7:7: the operator 'first' has no key 'outputz'"],
    ),
    "outputs that are no list": (
        "outputs: [n]\n  - id: second",
        "outputs: n\n  - id: second",
        ["7:16: outputs of the operator 'first' are"],
    ),
    "no kind": (
        "operator:\n      python: count.py\n      env",
        "operatr:\n      python: count.py\n      env",
        ["2:5: the node 'first': says nothing"],
    ),
    "no mapping": (
        "operator: {python: count.py, inputs: {n: second/n}}",
        "operator: count.py",
        ["14:15: the operator of 'third' is no mapping of keys to values"],
    ),
}


def told(folder: Path, text: str) -> list[str]:
    (folder / "count.py").write_text(OPERATOR)
    (folder / "flow.yml").write_text(text)
    with pytest.raises(QueryError) as caught:
        do.Pipeline.from_yaml(folder / "flow.yml", root="nowhere")
    return [line.partition("flow.yml:")[2] for line in str(caught.value).splitlines()[1:]]


@pytest.mark.parametrize("name", TEXTS)
def test_an_error_is_told_once_and_where_it_begins(name: str, tmp_path: Path) -> None:
    old, new, wanted = TEXTS[name]
    assert old in FLOW
    text = FLOW.replace(old, new, 1)
    found = told(tmp_path, text.replace("env: {", "env: &one {") if name == "merge" else text)
    assert [line[: len(start)] for line, start in zip(found, wanted, strict=True)] == wanted


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        ("class Operator:\n    def on_events(self, event, send_output): ...", True),
        ("class Operator(object):\n    pass", True),
        ("class Operator(Base):\n    pass", False),
        ("class Operator:\n    on_event = print", False),
        ("from base import Operator", False),
    ],
)
def test_an_operator_needs_on_event(body: str, *, lacks: bool, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(body + "\n")
    text = FLOW.replace("count.py, inputs", "wrong.py, inputs")
    if lacks:
        (only,) = told(tmp_path, text)
        assert only.startswith("14:24: the operator 'third': the class Operator in 'wrong.py' has no method on_event")
    else:
        (tmp_path / "count.py").write_text(OPERATOR)
        (tmp_path / "flow.yml").write_text(text)
        assert "third" in do.Pipeline.from_yaml(tmp_path / "flow.yml", root="nowhere").explain()
