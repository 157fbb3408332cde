"""Whether an engine writes where the storage root is: asked with one row, when a write has left no file at all.

No rows and rows that went elsewhere look the same then. An engine on another machine has another disk, and one whose locale knows
no such letters writes to another name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dagster_operators.connectors.dialect import reader_paths, writer_path
from dagster_operators.errors import StageFailedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dagster_operators.storage.root import Root

_REACHED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""The kinds of roots in which a row of each session's engine was found."""


def check_reach(session: SparkSession, root: Root, folder: str) -> None:
    """Have the engine write and read one row below a root, once for each session and kind of root.

    Roots are of one kind on the same disk or bucket, if their paths have the same signs besides letters and digits.

    Args:
        session: The engine's session.
        root: The storage root.
        folder: A folder that nothing else uses; it is deleted.

    Raises:
        StageFailedError: The row is not there, or is not read.
    """
    reached = _REACHED.setdefault(session, set())
    kind = _kind(root)
    if kind in reached:
        return
    session.sql("SELECT 1 AS one").write.parquet(writer_path(session, root.engine_uri(folder)))
    files = sorted(path for path in root.sizes(folder) if path.endswith(".parquet"))
    read = session.read.parquet(*reader_paths(session, [root.engine_uri(path) for path in files])).count() if files else 0
    root.delete_folder(folder)
    if read != 1:
        how = "does not read a row back that it wrote" if files else "wrote a row, and no file of it is"
        raise StageFailedError(
            f"the engine {how} in the storage root", file=root.uri,
            remedy="give engine and driver the same disk, or an object store as storage root; on embedded Spark, set "
            "LC_ALL=C.UTF-8 if the path has letters beyond ASCII",
        )  # fmt: skip
    reached.add(kind)


def _kind(root: Root) -> str:
    place = str(Path(root.path("")).stat().st_dev) if root.is_local else "/".join(root.uri.split("/")[:3])
    return place + "".join(sorted(set(re.sub(r"[A-Za-z0-9_./-]", "", root.uri))))
