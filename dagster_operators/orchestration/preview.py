"""A few rows of a table as Markdown, read from one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.types.far_values import shown_rows

if TYPE_CHECKING:
    from dagster_operators.transactions.coordinator import Coordinator

_WIDEST: Final = 80
_MOST_COLUMNS: Final = 50
_MASK: Final = "***"


def preview(
    coordinator: Coordinator,
    dataset: str,
    files: Sequence[FileEntry],
    epoch: int,
    rows: int,
    *,
    is_masked: Callable[[str, str], bool] = lambda _table, _column: False,
) -> str | None:
    """The first rows of the smallest file that the epoch wrote (else of any), or None when the table has no rows.

    Args:
        coordinator: For the storage root.
        dataset: The table's folder, ``tables/<table>``.
        files: The table's files as of the epoch.
        epoch: Whose rows are preferred.
        rows: The most rows to show.
        is_masked: Whether the values of a table's column are not shown; they are not read either.
    """
    import pyarrow.parquet as pq

    filled = [file for file in files if file.rows]
    if not filled:
        return None
    fresh = [file for file in filled if file.path.startswith(f"e{epoch}-")]
    chosen = min(fresh or filled, key=lambda file: file.size)
    root = coordinator.root
    with (
        root.guard(dataset, "a table's file cannot be read"),
        root.files.open_input_file(root.path(dataset, chosen.path)) as stream,
    ):
        parquet = pq.ParquetFile(stream)
        names = parquet.schema_arrow.names[:_MOST_COLUMNS]
        hidden = {name for name in names if is_masked(dataset.partition("/")[2], name)}
        seen = [name for name in names if name not in hidden]
        first = next(parquet.iter_batches(batch_size=rows, columns=seen), None)
    shown = shown_rows(first) if first is not None else []
    return markdown(names, [[_MASK if name in hidden else row[name] for name in names] for row in shown]) if shown else None


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    r"""Rows as a Markdown table; long values are cut.

    >>> print(markdown(["k", "v"], [["a|b", None]]))
    | k | v |
    | --- | --- |
    | a\|b |  |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    short = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
    return " ".join(short.replace("\\", "\\\\").replace("|", "\\|").split())
