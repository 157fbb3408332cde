"""Q3 and Q10 as Flink's DataSet API writes them: joins of rows at hand, over the tables as TPC-H has them.

:mod:`~jobs.tpch.queries` keeps the same answers up to date while the tables change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dagster_operators as do
from jobs.tpch.queries import SCHEMAS

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Engine

Tables = Callable[[str], do.DataSet]
"""The data set of a table, by its name."""

SEGMENT, DAY = "BUILDING", date(1995, 3, 15)
FROM, UNTIL = date(1993, 10, 1), date(1994, 1, 1)
_REVENUE: Final = "revenue decimal(38,4)"
_CUSTOMER: Final = (
    "c_custkey long, c_name string, c_acctbal decimal(15,2), c_phone string, n_name string, c_address string, c_comment string"
)


def net(line: Any) -> Decimal:
    """The price of an order's line behind its discount, exactly."""
    price: Decimal = line.l_extendedprice * (1 - line.l_discount)
    return price


def add_revenue(first: Any, second: Any) -> Any:
    """Two rows as one, with the revenue of both."""
    return first._replace(revenue=first.revenue + second.revenue)


def q3(table: Tables) -> do.DataSet:
    """Shipping priority: the ten orders with the highest revenue among those of a segment that were not shipped by a day.

    Args:
        table: The tables.
    """
    customers = table("customer").filter(lambda row: row.c_mktsegment == SEGMENT).project("c_custkey").name("customers")
    orders = table("orders").filter(lambda row: row.o_orderdate < DAY).name("orders before the day")
    lines = table("lineitem").filter(lambda row: row.l_shipdate > DAY).project("l_orderkey", "l_extendedprice", "l_discount")
    ordered = orders.join(customers).where("o_custkey").equal_to("c_custkey")
    asked = ordered.project_first("o_orderkey", "o_orderdate", "o_shippriority").data_set().name("orders of the segment")
    sold = lines.join(asked).where("l_orderkey").equal_to("o_orderkey").with_function(
        lambda line, order: (line.l_orderkey, net(line), order.o_orderdate, order.o_shippriority),
        schema=f"l_orderkey long, {_REVENUE}, o_orderdate date, o_shippriority int",
    )  # fmt: skip
    revenue = sold.name("lines of the orders").group_by("l_orderkey", "o_orderdate", "o_shippriority").reduce(add_revenue)
    in_order = revenue.sort_partition("revenue", "descending").sort_partition("o_orderdate").sort_partition("l_orderkey")
    return in_order.set_parallelism(1).first(10).name("the ten highest")


def q10(table: Tables) -> do.DataSet:
    """Returned item reporting: the twenty customers who sent back most of a quarter's orders.

    Args:
        table: The tables.
    """
    orders = table("orders").filter(lambda row: FROM <= row.o_orderdate < UNTIL).project("o_orderkey", "o_custkey").name("orders")
    lines = table("lineitem").filter(lambda row: row.l_returnflag == "R").name("lines sent back")
    lost = lines.join(orders).where("l_orderkey").equal_to("o_orderkey").with_function(
        lambda line, order: (order.o_custkey, net(line)), schema=f"o_custkey long, {_REVENUE}"
    )  # fmt: skip
    by_customer = lost.name("revenue lost").group_by("o_custkey").reduce(add_revenue).name("by customer")
    customers = table("customer").join_with_tiny(table("nation")).where("c_nationkey").equal_to("n_nationkey")
    fields = ("c_custkey", "c_name", "c_acctbal", "c_phone")
    named = customers.project_first(*fields).project_second("n_name").project_first("c_address", "c_comment").data_set()
    told = named.name("customers").join(by_customer).where("c_custkey").equal_to("o_custkey").with_function(
        lambda customer, sent: (*customer, sent.revenue), schema=f"{_CUSTOMER}, {_REVENUE}"
    )  # fmt: skip
    in_order = told.sort_partition("revenue", "descending").sort_partition("c_custkey").set_parallelism(1)
    return in_order.first(20).name("the twenty highest")


QUERIES: Final[Mapping[str, Callable[[Tables], do.DataSet]]] = {"q3": q3, "q10": q10}


def build(folder: Path, *, engine: Engine | None = None, parallelism: int | None = None) -> do.Pipeline:
    """The queries below a folder: the tables in ``base``, the answers in ``tpch_data_sets``.

    Args:
        folder: Where everything lies; :meth:`~jobs.tpch.generator.Tpch.make` puts the tables there.
        engine: Where it runs.
        parallelism: In how many parts data sets are computed; by default as the engine has it.

    >>> build(Path("data")).tables["q3"].description
    'Shipping priority: the ten orders with the highest revenue among those of a segment that were not shipped by a day'
    """
    pipeline = do.Pipeline("tpch_data_sets", root=str(folder / "tpch_data_sets"), engine=engine, parallelism=parallelism)
    streams: dict[str, do.Stream] = {}

    def table(name: str) -> do.DataSet:
        if name not in streams:
            file = do.FileSource(
                str(folder / "base" / f"{name}.parquet"), format="parquet", schema=SCHEMAS[name].removesuffix(", op string")
            )
            streams[name] = pipeline.source(name, file)
        return streams[name].data_set()

    for name, query in QUERIES.items():
        answer = query(table)
        answer.to_table(name, mode="replace", description=(query.__doc__ or "").partition("\n")[0].rstrip("."))
    return pipeline
