"""A file whose checksum is taken while it is being written."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    import pyarrow as pa


class SummedFile(io.RawIOBase):
    """A file that is being written, with its size and checksum so far.

    Args:
        stream: The file.
    """

    def __init__(self, stream: pa.NativeFile) -> None:
        super().__init__()
        self._stream = stream
        self.size = 0
        self.checksum = 0

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, content: Any) -> int:
        self._stream.write(content)
        self.checksum = zlib.crc32(content, self.checksum)
        size = memoryview(content).nbytes
        self.size += size
        return size

    @override
    def tell(self) -> int:
        return self.size

    @override
    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
