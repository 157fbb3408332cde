"""The peers of ``join_changes``: the same table computed anew by a batch job, or kept by hand with MERGE in ``foreachBatch``.

Both read the files of changes that the pipeline reads. Customers never change here, and both make use of it: a pipeline does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from delta.tables import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS: Final = "id long, customer long, price long, op string"
CUSTOMERS: Final = "customer long, region long, op string"
_SIGN: Final = "CASE WHEN op IN ('insert', 'update_after') THEN 1L ELSE -1L END AS sign"


class Recomputed:
    """One batch job over all changes there are: rows that were taken back cancel out in the sums.

    Args:
        session: A classic Spark session.
        folder: Where ``orders`` and ``customers`` have their files.
        table: Where the answer goes.
    """

    def __init__(self, session: SparkSession, folder: Path, table: Path) -> None:
        self._session, self._folder, self.table = session, folder, str(table)

    def run(self) -> None:
        """Compute the table and put it in the place of the one before."""
        changes = self._session.read.schema(ORDERS).parquet(str(self._folder / "orders"))
        customers = self._session.read.schema(CUSTOMERS).parquet(str(self._folder / "customers"))
        _by_region(changes, customers).write.format("delta").mode("overwrite").save(self.table)


class Merged:
    """A streaming query whose micro-batches add what changed to the table; a batch that is repeated is left out.

    Args:
        session: A classic Spark session.
        folder: Where ``orders`` and ``customers`` have their files.
        root: Where tables and checkpoint lie.
        keep_orders: Whether the orders themselves are kept too, which one needs as soon as customers change.
    """

    def __init__(self, session: SparkSession, folder: Path, root: Path, *, keep_orders: bool) -> None:
        self._session, self._folder, self._root, self._keep_orders = session, folder, root, keep_orders
        self.table, self._orders, self._customers = (str(root / name) for name in ("turnover", "orders", "customers"))
        session.read.schema(CUSTOMERS).parquet(str(folder / "customers")).drop("op").write.format("delta").save(self._customers)

    def run(self) -> None:
        """Process what has arrived."""
        rows = self._session.readStream.schema(ORDERS).parquet(str(self._folder / "orders"))
        writer = rows.writeStream.foreachBatch(self._add).trigger(availableNow=True)
        writer.option("checkpointLocation", str(self._root / "checkpoint")).start().awaitTermination()

    def _add(self, batch: DataFrame, number: int) -> None:
        customers = self._session.read.format("delta").load(self._customers)
        added = _by_region(batch, customers).selectExpr("*", f"{number}L AS batch")
        if self._keep_orders:
            self._keep(batch)
        if not DeltaTable.isDeltaTable(self._session, self.table):
            added.write.format("delta").save(self.table)
            return
        sums = {"orders": "t.orders + s.orders", "turnover": "t.turnover + s.turnover", "batch": "s.batch"}
        merge = DeltaTable.forPath(self._session, self.table).alias("t").merge(added.alias("s"), "t.region = s.region")
        merge.whenMatchedUpdate("t.batch < s.batch", set=dict(sums)).whenNotMatchedInsertAll().execute()

    def _keep(self, batch: DataFrame) -> None:
        now = batch.filter("op IN ('insert', 'update_after')").drop("op")
        if not DeltaTable.isDeltaTable(self._session, self._orders):
            now.write.format("delta").save(self._orders)
            return
        gone = batch.filter("op = 'delete'").selectExpr("id", "customer", "price", "true AS gone")
        changed = now.selectExpr("*", "false AS gone").union(gone)
        merge = DeltaTable.forPath(self._session, self._orders).alias("t").merge(changed.alias("s"), "t.id = s.id")
        values = {name: f"s.{name}" for name in ("id", "customer", "price")}
        merge = merge.whenMatchedDelete("s.gone").whenMatchedUpdate(set=dict(values))
        merge.whenNotMatchedInsert("NOT s.gone", values=dict(values)).execute()


def _by_region(changes: DataFrame, customers: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    met = changes.selectExpr("customer", "price", _SIGN).join(customers.select("customer", "region"), "customer")
    sums = {"orders": "sum(sign)", "turnover": "sum(sign * price)"}
    return met.groupBy("region").agg(*(F.expr(sql).alias(name) for name, sql in sums.items()))
