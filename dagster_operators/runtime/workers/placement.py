"""Values that the engine brings to partitions of their own.

An engine distributes rows by a hash of a column's value, so that of few values several often come to the same partition, and
another one has nothing to do. Which do not, is asked of the engine once. Nothing depends on the answer but how even the work is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Final
from uuid import uuid4

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_TRIED: Final = 32
"""So many values are tried for each partition."""

_known: Final[dict[int, tuple[int, ...]]] = {}
_asking: Final = Lock()


def apart(session: SparkSession, partitions: int) -> tuple[int, ...]:
    """As many whole numbers as there are partitions, each for one of its own where the engine has shown that it is.

    Args:
        session: The engine's session.
        partitions: How many partitions there are.
    """
    if partitions == 1:
        return (0,)
    with _asking:
        if partitions not in _known:
            _known[partitions] = _asked(session, partitions)
        return _known[partitions]


def _asked(session: SparkSession, partitions: int) -> tuple[int, ...]:
    tried = session.range(0, _TRIED * partitions, 1, 1).selectExpr("CAST(id AS INT) AS value")
    rows = tried.repartition(partitions, "value").mapInArrow(_placed, "value int, place string").collect()
    found: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: int(row.value)):
        found.setdefault(row.place, row.value)
    others = (value for value in range(_TRIED * partitions) if value not in found.values())
    return (*found.values(), *others)[:partitions]


def _placed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The values with a name of the partition that they are in."""
    import pyarrow as pa

    place = uuid4().hex
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"value": batch.column(0), "place": [place] * batch.num_rows})
