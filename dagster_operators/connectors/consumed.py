"""What a source has given in all epochs: from the ledger, and up to some epoch from a file that spares reading all of it.

The file is one of files that a source has read, as Parquet behind a checksum, with what the position was then and up to where in
the ledger that is. It is no part of the truth: a position's digest says whether it fits, and without it, or if it does not, all
is read.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import OperatorsError
from dagster_operators.graph.slice import JSON
from dagster_operators.storage.location import SourceFile
from dagster_operators.storage.root import Root

if TYPE_CHECKING:
    import pyarrow as pa

_FOLDER: Final = "seen"
_DIGEST: Final = b"digest"
_MARK: Final = b"mark"
_CHECKSUM: Final = 32
"""So many bytes of SHA-256 come first: one flipped bit in a path would be a file that is read again."""


class ReadFiles(Mapping[str, SourceFile]):
    """Files that a source has read, by their paths; looked up without an object for each.

    Args:
        rows: Their paths, sizes and times.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {path: number for number, path in enumerate(self._rows["path"].to_pylist())}

    def __getitem__(self, path: str) -> SourceFile:
        number = self._numbers[path]
        return SourceFile(self._rows["modified"][number].as_py(), path, self._rows["size"][number].as_py())

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def some(self, paths: Collection[str]) -> dict[str, SourceFile]:
        """Those of some paths, without a look at each of the others."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = self._rows.filter(pc.is_in(self._rows["path"], value_set=pa.array(list(paths), pa.string()))).to_pylist()
        return {row["path"]: SourceFile(row["modified"], row["path"], row["size"]) for row in found}

    @property
    def rows(self) -> pa.Table:
        """As a table."""
        return self._rows


@dataclass(frozen=True)
class Remembered:
    """Files that were read, up to some record of the ledger.

    Attributes:
        digest: That of the position then.
        mark: The number of that record.
        files: The files.
    """

    digest: str
    mark: int
    files: ReadFiles


@dataclass(frozen=True)
class Consumed:
    """The items of every committed slice of a source, but for those of epochs that had nothing of it.

    Args:
        everything: Gives them all, oldest first.
        since: Gives those of epochs that were completed behind a record of the ledger.
        mark: The number of the record that completed the last epoch.
        root: The storage root.
        source: What the ledger calls the source.
    """

    everything: Callable[[], Iterator[JSON]]
    since: Callable[[int], Iterator[JSON]]
    mark: Callable[[], int]
    root: Root
    source: str

    def __call__(self) -> Iterator[JSON]:
        """All of them."""
        return self.everything()

    def recall(self) -> Remembered | None:
        """What was remembered; None if nothing was, or it cannot be read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            content = self.root.read(self._file) or b""
            checksum, written = content[:_CHECKSUM], content[_CHECKSUM:]
            rows = pq.read_table(io.BytesIO(written)) if hashlib.sha256(written).digest() == checksum else None
        except (OperatorsError, pa.ArrowException, OSError):
            return None
        about = (rows.schema.metadata or {}) if rows is not None else {}
        if rows is None or not {_DIGEST, _MARK} <= about.keys() or rows.column_names != ["path", "size", "modified"]:
            return None
        if not about[_MARK].isdigit():
            return None
        return Remembered(about[_DIGEST].decode(errors="replace"), int(about[_MARK]), ReadFiles(rows))

    def remember(self, digest: str, before: Mapping[str, SourceFile], more: Mapping[str, SourceFile]) -> None:
        """Write down what was read up to now; if that fails, all is read again the next time."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        known = before.rows if isinstance(before, ReadFiles) else _table(before)
        rows = pa.concat_tables([known.replace_schema_metadata(None), _table(more)])
        about = {_DIGEST: digest.encode(), _MARK: str(self.mark()).encode()}
        stream = io.BytesIO()
        pq.write_table(rows.replace_schema_metadata(about), stream, compression="zstd")
        try:
            self.root.write(self._file, hashlib.sha256(stream.getvalue()).digest() + stream.getvalue())
        except OperatorsError:
            return

    @property
    def _file(self) -> str:
        return f"{_FOLDER}/{self.source}.files"


def _table(files: Mapping[str, SourceFile]) -> pa.Table:
    import pyarrow as pa

    known = files.values()
    columns: list[list[Any]] = [list(files), [file.size for file in known], [file.modified for file in known]]
    return pa.table(columns, pa.schema([("path", pa.string()), ("size", pa.int64()), ("modified", pa.int64())]))
