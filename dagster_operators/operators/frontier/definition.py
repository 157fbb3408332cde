"""What a frontier operator is made of: its shape, the user's code, its pacts, its output, and what lives on between epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.errors import PipelineError
from dagster_operators.graph.state_tables import StateTable
from dagster_operators.operators.frontier.declared import CapabilityState, NotifyState, StashState
from dagster_operators.operators.frontier.pacts import Exchange, Pact, Pipeline
from dagster_operators.operators.frontier.shapes import SHAPES, Shape

if TYPE_CHECKING:
    import pyarrow as pa

State: TypeAlias = "Mapping[str, StateTable | CapabilityState | NotifyState | StashState]"
"""What lives on between epochs, by name."""

NOTIFICATIONS: Final = "notifications"
"""The name of what the operators with a notificator have, unless they declare it by themselves."""


class Definition:
    """A frontier operator, apart from the streams that it reads.

    Args:
        shape: Its kind of logic, a key of ``SHAPES``.
        pacts: One for each input.
        name: The operator's name, which its state is addressed by.
        constructor: The user's function.
        schema: The columns of the output without the time, if they are not those of the first input.
        state: What lives on between epochs.
        initial: The times to be notified of from the beginning.

    Raises:
        PipelineError: Something of it does not fit.
    """

    def __init__(
        self,
        shape: str,
        pacts: Sequence[Pact],
        name: str,
        constructor: Callable[..., Any],
        *,
        schema: str | pa.Schema | None = None,
        state: State | None = None,
        initial: Sequence[int] = (),
    ) -> None:
        self.shape = shape
        self.pacts = tuple(pacts)
        self.name = name
        self.constructor = constructor
        self.schema = schema
        self.state = dict(state or {})
        self.initial = tuple(initial)
        if self.kind.notifies:
            self.state.setdefault(NOTIFICATIONS, NotifyState())
        self._check()

    @property
    def kind(self) -> Shape:
        """What its shape is."""
        return SHAPES[self.shape]

    @property
    def holds_time(self) -> bool:
        """Whether it may hold capabilities at the end of an epoch."""
        return self.kind.sees_frontier or any(not isinstance(kept, StateTable) for kept in self.state.values())

    @property
    def single(self) -> bool:
        """Whether all its rows go to one subtask."""
        return not self.pacts[0].by and (self.holds_time or bool(self.state) or len(self.pacts) > 1)

    def _check(self) -> None:
        where = {"operator": self.name}
        if not callable(self.constructor):
            raise PipelineError(f"{self.constructor!r} is no function", **where, remedy="give the function that makes the logic")
        for pact in self.pacts:
            if not isinstance(pact, Pipeline | Exchange):
                raise PipelineError(f"{pact!r} is no pact", **where, remedy='give Pipeline() or Exchange("column")')
        if len({len(pact.by) for pact in self.pacts}) > 1:
            raise PipelineError(
                "the inputs are exchanged by different numbers of columns", **where, remedy="exchange all by the same, or none"
            )
        for name, kept in self.state.items():
            if name.endswith("_") or not name.isidentifier():
                raise PipelineError(f"{name!r} is no name for a state", **where, remedy="use letters, digits, _ between")
            if not isinstance(kept, StateTable | CapabilityState | NotifyState | StashState):
                raise PipelineError(
                    f"{kept!r} is no state", **where, remedy="declare a KeyedState, ListState, StashState, CapabilityState, ..."
                )
