from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, QueryError
from tests.api.queries.as_yaml import as_yaml
from tests.api.queries.traced import traced_pipeline

NO_QUERIES = ("events",)
"""Steps that no YAML of queries has: event operators have a dataflow file of their own."""

BRIEF = settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@BRIEF
@given(st.data())
def test_a_text_gives_the_plan_that_the_fluent_calls_give(data):
    fluent, queries = traced_pipeline(data.draw, without=NO_QUERIES)
    text = as_yaml(fluent, queries)
    assert do.Pipeline.from_query_text(text, root="unused").to_plan() == fluent.to_plan(), text


DOCUMENT = """
pipeline: flights
sources:
  flights:
    files: {path: in/*.csv, schema: "origin string, dest string, dep timestamp, delay int"}
    event_time: dep
    lateness: 1 hour
streams:
  clean:
    from: flights
    steps:
      - filter: delay IS NOT NULL
  hourly:
    from: clean
    steps:
      - key_by: origin
      - window: {tumbling: 1 hour}
      - aggregate: {departures: count(*), mean: avg(delay), name: hourly}
  late: {from: hourly, steps: late}
tables:
  clean_flights: {from: clean, checks: {has_origin: origin IS NOT NULL}, tags: {tier: 1}}
  hourly_delays: hourly
  routes:
    from: {from: clean, steps: [key_by: [origin, dest], aggregate: {flights: count(*)}]}
    description: One row per route
"""


NAME_TAG = "tag:yaml.org,2002:python/name:os.abort"
TAG = "tag:yaml.org,2002:python/object/apply:os.abort"
SOON = (
    "the size of a window: 'soon' is no duration of fixed length; write for example '1 hour' "
    "(units: microsecond, millisecond, second, minute, hour, day, week)"
)


def built(text, **settings):
    return do.Pipeline.from_query_text(text, root="unused", **settings)


def errors_in(text, **settings):
    """The errors of a text, as line, character and problem."""
    with pytest.raises(QueryError) as caught:
        built(text, **settings)
    return [(error.where.get("line"), error.where.get("character"), error.problem) for error in caught.value.errors]


def test_a_document_is_the_pipeline_of_the_fluent_calls():
    pipeline = do.Pipeline("flights", root="unused")
    source = do.FileSource("in/*.csv", schema="origin string, dest string, dep timestamp, delay int")
    clean = pipeline.source("flights", source, event_time="dep", lateness="1 hour").filter("delay IS NOT NULL")
    hourly = clean.key_by("origin").window(do.Tumbling("1 hour"))
    hourly = hourly.aggregate(departures="count(*)", mean="avg(delay)", name="hourly")
    hourly.late()
    clean.to_table("clean_flights", checks={"has_origin": "origin IS NOT NULL"}, tags={"tier": "1"})
    hourly.to_table("hourly_delays")
    routes = clean.key_by("origin", "dest").aggregate(flights="count(*)")
    routes.to_table("routes", description="One row per route")
    assert built(DOCUMENT).to_plan() == pipeline.to_plan()


@pytest.mark.parametrize("given", ["{order_by: v, place: row_number()}", "{order_by: v, functions: {place: row_number()}}"])
def test_window_functions_have_an_order_and_columns(given):
    made = do.Pipeline("p", root="unused")
    rows = made.source("rows", do.MemorySource([[]], schema="k string, v long"))
    rows.key_by("k").over("v", place="row_number()").to_table("placed")
    text = f"""
pipeline: p
sources: {{rows: {{memory: {{batches: [[]], schema: "k string, v long"}}}}}}
tables: {{placed: {{from: {{from: rows, steps: [key_by: k, over: {given}]}}}}}}
"""
    assert built(text).to_plan() == made.to_plan()


def test_a_file_is_read_and_its_errors_name_it(tmp_path):
    file = tmp_path / "flights.yaml"
    file.write_text(DOCUMENT, "utf-8")
    pipeline = do.Pipeline.from_query_file(file, root=str(tmp_path / "root"), parallelism=3)
    assert (pipeline.to_plan(), pipeline.root) == (built(DOCUMENT).to_plan(), str(tmp_path / "root"))
    file.write_text(DOCUMENT.replace("filter:", "filtr:"), "utf-8")
    with pytest.raises(QueryError, match=rf"{file} has an error\n  {file}:12:9: a stream has no method 'filtr'.*'filter'"):
        do.Pipeline.from_query_file(file, root="unused")
    with pytest.raises(PipelineError, match=r"cannot be read.*correct its name"):
        do.Pipeline.from_query_file(tmp_path / "nothing.yaml", root="unused")


def test_all_that_is_wrong_is_told_at_once_in_order():
    wrong = """\
pipelne: wrong
pipeline: wrong
imports: [no_such_module_here]
sources:
  one: {memory: {batches: [], schema: "k string, v long"}, event_tme: t}
  two: {memory: {batches: [], schema: "k string, v long"}}
  three: {event_time: t}
streams:
  bad_step: {from: two, steps: [filtr: v > 1]}
  bad_argument: {from: two, steps: [filter: {cndition: v > 1}]}
  missing: {from: two, steps: [as_changes: {chain: maybe}]}
  bad_column: {from: two, steps: [filter: w > 1, select: k]}
  after_bad: {from: bad_column, steps: [drop: {cols: k}]}
  bad_window: {from: two, steps: [window: {tumbling: soon}]}
  two_windows: {from: two, steps: [window: {tumblin: 1 hour}]}
  unknown: {from: towo}
  keyed: {from: two, steps: [key_by: k, filter: v > 1]}
  fine: {from: two, steps: [filter: v > 1]}
tables:
  bad: {from: fine, descr: all}
  keys: {from: two, steps: [key_by: k]}
  not_there: nowhere
"""
    assert errors_in(wrong) == [
        (1, 1, "there is no section 'pipelne'"),
        (3, 11, "the module 'no_such_module_here' cannot be imported: No module named 'no_such_module_here'"),
        (5, 60, "the source 'one' has no argument 'event_tme'"),
        (7, 10, "the source 'three' does not say what it is"),
        (9, 33, "a stream has no method 'filtr'"),
        (10, 46, "filter has no argument 'cndition'"),
        (11, 52, "chain is 'maybe', not bool"),
        (12, 35, "the condition uses column 'w', which its input does not have"),
        (13, 48, "drop has no argument 'cols'"),
        (14, 54, SOON),
        (15, 45, "window has no argument 'tumblin'"),
        (16, 19, "there is no source or stream named 'towo'"),
        (17, 41, "a keyed stream has no method 'filter'"),
        (20, 21, "the table 'bad' has no argument 'descr'"),
        (21, 9, "this is no stream of rows"),
        (22, 14, "there is no source or stream named 'nowhere'"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", (1, 1, "the text is no set of sections")),
        ("pipeline: [", (1, 12, "this is no YAML: expected the node content, but found '<stream end>'")),
        ("streams: {}", (1, 1, "the pipeline has no name")),
        ("pipeline: p\npipeline: p", (2, 1, "the key 'pipeline' is given twice")),
        ("pipeline: p\nstreams: [a]", (2, 10, "the section 'streams' has no names")),
        ("pipeline: p\nstreams: {a: 1}", (2, 14, "this is no stream")),
        ("pipeline: p\nloops: {walk: {limit: 0}}", (2, 15, "the limit of a loop is 0 rounds")),
        ("pipeline: p\nstreams: {a: {variable: k string}}", (2, 14, "a loop variable is in no loop")),
        ("pipeline: p\nstreams: {a: {variable: k string, loop: w}}", (2, 14, "there is no loop 'w'")),
        ("pipeline: p\nstreams: &a {b: *a}", (2, 10, "a value contains itself")),
        ("pipeline: p\nstreams: !!python/object/apply:os.abort []", (2, 10, f"the tag '{TAG}' is not known")),
        ("pipeline: p\nstreams: !!python/name:os.abort ''", (2, 10, f"the tag '{NAME_TAG}' is not known")),
    ],
)  # fmt: skip
def test_what_is_no_document_is_told(text, problem):
    assert errors_in(text) == [problem]


FORWARD = """\
pipeline: p
streams:
  both: {from: big, steps: [union: [small]]}
  small: {from: rows, steps: [filter: v < 1]}
  big: {from: rows, steps: [filter: v > 9]}
tables: {out: both}
sources:
  rows: {memory: {batches: [], schema: "k string, v long"}}
"""


def test_a_stream_may_stand_below_the_one_that_names_it():
    made = do.Pipeline.from_query_text(FORWARD, root="unused")
    lines = FORWARD.splitlines()
    ordered = "\n".join([*lines[:2], lines[4], lines[3], lines[2], *lines[5:]])
    assert made.to_plan() == do.Pipeline.from_query_text(ordered, root="unused").to_plan()


def test_a_stream_that_is_made_of_itself_is_told():
    text = FORWARD.replace("small: {from: rows", "small: {from: both")
    assert errors_in(text) == [(4, 17, "a stream is made of itself: 'both' is made of 'small' is made of 'both'")]


def test_a_stream_may_be_called_as_the_source_that_it_is_made_of():
    text = FORWARD.replace("small:", "rows:").replace("[small]", "[rows]")
    assert [*do.Pipeline.from_query_text(text, root="unused").dataflow.nodes] == ["rows", "filter", "union", "filter_2"]


def test_a_text_whose_aliases_make_it_grow_is_refused_soon():
    names = "abcdefghijklmnop"
    lines = [f"{name}: &{name} [{', '.join([f'*{names[at - 1]}' if at else 'x'] * 9)}]" for at, name in enumerate(names)]
    [(_, _, problem)] = errors_in("pipeline: p\n" + "\n".join(lines))
    assert problem == "with its aliases the text has more than 500000 values"
    [(line, _, problem)] = errors_in("[" * 100_000)
    assert (line, problem) == (1, "values are nested more than 60 deep")


def test_an_alias_stands_for_what_it_names():
    text = """
pipeline: p
sources:
  rows: {memory: {batches: [], schema: "k string, t timestamp"}, event_time: t}
streams:
  first: {from: rows, steps: [window: &hour {tumbling: 1 hour}, aggregate: {n: count(*)}]}
  second: {from: rows, steps: [key_by: k, window: *hour, aggregate: {n: count(*)}]}
"""
    nodes = built(text).dataflow.nodes
    assert {node.operator.window.size for node in nodes.values() if node.operator.kind == "window_aggregate"} == {3_600_000_000}


def test_errors_survive_pickling():
    with pytest.raises(QueryError) as caught:
        built("pipeline: p\nstreams: {a: {from: nowhere}}")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert str(again) == str(caught.value)
    assert str(again).splitlines()[1].startswith("  <text>:2:21: there is no source or stream named 'nowhere' [pipeline 'p'")


TYPED = """
pipeline: p
sources:
  rows: {memory: {batches: [], schema: "k string, v long, t timestamp"}, event_time: t}
streams:
  made: {from: rows, steps: [STEP]}
"""


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("filter", "filter needs 'condition'"),
        ("filter: [a, b]", "filter has 2 arguments and takes condition"),
        ("{filter: v > 1, drop: v}", "a step is one method with its arguments"),
        ("key_by: k, top: {n: three, by: v}", "n is 'three', not int"),
        ("lookup: {table: {tumbling: 1 hour}, on: k}", "table cannot be 'tumbling'"),
        ("window: {tumbling: 1 hour, offset: 5 minutes}", "'offset' stands beside 'tumbling', whose argument it is"),
        ("apply: nothing_there", "no operator is registered as 'nothing_there'"),
        ("apply: {python: nothing_there}", "'nothing_there' names no Python object"),
        ("apply: {python: 'no_module:x'}", "the module 'no_module' cannot be imported: No module named 'no_module'"),
        ("apply: {python: 'math:tau_tau'}", "the module 'math' has no 'tau_tau'"),
        ("apply: {python: {arguments: {}}}", "a Python object needs its name as 'object', and perhaps 'arguments'"),
        ("apply: {python: {object: 'math:sqrt', arguments: [-1]}}", "math:sqrt: math domain error"),
        ("through: {operator: filtr}", "there is no kind of operator 'filtr'"),
        ("through: {operator: filter, nothing: 1}", "through: Filter.__init__() got an unexpected keyword argument 'nothing'"),
        ("filter: !env NOT_SET_ANYWHERE", "the environment has no variable 'NOT_SET_ANYWHERE'"),
        ("filter: !what v", "the tag '!what' is not known here"),
        ("union: {others: [{steps: []}]}", "this is no stream"),
        ("union: {others: [{from: rows, step: []}]}", "a stream has no 'step'"),
        ("enter: walk", "there is no loop 'walk'"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told_with_what_is_asked_for(step, problem):
    assert [told for _, _, told in errors_in(TYPED.replace("STEP", step))] == [problem]


def test_what_stands_beside_a_window_is_told_where_to_stand():
    with pytest.raises(QueryError, match=r"To do: write window: \{tumbling: \{size: 1 hour, offset: 5 minutes\}\}"):
        built(TYPED.replace("STEP", "window: {tumbling: 1 hour, offset: 5 minutes}"))
    steps = "window: {tumbling: {size: 1 hour, offset: 5 minutes}}, aggregate: {n: count(*)}"
    assert built(TYPED.replace("[STEP]", f"[{steps}]"))


def test_values_of_the_environment_and_numbers_as_text(monkeypatch):
    monkeypatch.setenv("CONDITION", "v > 1")
    steps = "filter: !env CONDITION, with_columns: {n: 1, yes: true, none: null, half: 0.5}"
    made = built(TYPED.replace("STEP", steps)).dataflow.nodes
    assert made["filter"].operator.condition == "v > 1"
    assert made["with_columns"].operator.expressions == (("n", "1"), ("yes", "true"), ("none", "null"), ("half", "0.5"))


def test_one_operator_over_several_streams():
    text = TYPED.replace("made: {from: rows, steps: [STEP]}", """
  both:
    from: [{from: rows, steps: [key_by: k]}, {from: rows, steps: [filter: v > 1, key_by: k]}]
    steps:
      - apply: {operator: {python: {object: 'tests.api.queries.test_query:Both', arguments: {}}}, name: both}
      - side_output: other
      - to_table: others
""")  # fmt: skip
    made = built(text)
    assert [str(stream) for stream in made.dataflow.nodes["both"].inputs] == ["rows", "filter"]
    assert made.tables["others"].stream.port == "other"
    [(_, _, problem)] = errors_in(text.replace("apply: {operator", "union: {operator"))
    assert problem == "several streams go into one operator only"


def test_streams_may_name_sources_that_are_given():
    sources = do.Sources()
    sources.add("rows", do.MemorySource([], schema="k string"))
    text = "pipeline: p\ntables: {kept: {from: rows, steps: [filter: k > 'a']}}"
    assert [*built(text, sources=sources).dataflow.nodes] == ["rows", "filter"]
    assert errors_in(text) == [(2, 23, "there is no source or stream named 'rows'")]


class Numbers(do.SourceOperator):
    def __init__(self, count: int) -> None:
        self.count = count

    def output_schema(self):
        return f"n{self.count // self.count} long"


def test_a_source_operator_of_the_users_own():
    text = """
pipeline: p
sources:
  own: {python: {object: 'tests.api.queries.test_document:Numbers', arguments: {count: 3}}}
"""
    assert built(text).dataflow.nodes["own"].operator.connector.operator.count == 3
    [(line, _, problem)] = errors_in(text.replace("3", "0"))
    assert (line, problem) == (4, "the source 'own': integer division or modulo by zero")


def test_the_example_of_the_docs_is_a_pipeline():
    page = Path(__file__).parents[3].joinpath("docs", "queries.md").read_text("utf-8")
    made = built(page.split("```yaml\n")[1].split("```")[0])
    assert [*made.tables] == ["clean_flights", "hourly_delays", "too_late", "routes"]


def test_pacts_and_states_of_frontier_operators_have_names():
    text = TYPED.replace("STEP", """unary: {
      pact: PACT, name: held, constructor: {python: 'tests.plans.random_pipelines:stashed'},
      state: {stash: {python: {object: 'dagster_operators.api.frontier:StashState', arguments: {}}}}}""")  # fmt: skip
    kept = built(text.replace("PACT", "{exchange: k}")).dataflow.nodes["held"].operator.definition
    assert (kept.pacts, [*kept.state]) == ((do.frontier.Exchange("k"),), ["stash"])
    moved = built(text.replace("PACT", "{pipeline: }")).dataflow.nodes["held"].operator.definition
    assert moved.pacts == (do.frontier.Pipeline(),)
    [(_, _, problem)] = errors_in(text.replace("PACT", "{exchang: k}"))
    assert problem == "pact cannot be 'exchang'"
