"""Messages of sources come in the order of their time, whatever the epochs; without an engine."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.operators.events import message_order
from dagster_operators.operators.events.wiring import EventSource
from dagster_operators.testing import OperatorHarness
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from tests.operators.events.dataflows import LOG, dataflow, operator

EXAMPLES = int(os.environ.get("DAGSTER_OPERATORS_CHANGES", "0")) or 25
LATENESS = 3

ROWS = st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.integers(10, 20), st.integers(0, 2)), min_size=1, max_size=12)
"""The source, the time and the key of each row, in the order of arrival."""


def made(*, partitioned=False, order="time", derived=(), inputs=None):
    sources = [EventSource(node, (("n", "v"),), "t", derived=node in derived) for node in ("b", "a", "c")]
    read = [(node, f"{node}/n") for node in (inputs or ("a", "b", "c"))]
    log = operator("log", [*read, ("tick", "dora/timer/nanos/3000")], ["log"], {"log": "string"})
    found = replace(dataflow([log], {"log": LOG}, sources), order=order)
    found = replace(found, closes="time" if order == "time" else "")
    return replace(found, partition_by="k") if partitioned else found


def logged(dataflow, epochs, *, before=None, timed=False):
    """What the operator is told when rows come in some epochs, each with its watermarks; and the harness."""
    with OperatorHarness(dataflow, *["t bigint, v bigint, k bigint"] * 3, event_time="t") as harness:
        if before is not None:
            harness.restore(before)
        told, late = [], 0
        for rows, marks in epochs:
            for port, batch in enumerate(rows):
                harness.process(batch, port)
                harness.move(marks[port], port)
            harness.end_epoch()
            logged_rows = harness.rows("log/log")
            told += [(row.get("key"), f"{row['time']} {row['value'][0]}" if timed else row["value"][0]) for row in logged_rows]
            late += len([row for one in dataflow.sources for row in harness.rows(one.late)])
        return told, late, harness.late_rows, harness.snapshot()


def cut(rows, cuts):
    """Epochs of rows, which end behind some of them; a source's rows are late by less than the lateness, or they are left out."""
    epochs, marks, part = [], [MIN_WATERMARK] * 3, [[], [], []]
    for number, (port, time, key) in enumerate(rows):
        part[port].append({"t": time, "v": number, "k": key})
        marks[port] = max(marks[port], time - LATENESS)
        if number in cuts:
            epochs.append((part, tuple(marks)))
            part = [[], [], []]
    return [*epochs, (part, (MAX_WATERMARK,) * 3)]


def ended_at(rows, cuts, ends):
    """Epochs of rows as ``cut`` gives them, of which each source is known to have ended some epochs behind its last row."""
    epochs = cut(rows, cuts)
    last = [max((n for n, (some, _) in enumerate(epochs) if some[port]), default=0) for port in range(3)]
    return [
        (some, tuple(MAX_WATERMARK if n >= last[port] + ends[port] else mark for port, mark in enumerate(marks)))
        for n, (some, marks) in enumerate(
            [*epochs[:-1], (epochs[-1][0], epochs[-2][1] if len(epochs) > 1 else (MIN_WATERMARK,) * 3)]
        )
    ] + [([[], [], []], (MAX_WATERMARK,) * 3)]


@given(
    rows=ROWS,
    cuts=st.sets(st.integers(0, 12)),
    ends=st.tuples(*[st.integers(0, 3)] * 3),
    partitioned=st.booleans(),
    derived=st.sampled_from([(), ("a",), ("a", "b")]),
)
@settings(max_examples=EXAMPLES, deadline=None)
def test_inputs_are_closed_at_the_same_place_for_every_cut(rows, cuts, ends, partitioned, derived):
    rows = in_time(rows)
    dataflow = made(partitioned=partitioned, derived=derived)
    whole, *_ = logged(dataflow, cut(rows, ()), timed=True)
    told, *_ = logged(dataflow, ended_at(rows, cuts, ends), timed=True)
    assert sorted(told, key=lambda one: one[0] or 0) == sorted(whole, key=lambda one: one[0] or 0)


def in_time(rows):
    latest, kept = {}, []
    for port, time, key in rows:
        latest[port] = max(latest.get(port, time), time)
        if time >= latest[port] - LATENESS:
            kept.append((port, time, key))
    return kept


@given(rows=ROWS, cuts=st.sets(st.integers(0, 12)), partitioned=st.booleans(), derived=st.sampled_from([(), ("a",), ("a", "b")]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_every_cut_gives_the_same(rows, cuts, partitioned, derived):
    rows = in_time(rows)
    dataflow = made(partitioned=partitioned, derived=derived)
    whole, late, counted, _ = logged(dataflow, cut(rows, ()))
    told, *more, _ = logged(dataflow, cut(rows, cuts))
    assert sorted(told, key=lambda one: one[0] or 0) == sorted(whole, key=lambda one: one[0] or 0)
    assert [late, counted, *more] == [0, 0, 0, 0]


def row(time, value):
    return {"t": time, "v": value, "k": 0}


def values(told):
    return [text.split()[-1] for _, text in told if "INPUT " in text and "tick" not in text]


def test_a_row_at_the_watermark_waits_for_sources_that_come_before_it_alone():
    first = [[row(10, 1)], [row(11, 2)], [row(10, 3)]], (10, 11, 10)  # of b, a and c
    told, *_, then = logged(made(), [first])
    assert values(told) == ["[1]"]  # the row of c waits for further ones of b, and that of a for earlier ones
    told, *_ = logged(made(), [([[row(10, 4)], [row(11, 5)], []], (12, 12, 12))], before=then)
    assert values(told) == ["[4]", "[3]", "[2]", "[5]"]


def test_rows_that_are_too_late_are_counted_and_a_stream():
    told, late, counted, _ = logged(
        made(), [([[row(10, 1)], [], []], (10, 10, 10)), ([[row(9, 2)], [row(10, 3)], []], (11,) * 3)]
    )
    assert (values(told), late, counted) == (["[3]", "[1]"], 1, 1)


def test_what_is_read_to_its_end_is_closed_behind_its_last_row():
    first = [[row(10, 1)], [row(30, 2)], []], (10, MAX_WATERMARK, 10)
    *_, then = logged(made(), [first])
    told, *_ = logged(made(), [([[], [], []], (40, MAX_WATERMARK, 40))], before=then)
    assert [text.split(" ", 1)[1] for _, text in told if "tick" not in text] == ["INPUT a [2]", "INPUT_CLOSED a None"]


def test_what_an_earlier_version_began_goes_on_in_the_order_of_arrival_unless_the_file_says_another():
    *_, then = logged(made(order=""), [([[row(10, 1)], [], []], (5, 5, 5))])
    late = [([[row(3, 2)], [row(20, 3)], []], (6, 6, 6))]
    for _ in range(2):  # the second epoch knows it, too
        told, _, counted, then = logged(made(), late, before=then)
        assert (values(told), counted) == (["[2]", "[3]"], 0)
    said = replace(made(), descriptor='{"order": "time"}')
    told, _, counted, then = logged(said, late, before=then)
    assert (values(told), counted) == ([], 1)
    told, *_ = logged(made(order="arrival"), [([[], [], []], (6, 6, 6))], before=then)
    assert values(told) == ["[3]"]  # what waited


def test_what_an_earlier_version_began_is_closed_as_epochs_end_unless_the_file_says_the_order():
    before = replace(made(), closes="")
    rows = [[row(10, 1)], [row(10, 2), row(12, 3)], []]
    *_, then = logged(before, [(rows, (10, 10, 10))])
    ends = [([[row(15, 4)], [], []], (20, MAX_WATERMARK, 20))]
    last = ["INPUT b [1]", "INPUT a [3]", "INPUT b [4]"]

    def heard(flow):
        told, *_, saved = logged(flow, ends, before=then)
        return [text.split(" ", 1)[1] for _, text in told if "tick" not in text], saved

    told, saved = heard(made())
    assert told == [*last, "INPUT_CLOSED a None"], "as it was"
    assert heard(replace(made(), descriptor='{"order": "time"}'))[0] == [*last[:2], "INPUT_CLOSED a None", last[2]]
    streams = ["x", "y", "z"]
    assert made().going_on(before, streams, streams).config() == before.config()
    said = replace(made(), descriptor='{"order": "time"}').going_on(before, streams, streams)
    assert "was closed at the end of the epoch that read it, and is to be closed behind the last row" in said.mixed_up(before)
    told, *_ = logged(made(), [([[row(30, 5)], [], []], (30, MAX_WATERMARK, 30))], before=saved)
    assert [text.split(" ", 1)[1] for _, text in told if "tick" not in text] == ["INPUT b [5]"]


def test_rows_that_wait_are_read_with_columns_that_the_source_did_not_have():
    *_, then = logged(made(), [([[row(10, 1)], [], []], (5, 5, 5))])
    wide = replace(made(), sources=tuple(EventSource(one.node, (("n", "w"),), "u") for one in made().sources))
    with OperatorHarness(wide, *["u bigint, w bigint, k bigint"] * 3, event_time="u") as harness:
        harness.restore(then)
        harness.end_epoch(20)
        assert [text for text in (one["value"][0] for one in harness.rows("log/log")) if "b [None]" in text]
    assert pa.types.is_string(harness.ports["log/log"].field("value").type.value_type)


def test_rows_of_operators_that_tie_are_ordered_by_content_and_others_are_not_looked_into(monkeypatch):
    source = EventSource("a", (("v", "v"),), "t", derived=True)
    looked, far = [], pa.array([2**60, 1, 2**60], pa.timestamp("us"))  # the first is beyond Python's years
    key = message_order._Content.key
    monkeypatch.setattr(message_order._Content, "key", property(lambda one: looked.append(one) or key.fget(one)))
    orders = []
    for places in ([0, 1, 2], [2, 1, 0]):
        order = message_order.MessageOrder([source], "t", "", MIN_WATERMARK)
        rows = pa.record_batch({"t": pa.array([5, 5, 6], pa.timestamp("us")), "v": pa.array([1, 2, 3]), "w": far})
        for place in places:
            order.put(0, rows.slice(place, 1))
        order.move([MAX_WATERMARK])
        orders.append([one.rows.column("v")[one.number].as_py() for one in order.due()])
    assert orders[0] == orders[1]
    assert orders[0][2] == 3
    assert {one._rows.column("v")[one._number].as_py() for one in looked} == {1, 2}


@given(
    rows=ROWS,
    cuts=st.sets(st.integers(0, 12)),
    ids=st.lists(st.permutations(["a", "b", "c", "d", "e"]), min_size=13, max_size=13),
    partitioned=st.booleans(),
)
@settings(max_examples=EXAMPLES, deadline=None)
def test_rows_that_wait_stay_with_their_stream_whatever_the_ids_of_source_nodes_are(rows, cuts, ids, partitioned):
    streams, before, saved, told = ["x", "y", "z"], None, None, []
    epochs = cut(in_time(rows), cuts)
    for nodes, epoch in zip(ids, epochs, strict=False):
        inputs = [(f"i{number}", f"{node}/n") for number, node in enumerate(nodes[:3])]
        log = operator("log", inputs, ["log"], {"log": "string"})
        own = replace(made(partitioned=partitioned), operators=(log,))
        own = replace(own, sources=tuple(replace(one, node=node) for one, node in zip(own.sources, nodes, strict=False)))
        if before is not None:
            assert own.mixed_inputs(before, streams, streams) == ""
            own = own.going_on(before, streams, streams)
            assert own.going_on(before, streams, streams).config() == own.going_on(own, streams, streams).config() == own.config()
        some, *_, saved = logged(own, [epoch], before=saved)
        told += [text.split(" ", 1)[1] for _, text in some if " INPUT " in text]
        before = own
    expected = [f"INPUT i{port} [{number}]" for number, (port, *_) in enumerate(in_time(rows))]
    assert sorted(told) == sorted(expected)


@pytest.mark.parametrize("partitioned", [False, True])
def test_rows_that_wait_are_kept_while_the_file_has_their_node_not(partitioned):
    own = made(partitioned=partitioned)
    a, b, c = own.sources[1], own.sources[0], own.sources[2]
    *_, saved = logged(own, [([[row(6, 1)], [row(7, 2)], []], (1, 1, 1))])
    without = replace(own, sources=(replace(b, node="d"), a, c))
    told, *_, saved = logged(without, [([[], [], []], (8, 8, 8)), ([[], [], []], (9, 9, 9))], before=saved)
    assert values(told) == ["[2]"]
    told, *_, saved = logged(own, [([[row(12, 3)], [], []], (13, 13, 13))], before=saved)
    assert values(told) == ["[1]", "[3]"]
    assert values(logged(own, [([[], [], []], (14, 14, 14))], before=saved)[0]) == [], "once"


def test_whole_rows_that_wait_have_the_columns_that_the_source_has_by_now():
    whole = replace(made(), sources=tuple(EventSource(one.node, (("n", "*"),), "t") for one in made().sources))
    with OperatorHarness(whole, *["t bigint, v bigint, w string"] * 3, event_time="t") as harness:
        harness.process([{"t": 10, "v": 1, "w": "x"}], 0)
        harness.move(5, 0)
        harness.end_epoch()
        then = harness.snapshot()
    with OperatorHarness(whole, *["t bigint, note double, v bigint"] * 3, event_time="t") as harness:
        harness.restore(then)
        harness.end_epoch(20)
        (told,) = (one["value"][0] for one in harness.rows("log/log") if "b [" in one["value"][0])
        assert told.endswith("INPUT b [{'t': 10, 'note': None, 'v': 1}]")
