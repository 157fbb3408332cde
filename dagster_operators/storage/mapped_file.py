"""Record batches in local files that are read without decoding: Arrow's IPC format, memory-mapped, with a checksum."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

_TRAILER: Final = struct.Struct("<8sQ")
_MAGIC: Final = b"DSOPSTA1"


def write_mapped(path: Path, batch: Any, identity: str = "") -> None:
    """Write a record batch so that ``read_mapped`` maps it, with a checksum at the end.

    Args:
        path: The file, which only this user may read.
        batch: The record batch.
        identity: The name of the content, which the checksum covers: a copy of another file is none of this one.
    """
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with path.open("r+b") as file:
        with pa.memory_map(str(path)) as written:
            checksum = zlib.crc32(memoryview(written.read_buffer()), zlib.crc32(identity.encode()))
        file.seek(0, os.SEEK_END)
        file.write(_TRAILER.pack(_MAGIC, checksum))


def read_mapped(path: Path, identity: str = "", *, check: bool = True) -> Any:
    """The record batch in a file that ``write_mapped`` wrote; its memory is the file's.

    Raises:
        ValueError: The file is damaged (``ArrowInvalid`` is one, too).
        OSError: It is not there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_mapped(Path(folder, "a"), pa.record_batch({"k": [1, 2]}))
    ...     read_mapped(Path(folder, "a")).column("k").to_pylist()
    [1, 2]
    """
    with pa.memory_map(str(path)) as file:
        content = file.read_buffer()
    if len(content) < _TRAILER.size:
        raise ValueError("too short")
    body = content.slice(0, len(content) - _TRAILER.size)
    magic, checksum = _TRAILER.unpack(content.slice(len(body)).to_pybytes())
    if magic != _MAGIC or (check and zlib.crc32(memoryview(body), zlib.crc32(identity.encode())) != checksum):
        raise ValueError("wrong checksum")
    return pa.ipc.open_file(body).get_batch(0)
