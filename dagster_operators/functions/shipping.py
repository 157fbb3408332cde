"""How a function gets to the workers: pickled by value once, and unpickled once in each worker process, known by its content."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

_KEPT = 256
_loaded: dict[str, Callable[..., Any]] = {}
_lock = threading.RLock()


@dataclass(frozen=True)
class EngineFunction:
    """A scalar function as an engine sees it.

    Attributes:
        name: What it is called in SQL.
        returns: The Spark type of its result.
        call: From Arrow arrays of equal length to one Arrow array of that length.
        module: The user's module that the function comes from; what is defined there is shipped by value, so that workers
            need not have it, or may have another version of it.
        once: Whether the engine is to call it only once for a row, even where that keeps it from optimizing.
    """

    name: str
    returns: str
    call: Callable[..., pa.Array]
    module: str | None = None
    once: bool = False

    def shipped(self) -> Callable[..., pa.Array]:
        """The function in the form that is sent to workers.

        Raises:
            PipelineError: It holds on to something that cannot be sent.
        """
        payload = pickled(self.call, self.module, self.name)
        digest = hashlib.sha256(payload).hexdigest()

        def call(*columns: pa.Array) -> pa.Array:
            return unpickled(digest, payload)(*columns)

        call.__name__ = self.name
        call.__annotations__ = {}  # PySpark would read them, and knows none of them
        return call


def unpickled(digest: str, payload: bytes) -> Callable[..., Any]:
    """The function with this content, from this process's cache if it was here before."""
    found = _loaded.get(digest)
    if found is None:
        import pickle

        with _lock:
            found = _loaded.get(digest)
            if found is None:
                found = pickle.loads(payload)  # noqa: S301 - it came with the query, as all of Spark's Python functions do
                while len(_loaded) >= _KEPT:
                    _loaded.pop(next(iter(_loaded)))
                _loaded[digest] = found
    return found


def pickled(function: Any, module: str | None, name: str) -> bytes:
    """The function with all that its module defines for it, as bytes."""
    pickler: Any = import_module("pyspark.cloudpickle")
    try:
        with _lock, _by_value(module, pickler):
            return bytes(pickler.dumps(function))
    except Exception as error:
        raise PipelineError(
            f"the function {name!r} cannot be sent to workers: {error}", function=name,
            remedy="let it make what it needs (a connection, a lock, a session) when it is called, not when it is defined",
        ) from error  # fmt: skip


def pickled_with(value: Any, modules: Sequence[str], name: str) -> bytes:
    """A value with all that some modules define for it, as bytes.

    Args:
        value: The value.
        modules: The user's modules that its functions come from.
        name: The operator, for errors.

    Raises:
        PipelineError: It holds on to something that cannot be sent.
    """
    pickler: Any = import_module("pyspark.cloudpickle")
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(_by_value(module, pickler))
        return pickled(value, None, name)


def can_be_sent(value: Any, modules: Sequence[str]) -> bool:
    """Whether workers can be given a value with all that some modules define for it.

    Args:
        value: The value.
        modules: The user's modules that it comes from.

    >>> from threading import Lock
    >>> can_be_sent([1, "a"], []), can_be_sent(Lock(), [])
    (True, False)
    """
    try:
        pickled_with(value, modules, "")
    except PipelineError:
        return False
    return True


@contextmanager
def _by_value(module: str | None, pickler: Any) -> Iterator[None]:
    found = sys.modules.get(module or "")
    ours = (module or "").partition(".")[0] == __name__.partition(".")[0]
    if found is None or ours or found.__name__ in pickler.list_registry_pickle_by_value():
        yield
        return
    pickler.register_pickle_by_value(found)
    try:
        yield
    finally:
        pickler.unregister_pickle_by_value(found)
