"""A pipeline over changes that the crash tests kill: an outer join, an aggregate of an aggregate, the first rows of an order.

Orders and customers come, become others and go, a small file of each an epoch; :func:`computed` is what it all comes to.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import duckdb

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.connectors.sink import Sink

Row = tuple[Any, ...]
COLUMNS = {"orders": ("id", "customer", "price"), "customers": ("no", "city")}
_SCHEMAS = {"orders": "id long, customer long, price long, op string", "customers": "no long, city string, op string"}
_CHANGES = 12
"""How many changes an epoch has, of each table."""

_SOLD = "SELECT customer, id, price, city FROM orders FULL JOIN customers ON customer = no"
_BY_CITY = f"SELECT city, count(id) AS orders, sum(price) AS turnover, max(price) AS dearest FROM ({_SOLD}) GROUP BY city"
SQL = {
    "by_city": _BY_CITY,
    "by_count": f"SELECT orders, count(*) AS cities FROM ({_BY_CITY}) GROUP BY orders",
    "best": f"""SELECT * FROM (
        SELECT CAST(row_number() OVER (ORDER BY turnover DESC NULLS LAST, city NULLS FIRST) AS INT) AS rank, * FROM ({_BY_CITY})
    ) WHERE rank <= 2""",
}


def write_feed(folder: Path, epochs: int) -> Path:
    """Files of changes, one of each table for each epoch."""
    chance = random.Random(epochs)  # noqa: S311 - the same rows each time
    for table, columns in COLUMNS.items():
        (folder / table).mkdir(parents=True)
        there: dict[int, Row] = {}
        for epoch in range(1, epochs + 1):
            changes = [change for _ in range(_CHANGES) for change in _change(table, there, chance)]
            lines = [json.dumps({**dict(zip(columns, row, strict=True)), "op": op}) for op, row in changes]
            path = folder / table / f"{epoch:03d}.json"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            os.utime(path, (1_700_000_000 + epoch, 1_700_000_000 + epoch))
    return folder


def _change(table: str, there: dict[int, Row], chance: random.Random) -> list[tuple[str, Row]]:
    key = chance.randrange(40) if table == "orders" else chance.randrange(8)
    before = there.pop(key, None)
    if before is not None and chance.random() < 0.3:
        return [("delete", before)]
    after: Row = (key, chance.randrange(10), chance.randrange(1, 100)) if table == "orders" else (key, chance.choice("ABCD"))
    there[key] = after
    return [("insert", after)] if before is None else [("update_before", before), ("update_after", after)]


def build(root: str, feed: str, *, lease_seconds: float = 30.0, concurrent_stages: int = 1, sink: Sink | None = None) -> Pipeline:
    """The pipeline over the files in ``feed``; no file of it is read here."""
    pipeline = Pipeline("crashing", root, lease_seconds=lease_seconds, concurrent_stages=concurrent_stages)
    orders, customers = (
        pipeline.source(table, FileSource(f"{feed}/{table}/*.json", schema=schema, max_files=1)).as_changes("op")
        for table, schema in _SCHEMAS.items()
    )
    sold = orders.join(customers, on={"customer": "no"}, how="full", name="sold")
    sold.to_table("sold_log")
    by_city = sold.key_by("city").aggregate(orders="count(id)", turnover="sum(price)", dearest="max(price)", name="by_city")
    by_city.to_table("by_city")
    by_city.key_by("orders").aggregate(cities="count(*)").to_table("by_count")
    by_city.key_by().top(2, by="turnover DESC, city", name="best").to_table("best")
    if sink is not None:
        by_city.to_sink(sink, name="cities")
    return pipeline


def computed(feed: Path) -> dict[str, list[Row]]:
    """What DuckDB makes of the rows that are left of all changes, by table."""
    with duckdb.connect() as connection:
        for table, columns in COLUMNS.items():
            net = "sum(CASE WHEN op IN ('insert', 'update_after') THEN 1 ELSE -1 END)"
            files = f"read_json('{feed}/{table}/*.json')"
            connection.execute(f"CREATE TABLE {table} AS SELECT {', '.join(columns)} FROM {files} GROUP BY ALL HAVING {net} > 0")
        return {table: sorted(connection.execute(query).fetchall(), key=repr) for table, query in SQL.items()}
