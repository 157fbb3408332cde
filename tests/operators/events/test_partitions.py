"""Operators with ``partition_by``: each key has its own, with its own events, timers and state."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError, QueryError, SchemaError, UndecidedChangeError
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.event_program import EventProgram
from dagster_operators.operators.events.wiring import EventInput, EventOperator, EventSource
from dagster_operators.testing import OperatorHarness
from dagster_operators.time.watermark import MAX_WATERMARK
from tests.engines import ENGINES
from tests.examples import fresh_examples, unlike_the_simplest

SECOND = 1_000_000
START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [f"k{number}" for number in range(20)]

LOG = """
class Operator:
    def __init__(self):
        self.count = 0

    def on_event(self, dora_event, send_output):
        self.count += 1
        value = dora_event["value"].to_pylist() if dora_event["type"] == "INPUT" else None
        send_output("log", [f"{self.count} {dora_event['type']} {dora_event['id']} {value}"])
        return DoraStatus.STOP if value == [-1] else DoraStatus.CONTINUE
"""


def logging(*inputs, by="k", **more):
    given = tuple(EventInput(*one) for one in inputs)
    one = EventOperator("log", "op", True, "log.py", given, ("log",), (("log", "string"),), **more)  # noqa: FBT003
    sources = (EventSource("rows", (("v", "v"),), "t"),)
    return EventOperators(name="events", sources=sources, operators=(one,), files=(("log.py", LOG),), partition_by=by)


def harness(made, parallelism=3):
    return OperatorHarness(made, "t bigint, k string, v bigint", event_time="t", parallelism=parallelism)


def told(driven):
    """What was sent for each key, with its numbers."""
    found = defaultdict(list)
    for row in driven.rows("log/log"):
        found[row["key"]].append((row["seq"], *row["value"]))
    return found


def texts(driven):
    return {key: [text for _, text in sent] for key, sent in told(driven).items()}


def test_each_key_has_its_own_operator_and_state_wherever_it_runs():
    driven = harness(logging(("v", "rows/v")))
    for epoch, parallelism in enumerate((3, 1, 7)):
        driven.rescale(parallelism)
        driven.process([{"t": epoch * SECOND, "k": key, "v": epoch} for key in [*KEYS, None]])
        driven.end_epoch(epoch * SECOND)
    assert told(driven) == {key: [(n + 1, f"{n + 1} INPUT v [{n}]") for n in range(3)] for key in [*KEYS, None]}


def test_timers_tick_for_each_key_from_its_first_event_on_also_in_epochs_without_one():
    driven = harness(logging(("v", "rows/v"), ("tick", "dora/timer/secs/1")))
    driven.process([{"t": 0, "k": "a", "v": 1}])
    driven.end_epoch(SECOND)
    driven.process([{"t": 2 * SECOND, "k": "b", "v": 1}])
    driven.end_epoch(3 * SECOND)
    driven.end_epoch(4 * SECOND)
    first = ["1 INPUT v [1]", "2 INPUT tick []"]
    assert texts(driven) == {"a": [*first, *(f"{n} INPUT tick []" for n in (3, 4, 5))], "b": [*first, "3 INPUT tick []"]}


def test_one_key_stops_and_the_others_go_on_until_the_end():
    driven = harness(logging(("v", "rows/v")))
    driven.process([{"t": 0, "k": "a", "v": -1}, {"t": 0, "k": "b", "v": 1}])
    driven.end_epoch(0)
    driven.process([{"t": 1, "k": "a", "v": 2}])
    driven.end_epoch(MAX_WATERMARK)
    end = ["2 INPUT_CLOSED v None", "3 STOP ALL_INPUTS_CLOSED None"]
    assert texts(driven) == {"a": ["1 INPUT v [-1]"], "b": ["1 INPUT v [1]", *end]}


EVENTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.booleans()), min_size=1, max_size=8)


@fresh_examples(25)
@given(EVENTS, st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
def test_what_keys_are_told_until_the_data_ends_does_not_depend_on_where_epochs_are_cut(events, lateness, parallelism, interval):
    """Each event says whether an epoch ends behind it; the last epoch is the one in which the source is finished."""
    found = []
    for is_cut in (False, True):
        driven = harness(logging(("v", "rows/v"), ("tick", f"dora/timer/secs/{interval}")), parallelism)
        for number, (time, key, ends) in enumerate(sorted(events)):
            driven.process([{"t": time * SECOND, "k": key, "v": number}])
            if is_cut and ends:
                driven.end_epoch((time - lateness) * SECOND)
        driven.finish()
        found.append([(row["key"], row["time"], row["seq"], row["value"]) for row in driven.rows("log/log")])
    assert sorted(found[0]) == sorted(found[1])


def test_one_that_begins_anew_does_so_for_keys_without_an_event_too():
    rows = [{"t": 0, "k": key, "v": 1} for key in "ab"]
    driven = harness(logging(("v", "rows/v")))
    driven.process(rows)
    driven.end_epoch(0)
    for restart, own in (("1", rows[:1]), ("", rows)):
        after = harness(logging(("v", "rows/v"), restart=restart))
        after.restore(driven.snapshot())
        after.process(own)
        after.end_epoch(0)
        driven = after
    assert texts(driven) == {"a": ["2 INPUT v [1]"], "b": ["1 INPUT v [1]"]}, "b had no event while the file said so"


def test_an_input_that_reads_something_else_is_open_again_for_keys_without_an_event_too():
    def reading(source, *rows, watermark=0, after=None):
        made = logging(("v", "rows/v"), ("w", source))
        sources = (*made.sources, EventSource("left", (("v", "v"),), "t"), EventSource("right", (("v", "v"),), "t"))
        driven = OperatorHarness(replace(made, sources=sources), *["t bigint, k string, v bigint"] * 3, event_time="t")
        if after is not None:
            driven.restore(replace(after.snapshot(), watermarks=(0, 0, 0)))
        for key, index in rows:
            driven.process([{"t": 0, "k": key, "v": index}], index)
        driven.move(watermark, 1)
        driven.end_epoch()
        return driven

    closed = reading("left/v", ("a", 0), ("b", 0), watermark=MAX_WATERMARK)
    assert texts(closed) == {key: ["1 INPUT v [0]", "2 INPUT_CLOSED w None"] for key in "ab"}
    elsewhere = reading("right/v", ("a", 2), after=closed)
    assert texts(elsewhere) == {"a": ["3 INPUT w [2]"]}
    back = reading("left/v", ("a", 0), ("b", 0), watermark=MAX_WATERMARK, after=elsewhere)
    told = {"a": ["4 INPUT v [0]", "5 INPUT_CLOSED w None"], "b": ["3 INPUT v [0]", "4 INPUT_CLOSED w None"]}
    assert texts(back) == told, "b had no event while the input read something else"


def file_of(restarts):
    """A file with the operators that are named, each with its ``restart``."""
    read, types = (EventInput("v", "rows/v"),), (("log", "string"),)
    operators = tuple(
        EventOperator(name, "op", True, "log.py", read, ("log",), types, restart=restart)  # noqa: FBT003
        for name, restart in restarts.items()
    )
    sources = (EventSource("rows", (("v", "v"),), "t"),)
    return EventOperators(name="events", sources=sources, operators=operators, files=(("log.py", LOG),), partition_by="k")


def sent(epochs):
    """The number of each message and what its operator had counted to, in the last of some epochs, by operator and key.

    Args:
        epochs: The ``restart`` of each operator that is in the file then, and the keys that have an event.
    """
    driven = None
    for restarts, keys in epochs:
        before, driven = driven, harness(file_of(restarts), parallelism=2)
        if before is not None:
            driven.restore(before.snapshot())
        driven.process([{"t": 0, "k": key, "v": 1} for key in keys])
        driven.end_epoch(0)
    found = {}
    for name in epochs[-1][0]:
        for row in driven.rows(f"{name}/log"):
            found[name, row["key"]] = row["seq"], int(row["value"][0].split()[0])
    return found


def test_restart_that_is_put_back_counts_for_keys_that_had_no_event_without_it():
    plain, again = {"one": ""}, {"one": "1"}
    found = sent([(plain, "ab"), (again, "ab"), (plain, "a"), (again, "ab")])
    assert found == {("one", "a"): (4, 1), ("one", "b"): (3, 1)}


def test_one_that_was_taken_out_begins_anew_for_keys_that_had_no_event_without_it():
    both, alone = {"one": "", "two": ""}, {"one": ""}
    found = sent([(both, "ab"), (alone, "a"), (both, "ab")])
    assert found == {("one", "a"): (3, 3), ("one", "b"): (2, 2), ("two", "a"): (1, 1), ("two", "b"): (1, 1)}


def test_an_output_that_was_taken_out_is_numbered_anew_for_keys_that_had_no_event_without_it():
    made = vars_of(logging(("v", "rows/v")))
    (one,) = made["operators"]
    more = replace(one, outputs=("log", "more"), types=(("log", "string"), ("more", "string")))
    sends = LOG.replace('send_output("log"', 'send_output("more", ["x"]); send_output("log"')
    driven = None
    for operator, text, keys in ((more, sends, "ab"), (one, LOG, "a"), (more, sends, "ab")):
        before = driven
        driven = harness(EventOperators(**{**made, "operators": (operator,), "files": (("log.py", text),)}))
        if before is not None:
            driven.restore(before.snapshot())
        driven.process([{"t": 0, "k": key, "v": 1} for key in keys])
        driven.end_epoch(0)
    assert sorted((row["key"], row["seq"]) for row in driven.rows("log/more")) == [("a", 1), ("b", 1)]


FILES = st.sampled_from([{"one": ""}, {"one": "1"}, {"one": "", "two": ""}, {"one": "", "two": "2"}])


@fresh_examples(12)
@given(FILES, unlike_the_simplest(st.lists(st.tuples(FILES, st.sampled_from(["a", "ab"])), min_size=2, max_size=4)))
def test_what_a_file_says_is_for_all_keys_whichever_have_events(file, between):
    epochs = [(file, "ab"), *between, (file, "ab")]
    count, seq, before = Counter(), Counter(), {}
    for restarts, keys in epochs:
        for name in ("one", "two"):
            is_new = name in restarts and name not in before
            begins = is_new or (bool(restarts.get(name)) and restarts[name] != before[name])
            for key in "ab":
                count[name, key] = 0 if begins else count[name, key]
                seq[name, key] = 0 if is_new else seq[name, key]
        expected = {}
        for name, key in ((name, key) for name in restarts for key in keys):
            count[name, key] += 1
            seq[name, key] += 1
            expected[name, key] = seq[name, key], count[name, key]
        before = restarts
    assert sent(epochs) == expected


def test_what_fails_is_told_with_its_key():
    broken = LOG.replace("self.count += 1", "1 / (dora_event['value'][0].as_py() - 5)")
    made = logging(("v", "rows/v"))
    driven = harness(EventOperators(**{**vars_of(made), "files": (("log.py", broken),)}))
    with pytest.raises(OperatorFailedError, match="ZeroDivisionError") as caught:
        driven.process([{"t": 0, "k": "a", "v": 5}])
    assert (caught.value.where["key"], caught.value.where["node"]) == ("a", "log")


def vars_of(made):
    return {name: getattr(made, name) for name in ("name", "sources", "operators", "files", "partition_by")}


@pytest.mark.parametrize("kind", [pa.float64(), pa.list_(pa.int64())], ids=str)
def test_a_key_of_a_type_with_several_spellings_is_refused(kind):
    schema = pa.schema([("t", pa.int64()), ("k", kind), ("v", pa.int64())])
    with pytest.raises(SchemaError, match="cannot be partitioned by 'k'"):
        OperatorHarness(logging(("v", "rows/v")), schema, event_time="t")


# --- in a file -------------------------------------------------------------------------------------------------------

SOURCE = """
nodes:
  - {id: rows, source: rows, outputs: {v: v}}
"""
PARTITIONED = (
    SOURCE
    + """
  - id: log
    operator: {python: log.py, inputs: {v: rows/v}, outputs: [log], output_types: {log: string}, partition_by: k}
"""
)
BEHIND = """
  - id: behind
    operator: {python: log.py, inputs: {v: log/log}, outputs: [log], output_types: {log: string}}
"""


def pipeline(folder, text, engine="sail", **settings):
    (folder / "log.py").write_text(LOG)
    (folder / "dataflow.yml").write_text(text)
    times = [START + timedelta(seconds=epoch) for epoch in range(2)]
    given = [[{"t": time, "k": key, "v": epoch} for key in KEYS * 2] for epoch, time in enumerate(times)]
    sources = do.Sources()
    sources.add("rows", do.MemorySource(given, schema="t timestamp, k string, v long"), event_time="t")
    return do.Pipeline.from_yaml(
        folder / "dataflow.yml", root=str(folder / "root"), sources=sources, engine=ENGINES[engine], **settings
    )


@pytest.mark.parametrize("engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)])
def test_a_partitioned_operator_runs_in_several_subtasks_and_goes_on_in_another_number_of_them(engine, tmp_path):
    pipeline(tmp_path, PARTITIONED, engine, parallelism=3).run_epoch()
    again = pipeline(tmp_path, PARTITIONED, engine, parallelism=2)
    again.run_until_caught_up()
    rows = again.read("log/log").collect()
    assert [row.time for row in rows] == sorted(row.time for row in rows)
    for key in KEYS:
        own = [(row.seq, *row.value) for row in rows if row.key == key]
        assert own == [(number + 1, f"{number + 1} INPUT v [{number // 2}]") for number in range(4)]
    told = again.read("events_by_k").collect()
    assert {(row.epoch, row.key, row.operator, row.events) for row in told} == {
        (epoch, key, "log", 2) for epoch in (1, 2) for key in KEYS
    }


@pytest.mark.parametrize(
    "engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
)
def test_an_epoch_without_restart_is_one_for_keys_in_all_subtasks(engine, tmp_path):
    (tmp_path / "log.py").write_text(LOG)
    batches = [[{"t": START + timedelta(seconds=n), "k": k, "v": n} for k in keys] for n, keys in enumerate((KEYS, "x", KEYS))]
    for text in (restarting := PARTITIONED.replace("partition_by", "restart: 1, partition_by"), PARTITIONED, restarting):
        (tmp_path / "dataflow.yml").write_text(text)
        sources = do.Sources()
        sources.add("rows", do.MemorySource(batches, schema="t timestamp, k string, v long"), event_time="t")
        made = do.Pipeline.from_yaml(
            tmp_path / "dataflow.yml", root=str(tmp_path / "root"), sources=sources, engine=ENGINES[engine], parallelism=3
        )
        made.run_epoch()
    told = [(row.seq, *row.value) for row in made.read("log/log").collect() if row.value[0].endswith("[2]")]
    assert told == [(2, "1 INPUT v [2]")] * len(KEYS)


def test_operators_with_and_without_partitions_read_the_same_source(tmp_path):
    text = PARTITIONED + "  - {id: all, operator: {python: log.py, inputs: {v: rows/v}, outputs: [log]}}\n"
    made = pipeline(tmp_path, text)
    assert {*made.tables} == {"events", "events_by_k", "log__log", "all__log"}
    assert "shuffle by k" in str(made.explain())


@pytest.mark.sail
@pytest.mark.parametrize("beside", ["", "  - {id: all, operator: {python: log.py, inputs: {v: rows/v}, outputs: [log]}}\n"])
def test_late_rows_are_a_stream_of_their_source(tmp_path, beside):
    (tmp_path / "log.py").write_text(LOG)
    (tmp_path / "dataflow.yml").write_text(PARTITIONED + beside)
    seconds = [(10, 1), (12, 2), (3, 3), (13, 4)]
    sources = do.Sources()
    batches = [[{"t": START + timedelta(seconds=at), "k": key, "v": v} for key in KEYS] for at, v in seconds]
    sources.add("rows", do.MemorySource(batches, schema="t timestamp, k string, v long"), event_time="t")
    made = do.Pipeline.from_yaml(tmp_path / "dataflow.yml", root=str(tmp_path / "root"), sources=sources, engine=ENGINES["sail"])
    made.add(do.query("rows__late").to_table("late"))
    made.run_until_caught_up()
    assert sorted((row.k or "", row.v) for row in made.read("late").collect()) == sorted((key or "", 3) for key in KEYS)


def told_of(tmp_path, text):
    with pytest.raises(QueryError) as caught:
        pipeline(tmp_path, text)
    return [(error.where["line"], error.where["character"], error.problem, error.remedy) for error in caught.value.errors]


@pytest.mark.parametrize(
    ("old", "new", "character", "problem"),
    [
        ("partition_by: k", "partition_by: q", 112, "which the source 'rows' does not have"),
        (
            "v: rows/v}, outputs: [log], output_types: {log: string}, partition_by: k",
            "v: rows/v, w: rows/v}, outputs: [log], output_types: {log: string}, partition_by: q",
            123,
            "does not have",
        ),
        ("partition_by: k", "partition_by: t", 112, "which is the time of the source"),
        ("partition_by: k", "partition_by: [k]", 112, "partition_by is no column"),
        ("output_types: {log: string}, ", "", 83, "its output 'log' has no type"),
        ("v: rows/v}, outputs: [log], output", "v: dora/timer/secs/1}, outputs: [log], output", 123, "and reads no source"),
    ],
    ids=["column", "column of two inputs", "time", "list", "type", "source"],
)
def test_what_is_wrong_with_a_partition_is_told_with_its_place(tmp_path, old, new, character, problem):
    ((line, place, told, remedy),) = told_of(tmp_path, PARTITIONED.replace(old, new))
    assert problem in told
    assert (line, place) == (6, character)
    assert remedy


TYPED = """
nodes:
  - id: rows
    source: {memory: {batches: [], schema: "t timestamp, k KIND, v long"}, event_time: t}
    outputs: {v: v}
  - id: more
    source: {memory: {batches: [], schema: "t timestamp, k OTHER, v long"}, event_time: t}
    outputs: {v: v}
  - id: log
    operator:
      {python: log.py, inputs: {v: rows/v, w: more/v}, outputs: [log], output_types: {log: string}, partition_by: k}
"""


@pytest.mark.parametrize(
    ("kind", "other", "problem", "remedy"),
    [
        ("double", "double", "by 'k', which is of the type double in the source 'rows'", "whole numbers"),
        ("string", "long", "by 'k', which is of the type int64 in the source 'more', and string in 'rows'", "give it one type"),
    ],
    ids=["double", "two types"],
)
def test_the_type_of_a_partition_is_told_when_the_file_is_read(tmp_path, kind, other, problem, remedy):
    told = told_of(tmp_path, TYPED.replace("KIND", kind).replace("OTHER", other))
    assert [(line, place) for line, place, _, _ in told] == [(11, 115)] * len(told)
    assert problem in told[0][2]
    assert remedy in told[0][3]
    pipeline(tmp_path, TYPED.replace("KIND", "string").replace("OTHER", "string"))


def test_operators_that_read_each_other_are_partitioned_alike(tmp_path):
    ((line, _, problem, remedy),) = told_of(tmp_path, PARTITIONED + BEHIND)
    assert (line, problem) == (9, "the operator 'behind' is not partitioned, and reads 'log/log', which is partitioned by 'k'")
    assert remedy == "give it partition_by: k, too"
    made = pipeline(tmp_path, PARTITIONED + BEHIND.replace("string}}", "string}, partition_by: k}"))
    assert {*made.tables} == {"events_by_k", "log__log", "behind__log"}
    ((_, _, problem, remedy),) = told_of(
        tmp_path, PARTITIONED.replace(", partition_by: k", "") + BEHIND.replace("string}}", "string}, partition_by: k}")
    )
    assert problem == "the operator 'behind' is partitioned by 'k', and reads 'log/log', which is not partitioned"
    assert remedy == "give 'log' partition_by: k, too"


def test_a_script_needs_to_have_no_state(tmp_path):
    (tmp_path / "script.py").write_text("from dora import Node\nfor event in Node():\n    pass\n")
    text = SOURCE + "  - {id: script, path: script.py, inputs: {v: rows/v}, partition_by: k}\n"
    ((_, _, problem, remedy),) = told_of(tmp_path, text)
    assert "has no state that could be kept for each key" in problem
    assert "state: none" in remedy
    pipeline(tmp_path, text.replace("partition_by", "state: none, partition_by"))


@pytest.mark.sail
def test_partition_by_that_is_added_later_is_asked_about(tmp_path):
    pipeline(tmp_path, PARTITIONED.replace(", partition_by: k", "")).run_epoch()
    changed = pipeline(tmp_path, PARTITIONED)
    with pytest.raises(UndecidedChangeError, match="events_by_k would begin without state"):
        changed.run_epoch()
    changed.decide("operator events", "drop")
    changed.run_until_caught_up()
    rows = changed.read("log__log").collect()
    assert (len(rows), {row.key for row in rows}) == (80, {None, *KEYS})


def test_what_is_saved_of_all_keys_is_put_at_once(monkeypatch):
    rows, counts = EventProgram._rows, []

    def counting(self, keys, *columns):
        made = rows(self, keys, *columns)
        counts.append(len(made))
        return made

    monkeypatch.setattr(EventProgram, "_rows", counting)
    driver = harness(logging(("v", "rows/v")), 1)
    driver.process([{"t": 0, "k": f"k{number}", "v": 1} for number in range(3)])
    driver.end_epoch(0)
    assert len(counts) == 1


OWN_CLASS = LOG.replace("self.count", "self.box.count").replace("self.box.count = 0", "self.box = Box()")
OWN_CLASS = "import pickle\nclass Box:\n    count = 0\n" + OWN_CLASS.replace("+= 1", "+= 1; assert type(self.box) is Box")
OWN_BYTES = """
    def get_state(self):
        return pickle.dumps(self.box)
    def set_state(self, value):
        self.box = pickle.loads(value)
"""


@pytest.mark.parametrize(("text", "state"), [(OWN_CLASS, "pickle"), (OWN_CLASS + OWN_BYTES, "plain")], ids=["state", "own"])
def test_an_object_of_the_files_own_class_is_pickled_for_each_of_several_keys(text, state):
    made = replace(logging(("v", "rows/v"), state=state), files=(("log.py", text),))
    driver = harness(made, 1)
    for keys in (["a", "b", "c"], ["c", "a"], ["b", "c", "a"]):
        driver.process([{"t": 0, "k": key, "v": 1} for key in keys])
        driver.end_epoch(0)
    assert {key: text[:1] for key, rows in told(driver).items() for _, text in rows[-1:]} == {"a": "3", "b": "2", "c": "3"}


def test_an_output_that_is_not_declared_is_told_once_for_all_keys(caplog):
    text = LOG.replace("self.count += 1", "self.count += 1; send_output('lost', [1])")
    one = harness(replace(logging(("v", "rows/v")), files=(("log.py", text),)))
    one.process([{"t": 0, "k": f"k{number}", "v": number} for number in range(20)])
    counts = [report.metrics["ignored.log/lost"] for report in one.end_epoch().values() if report.metrics]
    assert sum(counts) == 20
    assert len([message for message in caplog.messages if "'lost'" in message]) == len(counts) <= 4  # one by subtask
