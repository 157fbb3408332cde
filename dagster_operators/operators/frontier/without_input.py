"""The constructor of an operator without an input that has several outputs, or state tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class WithoutInputs:
    """Calls the user's constructor, and its logic with no inputs; to the runtime the operator has one, which is empty.

    Args:
        constructor: ``constructor(capabilities, info)`` gives ``logic(inputs, outputs)``.

    >>> from dagster_operators.operators.frontier.capability import Capability, Outlet
    >>> made = WithoutInputs(lambda capabilities, info: lambda inputs, outputs: (capabilities[0].time, inputs, outputs))
    >>> made([Capability(-5, Outlet())], None)(["the empty one"], ["main"])
    (0, [], ['main'])
    """

    def __init__(self, constructor: Callable[..., Any]) -> None:
        self.constructor = constructor

    def __call__(self, capabilities: Sequence[Any], info: Any) -> Callable[[Any, Any], object]:
        """The logic; capabilities are first for the time 0, as those of a source are."""
        for capability in capabilities:
            if capability is not None and capability.time < 0:
                capability.downgrade(0)
        logic = self.constructor(capabilities, info)
        return lambda _, outputs: logic([], outputs)
