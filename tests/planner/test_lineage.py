"""Column lineage: one step per asset, through every kind of operator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators import DeltaSource, MemorySource, Pipeline, Tumbling
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef
from dagster_operators.planner.lineage import TableLineage, Upstream

ROWS, CLEAN = Upstream("source", "rows"), Upstream("table", "clean")


def test_lineage_goes_to_the_next_table_or_source() -> None:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="k string, v long, t timestamp"), event_time="t")
    names = MemorySource([], schema="k string, title string")
    clean = rows.with_columns(w="v * 2").rename(k="key").lookup(names, on={"key": "k"}, name="names").to_table("clean")
    clean.key_by("key").window(Tumbling("1 hour")).aggregate(total="sum(w)", n="count(*)").to_table("hourly")
    tables = pipeline.tables
    lineage = TableLineage(pipeline.dataflow)
    assert lineage.upstream(tables["clean"]) == (Upstream("lookup", "names"), ROWS)
    assert lineage.upstream(tables["hourly"]) == (CLEAN,)
    clean_columns = lineage.columns(tables["clean"])
    assert clean_columns["w"] == ((ROWS, "v"),)
    assert clean_columns["key"] == ((ROWS, "k"),)
    assert clean_columns["title"] == ((Upstream("lookup", "names"), "title"),)
    hourly = lineage.columns(tables["hourly"])
    assert hourly == {
        "key": ((CLEAN, "key"),), "window_start": ((CLEAN, "t"),), "window_end": ((CLEAN, "t"),),
        "total": ((CLEAN, "w"),), "n": (),
    }  # fmt: skip


def test_what_is_looked_up_comes_from_the_lookup_table() -> None:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="k string, v long"))
    names = MemorySource([], schema="id string, Title string, n long")
    chosen = ["upper(title) AS t", "concat(title, n) AS both", "1 AS one", "id"]
    rows.lookup(names, on={"k": "id"}, columns=chosen, name="names").with_columns(w="concat(t, k)").to_table("some")
    looked_up, lineage = Upstream("lookup", "names"), TableLineage(pipeline.dataflow)
    assert lineage.columns(pipeline.tables["some"]) == {
        "k": ((ROWS, "k"),), "v": ((ROWS, "v"),), "t": ((looked_up, "Title"),), "one": (), "id": ((looked_up, "id"),),
        "both": ((looked_up, "Title"), (looked_up, "n")), "w": ((looked_up, "Title"), (ROWS, "k")),
    }  # fmt: skip
    assert "  t <- names.Title" in pipeline.explain()


def test_a_source_that_is_a_table_comes_from_itself() -> None:
    pipeline = Pipeline("p", root="unused")
    pipeline.source("rows", MemorySource([], schema="k string")).to_table("raw")
    table, lineage = pipeline.tables["raw"], TableLineage(pipeline.dataflow)
    assert lineage.upstream(table) == (ROWS,)
    assert lineage.columns(table) == {"k": ((ROWS, "k"),)}


def test_a_table_named_like_a_source_is_told_from_it() -> None:
    pipeline = Pipeline("p", root="unused")
    flights = pipeline.source("flights", MemorySource([], schema="k string"))
    late = flights.filter("k > 'a'").to_table("late")
    late.select("k").to_table("flights")
    source, table, lineage = Upstream("source", "flights"), pipeline.tables["flights"], TableLineage(pipeline.dataflow)
    assert lineage.upstream(pipeline.tables["late"]) == (source,)
    assert lineage.upstream(table) == (Upstream("table", "late"),)


def test_a_union_comes_from_all_its_inputs() -> None:
    pipeline = Pipeline("p", root="unused")
    first = pipeline.source("first", MemorySource([], schema="k string"))
    second = pipeline.source("second", MemorySource([], schema="k string"))
    first.union(second).to_table("both")
    origins = tuple((Upstream("source", name), "k") for name in ("first", "second"))
    assert TableLineage(pipeline.dataflow).columns(pipeline.tables["both"]) == {"k": origins}


CHOSEN: dict[str, list[str]] = {"columns": ["price", "country"]}


@pytest.mark.parametrize(
    ("known", "price"),
    [(("orders", "customers"), "orders"), (("orders",), "orders"), (("customers",), "orders"), ((), None)],
    ids=["both sides", "the left one", "the right one", "neither"],
)
@pytest.mark.parametrize("how", ["join", "windows", "interval", "as of"])
def test_a_join_names_columns_of_sides_that_nobody_has_looked_into(how: str, known: tuple[str, ...], price: str | None) -> None:
    """Its columns= was refused by explain() and build_definitions(), as no side of them was known to have one."""
    pipeline = Pipeline("p", root="unused")
    schemas = {"orders": "customer long, price long, t timestamp", "customers": "no long, country string, at timestamp"}
    sides = [
        pipeline.source(
            name, MemorySource([], schema=schema) if name in known else DeltaSource("unused"), event_time=schema.split()[-2]
        )
        for name, schema in schemas.items()
    ]
    left, right = sides
    if how == "join":
        joined = left.join(right, on={"customer": "no"}, **CHOSEN)
    elif how == "windows":
        ours, theirs = (side.key_by(key).window(Tumbling("1 hour")) for side, key in ((left, "customer"), (right, "no")))
        joined = ours.join(theirs, **CHOSEN)
    elif how == "interval":
        joined = left.key_by("customer").interval_join(right.key_by("no"), lower="-1 hour", upper="1 hour", **CHOSEN)
    else:
        joined = left.join_as_of(right, on={"customer": "no"}, **CHOSEN)
    joined.select("price AS cents", "country AS land").to_table("sold")
    lineage = TableLineage(pipeline.dataflow)
    found = lineage.columns(pipeline.tables["sold"])
    orders, customers = Upstream("source", "orders"), Upstream("source", "customers")
    assert lineage.upstream(pipeline.tables["sold"]) == (orders, customers)
    assert ((orders, "price") in found["cents"]) == (price is not None)
    assert ((customers, "country") in found["land"]) == (price is not None)
    assert "sold" in pipeline.explain()


def test_a_semi_join_names_columns_of_a_left_side_that_nobody_has_looked_into() -> None:
    pipeline = Pipeline("p", root="unused")
    orders = pipeline.source("orders", DeltaSource("unused"))
    customers = pipeline.source("customers", MemorySource([], schema="no long, price long"))
    orders.join(customers, on={"customer": "no"}, how="semi", columns=["price"]).select("price").to_table("sold")
    origins = {"price": ((Upstream("source", "orders"), "price"),)}
    assert TableLineage(pipeline.dataflow).columns(pipeline.tables["sold"]) == origins


def test_explain_shows_stages_state_and_lineage_without_an_engine() -> None:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="k string, v long, t timestamp"), event_time="t", lateness="1 hour")
    rows.key_by("k").window(Tumbling("1 hour")).aggregate(total="sum(v)", name="sums").to_table(
        "hourly", checks={"some": "total > 0"}
    )
    text = pipeline.explain()
    for line in ("stage hourly", "chain: rows -> sums", "lateness 1 hour", "shuffle by k, window; state table state/sums.panes",
                 "check some: total > 0", "total <- rows.v"):  # fmt: skip
        assert line in text


def _walked(dataflow: Dataflow, stream: StreamRef, column: str, *, start: bool = True) -> set[tuple[Upstream, str]]:
    """The origins of a column by definition: along every path back to a table or source."""
    node, table = dataflow.nodes[stream.operator], None if start else dataflow.table_of(stream)
    if table is not None or node.operator.kind == "source":
        return {(Upstream("table", table.name) if table else Upstream("source", node.name), column)}
    lineage = node.operator.lineage(dataflow.input_types(node))
    return {
        origin for index, name in lineage.get(column, ()) for origin in _walked(dataflow, node.inputs[index], name, start=False)
    }


@st.composite
def flows(draw: st.DrawFn) -> Pipeline:
    """Sources, and streams made of any before, some of them tables."""
    pipeline = Pipeline("p", root="unused")
    streams = [pipeline.source(name, MemorySource([], schema="k string, v long")) for name in ("a", "b")]
    for number in range(draw(st.integers(1, 8))):
        one, other = (draw(st.sampled_from(streams)) for _ in range(2))
        made = draw(st.sampled_from([one.filter("v > 0"), one.with_columns(v="length(k)"), one.union(other.select("v", "k"))]))
        streams.append(made.to_table(f"t{number}") if draw(st.booleans()) else made)
    streams[-1].select("k", "v").to_table("last")
    return pipeline


@settings(deadline=None)
@given(flows())
def test_lineage_is_that_along_every_path(pipeline: Pipeline) -> None:
    dataflow, lineage = pipeline.dataflow, TableLineage(pipeline.dataflow)
    for table in pipeline.tables.values():
        expected = {column: tuple(sorted(_walked(dataflow, table.stream, column))) for column in ("k", "v")}
        assert lineage.columns(table) == expected
        assert {asset for origins in expected.values() for asset, _ in origins} <= set(lineage.upstream(table))


def test_diamonds_are_walked_once() -> None:
    pipeline = Pipeline("p", root="unused")
    stream = pipeline.source("rows", MemorySource([], schema="k string, v long"))
    for _ in range(200):
        stream = stream.filter("v > 1").union(stream.filter("v < 1"))
    stream.to_table("last")
    assert TableLineage(pipeline.dataflow).columns(pipeline.tables["last"]) == {"k": ((ROWS, "k"),), "v": ((ROWS, "v"),)}
