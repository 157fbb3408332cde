"""The order in which a compaction writes a table's rows, so that rows with like values in some columns are in few files.

By one column that is its order. By several it is the Z-order (Morton 1966; Delta's ``OPTIMIZE ... ZORDER BY``): the bits of
the places that a row has by each column take turns, so that no column counts more than another. A place is how many rows are
before it, and not the value itself, so that values may be of any kind and crowded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MOST_COLUMNS: Final = 4
"""As many columns as Delta's own clustering takes: with each one more, each prunes less."""

_BITS: Final = 16


def in_order(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    """The rows, in the order of the columns.

    >>> import pyarrow as pa
    >>> in_order(pa.table({"x": [3, None, 1], "y": ["a", "b", "c"]}), ["x"])["y"].to_pylist()
    ['c', 'a', 'b']
    """
    import numpy as np

    if len(by) == 1:
        return rows.sort_by(by[0])
    code = np.zeros(rows.num_rows, np.uint64)
    for number, name in enumerate(by):
        places = _places(rows[name])
        for bit in range(_BITS):
            code |= ((places >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * len(by) + len(by) - 1 - number)
    return rows.take(np.argsort(code, kind="stable"))


def _places(column: pa.ChunkedArray) -> np.ndarray:
    """Where each row is by a column, from 0 to 65,535; rows with the same value are at the same place, null at the end.

    That is where ``rank`` has null, and to say so is deprecated since PyArrow 25.
    """
    import numpy as np
    import pyarrow.compute as pc

    ranks: np.ndarray = pc.rank(column, sort_keys="ascending", tiebreaker="min").to_numpy()
    places: np.ndarray = (ranks - np.uint64(1)) * np.uint64(1 << _BITS) // np.uint64(max(len(ranks), 1))
    return places


def cuts(rows: int, files: int) -> list[tuple[int, int]]:
    """The first row and the number of rows of each file, as equal as can be; a file without a row is left out.

    >>> cuts(10, 3), cuts(1, 2)
    ([(0, 4), (4, 3), (7, 3)], [(0, 1)])
    """
    least, more = divmod(rows, files)
    counts = [least + (number < more) for number in range(files)]
    return [(sum(counts[:number]), count) for number, count in enumerate(counts) if count]
