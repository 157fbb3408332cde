"""Where rows are in the files of a slice, as the columns of ``graph.places``, whichever engine reads them.

Spark says of a row in which file it is, where the piece of it begins that a task reads, and of Parquet the row's number. Sail
says nothing: there Parquet files are read by Arrow in its workers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.graph.places import FILE, PLACE
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACES_DDL: Final = f"{FILE} bigint, {PLACE} bigint"

_PATH: Final = "__do_path"
_NUMBER: Final = "__do_number"
LONGEST: Final = 2**42
"""No file has so many bytes: numbers of files are multiples of it, to which the piece's beginning is added."""

_SCHEME: Final = "^[A-Za-z0-9]+:/+"

_METADATA: Final = "_metadata"
_OTHER_METADATA: Final = "__do_metadata"


def with_metadata(rows: DataFrame) -> tuple[DataFrame, str]:
    """Rows as one of Spark's readers gives them, and the name by which they say what file they are of.

    It is Spark's own, unless the files have a column of that name, which then would be meant.
    """
    if _METADATA not in {name.lower() for name in rows.columns}:
        return rows, _METADATA
    return rows.select("*", rows.metadataColumn(_METADATA).alias(_OTHER_METADATA)), _OTHER_METADATA


def places_of_text(metadata: str) -> tuple[str, ...]:
    """What is selected of the rows of texts for :func:`in_order_of_files`, by the name that :func:`with_metadata` gave."""
    # A piece of a file is read by one task, whose numbers ascend.
    return _path_by(metadata), f"{metadata}.file_block_start AS {FILE}", f"monotonically_increasing_id() AS {PLACE}"


def places_of_parquet(metadata: str) -> tuple[str, ...]:
    """The same of Parquet."""
    return _path_by(metadata), f"0L AS {FILE}", f"{metadata}.row_index AS {PLACE}"


def _path_by(metadata: str) -> str:
    # The path is a URI, whose scheme may be another one than that by which it was asked for.
    return f"regexp_replace(try_url_decode(replace({metadata}.file_path, '+', '%2B')), '{_SCHEME}', '') AS {_PATH}"


def in_order_of_files(rows: DataFrame, uris: Sequence[str]) -> DataFrame:
    """Rows with the columns above, with the number of each one's file among those of the slice.

    Args:
        rows: The rows.
        uris: All files of the slice, in its order, with nothing encoded.
    """
    from pyspark.sql import functions as F

    names = [quoted(name) for name in rows.columns if name not in (_PATH, FILE, PLACE)]
    if len(uris) == 1:
        return rows.drop(_PATH)
    numbers = [(re.sub(_SCHEME, "", uri), number * LONGEST) for number, uri in enumerate(uris)]
    listed = rows.sparkSession.createDataFrame(numbers, f"{_PATH} string, {_NUMBER} bigint")
    unknown = f"CAST(raise_error(concat('a row is of another file than was asked for: ', {_PATH})) AS BIGINT)"
    found = rows.join(F.broadcast(listed), _PATH, "left")
    return found.selectExpr(*names, f"coalesce({_NUMBER}, {unknown}) + {FILE} AS {FILE}", PLACE)


def places_of(file: int, first: int, rows: int) -> list[Any]:
    """The two columns of some rows of a file that are one behind the other.

    >>> [column.to_pylist() for column in places_of(1, 5, 2)]
    [[1, 1], [5, 6]]
    """
    import numpy as np
    import pyarrow as pa

    return [pa.array(np.full(rows, file, np.int64)), pa.array(np.arange(first, first + rows, dtype=np.int64))]
