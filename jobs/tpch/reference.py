"""What the queries come to, computed by DuckDB over the rows that are there: the other side of the tests.

The SQL is that of the specification; of the first rows of an order the rank is a column. DuckDB belongs to the development tools,
so it is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs.tpch.generator import KEYS, STATIC, Tpch

if TYPE_CHECKING:
    import pyarrow as pa

SQL: Final = {
    "q1": """
        SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
            sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
            sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
            CAST(avg(l_quantity) AS DECIMAL(19, 6)) AS avg_qty, CAST(avg(l_extendedprice) AS DECIMAL(19, 6)) AS avg_price,
            CAST(avg(l_discount) AS DECIMAL(19, 6)) AS avg_disc, count(*) AS count_order
        FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY GROUP BY l_returnflag, l_linestatus""",
    "q3": """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority,
            row_number() OVER (ORDER BY sum(l_extendedprice * (1 - l_discount)) DESC, o_orderdate, l_orderkey) AS rank
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
            AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY rank LIMIT 10""",
    "q5": """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
            AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
            AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1994-01-01' + INTERVAL 1 YEAR
        GROUP BY n_name""",
    "q10": """
        SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address, c_phone,
            c_comment, row_number() OVER (ORDER BY sum(l_extendedprice * (1 - l_discount)) DESC, c_custkey) AS rank
        FROM customer, orders, lineitem, nation
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
            AND o_orderdate < DATE '1993-10-01' + INTERVAL 3 MONTH AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment ORDER BY rank LIMIT 20""",
    "q13": """
        SELECT c_count, count(*) AS custdist
        FROM (
            SELECT c_custkey, count(o_orderkey) AS c_count
            FROM customer LEFT OUTER JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
            GROUP BY c_custkey
        )
        GROUP BY c_count""",
    "q18": """
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS sum_qty,
            row_number() OVER (ORDER BY o_totalprice DESC, o_orderdate, o_orderkey) AS rank
        FROM customer, orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > {large})
            AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice ORDER BY rank LIMIT 100""",
}
"""Each query in DuckDB's SQL over the tables."""


def answers(tables: Tpch, step: int, *, large: int = 300) -> dict[str, pa.Table]:
    """What each query gives for the rows that are there after a step."""
    import duckdb

    with duckdb.connect() as connection:
        for name in (*KEYS, *STATIC):
            connection.register(name, tables.rows(name, step))
        return {query: connection.sql(text.replace("{large}", str(large))).to_arrow_table() for query, text in SQL.items()}
