"""A copy of a log in a local folder, read by deltalake: what it refuses there is damage, and no hiccup of a store."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

from dagster_operators.storage.log_checkpoint import write_log
from dagster_operators.types.schema import Schema


def is_panic(error: BaseException) -> bool:
    """Whether native code stopped where it did not expect what there is; that is no ``Exception``."""
    return type(error).__name__ == "PanicException"


def is_readable(entries: Mapping[int, bytes], checkpoint: tuple[int, bytes] | None = None) -> bool:
    """Whether deltalake can open a log, and say what is in the table.

    Args:
        entries: The entries, by version.
        checkpoint: The version and content of a checkpoint before them.

    >>> is_readable({0: b'{"commitInfo": {}}'})
    False
    """
    try:
        _look(entries, checkpoint)
    except Exception:  # noqa: BLE001 - of a copy: whatever it is, it is in the log
        return False
    except BaseException as error:
        if not is_panic(error):
            raise
        return False
    return True


def _look(entries: Mapping[int, bytes], checkpoint: tuple[int, bytes] | None) -> None:
    from deltalake import DeltaTable

    with tempfile.TemporaryDirectory(prefix="dagster_operators-") as folder:
        write_log(folder, entries, checkpoint)
        table = DeltaTable(folder)
        table.get_add_actions(flatten=True)
        Schema.from_json(table.schema().to_json())
        table.metadata()
        table.protocol()
