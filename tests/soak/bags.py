"""Families of data sets: their functions go to the workers with all data classes of this module, so there are none."""

from __future__ import annotations

from typing import Any


def of_bag(rows: Any, name: str, *, some: bool) -> Any:
    """Rows that functions make of each row; a filter may leave some of them out."""
    bag = rows.data_set().flat_map(lambda row: [(row.k, row.v), (row.k, row.v * 2)], schema="k string, v long")
    return (bag.filter(lambda row: row.v % 3 > 0) if some else bag).to_stream(name=name)


def distinct(rows: Any, name: str) -> Any:
    """The distinct rows of each epoch."""
    return rows.select("k", "v % 7 AS v").data_set().distinct("k", "v").to_stream(name=name)


def of_whole_table(pipeline: Any, table: str, name: str, *, largest: bool) -> Any:
    """Groups that each epoch computes of all rows of a table."""
    groups = pipeline.table(table).data_set().group_by("k")
    return (groups.max("v") if largest else groups.sum("v")).to_stream(name=name)


def components(pipeline: Any, table: str, name: str) -> Any:
    """Each key and number of a table with the smallest number that a way of its rows leads to, by a delta iteration."""
    edges = pipeline.table(table).data_set()
    both = edges.flat_map(lambda row: [(ord(row.k), row.v), (row.v, ord(row.k))], schema="x long, y long")
    start = both.map(lambda edge: (edge.x, edge.x), schema="x long, y long").distinct("x")
    loop = start.iterate_delta(start, 100, "x")
    spread = loop.workset.join(both).where("x").equal_to("x").project_second("y").project_first("y").data_set()
    better = (
        spread.group_by(0)
        .min(1)
        .join(loop.solution_set)
        .where(0)
        .equal_to("x")
        .with_function(lambda new, old: [new] if new[1] < old[1] else [], several=True)
    )
    return loop.close_with(better, better).to_stream(name=name, schema="vertex long, component long")
