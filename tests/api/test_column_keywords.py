"""The keyword ``name`` is the operator's: where it may be meant for a column of that name, it is refused with both ways out."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorsError, PipelineError

SCHEMA = "name string, v long, t timestamp"
CLASSES = (do.Stream, do.KeyedStream, do.WindowedStream)
FIRST: dict[str, tuple[Any, ...]] = {"pivot": ("v", [1, 2]), "over": ("v",)}
"""What comes before the columns."""
CALLS = {"with_columns": "upper(name)", "rename": "a label", "over": "lag(name)"}
"""What stands for a column; of others an aggregate."""


def rows(schema: str = SCHEMA) -> do.Stream:
    return do.Pipeline("p", root="nowhere").source("rows", do.MemorySource([], schema=schema), event_time="t")


def taking_columns() -> list[tuple[type, str]]:
    """The public methods that take columns as keywords."""
    found = []
    for owner in CLASSES:
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            parameters = inspect.signature(method).parameters.values()
            rest = [one for one in parameters if one.kind is one.VAR_KEYWORD and one.annotation in ("str", str)]
            if rest and not name.startswith("_") and "name" in {one.name for one in parameters}:
                found.append((owner, name))
    return found


METHODS = taking_columns()


def receiver(owner: type) -> Any:
    keyed = rows().key_by("name")
    return {do.Stream: rows(), do.KeyedStream: keyed, do.WindowedStream: keyed.window(do.Tumbling("1 hour"))}[owner]


def refused(call: Callable[[], Any]) -> PipelineError:
    with pytest.raises(PipelineError) as told:
        call()
    return told.value


def mappings(error: OperatorsError) -> list[dict[str, str]]:
    """The columns that a remedy writes as a mapping."""
    return [ast.literal_eval(text) for text in re.findall(r"\{[^{}]*\}", error.remedy or "")]


def test_there_are_some() -> None:
    assert {name for _, name in METHODS} == {"aggregate", "over", "pivot", "rename", "with_columns"}
    assert len(METHODS) == 8


@pytest.mark.parametrize(("owner", "method"), METHODS, ids=[f"{owner.__name__}.{name}" for owner, name in METHODS])
def test_what_is_no_name_is_meant_for_the_column(owner: type, method: str) -> None:
    stream, first, text = receiver(owner), FIRST.get(method, ()), CALLS.get(method, "max(v)")
    error = refused(lambda: getattr(stream, method)(*first, name=text))
    (columns,) = mappings(error)
    assert columns == {"name": text}
    if method == "over":
        columns = {"before": columns["name"]}  # the key has the name already
    elif owner is not do.Stream and method == "aggregate":
        columns = {"most": columns["name"]}
    assert getattr(stream, method)(*first, columns).columns


@pytest.mark.parametrize(
    ("method", "given"), [("with_columns", {"name": "nick", "x": "1"}), ("rename", {"name": "label", "nick": "short"})]
)
def test_what_may_be_either_is_refused_and_both_are_written_as_mappings(method: str, given: dict[str, str]) -> None:
    stream = rows("name string, nick string, t timestamp")
    columns, others = mappings(refused(lambda: getattr(stream, method)(**given)))
    assert columns == given
    assert others == {column: text for column, text in given.items() if column != "name"}
    assert "name" in (after := getattr(stream, method)(columns).columns) or "label" in after
    assert getattr(stream, method)(others, name=given["name"]).name == given["name"]


def test_names_that_are_no_columns_stay_those_of_operators() -> None:
    stream = rows("label string, t timestamp")
    assert stream.with_columns(name="with_x", x="1").name == "with_x"
    assert stream.rename(name="renamed", label="l").name == "renamed"
    assert stream.key_by("label").aggregate(name="label", n="count(*)").name == "label"


def test_a_query_in_yaml_says_so_too() -> None:
    text = """
      pipeline: p
      sources: {rows: {memory: {batches: [], schema: "name string, nick string"}}}
      tables: {t: {from: rows, steps: [with_columns: {name: nick, x: "1"}]}}
    """
    with pytest.raises(OperatorsError, match=r"in YAML as 'expressions'"):
        do.Pipeline.from_query_text(text, root="nowhere")
    made = do.Pipeline.from_query_text(
        text.replace('{name: nick, x: "1"}', '{expressions: {name: nick, x: "1"}}'), root="nowhere"
    )
    assert made.stream("with_columns").columns == ("name", "nick", "x")
