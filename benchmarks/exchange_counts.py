"""Counts the exchanges in Spark's own plans of an epoch; the code is that of the checkout on ``PYTHONPATH``.

It is run as a file and not as a module, so that it works on checkouts from before it was written. The plans are those that ran:
adaptive execution has changed them by then. Writes a line of JSON for each pipeline.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

FIRST = date(2013, 1, 1)
KINDS = ("Exchange", "BroadcastExchange")


def main() -> None:
    """Run pipelines, and count in the plans of the first epoch of each, and of the last."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("pipelines", nargs="+")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--events", type=int, default=400_000, help="of Nexmark, in all epochs")
    parser.add_argument("--scale", type=float, default=0.02, help="of TPC-H")
    parser.add_argument("--days", type=int, default=60, help="of flights, in all epochs")
    parser.add_argument("--as-large", action="store_true", help="let no rows be few enough for one task")
    parser.add_argument("--plans", action="store_true", help="write the plans of the last epoch to the standard error")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the engine prints, too
    if arguments.as_large:
        _let_nothing_be_few()
    for name in arguments.pipelines:
        pipeline = _made(name, arguments)
        epochs = [_epoch(pipeline, plans=arguments.plans) for _ in range(arguments.epochs)]
        told = {"first": epochs[0], "last": epochs[-1]}
        print(json.dumps({"pipeline": name, **told}), file=answers, flush=True)


def _let_nothing_be_few() -> None:
    """Have rows moved as those of large epochs are, however few there are."""
    from dagster_operators.runtime.stages import stage_inputs, staged_files

    for module in (stage_inputs, staged_files):
        vars(module).update(FEW_BYTES=-1, FEW_ROWS=-1)


def _epoch(pipeline: Any, *, plans: bool) -> dict[str, int]:
    """Run an epoch, and count the exchanges in the plans of its queries."""
    begun = max((number for number, _ in _executions(pipeline)), default=-1)
    pipeline.run_epoch()
    counts: Counter[str] = Counter()
    for number, execution in _executions(pipeline):
        if number > begun:
            found = _exchanges(pipeline, number)
            counts.update(found)
            if plans and found:
                print(execution.description(), execution.physicalPlanDescription(), sep="\n", file=sys.stderr)
    return {kind: counts[kind] for kind in KINDS}


def _made(name: str, arguments: Any) -> Any:
    if name == "flights":
        from jobs.feed import drop_days, drop_weather, write_reference
        from jobs.flights import build

        folder = arguments.folder / "flights"
        write_reference(folder / "reference")
        drop_weather(folder / "reports", FIRST, arguments.days)
        drop_days(folder / "landing", FIRST, arguments.days)
        return build(folder, files_per_epoch=arguments.days // arguments.epochs)
    family, query = name.split(".")
    if family == "tpch":
        from jobs.tpch import generator, job

        folder = arguments.folder / name
        generator.Tpch(folder / "base", arguments.scale, arguments.epochs, 1).make().write(folder / "changes")
        return job.build(folder, [query], steps_per_epoch=1, large=150)
    from jobs.nexmark.generator import Nexmark
    from jobs.nexmark.job import build as nexmark

    folder = arguments.folder / name
    Nexmark(arguments.events, seed=1).write(folder / "events", arguments.epochs)
    return nexmark(folder, [query])


def _executions(pipeline: Any) -> Iterator[tuple[int, Any]]:
    """What Spark remembers of the queries that it ran."""
    session = pipeline.epochs.session
    session._sc._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001 - nothing public waits for it
    executions = session._jsparkSession.sharedState().statusStore().executionsList()  # noqa: SLF001 - nor says what ran
    for place in range(executions.size()):
        execution = executions.apply(place)
        yield execution.executionId(), execution


def _exchanges(pipeline: Any, number: int) -> Counter[str]:
    """The exchanges of a query that moved rows, or may have."""
    graph = pipeline.epochs.session._jsparkSession.sharedState().statusStore().planGraph(number)  # noqa: SLF001 - as above
    nodes = graph.allNodes()
    names = (nodes.apply(place).name() for place in range(nodes.size()))
    return Counter(name for name in names if re.fullmatch("|".join(KINDS), name))


if __name__ == "__main__":
    main()
