"""Programs that hold times: what the outputs' frontiers are by that, and what a report tells of it."""

from __future__ import annotations

import json

import pytest

from dagster_operators.errors import PipelineError
from dagster_operators.operators.worker_program import Report
from dagster_operators.time import FINISHED, Frontier, Product
from dagster_operators.time.watermark import MAX_WATERMARK
from tests.runtime.workers.programs import Logging, Running


class Holding(Logging):
    """Holds what it is told to."""

    def on_frontier(self, inputs, out):
        return self.held


def run(*steps):
    """The reports of a program with two ports after each step: the inputs' watermark, and what it holds from then on."""
    program, told = Holding("a", []), []
    running = Running({"a": program}, [], ports={"a": ["main", "side"]})
    for watermark, program.held in steps:
        running.advance(watermark)
        report = running.subtask.reports()["a"]
        told.append((dict(report.frontiers), report.watermark, dict(report.held)))
    return told


def test_times_of_scopes_of_its_own_count_outside_by_their_outer_part():
    held = {"main": Frontier([Product(3, 7), Product(5, 0)])}
    first, second, last = run((5, held), (9, held), (9, {}))
    assert first == ({"main": Frontier([3]), "side": Frontier([5])}, 3, held)
    assert second == ({"main": Frontier([3]), "side": Frontier([9])}, 3, held)
    assert last == ({"main": Frontier([9]), "side": Frontier([9])}, 9, {})


def test_what_is_held_outlives_the_end_of_the_input():
    held = {"side": Frontier([Product(3, 7)])}
    (_, (frontiers, watermark, _), (let_go, *_)) = run((5, held), (MAX_WATERMARK, held), (MAX_WATERMARK, {"side": FINISHED}))
    assert frontiers == {"main": FINISHED, "side": Frontier([3])}
    assert watermark == 3
    assert let_go == {"main": FINISHED, "side": FINISHED}


def test_what_was_let_go_is_not_held_again():
    first, second = run((5, {}), (6, {"main": Frontier([Product(2, 0)])}))
    assert first[0]["main"] == second[0]["main"] == Frontier([5])


def test_times_can_be_held_only_at_an_output_that_there_is():
    with pytest.raises(PipelineError, match=r"there is no output 'other'.*there are: main, side"):
        run((5, {"other": Frontier([3])}))


def test_a_report_survives_json():
    held = Frontier([Product(3, 7)])
    report = Report({"main": Frontier([3])}, {"main": held, "side": FINISHED}, {"main": {"a.stash": held}}, late=1)
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
