"""The shapes that an operator's logic may have: what the user's function is given, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.operators.frontier.notificator import Notificator

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.capability import Capability
    from dagster_operators.operators.frontier.definition import Definition
    from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle
    from dagster_operators.operators.frontier.operator_info import OperatorInfo


class Logic:
    """A function of the user's that is called with what its shape gives it.

    Attributes:
        logic: The user's function.
    """

    def __init__(self, logic: Any, call: Callable[[Any], object]) -> None:
        self.logic = logic
        self._call = call

    def __call__(self) -> object:
        """What the logic returns."""
        return self._call(self.logic)


Initial: TypeAlias = "list[Capability | None]"
"""The initial capability of each output; None once it was dropped."""

Start: TypeAlias = "Callable[[Definition, Initial, OperatorInfo, Sequence[InputHandle], Sequence[OutputHandle]], Logic]"
"""Calls the user's constructor; takes the capabilities out of the list, so that nothing else holds them."""


@dataclass(frozen=True)
class Shape:
    """A shape of logic.

    Attributes:
        inputs: How many inputs there are; any number if None.
        sees_frontier: Whether it is told of frontiers, and called when they move.
        start: Calls the user's constructor.
        notifies: Whether it has a notificator.
        reschedules: Whether its logic says whether it is incomplete.
    """

    inputs: int | None
    sees_frontier: bool
    start: Start
    notifies: bool = False
    reschedules: bool = False


def _plain(
    definition: Definition,
    capabilities: Initial,
    info: OperatorInfo,
    inputs: Sequence[InputHandle],
    outputs: Sequence[OutputHandle],
) -> Logic:
    """``constructor(capability, info)`` gives ``logic(input, ..., output)``."""
    return _checked(definition.constructor(capabilities.pop(), info), lambda logic: logic(*inputs, *outputs))


def _of_any_ports(
    definition: Definition,
    capabilities: Initial,
    info: OperatorInfo,
    inputs: Sequence[InputHandle],
    outputs: Sequence[OutputHandle],
) -> Logic:
    """``constructor(capabilities, info)`` gives ``logic(inputs, outputs)``."""
    given = list(capabilities)
    capabilities.clear()
    logic = definition.constructor(given, info)
    del given
    return _checked(logic, lambda logic: logic(inputs, outputs))


def _with_notificator(
    definition: Definition,
    capabilities: Initial,
    info: OperatorInfo,
    inputs: Sequence[InputHandle],
    outputs: Sequence[OutputHandle],
) -> Logic:
    """The function given is the logic itself: ``logic(input, ..., output, notificator)``."""
    from dagster_operators.operators.frontier.definition import NOTIFICATIONS

    requests, capability = info.state[NOTIFICATIONS], capabilities.pop()
    if capability is not None:
        for time in definition.initial:
            requests.notify_at(capability.delayed(time))
        capability.drop()

    def call(logic: Any) -> object:
        return logic(*inputs, *outputs, Notificator(requests, [each.frontier for each in inputs], info))

    return Logic(definition.constructor, call)


def _without_output(
    definition: Definition,
    capabilities: Initial,
    info: OperatorInfo,
    inputs: Sequence[InputHandle],
    outputs: Sequence[OutputHandle],  # noqa: ARG001 - nothing is put out
) -> Logic:
    """``constructor(info)`` gives ``logic(input)``."""
    for capability in capabilities:
        if capability is not None:
            capability.drop()
    return _checked(definition.constructor(info), lambda logic: logic(*inputs))


def _of_inputs_alone(
    definition: Definition,
    capabilities: Initial,
    info: OperatorInfo,
    inputs: Sequence[InputHandle],
    outputs: Sequence[OutputHandle],  # noqa: ARG001 - nothing is put out
) -> Logic:
    """``constructor([], info)`` gives ``logic(inputs, [])``."""
    for capability in capabilities:
        if capability is not None:
            capability.drop()
    return _checked(definition.constructor([], info), lambda logic: logic(inputs, []))


def _checked(logic: Any, call: Callable[[Any], object]) -> Logic:
    """Calls the logic, once it is known that the constructor gave one."""
    if not callable(logic):
        raise TypeError(f"the constructor returned {logic!r}; it is to return the logic, a function")
    return Logic(logic, call)


SHAPES: Final[Mapping[str, Shape]] = {
    "unary": Shape(1, sees_frontier=False, start=_plain),
    "unary_frontier": Shape(1, sees_frontier=True, start=_plain),
    "unary_notify": Shape(1, sees_frontier=True, start=_with_notificator, notifies=True),
    "binary": Shape(2, sees_frontier=False, start=_plain),
    "binary_frontier": Shape(2, sees_frontier=True, start=_plain),
    "binary_notify": Shape(2, sees_frontier=True, start=_with_notificator, notifies=True),
    "sink": Shape(1, sees_frontier=True, start=_without_output),
    "scope": Shape(None, sees_frontier=True, start=_of_any_ports),
    "build": Shape(None, sees_frontier=True, start=_of_any_ports),
    "reschedule": Shape(None, sees_frontier=True, start=_of_any_ports, reschedules=True),
    "build_sink": Shape(None, sees_frontier=True, start=_of_inputs_alone),
    "reschedule_sink": Shape(None, sees_frontier=True, start=_of_inputs_alone, reschedules=True),
}
"""By name, as the methods of streams are called, and that of the builder."""
