"""An event operator in Python: an instance of its file's class ``Operator``, and what is kept of it between epochs."""

from __future__ import annotations

import json
import pickle
import posixpath
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from types import ModuleType
from typing import Any, Final

from dagster_operators.errors import OperatorFailedError
from dagster_operators.functions.time_limit import TimeIsOverError, TimeLimit
from dagster_operators.operators.events.class_state import ClassState
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.instance_attributes import attributes_of, has_place, put_back
from dagster_operators.operators.events.process_state import reap
from dagster_operators.operators.events.python_file import INTERRUPTIONS, PythonFile
from dagster_operators.operators.events.saved_attributes import load, save
from dagster_operators.operators.events.shared_memory import check_apart
from dagster_operators.operators.events.source_modules import SourceModules
from dagster_operators.operators.events.state_methods import BOTH, METHODS, names_attribute, without_the_other
from dagster_operators.operators.events.wiring import EventOperator

DESCRIPTOR: Final = "dataflow_descriptor"
"""The attribute with the file's content, which is put there and no state."""

GONE: Final = ""
"""Where the names of attributes are kept that ``__init__`` makes, and that were deleted since: no attribute is called that."""

HOW: Final = "()"
"""Where it is kept whether ``get_state()`` gave what is kept, or its attributes are that: no attribute is called that either."""

_STATE: Final = "state"
"""Where that is kept which ``get_state()`` gave."""

_LOADING: Final = 60.0
"""Seconds that an operator has at least to be loaded, and to be saved."""

_AGAIN: Final = "or restart: 1, or another value than now, to begin anew"


class PythonOperator(PythonFile):
    """An operator at work in an epoch.

    Args:
        own: What it is.
        files: The text of each Python file.
        descriptor: The dataflow's file as JSON.
        where: The place, for errors.
        give_up: Is told, by another thread, that what it calls waits in native code and cannot be interrupted.
    """

    def __init__(
        self,
        own: EventOperator,
        files: Mapping[str, str],
        descriptor: str,
        where: Mapping[str, Any],
        give_up: Callable[[OperatorFailedError], None] = lambda _: None,
    ) -> None:
        super().__init__(own, files, where)
        self._descriptor = descriptor
        self._instance: Any = None
        self._of_init: set[str] = set()
        self._give_up = give_up
        self._at: str | tuple[str, str] = ""
        self._limit = TimeLimit(own.time_limit / 1e6, self._on_stuck)

    def open(self, saved: bytes | None) -> None:
        """Make the instance, and give it back what was saved of it.

        Raises:
            OperatorFailedError: The file cannot be loaded, or has no class ``Operator``.
        """
        with self._telling("loading it"), self._environment():
            self._in_time("loading it", self._open, saved)

    def on_event(self, event: dict[str, Any], send: Callable[..., None]) -> DoraStatus:
        """Tell the operator of an event; what it returned.

        Raises:
            OperatorFailedError: It raised, or returned no status.
        """
        self._at = event["type"], event["id"]  # the operator may change its event
        try:
            if self._own.env:
                with self._environment():
                    found = self._limit.call(self._instance.on_event, event, send)
            else:
                with self._kept:
                    found = self._limit.call(self._instance.on_event, event, send)
        except TimeIsOverError:
            raise self._over() from None
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            raise self._told(error, f"{_doing(self._at)},") from error
        if found is DoraStatus.CONTINUE:
            return DoraStatus.CONTINUE
        status = getattr(found, "value", None)
        if type(status) is not int or status not in (0, 1, 2):
            raise OperatorFailedError(
                f"on_event returned {found!r:.60}", **self._where, remedy="return DoraStatus.CONTINUE, or STOP or STOP_ALL"
            )
        return DoraStatus(status)

    def save(self) -> bytes:
        """What is kept of the instance.

        Raises:
            OperatorFailedError: It cannot be saved.
        """
        with self._telling("saving its state"), self._environment(), self._modules.in_place():
            return bytes(self._in_time("saving its state", self._save))

    def modules(self) -> Sequence[ModuleType]:
        """The modules of its file, and of what that imports from beside it."""
        return self._modules.loaded()

    def close(self) -> None:
        """End what watches over its time."""
        self._limit.close()
        reap()

    def _open(self, saved: bytes | None) -> None:
        folder = posixpath.dirname(self._own.file)
        self._modules = SourceModules(self._files, folder, self._own.path)
        made = getattr(self._modules.load(self._own.file), "Operator", None)
        if made is None:
            raise OperatorFailedError(
                f"{self._own.file} has no class Operator", **self._where, remedy="give the operator's class that name"
            )
        self._instance = made()
        self._of_init = {*attributes_of(self._instance)}
        self._tells_state = self._has_methods()
        self._describe()
        if saved is not None:
            self._restore(saved)
        self._classes = ClassState(self._modules.loaded())
        self._modules.on_loaded = lambda: self._classes.add(self._modules.loaded())

    def _save(self) -> bytes:
        if self._tells_state:
            kept = {_STATE: self._instance.get_state(), HOW: "get_state"}
        else:
            kept = {**self._attributes(), HOW: "attributes"}
        return pickle.dumps(kept) if self._own.state == "pickle" else save(kept, **self._where)

    def _in_time(self, doing: str, function: Callable[..., Any], *given: Any) -> Any:
        """What one of its own methods returns that runs the operator's code; loading takes longer than an event."""
        self._at = doing
        try:
            return self._limit.call_within(max(_LOADING, self._own.time_limit / 1e6), function, *given)
        except TimeIsOverError:
            raise self._over() from None

    def _over(self) -> OperatorFailedError:
        """That its time is over."""
        return OperatorFailedError(
            f"{_doing(self._at)} did not return within {self._limit.seconds:g} seconds", **self._where,
            remedy="correct the operator, or give it more time: time_limit: 1 hour, in its YAML",
        )  # fmt: skip

    def _on_stuck(self) -> None:
        self.leave_environment()
        self._give_up(self._over())

    def _attributes(self) -> dict[str, Any]:
        """The instance's attributes, and the names of those that it no longer has."""
        self._classes.check(**self._where)
        kept = {name: value for name, value in attributes_of(self._instance).items() if name != DESCRIPTOR}
        check_apart(kept, **self._where)
        gone = sorted(self._of_init - kept.keys() - {DESCRIPTOR})
        return {**kept, GONE: gone} if gone else kept

    def _has_methods(self) -> bool:
        """Whether the operator says itself what is kept."""
        own = [name for name in METHODS if callable(getattr(self._instance, name, None))]
        if len(own) == 1:
            raise OperatorFailedError(without_the_other(own[0]), **self._where, remedy=BOTH)
        return bool(own)

    def _describe(self) -> None:
        if not has_place(self._instance, DESCRIPTOR):
            raise OperatorFailedError(
                f"the class Operator has __slots__ without {DESCRIPTOR!r}, which is put there", **self._where,
                remedy=f"add {DESCRIPTOR!r} to its __slots__, or take them out",
            )  # fmt: skip
        self._instance.dataflow_descriptor = json.loads(self._descriptor)

    def _restore(self, saved: bytes) -> None:
        with self._modules.in_place():
            kept = _Unpickler(BytesIO(saved), self._modules).load() if self._own.state == "pickle" else load(saved)
            was_told = kept.pop(HOW, None) == "get_state" if HOW in kept else self._was_told_before(kept)
            if was_told != self._tells_state:
                before, now, way = ("by get_state()", "it no longer has", "give it get_state() and set_state(value) again")
                if not was_told:
                    before, now, way = ("as its attributes", "now it has", "take get_state() and set_state(value) out again")
                raise OperatorFailedError(
                    f"its state was saved {before}, and {now} get_state() and set_state(value)", **self._where,
                    remedy=f"{way}; {_AGAIN}",
                )  # fmt: skip
            if was_told:
                self._instance.set_state(kept[_STATE])
            else:
                gone = kept.pop(GONE, ())
                put_back(self._instance, kept, gone)

    def _was_told_before(self, kept: Mapping[str, Any]) -> bool:
        """Whether ``get_state()`` gave what an earlier version saved, which did not say so: if not, it was an attribute."""
        if kept.keys() != {_STATE}:
            return False
        if self._tells_state or _STATE in self._of_init:
            return self._tells_state
        return not any(names_attribute(self._files[str(one.__file__)], _STATE) for one in self._modules.loaded())


def _doing(at: str | tuple[str, str]) -> str:
    """The words for the event that an operator is at, or for another thing that it does."""
    return at if isinstance(at, str) else f"on_event, at {at[0]} {at[1]!r}"


class _Unpickler(pickle.Unpickler):
    """Reads what was pickled for an operator whose file asks for it, with its own classes wherever earlier versions had them."""

    def __init__(self, data: BytesIO, modules: SourceModules) -> None:
        super().__init__(data)
        self._modules = modules

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        return super().find_class(self._modules.of_class(module_name), global_name)
