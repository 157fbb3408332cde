"""Errors of programs, engines and other runs: what their remedies say is done by hand, and then the pipeline is right.

Their remedies name no call, for a human changes a program, an input or the machine. So each scenario has two parts: one that
raises the error, and one that does what a named part of its remedy says, on the same storage root.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators import errors
from dagster_operators.api.frontier import Capability, CapabilitySet, Outlet
from dagster_operators.connectors.debezium_events import keyed_events_of
from dagster_operators.connectors.sink import SinkRows
from dagster_operators.errors import OperatorsError
from dagster_operators.operators.events.sending import as_array
from dagster_operators.plans.codec import packed, unpacked
from dagster_operators.runtime.engine import check_java, default_engine
from dagster_operators.transactions import failpoints
from tests.following import error_of
from tests.remedies import cannot_be_done

pytestmark = pytest.mark.usefixtures("sail")

FAR = pa.array([2932897], pa.int32()).cast(pa.date32())
"""A day that Python does not have."""

ROWS = [("1", 1), ("x", 2)]
"""Text that is a number, and text that is none."""


class Twice(do.ArrowOperator):
    def __init__(self, column: str) -> None:
        self.column = column

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def process_batch(self, batch: pa.RecordBatch, ctx: object, out: do.Collector) -> None:
        twice = pc.multiply(batch.column(self.column), 2)
        out.collect(batch.set_column(batch.schema.get_field_index(self.column), self.column, twice))


def values(root: Path, build: Callable[[do.Stream], do.Stream] = lambda rows: rows, *, times: int = 1) -> list[object]:
    """The values that a pipeline of one table has when it is caught up."""
    made = do.Pipeline("p", root=str(root), engine="sail")
    build(made.source("rows", do.MemorySource([ROWS] * times, schema="k string, v long"))).to_table("t")
    made.run_until_caught_up()
    return sorted(made.to_arrow("t")["v"].to_pylist(), key=str)


def counting(root: Path, limit: int) -> list[object]:
    made = do.Pipeline("p", root=str(root), engine="sail")
    start = made.source("rows", do.MemorySource([[(3,)]], schema="v long"))
    going = made.loop("going", limit=limit)
    again = going.variable("again", "v long")
    less = going.enter(start).union(again).with_columns(v="v - 1")
    going.feed(again, less.filter("v > 0"))
    going.leave(less.filter("v = 0")).to_table("t")
    made.run_until_caught_up()
    return made.to_arrow("t")["v"].to_pylist()


def doubled(root: Path, by: object) -> list[object]:
    name = f"times_{by}"
    do.udf("long", name=name)(lambda v: pc.multiply(v, by))
    return values(root, lambda rows: rows.select(f"{name}(v) AS v"))


def taken_over(root: Path) -> None:
    """Another run takes the pipeline from one that is amid its epoch."""

    def take(place: str) -> None:
        if place.startswith("after:append_prepared"):
            do.StoredPipeline(str(root)).unlock()

    with failpoints.watch(take):
        values(root)


def queries(root: Path, step: str) -> list[object]:
    text = f"pipeline: p\nsources: {{rows: {{files: {{path: {root.parent}/*.csv, schema: v long}}}}}}\n"
    (root.parent / "1.csv").write_text("v\n1\n2\n")
    (root.parent / "flow.yml").write_text(f"{text}tables: {{t: {{from: rows, steps: [{step}]}}}}\n")
    made = do.Pipeline.from_yaml(root.parent / "flow.yml", root=str(root), engine="sail")
    made.run_until_caught_up()
    return sorted(made.to_arrow("t")["v"].to_pylist())


def retimed(times: type) -> object:
    rows = do.Pipeline("p", root="unused").source("rows", do.MemorySource(schema="t timestamp, v long"), event_time="t")
    return do.frontier.retime(rows, lambda _: times(1), times=times)


def held() -> CapabilitySet:
    return CapabilitySet([Capability(4, Outlet())])


def typed(root: Path, *kinds: str, widen: bool = False) -> list[object]:
    """The values of a table that has its column in one type, then in the next one."""
    found: list[object] = []
    for kind in kinds:
        made = do.Pipeline("p", root=str(root), engine="sail")
        made.source("rows", do.MemorySource([[(1,)], [(2,)]], schema=f"v {kind}")).to_table("t")
        if widen:
            made.widen("t")
        made.run_epoch()
        found = sorted(made.to_arrow("t")["v"].to_pylist())
    return found


def renamed(root: Path, before: str) -> list[object]:
    """The values of a table whose operator has another name since its first epoch."""
    for name, was in (("kept", None), ("left", before)):
        made = do.Pipeline("p", root=str(root), engine="sail")
        rows = made.source("rows", do.MemorySource([ROWS], schema="k string, v long"))
        rows.key_by("v").aggregate(n="count(*)", name=name, renamed_from=was).to_table("t")
        made.run_until_caught_up()
    return sorted(made.to_arrow("t")["v"].to_pylist())


def under_way(root: Path) -> None:
    def killed(place: str) -> None:
        if place.startswith("after:append_prepared"):
            raise KeyboardInterrupt

    values(root)
    with pytest.raises(KeyboardInterrupt), failpoints.watch(killed):
        values(root, times=2)
    do.StoredPipeline(str(root)).compact()


def after_an_epoch(root: Path) -> list[object]:
    found = values(root, times=2)
    do.StoredPipeline(str(root)).compact()
    return found


def without_java(root: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(root))
        check_java.__wrapped__()


def on_sail(_: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
        return str(default_engine().name)


def events_of(day: pa.Array) -> int:
    """How many rows a sink is given, of one."""
    batch = pa.RecordBatch.from_pydict({"id": [1], "day": day, "_change": ["insert"]})
    return len(list(keyed_events_of(SinkRows(batch.schema, lambda: [batch], 1), ("id",))))


@dataclass(frozen=True)
class Mended:
    """A scenario.

    Attributes:
        kind: The error.
        wrong: Raises it.
        says: The part of the remedy that is followed.
        right: Does what that says, and gives what the pipeline then has.
        has: What that is.
    """

    kind: type[OperatorsError]
    wrong: Callable[[Path], object]
    says: str
    right: Callable[[Path], object]
    has: object


SCENARIOS = (
    Mended(
        errors.UnfitValueError, lambda root: values(root, lambda rows: rows.select("CAST(k AS bigint) AS v")),
        "write try_cast(x AS type)", lambda root: values(root, lambda rows: rows.select("try_cast(k AS bigint) AS v")), [1, None],
    ),
    Mended(
        errors.UserFunctionError, lambda root: doubled(root, "two"),
        "correct the function", lambda root: doubled(root, 2), [2, 4],
    ),
    Mended(
        errors.OperatorFailedError, lambda root: values(root, lambda rows: rows.apply(Twice("k"))),
        "correct the operator", lambda root: values(root, lambda rows: rows.apply(Twice("v"))), [2, 4],
    ),
    Mended(errors.EndlessLoopError, lambda root: counting(root, 2), "limit= of the loop", lambda root: counting(root, 3), [0]),
    Mended(errors.FencedError, taken_over, "start a new one if it has ended", values, [1, 2]),
    Mended(
        errors.QueryError, lambda root: queries(root, "filtr: v > 1"),
        "filter", lambda root: queries(root, "filter: v > 1"), [2],
    ),
    Mended(
        errors.PlanError, lambda _: unpacked(packed(b"plan")[:-4]),
        "take another copy", lambda _: unpacked(packed(b"plan")), b"plan",
    ),
    Mended(errors.TimestampError, lambda _: retimed(float), "times=int", lambda _: type(retimed(int)), do.Stream),
    Mended(errors.CapabilityError, lambda _: held().delayed(3), "try_delayed", lambda _: held().try_delayed(3), None),
    Mended(
        errors.ChangedColumnsError, lambda root: typed(root, "int", "bigint"),
        "pipeline.widen('t')", lambda root: typed(root, "bigint", widen=True), [1, 2],
    ),
    Mended(
        errors.ChangedPipelineError, lambda root: renamed(root, "nobody"),
        "'kept'", lambda root: renamed(root, "kept"), [1, 2],
    ),
    Mended(errors.SendOutputError, lambda _: as_array(object()), "a list", lambda _: as_array([1]).to_pylist(), [1]),
    Mended(
        errors.SinkError, lambda _: events_of(FAR), "write the column as text", lambda _: events_of(pa.array(["10000-01-01"])), 1,
    ),
    Mended(errors.EpochUnderWayError, under_way, "run an epoch first", after_an_epoch, [1, 1, 2, 2]),
    Mended(errors.JavaMissingError, without_java, "DAGSTER_OPERATORS_ENGINE=sail", on_sail, "sail"),
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.kind.__name__)
def test_what_the_remedy_says_mends_it(tmp_path: Path, scenario: Mended) -> None:
    root = tmp_path / "root"
    error = error_of(lambda: scenario.wrong(root))
    assert type(error) is scenario.kind
    told = [one.remedy for one in error.where.get("errors", (error,))]
    assert not [wrong for remedy in told for wrong in cannot_be_done(remedy)], error
    assert any(scenario.says in remedy for remedy in told), told
    assert scenario.right(root) == scenario.has
