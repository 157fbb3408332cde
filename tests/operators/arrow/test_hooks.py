"""A hook that nobody calls, a setting that is a method, and a watermark of the operator's own are told, not passed over."""

from __future__ import annotations

from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.testing import OperatorHarness


class Same(do.ArrowOperator):
    def output_schema(self, rows: Any) -> Any:
        return rows

    def process_batch(self, batch: Any, ctx: Any, out: Any) -> None:
        out.collect(batch)


class Numbers(do.SourceOperator):
    def output_schema(self) -> str:
        return "v long"

    def run(self, ctx: Any, out: Any) -> Any:
        return "final"


def method(self: Any, *arguments: Any) -> Any:
    """A hook of Arroyo's, as it would be translated."""


OF_OPERATORS = {
    "name": "write name = ...",
    "tick_interval": "write tick_interval = ...",
    "is_committing": "write is_committing = ...",
    "tables": "state = {",
    "handle_watermark_int": "handle_watermark(self, watermark, ctx, out)",
    "future_to_poll": "handle_tick",
    "handle_future_result": "handle_tick",
    "procces_batch": "process_batch",
    "handle_timers": "handle_timer",
    "start_checkpoint": "handle_checkpoint",
}
OF_SOURCES = {
    "name": "pipeline.source('name', operator)",
    "tables": "ctx.position",
    "on_start": "run(self, ctx, out)",
    "on_close": "run(self, ctx, out)",
    "start_checkpoint": "ctx.position",
    "has_new": "has_news",
}


@pytest.mark.parametrize(("hook", "way"), OF_OPERATORS.items())
def test_a_hook_of_an_operator_that_nobody_would_call(hook: str, way: str) -> None:
    operator = type("Translated", (Same,), {hook: method})()
    rows = do.Pipeline("p", root="nowhere").source("rows", do.FileSource("in", schema="v long"))
    for put in (lambda: rows.apply(operator), lambda: OperatorHarness(operator, "v long")):
        with pytest.raises(PipelineError, match=f"'{hook}' of Translated") as caught:
            put()
        assert way in str(caught.value.remedy)


@pytest.mark.parametrize(("hook", "way"), OF_SOURCES.items())
def test_a_hook_of_a_source_that_nobody_would_call(hook: str, way: str) -> None:
    source = type("Translated", (Numbers,), {hook: method})()
    with pytest.raises(PipelineError, match=f"nobody calls '{hook}' of Translated") as caught:
        do.Pipeline("p", root="nowhere").source("rows", source)
    assert way in str(caught.value.remedy)


def test_the_parameters_of_a_hook() -> None:
    class Translated(Same):
        def process_batch_index(self, index: Any, in_partitions: Any, batch: Any, ctx: Any, out: Any) -> None: ...  # type: ignore[override]

    with pytest.raises(PipelineError, match="process_batch_index of Translated has the parameters") as caught:
        OperatorHarness(Translated(), "v long", "v long")
    assert caught.value.remedy == "write def process_batch_index(self, index, batch, ctx, out)"


def test_a_helper_of_such_a_name_that_the_class_calls_itself() -> None:
    class Helped(Same):
        def tables(self) -> list[str]:
            return ["a"]

        def process_batch(self, batch: Any, ctx: Any, out: Any, *_: Any) -> None:
            out.collect(next(batch for _ in self.tables()))

    with OperatorHarness(Helped(), "v long") as harness:
        assert harness.run_epoch([{"v": 1}]) == [{"v": 1}]


@pytest.mark.parametrize(("answer", "told"), [(3_000_001, "later than the input's watermark 3000000"), ("soon", "no watermark")])
def test_a_watermark_that_is_none_or_too_late(answer: Any, told: str) -> None:
    class Ahead(Same):
        def handle_watermark(self, watermark: int, ctx: Any, out: Any) -> Any:
            return answer

    with OperatorHarness(Ahead(), "v long", name="ahead") as harness, pytest.raises(PipelineError, match=told) as caught:
        harness.advance(3_000_000)
    assert caught.value.where["operator"] == "ahead"


def test_display_as_text() -> None:
    class Shown(Same):
        def display(self) -> str:
            return "all rows"

    class Wrong(Same):
        def display(self) -> Any:
            return 3

    rows = do.Pipeline("p", root="nowhere").source("rows", do.FileSource("in", schema="v long"))
    pipeline_of = rows.apply(Shown())._dataflow
    assert pipeline_of.nodes["shown"].operator.config()["config"] == {"display": "all rows"}
    rows.apply(Wrong())
    with pytest.raises(PipelineError, match="an operator returned int"):
        pipeline_of.nodes["wrong"].operator.config()


def test_a_registry_takes_constructors_by_add_and_names_as_text_alone() -> None:
    class Constructed(do.OperatorConstructor):
        name = "same"
        schema = {"n": do.Setting(int, 1)}

        def with_config(self, config: Any, registry: do.Registry) -> do.ArrowOperator:
            return Same()

    registry = do.Registry()
    registry.add(Constructed())
    assert isinstance(registry.create("same", {"n": 2}), Same)
    with pytest.raises(PipelineError, match="the name of Named is no text"):
        registry.add(type("Named", (Same,), {"name": method}))
