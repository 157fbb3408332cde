"""What assets are called: prefixes, keys of other people's assets, a translator."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import dagster as dg
import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from tests.orchestration import demo

if TYPE_CHECKING:
    from pathlib import Path

    from dagster_operators.orchestration.translator import AssetData


def keys(defs: dg.Definitions) -> dict[str, set[str]]:
    """Every asset of a location with those that it is made from."""
    graph = defs.resolve_asset_graph()
    nodes = {key.to_user_string(): graph.get(key).parent_keys for key in graph.get_all_asset_keys()}
    return {key: {parent.to_user_string() for parent in parents} for key, parents in nodes.items()}


def reading(tmp_path: Path) -> do.Pipeline:
    made = do.Pipeline("sales", root=str(tmp_path / "sales"))
    orders = made.source("orders", do.DeltaSource(str(tmp_path / "orders")))
    orders.lookup(do.DeltaSource(str(tmp_path / "names")), on="k", columns=["n"], name="names").to_table("named")
    return made


def test_a_prefix_stands_before_every_key(folder: Path) -> None:
    defs = do.build_definitions(demo.pipeline(folder), key_prefix="lake/raw")
    assert keys(defs) == {
        "lake/raw/demo/rows": set(),
        "lake/raw/demo/clean": {"lake/raw/demo/rows"},
        "lake/raw/demo/totals": {"lake/raw/demo/clean"},
        "lake/raw/demo/hourly": {"lake/raw/demo/clean"},
    }
    checks = defs.resolve_asset_graph().asset_check_keys
    assert {check.asset_key.to_user_string() for check in checks} == {"lake/raw/demo/clean"}


def test_a_source_is_the_asset_whose_key_it_is_given(tmp_path: Path) -> None:
    @dg.asset(key=["shop", "orders"])
    def orders() -> None: ...

    given = {"orders": "shop/orders", "sales.names": ["elsewhere", "names"], "named": dg.AssetKey(["mart", "sales"])}
    defs = do.build_definitions(reading(tmp_path), asset_keys=given)
    here = dg.Definitions.merge(defs, dg.Definitions(assets=[orders]))
    dg.Definitions.validate_loadable(here)
    assert keys(here)["mart/sales"] == {"shop/orders", "elsewhere/names"}
    assert not [asset for asset in defs.assets or () if isinstance(asset, dg.AssetSpec)], (
        "they are declared by whoever makes them"
    )


def test_a_neighbours_table_keeps_its_own_key(tmp_path: Path) -> None:
    first = do.Pipeline("first", root=str(tmp_path / "first"))
    first.source("rows", do.MemorySource(schema="k string")).to_table("clean")
    second = do.Pipeline("second", root=str(tmp_path / "second"))
    second.source("theirs", do.DeltaSource(str(tmp_path / "first/tables/clean"))).to_table("copied")
    found = keys(do.build_definitions(first, second, key_prefix=["lake"], asset_keys={"first.clean": "mart/clean"}))
    assert found == {
        "lake/first/rows": set(), "mart/clean": {"lake/first/rows"}, "lake/second/copied": {"mart/clean"},
    }  # fmt: skip


class OfTheLake(do.PipelineTranslator):
    """Keys without the pipeline, a group by kind, a tag."""

    def get_asset_spec(self, data: AssetData) -> dg.AssetSpec:
        spec = super().get_asset_spec(data)
        more = {"tags": {**spec.tags, "kind": data.kind}, "deps": []}
        return spec.replace_attributes(key=["lake", data.name], group_name=data.kind, **more)


class ByKind(do.PipelineTranslator):
    """Keys that tell sources and tables apart."""

    def get_asset_spec(self, data: AssetData) -> dg.AssetSpec:
        return super().get_asset_spec(data).replace_attributes(key=[data.kind, data.name])


@pytest.mark.usefixtures("on_sail")
def test_a_translator_has_the_last_word_and_runs_go_by_it(folder: Path, instance: dg.DagsterInstance) -> None:
    defs = do.build_definitions(demo.pipeline(folder), translator=OfTheLake(), preview_rows={"clean": 1}, masked_columns=["k"])
    assert keys(defs)["lake/totals"] == {"lake/clean"}
    graph = defs.resolve_asset_graph()
    assert graph.get(dg.AssetKey(["lake", "clean"])).group_name == "table"
    assert graph.get(dg.AssetKey(["lake", "rows"])).tags["kind"] == "source"
    result = defs.resolve_job_def("demo_epoch").execute_in_process(instance=instance)
    made = {event.asset_key.path[-1]: event.step_materialization_data.materialization.metadata
            for event in result.get_asset_materialization_events() if event.asset_key}  # fmt: skip
    assert made.keys() == {"clean", "totals", "hourly"}
    assert "preview" not in made["totals"]
    assert made["clean"]["preview"].value.splitlines()[2:] == ["| *** | 1 | 2024-01-01 00:00:00+00:00 |"]
    assert {check.asset_key.to_user_string() for check in result.get_asset_check_evaluations()} == {"lake/clean"}


def test_keys_that_cannot_be_are_refused(folder: Path) -> None:
    with pytest.raises(PipelineError, match="asset_keys has a key for 'none', which is not there"):
        do.build_definitions(demo.pipeline(folder), asset_keys={"none": "a"})
    with pytest.raises(PipelineError, match="have the same asset key"):
        do.build_definitions(demo.pipeline(folder), asset_keys={"clean": "a", "totals": "a"})


def two(tmp_path: Path, table: str = "kept", source: str = "rows", read: str = "kept") -> tuple[do.Pipeline, do.Pipeline]:
    """Two pipelines, by default with a table of the same name; the second reads that of the first."""
    first = do.Pipeline("first", root=str(tmp_path / "first"))
    first.source("rows", do.MemorySource(schema="v long")).to_table("kept")
    second = do.Pipeline("second", root=str(tmp_path / "second"))
    second.source(source, do.DeltaSource(str(tmp_path / "first/tables" / read))).filter("v > 0", name="f").to_table(table)
    return first, second


def test_two_tables_of_one_name_are_given_keys_by_their_pipelines(tmp_path: Path) -> None:
    given = {"kept": "lake/kept"}
    with pytest.raises(
        PipelineError, match=r"'kept' of the pipeline 'first' and 'kept' of 'second' have the same.*'second.kept':"
    ):
        do.build_definitions(*two(tmp_path, read="others"), asset_keys=given)
    with pytest.raises(PipelineError, match=r"'rows' and 'kept', which is made here, .*'kept' another one: .*'second.kept': ..."):
        do.build_definitions(*two(tmp_path), asset_keys=given)
    assert keys(do.build_definitions(*two(tmp_path), asset_keys={**given, "second.kept": "b"}))["b"] == {"lake/kept"}
    with pytest.raises(PipelineError, match=r"'rows' of the pipeline 'second' and 'rows' of 'first' have the same asset key"):
        do.build_definitions(*two(tmp_path, table="rows", source="others", read="others"), translator=OfTheLake())
    found = keys(do.build_definitions(*two(tmp_path), asset_keys={"first.kept": "lake/kept", "second.kept": "lake/more"}))
    assert found == {"first/rows": set(), "lake/kept": {"first/rows"}, "lake/more": {"lake/kept"}}


def test_a_source_and_a_table_of_one_name_cannot_have_one_key(tmp_path: Path) -> None:
    def same(source: str = "kept", **declared: str) -> do.Pipeline:
        made = do.Pipeline("p", root=str(tmp_path))
        made.source(source, do.MemorySource(schema="v long")).filter("v > 0", name="f").to_table("kept", **declared)
        return made

    with pytest.raises(PipelineError, match=r"cannot tell them apart.*say to_table\('kept', asset_key=...\)"):
        do.build_definitions(same(), asset_keys={"kept": "lake/kept"})
    found = keys(do.build_definitions(same(asset_key="lake/kept")))
    assert found == {"p/kept_source": set(), "lake/kept": {"p/kept_source"}}
    with pytest.raises(
        PipelineError,
        match=r"or lookup 'kept' of .* sink of that name have one .* the translator tell .* by data.kind, or rename one$",
    ):
        do.build_definitions(same(), translator=OfTheLake())
    assert keys(do.build_definitions(same(), translator=ByKind())).keys() == {"source/kept", "table/kept"}
    assert keys(do.build_definitions(same("rows"), translator=OfTheLake())).keys() == {"lake/kept", "lake/rows"}
    with pytest.raises(PipelineError, match=r"'orders' and 'named', which is made here, .*'sales.named': ..."):
        do.build_definitions(reading(tmp_path), asset_keys={"orders": "a", "named": "a"})


def test_a_key_for_a_source_that_is_a_neighbours_table_is_not_dropped(tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"asset key lake/rows, and reads the table first.kept.*asset_keys=\{'first.kept': 'lake/rows'\}"
    ):
        do.build_definitions(*two(tmp_path), asset_keys={"second.rows": "lake/rows"})
    given = {"first.kept": "lake/rows"}
    assert keys(do.build_definitions(*two(tmp_path), asset_keys=given))["second/kept"] == {"lake/rows"}
    same = do.build_definitions(*two(tmp_path, "more", "kept"), asset_keys={"kept": "lake/rows"})
    assert keys(same)["second/more"] == {"lake/rows"}


def test_a_table_of_another_pipeline_is_its_asset_here_and_in_another_code_location(folder: Path, tmp_path: Path) -> None:
    def report(upstream: str | do.Pipeline, **named: str) -> do.Pipeline:
        made = do.Pipeline("report", root=str(tmp_path / "report"))
        shop = do.PipelineSource(upstream, ["clean", "totals"], **named)
        rows = made.source("seen", shop["clean"])
        rows.lookup(shop["totals"], on="k", columns=["total"], name="sums").to_table("joined")
        return made

    of_its_own = do.PipelineSource(str(folder / "demo"), "clean")
    assert of_its_own.pipeline_name is None, "there is nothing in the root yet"
    first = demo.pipeline(folder)
    for pipeline in (report(first), report(str(folder / "demo"), pipeline="demo")):
        defs = do.build_definitions(pipeline, key_prefix="lake")
        assert keys(defs)["lake/report/joined"] == {"lake/demo/clean", "lake/demo/totals"}
        assert not [asset for asset in defs.assets or () if isinstance(asset, dg.AssetSpec)]
        here = dg.Definitions.merge(defs, do.build_definitions(first, key_prefix="lake"))
        assert keys(here)["lake/demo/clean"] == {"lake/demo/rows"}
    built = keys(do.build_definitions(report(str(folder / "demo"))))  # its definitions were made in this process
    assert built["report/joined"] == {"demo/clean", "demo/totals"}


def test_a_table_of_a_pipeline_that_nobody_knows_yet_is_told(tmp_path: Path) -> None:
    def report(**named: str) -> do.Pipeline:
        made = do.Pipeline("report", root=str(tmp_path / "report"))
        made.source("seen", do.PipelineSource(str(tmp_path / "shop"), "orders", **named)).to_table("t")
        return made

    with pytest.warns(RuntimeWarning, match="'orders' the source 'seen' of the pipeline 'report' reads.*pipeline=...") as told:
        assert keys(do.build_definitions(report()))["report/t"] == {"report/seen"}
    assert told[0].filename == __file__
    shop = do.Pipeline("shop", root=str(tmp_path / "shop"))
    shop.source("rows", do.MemorySource(schema="k string")).to_table("orders")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert keys(do.build_definitions(report(pipeline="shop")))["report/t"] == {"shop/orders"}
        assert keys(do.build_definitions(report(), asset_keys={"seen": "a/b"}))["report/t"] == {"a/b"}
        do.build_definitions(shop)
        assert keys(do.build_definitions(report()))["report/t"] == {"shop/orders"}


def test_two_pipelines_of_one_root_are_told(tmp_path: Path) -> None:
    def made(name: str, root: Path) -> do.Pipeline:
        pipeline = do.Pipeline(name, root=str(root))
        pipeline.source("rows", do.MemorySource(schema="k string")).to_table("t")
        return pipeline

    first, second = made("first", tmp_path / "one"), made("second", tmp_path / "one")
    with pytest.raises(PipelineError, match=r"'first' and 'second' have the same storage root.*a root of its own"):
        do.build_definitions(first, second)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        do.build_definitions(first)
        do.build_definitions(made("first", tmp_path / "one"), made("second", tmp_path / "two"))
        do.build_definitions(first)
    with pytest.warns(RuntimeWarning, match="'second' has the storage root of the pipeline 'first'.*a root of its own"):
        do.build_definitions(second)  # as Dagster merges them, or loads a component
