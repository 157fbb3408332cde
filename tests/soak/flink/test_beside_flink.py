"""Fresh random programs beside Flink itself: the same rows, and plans of which few cost more by the same formula.

``make soak`` asks for them; it takes Java, Maven and the way to Maven Central.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from dagster_operators.operators.datasets.local import LocalExecution
from dagster_operators.optimizer.planning import optimized
from dagster_operators.optimizer.strategies import ExecutionMode
from tests.operators.datasets.flink_functions import work_of
from tests.operators.datasets.in_files import ExecutionInFiles
from tests.optimizer.flink_plans import choices, cost, rounds_of, short, short_of
from tests.optimizer.flink_programs import Translation
from tests.optimizer.random_programs import program
from tests.soak.flink.asking import NotThereError, answers, java_command

COSTS_MORE: Final = "a plan that costs more"
"""Of few: where Flink's plan of an iteration is wrong in later rounds, and where too many candidates are left out."""
PROGRAMS: Final = int(os.environ.get("DAGSTER_OPERATORS_FLINK", "0"))
SEED: Final = int(os.environ.get("DAGSTER_OPERATORS_FLINK_SEED", "0")) or random.randrange(1000, 10**9)  # noqa: S311 - no secret


def steps_of(drawn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All steps, with those within iterations."""
    return [inner for step in drawn["steps"] for inner in (step, *step.get("body", ()))]


def loses_changes(drawn: Mapping[str, Any]) -> bool:
    """Whether it is one of those whose changes of a solution set Flink loses: a map makes the next workset of them."""
    iterations = [step for step in drawn["steps"] if step["op"] == "delta_iteration"]
    return any(step["next"] != step["delta"] for step in iterations)


def depends_on_parts(drawn: Mapping[str, Any]) -> bool:
    """Whether a function that is combined changes the key, so that combined rows come into other groups."""
    return any(1 in (step.get("keys") or ()) and step.get("fn") in ("adds", "combinable") for step in steps_of(drawn))


def compared(drawn: Mapping[str, Any], answer: Mapping[str, Any], folder: Path) -> str:
    """How a program's plan and rows differ from Flink's.

    Raises:
        AssertionError: Other rows.
    """
    seed = drawn["id"]
    mode = ExecutionMode.BATCH if drawn.get("batch") else ExecutionMode.PIPELINED
    plan = optimized(Translation(drawn, work_of).sinks, mode)
    sources = {source["id"]: [tuple(row) for row in source["rows"]] for source in drawn["sources"]}
    found = [LocalExecution(plan, sources, claims=True).run(), ExecutionInFiles(plan, sources, folder).run()]
    rows = [{name.removeprefix("sink "): sorted(map(list, some)) for name, some in one.items()} for one in found]
    result = "refused by Flink" if "error" in answer and "plan" not in answer else ""
    if not drawn.get("plan_only") and not depends_on_parts(drawn):
        assert rows[0] == rows[1], f"seed {seed}: other rows in files"
    if "plan" in answer:
        ours, theirs = short(plan), short_of(answer["plan"]["nodes"])
        costs, their_costs = cost(ours, rounds_of(drawn)), cost(theirs, rounds_of(drawn))
        less = "a plan that costs less" if costs.is_less(their_costs) else "a plan that costs as much"
        if their_costs.is_less(costs):
            less = COSTS_MORE
        result = "the same plan" if choices(ours) == choices(theirs) else less
    if "rows" in answer:
        same = rows[0] == {name: sorted(some) for name, some in answer["rows"].items()}
        assert same or loses_changes(drawn) or depends_on_parts(drawn), f"seed {seed}: {answer['rows']} on Flink, {rows[0]} here"
        result += ", the same rows" if same else ", rows that Flink loses or that depend on parts"
    return result


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(not PROGRAMS, reason="make soak asks Flink: DAGSTER_OPERATORS_FLINK says how many programs")
def test_fresh_programs_have_the_rows_of_flink_and_plans_that_cost_no_more(tmp_path: Path, record_property: Any) -> None:
    try:
        command = java_command(tmp_path)
    except NotThereError as error:
        pytest.skip(str(error))
    programs = [program(seed) for seed in range(SEED, SEED + PROGRAMS)]
    answered = answers(command, programs)
    counts = Counter(compared(drawn, answered[drawn["id"]], tmp_path) for drawn in programs)
    for result, count in counts.items():
        record_property(result, count)
    assert counts.total() == PROGRAMS
    assert sum(count for result, count in counts.items() if COSTS_MORE in result) <= max(3, PROGRAMS // 20), counts
    assert sum(count for result, count in counts.items() if "rows" in result) > PROGRAMS // 2
