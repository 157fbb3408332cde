"""Every public callable, found by reflection, tells a misspelt name and an impossible value by its own name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.api.loop import Loop
from dagster_operators.api.queries.methods import method_of
from dagster_operators.errors import OperatorsError, PipelineError
from tests.api.queries.test_every_method import CALLS, LOOPED, started

CLASSES = {
    "Loop": Loop,
    **{name: getattr(do, name) for name in ("KeyedStream", "Pipeline", "StoredPipeline", "Stream", "WindowedStream")},
}
"""Those whose methods users call."""

FRONTIER = {
    name: getattr(do.frontier, name)
    for name in ("LoopHandle", "OperatorBuilder", "ProbeHandle", "ResultStream", "Scope", "ScopedStream")
}
"""Those of ``do.frontier`` that pipelines are built with."""

NOT_OURS = {"PipelineComponent", "PipelineIOManager", "PipelineResource", "SparkEngine"}
"""Dagster's own kinds of classes, which Dagster checks."""

DERIVED = {
    "ArrowOperator", "Collector", "CustomUnaryOperation", "DataSet", "EpochResult", "KeyedStream", "OperatorConstructor",
    "OperatorContext", "PipelineTranslator", "Query", "Registry", "RichFunction", "RuntimeContext", "Sink", "SinkAttempt",
    "SinkRows", "Snapshot", "SourceOperator", "Sources", "Stream", "Window", "WindowedStream", "registry",
}  # fmt: skip
"""Derived from, handed to the user's code or given back, not made by a user's call with settings."""


def public() -> Iterator[tuple[str, Callable[..., Any], int]]:
    """Each callable that users give arguments: its name, itself, and whether it has a receiver."""
    for name in do.__all__:
        if name not in DERIVED | NOT_OURS | {"data_sets", "frontier"}:
            yield name, getattr(do, name), 0
    for name in (*FRONTIER, "CapabilityState", "StashState", "ValueState"):
        yield name, getattr(do.frontier, name), 0
    for owner, made in {**CLASSES, **FRONTIER}.items():
        for name in dir(made):
            if not name.startswith("_") and inspect.isfunction(inspect.getattr_static(made, name)):
                yield f"{owner}.{name}", getattr(made, name), 1
    for name in dir(do.frontier):
        function = getattr(do.frontier, name)
        if inspect.isfunction(function) and function.__module__.startswith("dagster_operators.api.frontier"):
            yield function.__name__, function, 0


PUBLIC = list(public())


def keywords_of(function: Callable[..., Any]) -> list[str]:
    """The parameters that a misspelt name could have been meant for; none where any name is taken."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return []
    named = [one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD) and one.name != "self"]
    return [name for name in named if len(name) > 3]


def test_there_are_many() -> None:
    assert len(PUBLIC) > 120
    assert sum(len(keywords_of(function)) for _, function, _ in PUBLIC) > 250


@pytest.mark.parametrize(("shown", "function", "method"), PUBLIC, ids=[shown for shown, _, _ in PUBLIC])
def test_a_misspelt_name_is_answered_with_the_right_one(shown: str, function: Callable[..., Any], method: int) -> None:
    names = inspect.signature(function).parameters
    for name in keywords_of(function):
        for misspelt in (name[:-2] + name[-1] + name[-2], name + "s", name.replace("_", "") if "_" in name else name[1:]):
            if misspelt in names:
                continue
            with pytest.raises(TypeError) as caught:
                function(*[object()] * method, **{misspelt: None})
            told = str(caught.value)
            assert told.startswith(f"{shown}(): got an unexpected keyword argument {misspelt!r}; did you mean "), told
            close = re.findall(r"'(\w+)'\?$", told)[0]
            assert close == name or names[close], told


class ReachedError(Exception):
    pass


def call_of(method: str) -> tuple[do.Pipeline, Any, tuple[Any, ...], dict[str, Any]]:
    """The call of a fluent method among its examples: the pipeline, the receiver and what it is given."""
    pipeline, one, two, walk, again = started()
    receiver, name = method.split(".")
    if method in LOOPED:
        return (pipeline, walk, *_recorded(walk, name, lambda: LOOPED[method](one, walk, again))[1:])
    kinds = {"stream": do.Stream, "keyed_stream": do.KeyedStream, "windowed_stream": do.WindowedStream}
    return (pipeline, *_recorded(kinds[receiver], name, lambda: CALLS[method](one, two)))


def _recorded(owner: Any, name: str, call: Callable[[], Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    found: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def record(receiver: Any, *arguments: Any, **keywords: Any) -> Any:
        if found:
            return None
        found.append((receiver, arguments, keywords))
        raise ReachedError

    with pytest.MonkeyPatch.context() as patch:
        if isinstance(owner, type):
            patch.setattr(owner, name, record)
        else:
            patch.setattr(owner, name, lambda *arguments, **keywords: record(owner, *arguments, **keywords))
        with pytest.raises(ReachedError):
            call()
    return found[0]


IMPOSSIBLE: list[Any] = [
    None, "", 5, -1, 1.5, True, b"x", object, dict, [], (), {}, float("nan"), "no_such", "no such(", "-1 hour", "a b", "order",
    ["no_such"], [None], ["v", "v"], {"no_such": "no_such"}, {"v": None}, {5: "v"},
]  # fmt: skip
INTERNAL = re.compile(r"\?table\?|RowStream|BaseStream|JoinedStream|OutputStream|FrontierStream|Traceback|py4j|object at 0x")


@pytest.mark.parametrize("method", CALLS)
def test_an_impossible_value_is_refused_by_an_error_of_ours_or_is_a_value(method: str) -> None:
    _, _, arguments, keywords = call_of(method)
    name = method.split(".")[1]
    for place in (*range(len(arguments)), *keywords):
        pipeline, receiver, positional, named = call_of(method)
        before = None
        for value in IMPOSSIBLE:
            changed = [*positional[:place], value, *positional[place + 1 :]] if isinstance(place, int) else positional
            if before is None:
                before = len(pipeline.dataflow.nodes), list(pipeline.tables)
            try:
                getattr(receiver, name)(*changed, **({**named, place: value} if isinstance(place, str) else named))
            except (OperatorsError, TypeError) as error:
                case = (place, value, str(error))
                assert isinstance(error, OperatorsError) or str(error).startswith(tuple(CLASSES)), case  # noqa: PT017
                assert not INTERNAL.search(str(error)), case  # noqa: PT017
                assert (len(pipeline.dataflow.nodes), list(pipeline.tables)) == before, case
            else:
                pipeline, receiver, positional, named = call_of(method)
                before = None


BY_ROW = do.frontier.Pipeline()


def within() -> do.frontier.ScopedStream:
    pipeline = do.Pipeline("other", root="nowhere")
    rows = pipeline.source("rows", do.MemorySource([], schema="v long, t timestamp"), event_time="t")
    return do.frontier.Scope("scope", pipeline).enter(rows)


def builder() -> do.frontier.OperatorBuilder:
    made = do.frontier.OperatorBuilder("x", do.Pipeline("other", root="nowhere"))
    made.new_output("v long")
    return made


def test_a_refused_call_can_be_made_again_rightly() -> None:
    _, one, *_ = started()
    with pytest.raises(
        PipelineError, match=r"the argument chain of Stream\.filter is 'no' \[pipeline 'p', operator 'big'\]. To do: give True"
    ):
        one.filter("v > 1", name="big", chain="no")  # type: ignore[arg-type]
    assert one.filter("v > 1", name="big").name == "big"
    assert method_of("stream", "filter") is not None


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda one, two: one.join(two, on={"k": "k"}, how="lft"), "the join cannot be 'lft'.*use one of inner, left"),
        (
            lambda one, two: one.transform(len, columns="delay"),
            r"columns of Stream.transform is 'delay'.*write columns=\['delay'\]",
        ),
        (lambda one, two: one.to_table("t", tags="a"), "tags of Stream.to_table is 'a'|tags of Stream.to_table is of type str"),
        (lambda one, two: one.to_table("t", owners="team"), r"write owners=\['team'\]"),
        (lambda one, two: one.through(dict), "<class 'dict'> is no logical operator"),
        (lambda one, two: one.join_as_of(two, on={"k": "k"}, keep=-1), "keep is not less than nothing"),
        (
            lambda one, two: do.FileSource("in", storage_options="password=x"),
            "storage_options of FileSource is of type str. To do: give a mapping",
        ),
        (lambda one, two: do.Pipeline("p", root="r", durable="yes"), "durable of Pipeline is 'yes'.*give True or False"),
        (lambda one, two: do.Pipeline("p", root="nowhere").clean(keep=7), "7 has no unit; write for example '7 seconds'"),
        (lambda one, two: do.Check("v > 1", blocking="no"), "blocking of Check is 'no'"),
        (lambda one, two: do.frontier.Scope("x", one, iterative="no"), "iterative of Scope is 'no'.*give True or False"),
        (
            lambda one, two: do.frontier.Scope("x", one).enter(one, "k"),
            "pact of Scope.enter is 'k'.*give a Pipeline or an Exchange or",
        ),
        (lambda one, two: within().unary(BY_ROW, "u", len, chain="no"), "chain of ScopedStream.unary is 'no'"),
        (lambda one, two: within().scope.leave("rows"), "stream of Scope.leave is 'rows'|a stream outside of it is used"),
        (lambda one, two: builder().build(len, chain="no"), "chain of OperatorBuilder.build is 'no'"),
        (lambda one, two: builder().set_notify_for("0", "never"), "number of OperatorBuilder.set_notify_for is '0'"),
        (lambda one, two: do.frontier.StashState(input="0"), "input of StashState is '0'"),
    ],
)
def test_wrong_values_are_told_with_what_is_right(call: Callable[..., Any], told: str) -> None:
    _, one, two, *_ = started()
    with pytest.raises(OperatorsError, match=told):
        call(one, two)


@pytest.mark.parametrize(
    "call",
    [
        lambda given: do.PostgresSink("t", "x", given),
        lambda given: do.PostgresSink(given.encode(), "t"),
        lambda given: do.PostgresSink("t", "x", key=5, columns=given),
        lambda given: do.PostgresSink("t", "x", lock_timeout=given),
        lambda given: do.Pipeline("p", root="nowhere", durable=given),
        lambda given: do.DeltaSource("x", storage_options=given),
        lambda given: do.frontier.OperatorBuilder("x", do.Pipeline("p", root="nowhere")).set_notify_for(given, "never"),
    ],
)
@pytest.mark.parametrize(
    "given",
    [
        "postgresql://u:hidden@h/db", "postgresql://u:x/hidden @h/db", "host=h password=hidden", "aws_secret_access_key: hidden",
        "https://a.blob.core.windows.net/c?sig=hidden", '{"password": "hidden"}', "sasl.passphrase=hidden",
    ],
)  # fmt: skip
def test_what_may_be_secret_is_in_no_error(call: Callable[..., Any], given: str) -> None:
    with pytest.raises(OperatorsError) as caught:
        call(given)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("given", ["postgresql://u:hidden@h/db", "host=h password=hidden dbname=d"])
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda given: do.KafkaSource("h:9092", "x", options=given), "options"),
        (lambda given: do.KafkaSource("h:9092", "x", schema="v int", options=given), "options"),
        (lambda given: do.FileSource("in", options=given), "options"),
        (lambda given: do.PostgresSink("t", given), r"connection string.*PostgresSink\('env:NAME', 'schema.table'\)"),
        (lambda given: do.PostgresSink("t", given, mode="uspert"), "connection string|mode"),
    ],
)
def test_what_a_constructor_refuses_itself_shows_no_secret(call: Callable[..., Any], told: str, given: str) -> None:
    with pytest.raises(OperatorsError, match=told) as caught:
        call(given)
    assert "hidden" not in f"{caught.value} {caught.value!r} {caught.value.where} {caught.value.remedy}"
    do.PostgresSink("env:NAME", "schema.table")  # what is told


def test_columns_given_as_a_connection_string_are_told_with_what_is_right() -> None:
    told = r"the argument columns of PostgresSink is of type str. To do: write columns=\[\.\.\.\]: it takes a list"
    with pytest.raises(PipelineError, match=told):
        do.PostgresSink("t", "x", "postgresql://u:hidden@h/db")


def test_what_was_taken_before_still_is() -> None:
    pipeline, *_ = started()
    source = do.MemorySource([], schema="t timestamp")
    assert pipeline.source("now", source, event_time="t", lateness=0).event_time == "t"  # type: ignore[arg-type]
    assert pipeline.source("hour", source, event_time="t", lateness=3_600_000_000).event_time == "t"  # type: ignore[arg-type]
