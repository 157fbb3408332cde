"""Queries of TPC-H as pipelines: each a function from the streams of the tables' changes to the stream of its answer.

After the TPC-H specification, revision 3.0.1, with the values that its validation takes. An answer has no order of its own; where
a query asks for the first rows, the column ``rank`` says it, and the key decides between rows that are equal otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import dagster_operators as do

_MONEY: Final = "decimal(15,2)"
SCHEMAS: Final = {
    "customer": f"c_custkey long, c_name string, c_address string, c_nationkey long, c_phone string, c_acctbal {_MONEY}, "
    "c_mktsegment string, c_comment string, op string",
    "supplier": f"s_suppkey long, s_name string, s_address string, s_nationkey long, s_phone string, s_acctbal {_MONEY}, "
    "s_comment string, op string",
    "orders": f"o_orderkey long, o_custkey long, o_orderstatus string, o_totalprice {_MONEY}, o_orderdate date, "
    "o_orderpriority string, o_clerk string, o_shippriority int, o_comment string, op string",
    "lineitem": f"l_orderkey long, l_partkey long, l_suppkey long, l_linenumber int, l_quantity {_MONEY}, "
    f"l_extendedprice {_MONEY}, l_discount {_MONEY}, l_tax {_MONEY}, l_returnflag string, l_linestatus string, l_shipdate date, "
    "l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, l_comment string, op string",
    "nation": "n_nationkey long, n_name string, n_regionkey long, n_comment string",
    "region": "r_regionkey long, r_name string, r_comment string",
}


@dataclass(frozen=True)
class Tables:
    """The streams of the tables; a source that no query asks for is not read.

    Attributes:
        pipeline: What the sources belong to.
        folder: Where :meth:`~jobs.tpch.generator.Tpch.write` has written the changes.
        steps_per_epoch: How many steps an epoch takes; None for all there are.
        large: From which quantity of its lines on an order is a large one to q18; there are few at a small scale.
    """

    pipeline: do.Pipeline
    folder: Path
    steps_per_epoch: int | None = 1
    large: int = 300

    @cached_property
    def customer(self) -> do.Stream:
        """Customers, as changes."""
        return self._source("customer").as_changes("op")

    @cached_property
    def supplier(self) -> do.Stream:
        """Suppliers, as changes."""
        return self._source("supplier").as_changes("op")

    @cached_property
    def orders(self) -> do.Stream:
        """Orders, as changes."""
        return self._source("orders").as_changes("op")

    @cached_property
    def lineitem(self) -> do.Stream:
        """The lines of orders, as changes."""
        return self._source("lineitem").as_changes("op")

    @cached_property
    def nation(self) -> do.Stream:
        """Nations, which stay."""
        return self._source("nation")

    @cached_property
    def region(self) -> do.Stream:
        """Regions, which stay."""
        return self._source("region")

    def _source(self, table: str) -> do.Stream:
        files = str(self.folder / table)
        source = do.FileSource(files, format="parquet", schema=SCHEMAS[table], max_files=self.steps_per_epoch)
        return self.pipeline.source(table, source)


Query = Callable[[Tables], do.Stream]

_NET: Final = "l_extendedprice * (1 - l_discount)"
_SOLD: Final = ("l_extendedprice", "l_discount")


def q1(tables: Tables) -> do.Stream:
    """Pricing summary report: what was shipped up to a day, by return flag and status."""
    shipped = tables.lineitem.filter("l_shipdate <= DATE '1998-09-02'")
    return shipped.key_by("l_returnflag", "l_linestatus").aggregate(
        sum_qty="sum(l_quantity)",
        sum_base_price="sum(l_extendedprice)",
        sum_disc_price=f"sum({_NET})",
        sum_charge=f"sum({_NET} * (1 + l_tax))",
        avg_qty="avg(l_quantity)",
        avg_price="avg(l_extendedprice)",
        avg_disc="avg(l_discount)",
        count_order="count(*)",
    )


def q3(tables: Tables) -> do.Stream:
    """Shipping priority: the ten orders with the highest revenue among those of a segment that were not shipped by a day."""
    customers = tables.customer.filter("c_mktsegment = 'BUILDING'").select("c_custkey")
    orders = tables.orders.filter("o_orderdate < DATE '1995-03-15'").join(customers, on={"o_custkey": "c_custkey"}, how="semi")
    lines = tables.lineitem.filter("l_shipdate > DATE '1995-03-15'").select("l_orderkey", *_SOLD)
    open_lines = lines.join(orders, on={"l_orderkey": "o_orderkey"}, columns=[*_SOLD, "o_orderdate", "o_shippriority"])
    revenue = open_lines.key_by("l_orderkey", "o_orderdate", "o_shippriority").aggregate(revenue=f"sum({_NET})")
    return revenue.key_by().top(10, by="revenue DESC, o_orderdate, l_orderkey")


def q5(tables: Tables) -> do.Stream:
    """Local supplier volume: the revenue of a year's orders whose customer and supplier are of one nation, of one region."""
    of_a_year = tables.orders.filter("o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'")
    asia = tables.region.filter("r_name = 'ASIA'")
    nations = tables.nation.join(asia, on={"n_regionkey": "r_regionkey"}, columns=["n_nationkey", "n_name"])
    customers = tables.customer.join(nations, on={"c_nationkey": "n_nationkey"}, columns=["c_custkey", "n_name"])
    orders = of_a_year.join(customers, on={"o_custkey": "c_custkey"}, columns=["o_orderkey", "c_nationkey", "n_name"])
    lines = tables.lineitem.join(orders, on={"l_orderkey": "o_orderkey"}, columns=["l_suppkey", *_SOLD, "c_nationkey", "n_name"])
    suppliers = tables.supplier.select("s_suppkey", "s_nationkey")
    local = lines.join(suppliers, on={"l_suppkey": "s_suppkey", "c_nationkey": "s_nationkey"}, how="semi")
    return local.key_by("n_name").aggregate(revenue=f"sum({_NET})")


def q10(tables: Tables) -> do.Stream:
    """Returned item reporting: the twenty customers who sent back most of a quarter's orders."""
    customer = ("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment")
    orders = tables.orders.filter("o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01'")
    returned = tables.lineitem.filter("l_returnflag = 'R'").select("l_orderkey", *_SOLD)
    customers = tables.customer.join(tables.nation, on={"c_nationkey": "n_nationkey"}, columns=customer)
    lost = returned.join(orders, on={"l_orderkey": "o_orderkey"}, columns=["o_custkey", *_SOLD])
    revenue = customers.join(lost, on={"c_custkey": "o_custkey"}).key_by(*customer).aggregate(revenue=f"sum({_NET})")
    return revenue.key_by().top(20, by="revenue DESC, c_custkey")


def q13(tables: Tables) -> do.Stream:
    """Customer distribution: how many customers have how many orders, none too."""
    orders = tables.orders.filter("o_comment NOT LIKE '%special%requests%'").select("o_orderkey", "o_custkey")
    ordered = tables.customer.select("c_custkey").join(orders, on={"c_custkey": "o_custkey"}, how="left")
    counts = ordered.key_by("c_custkey").aggregate(c_count="count(o_orderkey)")
    return counts.key_by("c_count").aggregate(custdist="count(*)")


def q18(tables: Tables) -> do.Stream:
    """Large volume customers: the hundred orders of the highest price among those of a large quantity."""
    lines = tables.lineitem.select("l_orderkey", "l_quantity")
    large = lines.key_by("l_orderkey").aggregate(quantity="sum(l_quantity)").filter(f"quantity > {tables.large}")
    orders = tables.orders.select("o_orderkey", "o_custkey", "o_orderdate", "o_totalprice")
    large_orders = orders.join(large, on={"o_orderkey": "l_orderkey"}, how="semi")
    customers = tables.customer.select("c_custkey", "c_name")
    named = customers.join(large_orders, on={"c_custkey": "o_custkey"}).join(lines, on={"o_orderkey": "l_orderkey"})
    order = ("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice")
    sums = named.key_by(*order).aggregate(sum_qty="sum(l_quantity)")
    return sums.key_by().top(100, by="o_totalprice DESC, o_orderdate, o_orderkey")


QUERIES: Final[Mapping[str, Query]] = {query.__name__: query for query in (q1, q3, q5, q10, q13, q18)}
"""The queries by their names."""
