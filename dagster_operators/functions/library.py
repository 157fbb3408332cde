"""``do.load_udf``: scalar functions from a shared library, called through the Arrow C data interface.

The library's bytes travel with the function and are part of its content, so workers need not have the file, and a rebuilt library
is another function. A worker writes them once to a cache folder, under their digest, and loads them once.

The function's C signature, and who owns what, is in docs/functions.md. The interface is Arrow's:
https://arrow.apache.org/docs/format/CDataInterface.html
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dagster_operators.arguments import checked
from dagster_operators.errors import EngineError, MissingInputError, PipelineError, UserFunctionError
from dagster_operators.functions.install import Installable
from dagster_operators.functions.shipping import EngineFunction
from dagster_operators.functions.values import as_array, type_of
from dagster_operators.graph.user_functions import register
from dagster_operators.storage.cache import library_folder
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.ddl import parse_type

if TYPE_CHECKING:
    import pyarrow as pa

_ERROR_BYTES = 1024
_loaded: dict[str, ctypes.CDLL] = {}
_lock = threading.Lock()


class ArrowArray(ctypes.Structure):
    """``struct ArrowArray`` of the C data interface."""

    _fields_ = (
        ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64), ("buffers", ctypes.c_void_p), ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
    )  # fmt: skip


class ArrowSchema(ctypes.Structure):
    """``struct ArrowSchema`` of the C data interface."""

    _fields_ = (
        ("format", ctypes.c_void_p), ("name", ctypes.c_void_p), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64), ("children", ctypes.c_void_p), ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
    )  # fmt: skip


class LibraryFunction(Installable):
    """A scalar function of a shared library; made by :func:`load_udf`. Calling it with Arrow arrays runs it in this process.

    Attributes:
        name: What expressions call it.
        symbol: What the library calls it.
        args: The Spark types of its arguments.
        returns: The Spark type of its result.
        library: The library's bytes.
    """

    def __init__(self, name: str, symbol: str, *, args: Sequence[str], returns: str, library: bytes, place: str) -> None:
        self.name = name
        self.symbol = symbol
        self.args = tuple(type_of(text, name) for text in args)
        self.returns = type_of(returns, name)
        self.library = library
        self._place = place

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """The result for these columns."""
        return self._call(*columns)

    def __repr__(self) -> str:
        return f"<function {self.name} of {self.place} -> {self.returns}>"

    @property
    @override
    def place(self) -> str:
        return self._place

    @override
    def content(self) -> Sequence[Any]:
        return self.name, self.symbol, self.args, self.returns, hashlib.sha256(self.library).hexdigest()

    @override
    def engine_functions(self) -> Sequence[EngineFunction]:
        return [EngineFunction(self.name, self.returns, self._call)]

    @cached_property
    def _call(self) -> LibraryCall:
        kinds = tuple(arrow_type(parse_type(kind)) for kind in self.args)
        return LibraryCall(self.name, self.symbol, kinds, arrow_type(parse_type(self.returns)), self.library)


@dataclass(frozen=True, repr=False)
class LibraryCall:
    """What a worker runs: columns out through the interface, the function, and its column in again."""

    name: str
    symbol: str
    args: tuple[pa.DataType, ...]
    kind: pa.DataType
    library: bytes

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """One value for each row.

        Raises:
            UserFunctionError: The function said that it failed, or what it returned does not fit.
        """
        import pyarrow as pa

        if len(columns) != len(self.args):
            raise UserFunctionError(
                f"the function {self.name!r} takes {len(self.args)} arguments and was given {len(columns)}", function=self.name,
                remedy="correct the call",
            )  # fmt: skip
        function = self._function()
        plain = [pa.concat_arrays([column.cast(kind)]) if column.offset else column.cast(kind)
                 for column, kind in zip(columns, self.args, strict=True)]  # fmt: skip
        arrays, schemas = (ArrowArray * len(plain))(), (ArrowSchema * len(plain))()
        out, out_schema, error = ArrowArray(), ArrowSchema(), ctypes.create_string_buffer(_ERROR_BYTES)
        for column, array, schema in zip(plain, arrays, schemas, strict=True):
            column._export_to_c(ctypes.addressof(array), ctypes.addressof(schema))  # noqa: SLF001 - pyarrow's documented entry
        try:
            failed = function(
                arrays, schemas, ctypes.c_int64(len(plain)), ctypes.byref(out), ctypes.byref(out_schema), error,
                ctypes.c_size_t(_ERROR_BYTES),
            )  # fmt: skip
        finally:
            for array, schema in zip(arrays, schemas, strict=True):  # taking them back releases them
                pa.Array._import_from_c(ctypes.addressof(array), ctypes.addressof(schema))  # noqa: SLF001
        if failed:
            message = error.value.decode(errors="replace") or f"it returned {failed}"
            raise UserFunctionError(
                f"the function {self.name!r} failed: {message}",
                function=self.name,
                remedy="filter the rows before it, or correct it",
            )
        return as_array(self._taken(out, out_schema), self.kind, len(columns[0]), self.name)

    def _taken(self, out: ArrowArray, schema: ArrowSchema) -> pa.Array:
        """The result, ours to release from now on; without a schema it is of the declared type."""
        import pyarrow as pa

        if not out.release:
            raise UserFunctionError(
                f"the function {self.name!r} returned 0 and no array", function=self.name, remedy="let it fill out_array"
            )
        kind = ctypes.addressof(schema) if schema.release else self.kind
        array = pa.Array._import_from_c(ctypes.addressof(out), kind)  # noqa: SLF001
        array.validate()
        return array

    def _function(self) -> Any:
        library = loaded(self.library)
        try:
            function = getattr(library, self.symbol)
        except AttributeError:
            raise UserFunctionError(
                f"the function {self.name!r} is not in its library: there is no symbol {self.symbol!r}", function=self.name,
                remedy='export it (extern "C" in C++)',
            ) from None  # fmt: skip
        function.restype = ctypes.c_int
        return function


def loaded(library: bytes) -> ctypes.CDLL:
    """The library with these bytes, loaded into this process at most once and never unloaded.

    Raises:
        EngineError: It is no library that this machine can load, or the cache folder is not ours alone.
    """
    digest = hashlib.sha256(library).hexdigest()
    with _lock:
        if digest not in _loaded:
            path = _kept(digest, library)
            try:
                _loaded[digest] = ctypes.CDLL(str(path))
            except OSError as error:
                raise EngineError(
                    f"the library cannot be loaded: {error}",
                    file=str(path),
                    remedy="build it for the workers' system and processor",
                ) from error
        return _loaded[digest]


def _kept(digest: str, library: bytes) -> Path:
    """The library as a file, written if it is not there as it should be."""
    path = library_folder() / f"{digest}.so"
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        handle, hidden = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(library)
        Path(hidden).replace(path)
    return path


@checked
def load_udf(
    library: str | os.PathLike[str], symbol: str, *, args: Sequence[str], returns: str, name: str | None = None
) -> LibraryFunction:
    """Make a function of a shared library known by its name, for use in every expression.

    The file is read now. Arguments are converted to the declared types and arrive as plain Arrow arrays with offset 0.

    Args:
        library: The shared library's file.
        symbol: What it calls the function, whose C signature stands in docs/functions.md.
        args: The Spark type of each argument.
        returns: The Spark type of the result.
        name: What expressions call it; by default the symbol.

    Raises:
        MissingInputError: The file is not there or cannot be read.
        PipelineError: It has no such symbol, or another function has the name.

    Example:
        ``load_udf("build/libmine.so", "double_negative", args=["long"], returns="long")``
    """
    own = name or symbol
    try:
        content = Path(library).read_bytes()
    except OSError as error:
        raise MissingInputError(
            f"the library cannot be read: {error.strerror}",
            file=str(library),
            function=own,
            remedy="build it, or correct the path",
        ) from error
    if b"\0" + symbol.encode() + b"\0" not in content:
        raise PipelineError(
            f"the library has no symbol {symbol!r}", file=str(library), function=own, remedy='export it (extern "C" in C++)'
        )
    if not args:
        raise PipelineError(f"the function {own!r} takes no argument", function=own, remedy="let it take a column")
    return register(LibraryFunction(own, symbol, args=args, returns=returns, library=content, place=str(library)))
