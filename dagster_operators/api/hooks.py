"""Hooks of a user's class that nobody would call: those of Arroyo that have another name here, misspelt ones, other signatures.

Such a hook would be passed over in silence, and the operator would give other rows than its author expects.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import CodeType, FunctionType
from typing import Final

from dagster_operators.connectors.source_operator import SourceOperator
from dagster_operators.errors import PipelineError
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator

_TICK: Final = "wait for it in process_batch, or put out what is ready in handle_tick(self, tick, ctx, out) with tick_interval"
_TURN: Final = "put it into run(self, ctx, out), which is called once an epoch"
_BATCH: Final = "process_batch(self, batch, ctx, out) gets the rows of an input, process_batch_index those of several"

_OF_OPERATORS: Final[Mapping[str, str]] = {
    "tables": "declare the tables as an attribute: state = {'totals': KeyedState('k string, total long', key='k')}",
    "handle_watermark_int": "call it handle_watermark(self, watermark, ctx, out)",
    "on_watermark": "call it handle_watermark(self, watermark, ctx, out)",
    "future_to_poll": _TICK,
    "handle_future_result": _TICK,
    "on_timer": "call it handle_timer(self, time, keys, ctx, out)",
    "on_tick": "call it handle_tick(self, tick, ctx, out)",
    "on_checkpoint": "call it handle_checkpoint(self, epoch, ctx, out)",
    "start_checkpoint": "call it handle_checkpoint(self, epoch, ctx, out)",
    "on_commit": "call it handle_commit(self, epoch, commit_data, ctx)",
    "on_stop": "call it on_close(self, reason, ctx, out)",
    "process_element": _BATCH,
    "process_left": _BATCH,
    "process_right": _BATCH,
    "handle_control_message": "an epoch is a pass of its own: on_start begins it, handle_checkpoint and on_close end it",
    "handle_raw_control_message": "an epoch is a pass of its own: on_start begins it, handle_checkpoint and on_close end it",
    "run": "derive a source from SourceOperator",
}
"""Methods of Arroyo's operators, of now and of earlier, and the way on here."""

_OF_SOURCES: Final[Mapping[str, str]] = {
    "name": "name it where it is read: pipeline.source('name', operator)",
    "tables": "keep in ctx.position where to go on from: plain JSON, committed with the epoch",
    "on_start": f"{_TURN}; ctx.position is where to go on from",
    "on_close": f"{_TURN}, and returns 'graceful', 'immediate' or 'final'",
    "on_stop": f"{_TURN}, and returns 'graceful', 'immediate' or 'final'",
    "start_checkpoint": "set ctx.position in run: it is committed with the rows of the turn",
    "handle_checkpoint": "set ctx.position in run: it is committed with the rows of the turn",
    "handle_control_message": f"{_TURN}; there are no control messages",
    "handle_watermark": "say event_time= and lateness= where it is read: pipeline.source('name', operator, event_time=...)",
    "handle_watermark_int": "say event_time= and lateness= where it is read: pipeline.source('name', operator, event_time=...)",
    "handle_tick": _TURN,
    "handle_commit": f"{_TURN}; the position that it leaves is committed with its rows",
    "process_batch": "derive an operator with inputs from ArrowOperator",
}
"""The same of Arroyo's sources."""

_LIKENESS: Final = 0.8


def check_hooks(operator: ArrowOperator | SourceOperator, /, **where: str) -> None:
    """Check that each hook of an operator is one, has the parameters that it is called with, and no setting is a method.

    Args:
        operator: An operator over Arrow batches, or a source.
        where: Named by errors: the pipeline and the operator.

    Raises:
        PipelineError: A hook would never be called, or not with these parameters; or a setting is a method.

    >>> class Late(ArrowOperator):
    ...     def handle_watermark_int(self, watermark, ctx): ...
    >>> check_hooks(Late())
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: nobody calls 'handle_watermark_int' of Late. To do: call it handle_watermark(...
    """
    base = SourceOperator if isinstance(operator, SourceOperator) else ArrowOperator
    kind = type(operator).__name__
    for setting, value in vars(base).items():
        if setting.startswith("_") or isinstance(value, FunctionType):
            continue
        if inspect.isroutine(getattr(operator, setting)):
            raise PipelineError(
                f"{setting!r} of {kind} is a method, and an operator has it as an attribute", **where,
                remedy=f"write {setting} = ... in the class, or self.{setting} = ... in its __init__",
            )  # fmt: skip
    methods = dict(_methods(type(operator), base))
    used = {name for method in methods.values() for name in _names(method.__code__)}
    for name, method in methods.items():
        if name in vars(base):
            _check_parameters(name, method, getattr(base, name), kind, where)
        elif name not in used and (way := _way(name, base)):
            raise PipelineError(f"nobody calls {name!r} of {kind}", **where, remedy=way)


def _way(name: str, base: type) -> str:
    """The way on from a method that nobody calls, if it was meant as a hook."""
    known = (_OF_SOURCES if base is SourceOperator else _OF_OPERATORS).get(name)
    if known or name.startswith("_"):
        return known or ""
    hooks = [hook for hook, value in vars(base).items() if isinstance(value, FunctionType) and "_" in hook]
    meant = get_close_matches(name, hooks, n=1, cutoff=_LIKENESS)
    return f"call it {meant[0]}, if it is meant as that hook; else begin its name with _" if meant else ""


def _methods(kind: type, base: type) -> Iterator[tuple[str, FunctionType]]:
    """The methods that classes derived from the base define, those of a class before those that it overrides."""
    seen: set[str] = set()
    for part in kind.__mro__:
        if part is base or not issubclass(part, base):
            continue
        for name, value in vars(part).items():
            if isinstance(value, FunctionType) and name not in seen:
                yield name, value
            seen.add(name)


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function's code asks for, with those of the functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _check_parameters(name: str, method: FunctionType, own: FunctionType, kind: str, where: Mapping[str, str]) -> None:
    parameters = inspect.signature(own).parameters
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters.values()):
        return
    try:
        inspect.signature(method).bind(*parameters)
    except TypeError:
        raise PipelineError(
            f"{name} of {kind} has the parameters {inspect.signature(method)}, with which nobody calls it", **where,
            remedy=f"write def {name}({', '.join(parameters)})",
        ) from None  # fmt: skip
