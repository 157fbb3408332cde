"""Results of data sets over all epochs, in pipelines; ``test_over_epochs_program.py`` has drawn programs without an engine."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import dagster_operators as do
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import ChangedPipelineError, OperatorsError, PipelineError
from dagster_operators.transactions.failpoints import watch
from tests.engines import SAIL

pytestmark = pytest.mark.in_process
EPOCHS = [[("a", 1), ("b", 2), ("a", 3), ("d", 4)], [("b", 5), ("c", 9)]]


class Died(BaseException):
    """A run that ends where it is."""


class Times(do.data_sets.RichFunction):
    """Products, of which the program is given a factor."""

    def open(self, context):
        self.factor = context.parameters["factor"]

    def __call__(self, first, second):
        return (first[0], first[1] * second[1] * self.factor)


def build(root, parallelism=2, factor=1, engine=SAIL):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    rows = pipeline.source("rows", do.MemorySource(EPOCHS, schema="k string, v long")).data_set()
    rows.group_by("k").reduce(Times(), over="all").with_parameters(factor=factor).to_table("products")
    for name, stream in do.compute_together(
        "others", keys=rows.distinct("k", over="all"), counted=rows.count(over="all")
    ).items():
        stream.to_table(name)
    return pipeline


def found(pipeline):
    tables = {name: pipeline.to_arrow(name).to_pylist() for name in ("products", "keys", "counted")}
    return {name: Counter(tuple(row.values()) for row in rows) for name, rows in tables.items()}


def require(pipeline, epochs=2):
    before = [row for rows in EPOCHS[:epochs] for row in rows]
    products = Counter()
    for k, v in before:
        products[k] = (products[k] or 1) * v
    tables = found(pipeline)
    assert tables["products"] == Counter(products.items())
    assert sorted(k for k, _ in tables["keys"]) == sorted(products)
    assert tables["counted"] == Counter([(len(before),)])


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_whatever_dies_and_is_computed_anew_the_results_are_those_of_all_rows(tmp_path):
    root = tmp_path / "root"
    build(root).run_epoch()
    require(build(root), 1)

    def die(reached):
        if reached == "before:append_decision":
            raise Died

    with watch(die), pytest.raises(Died):
        build(root).run_epoch()
    build(root, parallelism=3).run_epoch()
    require(build(root))
    files = pa.table(DeltaTable(str(root / "state" / "products.rows")).get_add_actions(flatten=True))
    rows_of = dict(zip(files["path"].to_pylist(), files["num_records"].to_pylist(), strict=True))
    written = [rows for path, rows in rows_of.items() if "e2-" in path]
    assert sum(written) == 2, "the state of the epoch's keys alone is written"
    pipeline = build(root, parallelism=1)
    pipeline.rebuild("products")
    require(pipeline)
    with pytest.raises(ChangedPipelineError, match="what its state depends on changed"):
        build(root, factor=2).run_epoch()


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark_too(tmp_path):
    pipeline = build(tmp_path / "root", engine="spark")
    pipeline.run_until_caught_up()
    require(pipeline)


def piped():
    pipeline = do.Pipeline("p", root="unused", engine="sail")
    pipeline.source("more", do.MemorySource([[("a", 1)]], schema="k string, v long")).to_table("all_rows")
    return pipeline, pipeline.source("rows", do.MemorySource([[("a", 1)]], schema="k string, v long")).data_set()


REFUSED = {
    "another word": (lambda p, rows: rows.distinct("k", over="both"), "over='both' says nothing.*over='all'"),
    "a computed key": (lambda p, rows: rows.group_by(lambda row: row.k).reduce(max, over="all"), "make it a column before"),
    "a computed key of a distinct": (lambda p, rows: rows.distinct(lambda row: row.k, over="all"), "make it a column before"),
    "a group without a combiner": (lambda p, rows: rows.group_by("k").reduce_group(list, over="all"), "combine=fewer"),
    "a result without its key": (
        lambda p, rows: rows.group_by("k").reduce_group(list, combine=list, schema="n long", over="all"), "have no column 'k'",
    ),
    "groups as tables": (
        lambda p, rows: rows.group_by("k").reduce_group(
            list, combine=do.data_sets.ArrowFunction(len), schema="k string", over="all"
        ),
        "give functions of rows",
    ),
    "a sum of the key": (lambda p, rows: rows.group_by("v").sum("v", over="all"), "sum a field that is no part of the key"),
    "several rows of an order": (
        lambda p, rows: rows.group_by("k").sort_group("v").first(2, over="all"), "take the first row.*top",
    ),
    "results of an epoch": (lambda p, rows: rows.group_by("k").sum("v").sum("v", over="all"), "'GroupReduce' gives other rows"),
    "pairs of an epoch": (
        lambda p, rows: rows.join(rows).where("k").equal_to("k").project_first("k", "v").data_set().sum("v", over="all"),
        "'Join' gives other rows",
    ),
    "a broadcast set of an epoch": (
        lambda p, rows: rows.map(tuple, schema="k string, v long").with_broadcast_set(rows, "all").max("v", over="all"),
        "'Map' gives other rows",
    ),
    "rows at hand again and again": (
        lambda p, rows: rows.union(do.data_sets.from_collection([("a", 1)], schema="k string, v long")).max("v", over="all"),
        "'Union' gives other rows",
    ),
    "numbers of an epoch": (lambda p, rows: rows.zip_with_unique_id().first(1, over="all"), "gives other rows"),
    "all rows of a table": (
        lambda p, rows: p.table("all_rows").data_set().sum("v", over="all"), "all rows of a table.*leave over='all' out",
    ),
    "an operation behind": (lambda p, rows: rows.sum("v", over="all").map(tuple), "the data set of that table"),
    "a broadcast set over all": (
        lambda p, rows: rows.map(tuple).with_broadcast_set(rows.sum("v", over="all"), "sums"), "write them to a table",
    ),
    "a function with a broadcast set": (
        lambda p, rows: rows.reduce(max, over="all").with_broadcast_set(rows, "all").to_table("t"), "give the function plain",
    ),
    "rows without names": (lambda p, rows: rows.map(tuple).distinct(0, over="all").to_table("t"), "rows have no names"),
    "a table of an epoch": (lambda p, rows: rows.sum("v", over="all").to_table("t", mode="append"), "leave mode='append' out"),
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_what_would_be_wrong_is_refused_where_it_is_written(call):
    made, problem = REFUSED[call]
    with pytest.raises(OperatorsError, match=problem):
        made(*piped())


BEFORE = {
    "map": lambda rows: rows.map(tuple, schema="k string, v long"),
    "flat_map": lambda rows: rows.flat_map(lambda row: [row], schema="k string, v long"),
    "filter": lambda rows: rows.filter(lambda row: row.v > 0),
    "filter by SQL": lambda rows: rows.filter("v > 0"),
    "select": lambda rows: rows.select("k", "v * 2 AS v"),
    "project": lambda rows: rows.project("k", "v"),
    "map over Arrow": lambda rows: rows.map(do.data_sets.ArrowFunction(lambda batch: batch), schema="k string, v long"),
    "union": lambda rows: rows.union(rows),
    "moves": lambda rows: rows.rebalance().sort_partition("v"),
}


@pytest.mark.parametrize("call", BEFORE)
def test_operations_whose_rows_add_up_may_come_before(call):
    _, rows = piped()
    assert BEFORE[call](rows).group_by("k").sum("v", over="all").to_table("sums").columns == ("k", "v")


def test_rows_at_hand_may_be_joined_before():
    _, rows = piped()
    names = do.data_sets.from_collection([("a", "ann")], schema="k string, name string")
    joined = rows.join(names).where("k").equal_to("k").project_first("k", "v").project_second("name").data_set()
    stream = joined.group_by("name").sum("v", over="all").to_table("sums")
    assert stream.columns == ("k", "v", "name")


def test_without_a_pipeline_there_is_one_epoch():
    program = LocalProgram(2)
    rows = program.rows([("a", 1), ("a", 2)], schema="k string, v long")
    assert program.collect(rows.group_by("k").sum("v", over="all")) == [("a", 3)]
    with pytest.raises(PipelineError, match="computed of no stream"):
        rows.sum("v", over="all").to_table("t")
