from __future__ import annotations

import inspect

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.api.keyed_stream import KeyedStream
from dagster_operators.api.queries.methods import method_of, methods_of
from dagster_operators.api.stream import Stream
from dagster_operators.api.windowed_stream import WindowedStream
from dagster_operators.catalog import loading
from dagster_operators.catalog.catalog import Catalog
from dagster_operators.errors import PipelineError, SchemaError
from tests.api.queries.traced import traced_pipeline, without_steps
from tests.catalog import limits

BRIEF = settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
CLASSES = {"stream": Stream, "keyed_stream": KeyedStream, "windowed_stream": WindowedStream}
SCHEMA = "k string, v long, t timestamp"


def pipeline(*names):
    made = do.Pipeline("p", root="unused")
    for name in names:
        made.source(name, do.MemorySource([], schema=SCHEMA), event_time="t")
    return made


@BRIEF
@given(st.data())
def test_queries_give_the_plan_that_the_fluent_calls_give(data):
    fluent, queries = traced_pipeline(data.draw)
    again = without_steps(fluent)
    again.add(*queries)
    assert again.to_plan() == fluent.to_plan()


@pytest.mark.parametrize("receiver", CLASSES)
def test_every_fluent_method_can_be_called_by_name(receiver):
    own = {name for name, _ in inspect.getmembers(CLASSES[receiver], inspect.isfunction) if not name.startswith("_")}
    loops = {"enter", "leave", "feed"} if receiver == "stream" else set()
    without = {"side_outputs", "data_set"}  # which give no stream
    assert {*methods_of(receiver)} - loops == own - without


def test_what_a_method_gives_decides_which_methods_come_next():
    gives = {(receiver, name): method_of(receiver, name).gives for receiver in CLASSES for name in methods_of(receiver)}
    assert {call for call, given in gives.items() if given == "keyed_stream"} == {("stream", "key_by")}
    windowed = {("stream", "window"), ("keyed_stream", "window")}
    assert {call for call, given in gives.items() if given == "windowed_stream"} == windowed


def test_a_method_of_another_package_can_be_called_by_name(monkeypatch):
    catalog = Catalog()
    loading.own.register(catalog)
    limits.register(catalog.of("limits"))
    monkeypatch.setattr(loading, "_default", [catalog])
    made = pipeline("rows")
    assert made.add(do.query("rows").head(3, name="few").filter("v > 1")).name == "filter"
    assert made.dataflow.nodes["few"].operator.rows == 3
    assert "head" in dir(do.query("rows"))


def test_a_step_that_queries_share_is_one_operator_and_one_written_twice_is_two():
    shared, made = do.query("rows").filter("v > 1"), pipeline("rows")
    made.add(shared.select("k"), shared.select("v"))
    made.add(shared.select("t"))
    made.add(do.query("rows").filter("v > 1"))
    assert [*made.dataflow.nodes] == ["rows", "filter", "select", "select_2", "select_3", "filter_2"]


def test_operators_come_in_the_order_in_which_they_were_written():
    made = pipeline("one", "two")
    right = do.query("two").select("k", "v", "t", name="first")
    left = do.query("one").filter("v > 1", name="second")
    made.add(left.union(right, name="third"))
    assert [*made.dataflow.nodes] == ["one", "two", "first", "second", "third"]


def test_a_name_is_a_source_an_operator_a_side_stream_or_a_table():
    made = pipeline("rows")
    hourly = do.query("rows").window(do.Tumbling("1 h")).aggregate(n="count(*)", name="hourly").to_table("per_hour")
    made.add(hourly, hourly.late(name="too_late"))
    names = {name: made.add(do.query(name)).name for name in ("rows", "hourly", "too_late", "per_hour")}
    assert names == {"rows": "rows", "hourly": "hourly", "too_late": "too_late", "per_hour": "hourly"}


def test_sources_of_a_registry_are_declared_when_they_are_named():
    sources = do.Sources()
    for name in ("rows", "never"):
        sources.add(name, do.MemorySource([], schema=SCHEMA), event_time="t", lateness="1 h", finished=True)
    first, second = do.Pipeline("one", root="unused"), do.Pipeline("two", root="unused")
    for made in (first, second):
        made.add(do.query("rows").filter("v > 1"), sources=sources)
    node = second.dataflow.nodes["rows"].operator
    assert ([*second.dataflow.nodes], node.event_time, node.finished) == (["rows", "filter"], "t", True)
    with pytest.raises(PipelineError, match="there is a source named 'rows' already"):
        sources.add("rows", do.MemorySource([], schema=SCHEMA))


def test_a_name_that_stands_for_nothing_is_told_with_its_line():
    with pytest.raises(PipelineError, match=r"no source or stream named 'rwos'.*did you mean 'rows'") as caught:
        pipeline("rows").add(do.query("rwos").filter("v > 1"))
    assert caught.value.file == __file__
    with pytest.raises(PipelineError, match="declare the source; there are: none"):
        pipeline().add(do.query("x"))


def test_an_error_says_in_which_line_the_call_was_written():
    wrong = do.query("rows").select("nothing_there")
    line = inspect.currentframe().f_lineno - 1
    with pytest.raises(SchemaError) as caught:
        pipeline("rows").add(wrong.filter("v > 1"))
    assert (caught.value.file, caught.value.line, caught.value.operator) == (__file__, line, "select")
    assert caught.value.method == "select"


def test_an_error_of_python_says_in_which_call_it_was(monkeypatch):
    def fail(*_):
        raise TypeError("nobody expects it")

    monkeypatch.setattr("dagster_operators.api.queries.playing._made", fail)
    with pytest.raises(TypeError, match="nobody") as caught:
        pipeline("rows").add(do.query("rows").filter("v > 1"))
    assert "in filter(...) of the query, written in " + __file__ in caught.value.__notes__[0]


def test_of_several_queries_all_are_added_or_none():
    made, sources = pipeline("rows"), do.Sources()
    sources.add("more", do.MemorySource([], schema=SCHEMA))
    rows, before = do.query("rows"), made.to_plan()
    good = do.query("more").union(rows.filter("v > 1")).to_table("good")
    with pytest.raises(SchemaError, match="nothing_there"):
        made.add(good, rows.select("nothing_there").to_table("bad"), sources=sources)
    assert made.to_plan() == before
    assert made.add(good, rows.select("k").to_table("bad"), sources=sources)[1].columns == ("k",)
    fresh = pipeline("rows")
    fresh.add(good, rows.select("k").to_table("bad"), sources=sources)
    assert made.to_plan() == fresh.to_plan()


def test_arguments_and_methods_that_are_not_there_are_refused_at_once():
    rows = do.query("rows")
    with pytest.raises(TypeError, match=r"^filter\(\): got an unexpected keyword argument 'whatever'"):
        rows.filter("v > 1", whatever=1)
    with pytest.raises(AttributeError, match="a query for a stream has no method 'filtr'; did you mean 'filter'"):
        rows.filtr("v > 1")
    with pytest.raises(AttributeError, match="a query for a keyed stream has no method 'filter'"):
        rows.key_by("k").filter("v > 1")
    with pytest.raises(AttributeError, match="has no method 'columns'"):
        rows.columns  # noqa: B018
    with pytest.raises(AttributeError, match=r"no method '_nothing'$"):
        rows._nothing  # noqa: B018
    with pytest.raises(PipelineError, match=r"is no query.*write do.query"):
        pipeline().add("rows")


class Both(do.ArrowOperator):
    def output_schema(self, left, right):
        return {"main": left, "other": right}

    def process_batch_index(self, index, batch, ctx, out):
        out.collect(batch, ["main", "other"][index])


def test_an_operator_over_several_queries():
    fluent, made = pipeline("one", "two"), pipeline("one", "two")
    streams = [do.apply(Both(), *(fluent.add(do.query(name)).key_by("k") for name in ("one", "two")), name="both")]
    streams[0][1].to_table("others")
    both = do.apply(Both(), *(do.query(name).key_by("k") for name in ("one", "two")), name="both")
    assert made.add(both.side_output("other").to_table("others")).columns == ("k", "v", "t")
    assert [*made.dataflow.nodes] == [*fluent.dataflow.nodes]
    assert repr(both).startswith("apply(<")


def test_a_query_shows_what_was_called():
    other = do.query("two").key_by("k").window(do.Tumbling("1 h"))
    joined = do.query("one").key_by("k").window(do.Tumbling("1 h")).join(other, how="left")
    assert repr(joined).startswith("query('one').key_by('k').window(Window(")
    assert repr(joined).endswith(", how='left')")
    assert do.query("one").filter.__doc__ == Stream.filter.__doc__


def test_loops_and_variables_that_are_not_there_are_told():
    made = pipeline("rows")
    made.loop("walk")
    with pytest.raises(PipelineError, match=r"there is no loop 'wlak'.*did you mean 'walk'"):
        made.add(do.query("rows").enter("wlak"))
    with pytest.raises(PipelineError, match=r"there is no loop variable 'again'.*declare it"):
        made.add(do.query("rows").select("k").enter("walk").feed("again"))
