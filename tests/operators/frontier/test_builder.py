"""Operators of several inputs and outputs: what is connected, when the logic is called, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import CapabilityError, PipelineError
from dagster_operators.testing import OperatorHarness
from tests.engines import ENGINES, SAIL
from tests.operators.frontier.driving import run

SCHEMA = "v long"
PACT = frontier.Pipeline()


def builder(inputs=1):
    pipeline = do.Pipeline("p", root="nowhere")
    source = do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz")
    streams = [pipeline.source(f"in_{number}", source, event_time="t") for number in range(inputs)]
    return frontier.OperatorBuilder("built", pipeline), streams


def hand_on(way):
    """A constructor whose logic uses the capability of each batch in some way."""

    def constructor(capabilities, info):
        def logic(inputs, outputs):
            for given in inputs:
                for time, batch in given:
                    way(time, batch, outputs)

        return logic

    return constructor


def built(own, constructor, **more):
    found = own.build(constructor, **more)
    return frontier.definition_of(found[0] if isinstance(found, tuple) else found)


def test_outputs_are_connected_to_the_inputs_that_there_are():
    own, (one, two) = builder(2)
    numbers = [own.new_input(one, PACT), own.new_output(), own.new_input(two, PACT), own.new_output("w long")]
    definition = built(own, hand_on(lambda *_: None))
    assert numbers == [0, 0, 1, 1]
    assert definition.summaries == (((0,), (0,)), ((0,), (0,)))
    own, (one, two) = builder(2)
    own.new_input(one, PACT)
    own.new_output_connection([(0, [3, 2])])
    own.new_input_connection(two, PACT, [(0, [])])
    assert built(own, hand_on(lambda *_: None)).summaries == (((2,),), ((),))


def test_rows_come_out_no_earlier_than_the_summary_says():
    own, (one,) = builder()
    own.new_input(one, PACT)
    own.new_output_connection([(0, [2])])
    later = hand_on(lambda time, batch, outputs: outputs[0].session(time.delayed(time.time + 2)).give_batch(batch))
    assert run(built(own, later), SCHEMA, [(3, {"v": 1})]) == {5: [{"v": 1}]}
    for way, message in (
        (lambda time, batch, outputs: time.retain(), "delay to 5 or later"),
        (lambda time, batch, outputs: time.delayed(4), "delay to 5 or later"),
        (lambda time, batch, outputs: outputs[0].session(time), r"delayed\(time, output\)"),
    ):
        own, (one,) = builder()
        own.new_input(one, PACT)
        own.new_output_connection([(0, [2])])
        with pytest.raises(CapabilityError, match=message):
            run(built(own, hand_on(way)), SCHEMA, [(3, {"v": 1})])


def test_a_summary_moves_the_frontier_of_its_output():
    own, (one, two) = builder(2)
    own.new_input(one, PACT)
    own.new_output_connection([(0, [2])])
    own.new_input_connection(two, PACT, [(0, [5])])
    own.new_output_connection([(1, [1])])
    own.new_output_connection([(0, []), (1, [])])

    def logic_of(capabilities, info):
        capabilities.clear()
        return lambda inputs, outputs: [given.for_each(lambda *_: None) for given in inputs]

    harness = OperatorHarness(built(own, logic_of), *[f"{SCHEMA}, t timestamp_ntz"] * 2, event_time="t")
    told = []
    for marks in ((10, 3), (11, 9), (20, 15)):
        for index, mark in enumerate(marks):
            harness.move(mark, index)
        reports = harness.end_epoch()
        told.append([harness.frontier(port).elements for port in ("main", "output_1", "output_2")])
        ports = [reports[0].frontiers[port].elements for port in ("main", "output_1", "output_2")]
        assert ports == told[-1]
    assert told == [[(8,), (4,), ()], [(13,), (10,), ()], [(20,), (16,), ()]]


def test_what_is_held_counts_beside_what_a_summary_says():
    def keeping(capabilities, info):
        capabilities.clear()

        def logic(inputs, outputs):
            for time, _ in inputs[0]:
                info.state["kept"].insert(time.delayed(time.time + 2))

        return logic

    own, (one,) = builder()
    own.new_input(one, PACT)
    own.new_output_connection([(0, [2])])
    definition = built(own, keeping, state={"kept": frontier.CapabilityState()})
    harness = OperatorHarness(definition, f"{SCHEMA}, t timestamp_ntz", event_time="t")
    harness.process([{"v": 1, "t": 4}])
    harness.end_epoch(5)
    assert harness.frontier().elements == (6,)
    harness.end_epoch(9)
    assert harness.frontier().elements == (6,)


@pytest.mark.parametrize(
    ("way", "message"),
    [
        (lambda time, batch, outputs: outputs[1].session(time), "not connected"),
        (lambda time, batch, outputs: time.retain(1), "not connected"),
        (lambda time, batch, outputs: outputs[1].session(time.retain(0)), r"of the output 'main' is used .* retain\(1\)"),
    ],
)
def test_a_capability_is_for_one_output(way, message):
    own, (one,) = builder()
    own.new_output()
    own.new_output()
    own.new_input_connection(one, PACT, [(0, [0])])
    with pytest.raises(CapabilityError, match=message):
        run(built(own, hand_on(way)), SCHEMA, [(3, {"v": 1})])


@pytest.mark.parametrize(
    ("interest", "keeps", "calls"),
    [
        ("never", False, [1, 1]),
        ("if_capability", False, [1, 1]),
        ("if_capability", True, [2, 3]),
        (frontier.FrontierInterest.Always, False, [2, 3]),
    ],
)
def test_the_logic_is_called_when_it_is_interested(interest, keeps, calls):
    called = []

    def counting(capabilities, info):
        if not keeps:
            capabilities.clear()

        def logic(inputs, outputs):
            called.append(len(capabilities))
            inputs[0].for_each(lambda *_: None)

        return logic

    own, (one,) = builder()
    own.new_input(one, PACT)
    own.new_output()
    own.set_notify_for(0, interest)
    harness = OperatorHarness(built(own, counting), f"{SCHEMA}, t timestamp_ntz", event_time="t")
    harness.process([{"v": 1, "t": 1}])
    told = []
    for watermark in (2, 3):
        harness.end_epoch(watermark)
        told.append(len(called))
    assert told == calls


def test_each_output_has_what_is_held_there():
    def keeping(capabilities, info):
        def logic(inputs, outputs):
            for time, _ in inputs[0]:
                info.state["kept"].insert(time.retain(1))

        return logic

    own, (one,) = builder()
    own.new_input(one, PACT)
    own.new_output()
    own.new_output()
    definition = built(own, keeping, state={"kept": frontier.CapabilityState(1)})
    harness = OperatorHarness(definition, f"{SCHEMA}, t timestamp_ntz", event_time="t")
    harness.process([{"v": 1, "t": 4}])
    harness.end_epoch(9)
    assert (harness.frontier().elements, harness.frontier("output_1").elements) == ((9,), (4,))
    assert harness.holds() == [{"place": "kept", "time": 4, "output": "output_1", "subtask": 0}]


def test_what_does_not_fit_is_refused():
    own, (one,) = builder()
    with pytest.raises(PipelineError, match="needs an input or an output"):
        own.build(hand_on(lambda *_: None))
    with pytest.raises(PipelineError, match=r"there is no output 0 yet.*new_output"):
        own.new_input_connection(one, PACT, [(0, [0])])
    own.new_input(one, PACT)
    with pytest.raises(PipelineError, match="the input 0 is connected twice"):
        own.new_output_connection([(0, [0]), (0, [1])])
    with pytest.raises(PipelineError, match="there is no input 1 yet"):
        own.set_notify_for(1, "never")
    with pytest.raises(PipelineError, match=r"no interest 'sometimes'.*never, if_capability, always"):
        own.set_notify_for(0, "sometimes")
    own.new_output()
    own.build(hand_on(lambda *_: None))
    with pytest.raises(PipelineError, match="is built already"):
        own.build(hand_on(lambda *_: None))


def counting(capabilities, info):
    def logic(inputs, outputs):
        assert (inputs, len(outputs)) == ([], 1)
        for capability in list(capabilities):
            outputs[0].session(capability).give(v=capability.time)
            if capability.time == 4:
                capabilities.clear()
            else:
                capability.downgrade(capability.time + 1)
                info.activator.activate()

    return logic


def recorded(path):
    """A constructor whose logic writes down what comes, in a file."""

    def constructor(capabilities, info):
        stash = info.state["stash"]

        def logic(inputs, outputs):
            assert (capabilities, outputs) == ([], [])
            inputs[0].for_each(stash.add)
            for time, rows in stash.complete(inputs[0].frontier):
                with path.open("a") as file:
                    file.write(f"{time.time}{rows['v'].to_pylist()}\n")

        return logic

    return constructor


@pytest.mark.parametrize("reschedule", [False, True])
def test_without_an_input_it_is_a_source_and_without_an_output_a_sink(sail, tmp_path, reschedule):
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    first = frontier.OperatorBuilder("numbers", pipeline)
    first.new_output(SCHEMA)
    numbers = first.build_reschedule(counting, calls=2) if reschedule else first.build(counting)
    numbers.to_table("numbers")
    last = frontier.OperatorBuilder("written", pipeline)
    last.new_input(numbers, PACT)
    assert last.build(recorded(tmp_path / "written"), state={"stash": frontier.StashState()}).name == "written"
    assert list(pipeline.dataflow.sinks) == ["written"]
    pipeline.run_until_caught_up()
    assert (tmp_path / "written").read_text().split() == [f"{time}[{time}]" for time in range(5)]


def two_clocks(capabilities, info):
    """Numbers at one output, and every second one of them at the other, which is ahead; two of each in an epoch."""
    kept, last = info.state["kept"], info.state["last"]
    for capability in capabilities:
        if capability is not None:
            kept.insert(capability)
    capabilities.clear()

    def logic(inputs, outputs):
        assert (inputs, len(outputs)) == ([], 2)
        for capability in list(kept):
            number, time = capability.outlet.number, capability.time
            outputs[number].session(capability).give({"vw"[number]: time})
            capability.downgrade(time + 1 + number)
            last.put(pa.table({"output": [number], "time": [time]}))
        if all(capability.time > 5 for capability in kept):
            kept.clear()
        else:
            info.activator.activate()
        return len(kept) > 0

    return logic


STATE = {"kept": frontier.CapabilityState(), "last": do.KeyedState("output long, time long", key="output")}


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_without_an_input_it_may_have_several_outputs_and_keep_what_it_declares(tmp_path, engine):
    def pipeline():
        made = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES[engine], parallelism=2)
        own = frontier.OperatorBuilder("clocks", made)
        own.new_output("v long"), own.new_output("w long")
        slow, quick = own.build_reschedule(two_clocks, state=STATE, calls=2)
        slow.select("v", "unix_micros(t) AS time").to_table("slow")
        quick.select("w", "unix_micros(t) AS time").to_table("quick")
        return made

    made = pipeline()
    made.run_epoch()
    held = {"clocks: 1970-01-01T00:00:00.000003Z by kept", "clocks.output_1: 1970-01-01T00:00:00.000006Z by kept"}
    assert held <= {line.strip() for line in made.explain(holds=True).splitlines()}
    again = pipeline()
    again.run_until_caught_up()
    assert sorted(map(tuple, again.read("slow").collect())) == [(time, time) for time in range(6)]
    assert sorted(map(tuple, again.read("quick").collect())) == [(time, time) for time in range(0, 12, 2)]
    assert "by kept" not in again.explain(holds=True)


def test_without_an_input_all_columns_are_to_be_told():
    for schemas in ([None], [SCHEMA, None]):
        own, _ = builder()
        for schema in schemas:
            own.new_output(schema)
        with pytest.raises(PipelineError, match=r"columns of its output are not told.*new_output"):
            own.build(counting)
        assert not own._pipeline.dataflow.nodes.keys() - {"in_0"}
