"""What happened to the rows of a table between two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NET: Final = "__do_net"


def rows_changed(gone: DataFrame, new: DataFrame, change: str) -> DataFrame:
    """The rows that were removed and those that were added; what was only moved to another file is neither.

    Args:
        gone: The rows of files that only the earlier version has.
        new: Those of files that only the later one has, in the same columns.
        change: The column that says ``insert`` or ``delete``, behind the others.
    """
    columns = [quoted(name) for name in new.columns]
    both = gone.selectExpr(*columns, f"-1L AS {_NET}").unionByName(new.selectExpr(*columns, f"1L AS {_NET}"))
    net = both.groupBy(*columns).agg({_NET: "sum"}).toDF(*new.columns, _NET)
    told = f"explode(array_repeat(CASE WHEN {_NET} > 0 THEN 'insert' ELSE 'delete' END, CAST(abs({_NET}) AS INT)))"
    return net.filter(f"{_NET} <> 0").selectExpr(*columns, f"{told} AS {quoted(change)}")
