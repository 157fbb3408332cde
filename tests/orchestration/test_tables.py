"""What Dagster gets to know of a pipeline's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators import (
    ArrowOperator,
    Collector,
    FileSource,
    MemorySource,
    OperatorContext,
    Pipeline,
    PipelineSource,
    Tumbling,
)
from dagster_operators.orchestration.keys import AssetKeys
from dagster_operators.orchestration.materialisation import materialisations
from dagster_operators.orchestration.options import Options
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.orchestration.tables import table_assets
from dagster_operators.planner.stages import cut_stages

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


def test_a_table_behind_many_diamonds_knows_its_operators_and_sources() -> None:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="v long, t timestamp"), event_time="t")
    first = rows.filter("v > 0", name="first").to_table("kept")
    stream = first
    for _ in range(40):
        stream = stream.filter("v > 1").union(stream.filter("v < 1"))
    stream.to_table("last")
    assets = table_assets(pipeline, AssetKeys(pipeline))
    assert assets["kept"].operators == ("rows", "first")
    assert assets["last"].sources == ("rows",)
    assert len(assets["last"].operators) == len(set(assets["last"].operators)) == 120
    assert "rows" not in assets["last"].operators
    assert [key.path for key in assets["last"].upstream] == [["p", "kept"]]


class Refusing(ArrowOperator):
    """Gives up on every row."""

    def output_schema(self, *inputs: pa.Schema) -> pa.Schema:
        return inputs[0]

    def process_batch(self, batch: pa.RecordBatch, ctx: OperatorContext, out: Collector) -> None:
        ctx.reject(batch, "refused")


def test_rejected_records_are_known_as_such() -> None:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", FileSource("in", format="json", schema="k string", corrupt="reject"))
    rows.apply(Refusing(), name="refusing").to_table("taken")
    rows.apply(Refusing(), name="other").rejects().to_table("refused")
    found = {name: table.rejects for name, table in table_assets(pipeline, AssetKeys(pipeline)).items()}
    assert found == {"rows_rejects": True, "taken": False, "refused": True}


def test_no_preview_shows_masked_values_that_rejected_records_quote(tmp_path: Path, sail: object) -> None:
    """However far behind the operator that rejected them, and whatever their columns are called there."""
    assert sail is not None
    pipeline = Pipeline("p", root=str(tmp_path), engine="sail")
    rows = pipeline.source("rows", MemorySource([[("secret@corp.com",)]], schema="email string"))
    rejected = rows.apply(Refusing(), name="refusing").rejects()
    rejected.to_table("refused").filter("reason = 'refused'").select("record AS told").to_table("known")
    pipeline.run_epoch()
    shown = {}
    for masked in ((), ("email",)):
        steps = PipelineSteps(pipeline, AssetKeys(pipeline), Options(masked_columns=frozenset(masked)))
        coordinator = pipeline.epochs.coordinator
        made = materialisations(steps, coordinator, coordinator.versions())
        shown[masked] = {table.key.path[-1]: table.metadata["preview"].value for table in made}
    assert {name for name, rows in shown[()].items() if "secret@corp.com" in rows} == {"refused", "known"}
    assert not [name for name, rows in shown["email",].items() if "secret" in rows]


def test_no_preview_shows_masked_values_that_a_neighbours_rejected_records_quote(tmp_path: Path, sail: object) -> None:
    """Deployed together under any name; in another code location known by their columns."""
    assert sail is not None
    first, next_, last = (Pipeline(name, root=str(tmp_path / name), engine="sail") for name in ("a", "b", "c"))
    rows = first.source("rows", MemorySource([[("secret@corp.com",)]], schema="email string"))
    rejected = rows.apply(Refusing(), name="refusing").rejects()
    rejected.to_table("refused")
    rejected.select("record AS told").to_table("known")
    next_.source("bad", PipelineSource(first, "refused")).select("upper(record) AS r").to_table("of_records")
    next_.source("known", PipelineSource(first, "known")).to_table("of_others")
    last.source("others", PipelineSource(next_, "of_others")).to_table("behind")
    for each in (first, next_, last):
        each.run_epoch()

    def shown(pipeline: Pipeline, *neighbours: Pipeline, masked: str = "email") -> dict[str, str]:
        steps = PipelineSteps(pipeline, AssetKeys(pipeline, neighbours), Options(masked_columns=frozenset({masked} - {""})))
        coordinator = pipeline.epochs.coordinator
        made = materialisations(steps, coordinator, coordinator.versions())
        return {table.key.path[-1]: table.metadata["preview"].value for table in made}

    together = {**shown(next_, first, last), **shown(last, first, next_)}
    assert together.keys() == {"of_records", "of_others", "behind"}
    assert "SECRET@CORP.COM" in shown(next_, first, masked="")["of_records"]
    assert not [name for name, rows in together.items() if "secret" in rows.lower()]
    assert "secret" not in shown(next_)["of_records"].lower()


def test_rejected_records_that_come_back_from_a_neighbour_are_known(tmp_path: Path) -> None:
    first, second = (Pipeline(name, root=str(tmp_path / name)) for name in ("a", "b"))
    refused = first.source("rows", MemorySource([], schema="email string")).apply(Refusing(), name="refusing").rejects()
    refused.to_table("refused")
    second.source("bad", PipelineSource(first, "refused")).select("record AS r").to_table("copied")
    first.source("again", PipelineSource(second, "copied")).to_table("back")
    first.source("others", MemorySource([], schema="email string")).to_table("clean")
    found = table_assets(first, AssetKeys(first, [second]))
    assert [name for name, table in found.items() if table.rejects or table.from_rejects] == ["refused", "back"]


def test_the_operators_of_an_asset_are_those_that_were_written() -> None:
    """Rules leave some out and put others in; late rows and figures are looked up by the names that their author knows."""
    pipeline = Pipeline("p", root="unused")
    source = MemorySource([], schema="k string, v long, w long, t timestamp")
    rows, more = (pipeline.source(name, source, event_time="t") for name in ("rows", "more"))
    both = rows.union(more, name="both").select("k", "v", "t", "w", name="same").filter("v > 1", name="some")
    both.key_by("k").window(Tumbling("1 hour")).aggregate(n="sum(v)", name="sums").to_table("sums")
    assert (
        {"both", "same", "some", "sums"}
        <= set(table_assets(pipeline, AssetKeys(pipeline))["sums"].operators)
        <= pipeline.dataflow.nodes.keys()
    )
    assert "same" not in {name for stage in cut_stages(pipeline.dataflow) for name in stage.operators}
