"""Parquet files as this package writes them: rows of any number in row groups of bounded size, or a table as it is."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

ROW_GROUP: Final = 128 * 1024
"""Rows in a row group, at most."""

ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""Bytes of rows that wait for their row group, about."""

_LARGE: Final = 16 * 1024
"""Bytes of a value of which a dictionary, which ends at a MiB, holds too few to be of use; each costs a look."""

_SAMPLES: Final = 8
_SAMPLED: Final = 32 * 1024
"""How many of a file's first large values are compressed to see whether that is worth it, and how many bytes of each."""

_WORTH_IT: Final = 0.95

_PLAIN: Final[dict[str, Any]] = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True}
"""How rows are written that only this package reads."""

_WITHOUT_FOLDERS: Final = frozenset({"s3", "py::objects"})
"""File systems on which making a folder only leaves an object that stands for it."""


class ParquetWriter:
    """One file of rows that engines read, too; it is there once :meth:`close` has returned, unless there was no row.

    Args:
        files: The file system.
        path: The file; its folder is made if there is none.
        schema: The rows' schema.
        group_bytes: How many bytes of rows may wait for their row group.

    >>> import pyarrow as pa, tempfile
    >>> from pyarrow import fs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ParquetWriter(fs.LocalFileSystem(), f"{folder}/a/rows.parquet", pa.schema({"n": pa.int64()})) as writer:
    ...         writer.write(pa.table({"n": [1, 2]}))
    ...     fs.LocalFileSystem().get_file_info(f"{folder}/a/rows.parquet").is_file, writer.rows
    (True, 2)
    """

    def __init__(self, files: fs.FileSystem, path: str, schema: pa.Schema, *, group_bytes: int = ROW_GROUP_BYTES) -> None:
        self.rows = 0
        self._files = files
        self._path = path
        self._schema = schema
        self._group_bytes = group_bytes
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._stack.close()

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        self._waiting.append(rows)
        self.rows += rows.num_rows
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= ROW_GROUP or self._waiting_bytes >= self._group_bytes:
            self._flush()

    def close(self) -> None:
        """Finish the file."""
        with self._stack:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting_rows:
            rows = pa.concat_tables(self._waiting)
            self._open(rows).write_table(rows)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        import pyarrow.parquet as pq

        if self._writer is None:
            if self._files.type_name not in _WITHOUT_FOLDERS:
                self._files.create_dir(_folder(self._path), recursive=True)
            settings: dict[str, Any] = {"compression": "zstd", "coerce_timestamps": "us", "store_schema": False}
            settings["write_page_checksum"] = True
            if large := _large_values(first):
                settings["use_dictionary"] = [name for name in first.column_names if name not in large]
                settings["compression"] = _compressions(self._schema, {name for name in large if not _shrinks(first[name])})
            self._writer = self._stack.enter_context(
                pq.ParquetWriter(self._path, self._schema, filesystem=self._files, **settings)
            )
        return self._writer


def as_parquet(rows: pa.Table, **settings: Any) -> bytes:
    """Rows that only this package reads as the content of a file, as :func:`write_table` has it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, **_PLAIN, **settings)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def write_table(files: fs.FileSystem, path: str, rows: pa.Table, **settings: Any) -> int:
    """Write rows that only this package reads as one file, in Arrow's own types, and its folder if there is none.

    Args:
        files: The file system.
        path: The file.
        rows: Its rows.
        settings: Of Arrow's writer, such as ``row_group_size`` and ``write_statistics``.

    Returns:
        The file's size in bytes.
    """
    import pyarrow.parquet as pq

    try:
        sink = files.open_output_stream(path)
    except FileNotFoundError:
        files.create_dir(_folder(path), recursive=True)
        sink = files.open_output_stream(path)
    with sink:
        pq.write_table(rows, sink, **_PLAIN, **settings)
        return int(sink.tell())


def _large_values(rows: pa.Table) -> set[str]:
    """The columns of bytes or text whose values are large.

    >>> import pyarrow as pa
    >>> _large_values(pa.table({"n": [1], "frame": [bytes(2**16)], "note": ["x"]}))
    {'frame'}
    """
    import pyarrow as pa

    kinds = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
    return {
        name
        for name, column in zip(rows.column_names, rows.columns, strict=True)
        if any(is_one(column.type) for is_one in kinds) and column.nbytes >= _LARGE * max(len(column) - column.null_count, 1)
    }


def _shrinks(values: pa.ChunkedArray) -> bool:
    """Whether large values are worth compressing, by a sample of them: images that are compressed already get no smaller.

    The sample is of values that are at least as long as they are on average: what is null or short between them says nothing.

    >>> import os, pyarrow as pa
    >>> _shrinks(pa.chunked_array([[bytes(2**16)]])), _shrinks(pa.chunked_array([[os.urandom(2**16)]]))
    (True, False)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.binary_length(values)
    places = pc.indices_nonzero(pc.greater_equal(lengths, pc.mean(lengths))).to_pylist()
    parts = [values[place].as_buffer() for place in places[:: max(1, -(-len(places) // _SAMPLES))]]
    samples = [part.slice(0, min(part.size, _SAMPLED)) for part in parts]
    size, codec = sum(one.size for one in samples), pa.Codec("zstd")
    return not size or bool(sum(codec.compress(one).size for one in samples) < _WORTH_IT * size)


def _compressions(schema: pa.Schema, plain: set[str]) -> dict[str, str]:
    """How each column of a file is compressed, by the path of its values; some are not.

    >>> import pyarrow as pa
    >>> _compressions(pa.schema({"at": pa.list_(pa.int64()), "frame": pa.binary()}), {"frame"})
    {'at.list.element': 'zstd', 'frame': 'none'}
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    nothing = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), nothing, store_schema=False)
    columns = pq.read_metadata(pa.BufferReader(nothing.getvalue())).schema
    paths = [columns.column(number).path for number in range(len(columns))]
    return {path: "none" if path in plain else "zstd" for path in paths}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
