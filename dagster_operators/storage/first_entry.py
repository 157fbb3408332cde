"""The first entry of a Delta table's log on an object store, put there once, even if the answer to that is lost.

deltalake makes the entry in a local folder. Were it to put it itself and lost the answer, it would ask again, hear that there is
one, and commit the creation a second time behind it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from dagster_operators.storage.delta_log import entry_path
from dagster_operators.storage.digests import sealed


def first_entry(uri: str, create: Callable[[str], object], schema_json: str) -> bytes:
    """What says that a table was created.

    Args:
        uri: Where the table is to be.
        create: Makes the same table in a local folder, perhaps with other columns.
        schema_json: The table's columns, if they are others.
    """
    with tempfile.TemporaryDirectory(prefix="dagster_operators-") as folder:
        create(folder)
        actions = [json.loads(line) for line in Path(folder, entry_path(0)).read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if schema_json and "metaData" in action:
            action["metaData"]["schemaString"] = schema_json
        if "commitInfo" in action:
            action["commitInfo"].get("operationParameters", {}).update(location=uri)
    return sealed(actions)
