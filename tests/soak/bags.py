"""Families of data sets: their functions go to the workers with all data classes of this module, so there are none."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.api.data_sets import ArrowFunction, RichFunction


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


def over_arrow(rows: Any, name: str, *, some: bool) -> Any:
    """Rows that functions over Arrow make: of each batch, of some rows, and of each part."""
    odd = ArrowFunction(lambda batch: pa.record_batch({"k": batch["k"], "v": pc.add(pc.multiply(batch["v"], 2), 1)}))
    bag = rows.select("k", "v").data_set().map(odd, schema="k string, v long")
    if some:
        bag = bag.filter(ArrowFunction(lambda batch: pc.greater(batch["v"], 20)))
    below = ArrowFunction(lambda part: part.append_column("w", pc.negate(part["v"])))
    return bag.map_partition(below, schema="k string, v long, w long").to_stream(name=name)


def by_sql(rows: Any, name: str, *, some: bool) -> Any:
    """Rows that are chosen and computed by SQL, within a program of data sets."""
    bag = rows.select("k", "v").data_set().filter("v % 3 > 0" if some else "v > 9")
    return bag.select("k", "v * 2 AS w", "CASE WHEN v > 30 THEN 'many' ELSE 'few' END AS much").to_stream(name=name)


def iterated(rows: Any, name: str, *, twice: bool) -> Any:
    """Numbers after three rounds of an iteration, in which functions of rows and SQL take turns."""
    loop = rows.select("k", "v").data_set().iterate(3)
    once = loop.rows_of_round.map(lambda row: (row[0], row[1] * 2 % 61), schema="k string, v long")
    return loop.close_with(once.select("k", "v + 1 AS v") if twice else once).to_stream(name=name)


def counted(rows: Any, name: str) -> Any:
    """The number of rows of each epoch."""
    return rows.select("k", "v").data_set().count().to_stream(name=name)


class Noted(RichFunction):
    """Each row as it is, counted by accumulators: in all, and of each key."""

    def open(self, context: Any) -> None:
        self.seen = context.accumulator("seen", 0)
        self.keys = context.accumulator("keys", Counter())

    def __call__(self, row: Any) -> Any:
        self.seen.value += 1
        self.keys.value[row.k] += 1
        return (row.k, row.v)


def noted(rows: Any, name: str) -> Any:
    """Rows that accumulators count."""
    return rows.select("k", "v").data_set().map(Noted(), schema="k string, v long").to_stream(name=name)


def over_all(kind: str, rows: Any, name: str, *, wide: bool) -> Any:
    """Results over all epochs."""
    bag = rows.select("k", "v").data_set().filter("v > 3")
    groups = bag.group_by("k")
    if kind == "all_sum":
        made = groups.max("v", over="all") if wide else groups.sum("v", over="all")
    elif kind == "all_reduce":
        made = groups.reduce(_larger if wide else _together, over="all")
    elif kind == "all_least":
        made = groups.min_by("v", over="all") if wide else groups.sort_group("v", "descending").first(1, over="all")
    elif kind == "all_first":
        made = bag.select("k", "length(k) AS v").group_by("k").first(3 if wide else 2, over="all")
    elif kind == "all_distinct":
        made = bag.select("k", "v % 7 AS v").distinct("k", "v", over="all")
    elif kind == "all_count":
        made = bag.count(over="all")
    else:
        made = groups.reduce_group(_spread, combine=_ends, schema="k string, least long, most long", over="all")
    return made.to_stream(name=name)


def _larger(first: Any, second: Any) -> Any:
    return (first[0], max(first[1], second[1]))


def _together(first: Any, second: Any) -> Any:
    return (first[0], first[1] + second[1])


def _ends(rows: Any) -> Any:
    """The rows with the smallest and the largest number of a group, which are all that its result needs."""
    several = sorted(rows, key=lambda row: row[1])
    return [several[0], several[-1]]


def _spread(rows: Any) -> Any:
    least, most = _ends(rows)
    return [(least[0], least[1], most[1])]


def of_arrow_groups(pipeline: Any, table: str, name: str, *, combined: bool) -> Any:
    """The sum of each group of a whole table, by a function over Arrow that is given the group as a table."""
    groups = pipeline.table(table).data_set().group_by("k")
    summed = ArrowFunction(
        lambda group: pa.table({"k": group["k"].slice(0, 1), "v": pa.array([pc.sum(group["v"]).as_py()], pa.int64())})
    )
    more = {"combine": summed} if combined else {}
    return groups.reduce_group(summed, schema="k string, v long", **more).to_stream(name=name)


def joined(pipeline: Any, table: str, name: str, *, full: bool) -> Any:
    """The pairs of two parts of a whole table, with the rows that have none."""
    rows = pipeline.table(table).data_set()
    left, right = rows.filter("v < 30"), rows.filter("v % 4 = 0")
    pairs = left.full_outer_join(right) if full else left.left_outer_join(right)
    made = pairs.where("k", "v").equal_to("k", "v")
    return made.with_function(
        lambda one, other: ((one or other)[0], one and one[1], other and other[1]), schema="k string, v long, w long"
    ).to_stream(name=name)


def kept_components(pipeline: Any, rows: Any, table: str, name: str) -> Any:
    """Each number of a growing graph with the smallest that a way leads to: the solution set of the last epoch goes on."""
    new, edges = _both_ways(rows.select("k", "v").data_set()), _both_ways(pipeline.table(table).data_set())
    vertices = new.map(lambda edge: (edge.x, edge.x), schema="vertex long, component long").distinct("vertex")
    loop = vertices.iterate_delta(vertices, 100, "vertex", keep=True)
    active = loop.workset.join(loop.solution_set).where("vertex").equal_to("vertex")
    known = active.with_function(lambda _, known: known, schema="vertex long, component long")
    near = known.join(edges).where("vertex").equal_to("x").project_second("y").project_first("component").data_set()
    better = (
        near.group_by(0)
        .min(1)
        .join(loop.solution_set)
        .where(0)
        .equal_to("vertex")
        .with_function(lambda new, old: [new] if new[1] < old[1] else [], several=True)
    )
    return loop.close_with(better, better).to_stream(name=name, schema="vertex long, component long")


def _both_ways(edges: Any) -> Any:
    return edges.flat_map(lambda row: [(ord(row.k), row.v), (row.v, ord(row.k))], schema="x long, y long")
