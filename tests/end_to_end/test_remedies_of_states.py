"""A state that the operator's code does not fit names a call that computes it anew: it is made, and the tables are right then."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dagster_operators import ArrowOperator, KeyedState, MemorySource, Pipeline
from dagster_operators.errors import ChangedPipelineError
from tests.engines import SAIL
from tests.following import follow, refused, ways_of

pytestmark = pytest.mark.usefixtures("sail")

ROWS: list[Any] = [[("a",), ("b",)], [("b",), ("c",)], [("a",), ("d",)]]


class Seen(ArrowOperator):
    """Each key once."""

    state = {"keys": KeyedState("k string, seen boolean", key="k")}

    def output_schema(self, rows: Any) -> str:
        return "k string"

    def process_batch(self, batch: Any, ctx: Any, out: Any) -> None:
        keys = pa.table({"k": batch["k"].unique()})
        (value,) = (name for name in ctx.state["keys"].get(keys).column_names if name != "k")
        new = keys.filter(pc.is_null(ctx.state["keys"].get(keys)[value]))
        given = pa.array([self.value] * len(new))
        ctx.state["keys"].put(new.append_column(value, given))
        out.collect(new)

    value: Any = True


class Anew(Seen):
    """The same, stored by another version, which knows nothing of the one before."""

    state = {"keys": KeyedState("k string, seen boolean", key="k", version=2)}


class Named(Seen):
    """The same in a column of another type, by the same version."""

    state = {"keys": KeyedState("k string, seen string", key="k")}
    value = "yes"


def pipeline_of(root: Path, operator: type[Seen]) -> Pipeline:
    made = Pipeline("p", root=str(root), engine=SAIL)
    rows = made.source("rows", MemorySource(ROWS, schema="k string"))
    rows.key_by("k").apply(operator(), name="seen").to_table("keys")
    return made


@pytest.mark.parametrize("changed", [Anew, Named])
def test_it_is_computed_anew(tmp_path: Path, changed: type[Seen]) -> None:
    for _ in range(2):
        pipeline_of(tmp_path, Seen).run_epoch()
    error = refused(pipeline_of(tmp_path, changed).run_epoch, ChangedPipelineError)
    assert ways_of(error) == ["pipeline.rebuild(operators='seen')"]
    follow(ways_of(error)[0], partial(pipeline_of, tmp_path, changed))
    assert sorted(pipeline_of(tmp_path, changed).to_arrow("keys")["k"].to_pylist()) == ["a", "b", "c", "d"]
