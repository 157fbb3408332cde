"""How rows that Spark has read, and what is wrong with some of them, become rows and rejects, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster_operators.connectors.rejects import CORRUPT_FILE, CORRUPT_REASON, CORRUPT_RECORD
from dagster_operators.connectors.sql_text import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dagster_operators.connectors.connector import OnCorrupt


def rows_and_rejects(
    rows: DataFrame,
    values: Sequence[str],
    *,
    wrong: str,
    reason: str,
    record: str,
    metadata: str,
    corrupt: OnCorrupt,
    places: Sequence[str],
    matters: str = "true",
) -> DataFrame:
    """The rows in the columns of the schema; with ``corrupt="reject"`` the three columns of rejects follow, then places.

    Spark's readers do not parse the rest of a record once a condition of the query does not hold. So the condition here counts
    rows, too: Spark takes no other one past it.

    Args:
        rows: What was read.
        values: SQL for the columns of the schema.
        wrong: A condition, never null, for whether something is wrong with a row. It is asked more than once, so it is short.
        reason: SQL for what that is.
        record: SQL for the record as it stands in the file.
        metadata: The name by which rows tell their file.
        corrupt: What happens to a corrupt record.
        places: SQL for the columns of places, if they are wanted.
        matters: A condition that holds of every row, and reads what has to be read.
    """
    # The path is a URI: decoded, it is the name people know the file by.
    file = f"regexp_replace(try_url_decode(replace({metadata}.file_path, '+', '%2B')), '^file:/+', '/')"
    counted = f"{matters} AND monotonically_increasing_id() >= 0"
    if corrupt == "fail":
        told = f"CAST(raise_error(concat({literal('MALFORMED_RECORD in ')}, {file})) AS BOOLEAN)"
        return rows.where(f"{counted} AND CASE WHEN {wrong} THEN {told} ELSE true END").selectExpr(*values, *places)
    names = (CORRUPT_RECORD, CORRUPT_FILE, CORRUPT_REASON)
    rejects = (f"CASE WHEN {wrong} THEN {told} END AS {name}" for told, name in zip((record, file, reason), names, strict=True))
    return rows.where(counted).selectExpr(*values, *rejects, *places)
