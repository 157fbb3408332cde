"""What a reader of timely's book may do and would get silently wrong answers by: refused, or told."""

from __future__ import annotations

import warnings

import pytest

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import CapabilityError, OperatorFailedError, PipelineError, TimestampError
from dagster_operators.testing import OperatorHarness

TIMED = "k long, v long, t timestamp_ntz"
ROWS = [{"k": 1, "v": 1, "t": 1}, {"k": 2, "v": 2, "t": 1}, {"k": 3, "v": 3, "t": 2}]


def harness(logic, shape="unary", **more):
    return OperatorHarness(frontier.define(shape, frontier.Pipeline(), logic=logic, **more), TIMED, event_time="t")


def epochs(running):
    """What comes out of three epochs with a row each."""
    for row in ROWS:
        running.process([row])
        running.end_epoch()
    return [row["v"] for row in running.rows()]


def count_in_dictionary(capability, info):
    counts = {}

    def logic(given, output):
        for time, batch in given:
            counts["rows"] = counts.get("rows", 0) + batch.num_rows
            output.session(time).give(k=0, v=counts["rows"])

    return logic


def count_in_number(capability, info):
    total = 0

    def logic(given, output):
        nonlocal total
        for time, batch in given:
            total += batch.num_rows
            output.session(time).give(k=0, v=total)

    return logic


def count_in_default(given, output, notificator, total=[0]):  # noqa: B006 - that is what is tried
    for time, batch in given:
        total[0] += batch.num_rows
        output.session(time).give(k=0, v=total[0])


def count_in_cell():
    counts = []

    def logic(given, output, notificator):
        for time, batch in given:
            counts.append(batch.num_rows)
            output.session(time).give(k=0, v=len(counts))

    return logic


@pytest.mark.parametrize(
    ("logic", "shape", "name"),
    [
        (count_in_dictionary, "unary", "counts"),
        (count_in_dictionary, "unary_frontier", "counts"),
        (count_in_number, "unary", "total"),
        (count_in_default, "unary_notify", "total"),
        (count_in_cell(), "unary_notify", "counts"),
    ],
    ids=["dictionary", "dictionary with frontiers", "number", "default", "taken along"],
)
def test_what_a_closure_keeps_is_told_to_be_gone(logic, shape, name):
    running = harness(logic, shape)
    running.process(ROWS)
    with pytest.warns(UserWarning, match=f"what its logic has in {name} is gone when the epoch ends.*declare what is to live on"):
        running.end_epoch()


def clears(capability, info):
    """Keeps something only while an epoch lasts; what does not change is no state either."""
    known, factor, names = [], 10, {"a": 1}

    def logic(given, output):
        for time, batch in given:
            known.append(batch.num_rows)
            output.session(time).give(k=names["a"], v=factor * len(known))
        if len(known):
            known.clear()

    return logic


def test_what_is_cleared_or_does_not_change_is_not_told():
    running = harness(clears)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert epochs(running) == [10, 10, 10]


class Counting:
    """An object that makes the logic, and keeps something itself."""

    def __init__(self):
        self.total = 0

    def __call__(self, capability, info):
        def logic(given, output):
            for time, batch in given:
                self.total += batch.num_rows
                output.session(time).give(k=0, v=self.total)

        return logic


def test_each_epoch_has_a_copy_of_its_own_of_the_object_that_makes_the_logic():
    assert epochs(harness(Counting())) == [1, 1, 1]


def changed_in_place(capability, info):
    def logic(given, output):
        for _, batch in given:
            batch["v"].to_numpy()[0] = 99

    return logic


def given_later(capability, info):
    def logic(given, output):
        given.for_each(lambda time, batch: output.session(time.delayed(2**70)).give(k=0, v=0))

    return logic


def given_numpys_time(capability, info):
    def logic(given, output):
        given.for_each(lambda time, batch: output.session(time.delayed(batch["v"].to_numpy().max())).give_batch(batch))

    return logic


def as_generator(capability, info):
    def logic(given, output):
        for time, batch in given:
            yield output.session(time).give_batch(batch)

    return logic


@pytest.mark.parametrize(
    ("logic", "error", "message"),
    [
        (changed_in_place, OperatorFailedError, "read-only"),
        (given_later, CapabilityError, "no time that a row can have.*64 bits"),
        (given_numpys_time, TimestampError, r"cannot be compared as times.*int\(time\) where numpy made it"),
        (as_generator, OperatorFailedError, "are not read when the epoch ends"),
    ],
    ids=["a batch is changed", "a time beyond all", "a time of numpy", "a generator"],
)
def test_what_would_go_wrong_is_refused(logic, error, message):
    running = harness(logic)
    with pytest.raises(error, match=message):
        epochs(running)


@pytest.mark.parametrize("key", ["rand() * 3 AS place", "uuid() AS place", "current_timestamp() AS place"])
def test_rows_are_sent_to_the_same_place_again(key):
    pipeline = do.Pipeline("p", root="nowhere")
    rows = pipeline.source("rows", do.MemorySource([], schema=TIMED), event_time="t")
    for build in (
        lambda pact: rows.unary(pact, "a", clears),
        lambda pact: frontier.aggregate(rows, pact, max, max),
        lambda pact: frontier.exchange(rows, pact),
    ):
        with pytest.raises(PipelineError, match=r"sends the same row elsewhere when it is read again.*the row's own columns"):
            build(frontier.Exchange(key))
