"""What a frontier operator is made of: its shape, the user's code, its pacts, its output, and what lives on between epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.errors import PipelineError, located
from dagster_operators.graph.ports import MAIN
from dagster_operators.graph.state_tables import StateTable
from dagster_operators.operators.frontier.declared import CapabilityState, NotifyState, StashState, ValueState
from dagster_operators.operators.frontier.first_parameter import uses_first_parameter
from dagster_operators.operators.frontier.pacts import Broadcast, Pact
from dagster_operators.operators.frontier.scope_body import ScopeBody
from dagster_operators.operators.frontier.scope_rounds import ScopeRounds, Settled
from dagster_operators.operators.frontier.shapes import SHAPES, Shape
from dagster_operators.time.frontier import Frontier, meet
from dagster_operators.time.kinds import Times, is_least, names_of, parts_of
from dagster_operators.time.summary import IDENTITY, results_in
from dagster_operators.time.watermark import MIN_WATERMARK

if TYPE_CHECKING:
    import pyarrow as pa

Columns: TypeAlias = "str | pa.Schema | None"
"""The columns of an output without the time, as Spark DDL or an Arrow schema; None for those of the first input."""


class FrontierInterest(StrEnum):
    """When the logic is called because a frontier moved: not at all, only while it holds capabilities, or always.

    >>> FrontierInterest.IfCapability == "if_capability", [str(one) for one in FrontierInterest]
    (True, ['never', 'if_capability', 'always'])
    """

    Never = "never"
    IfCapability = "if_capability"
    Always = "always"


NEVER: Final = "never"
IF_CAPABILITY: Final = "if_capability"
ALWAYS: Final = "always"
"""The same as what is stored."""

State: TypeAlias = "Mapping[str, StateTable | CapabilityState | NotifyState | StashState | ValueState]"
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
        schema: The columns of the output without the time, if they are not those of the first input; a tuple of several outputs'.
        state: What lives on between epochs.
        initial: The times to be notified of from the beginning.
        summaries: For each input and output what the way between them does to times, none if they are not connected; by default
            all are, and times stay as they are.
        notify: For each input when the logic is called because its frontier moved; by default always, if its shape sees them.
        calls: How often the logic may ask to be called again in an epoch, before what is left is left to the next one.
        times: The kind of the outputs' times; by default they are those of the inputs.

    Attributes:
        adds: Of an operator within a scope the column that it puts behind those of its first input, as Spark DDL.

    Raises:
        PipelineError: Something of it does not fit.
    """

    calls: int | None = None
    times: Any = None
    adds = ""

    def __init__(
        self,
        shape: str,
        pacts: Sequence[Pact],
        name: str,
        constructor: Callable[..., Any],
        *,
        schema: Columns | tuple[Columns, ...] = None,
        state: State | None = None,
        initial: Sequence[int] = (),
        summaries: Sequence[Sequence[Sequence[Any]]] | None = None,
        notify: Sequence[str] | None = None,
        calls: int | None = None,
        times: Any = None,
    ) -> None:
        self.shape = shape
        self.pacts = tuple(pacts)
        self.name = name
        self.constructor: Any = constructor
        self.schema = schema
        self.state = dict(state or {})
        self.initial = tuple(initial)
        self.summaries = None if summaries is None else tuple(tuple(map(tuple, of)) for of in summaries)
        self.notify = None if notify is None else tuple(notify)
        if calls is not None:
            self.calls = calls
        if times is not None:
            self.times = _checked(times, name)
        if self.kind.notifies:
            self.state.setdefault(NOTIFICATIONS, NotifyState())
        if not self.schemas:
            raise PipelineError("an operator has at least one output", operator=name, remedy="give its schema")
        self._check()

    @property
    def kind(self) -> Shape:
        """What its shape is."""
        return SHAPES[self.shape]

    @property
    def schemas(self) -> tuple[Columns, ...]:
        """The declared columns of each output."""
        return self.schema if isinstance(self.schema, tuple) else (self.schema,)

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(f"output_{number}" if number else MAIN for number in range(len(self.schemas)))

    @property
    def sees_frontier(self) -> bool:
        """Whether its logic is told of frontiers."""
        return self.kind.sees_frontier if self.notify is None else any(when != NEVER for when in self.notify)

    def passed(self, number: int, inputs: Sequence[Frontier]) -> Frontier:
        """The frontier of an output, for those of the inputs, if nothing is held there.

        Inputs that no way leads from do not count; but an operator that keeps nothing gets its initial capabilities anew in each
        epoch, so that there all count if none is connected.

        Args:
            number: The output's number.
            inputs: The frontiers of the inputs.
        """
        ways = None if self.summaries is None else [of[number] for of in self.summaries]
        if ways is None or (not any(ways) and not self.holds_time):
            return meet(inputs)
        found = meet(_through(summary, frontier) for way, frontier in zip(ways, inputs, strict=True) for summary in way)
        return found if self.times is None else Times(self.times, names_of(self.times, "t")).normal(found)

    def summaries_of(self, number: int) -> Sequence[Sequence[Any]] | None:
        """For each output what the way from an input does to times."""
        return None if self.summaries is None else [tuple(map(_way, way)) for way in self.summaries[number]]

    @property
    def body(self) -> ScopeBody | None:
        """The operators within it, if it is a scope."""
        return self.constructor if isinstance(self.constructor, ScopeBody) else None

    @property
    def part(self) -> ScopeRounds | Settled | None:
        """What it does for a scope that goes in rounds of stages, if it is of one."""
        return self.constructor if isinstance(self.constructor, ScopeRounds | Settled) else None

    @property
    def holds_time(self) -> bool:
        """Whether it may hold capabilities at the end of an epoch."""
        if isinstance(self.constructor, Settled):
            return False  # what it holds back is held by operators before it
        if self.body is not None:
            return any(node.definition.holds_time for node in self.body.nodes)
        return (
            self.sees_frontier
            or self.kind.reschedules
            or any(not isinstance(kept, StateTable | ValueState) for kept in self.state.values())
            or uses_first_parameter(self.constructor)
        )

    @property
    def single(self) -> bool:
        """Whether all its rows go to one subtask."""
        return not self.pacts[0].by and (self.body is not None or self.holds_time or bool(self.state) or len(self.pacts) > 1)

    def is_spread(self, number: int) -> bool:
        """Whether every subtask gets all rows of an input, and there may be several."""
        return isinstance(self.pacts[number], Broadcast) and not self.single

    def _check(self) -> None:
        where = {"operator": self.name}
        if not callable(self.constructor) and self.body is None:
            raise PipelineError(f"{self.constructor!r} is no function", **where, remedy="give the function that makes the logic")
        if self.calls is not None and self.calls < 1:
            raise PipelineError(f"{self.calls} calls are none", **where, remedy="give calls of 1 or more")
        for pact in self.pacts:
            if not isinstance(pact, Pact):
                raise PipelineError(f"{pact!r} is no pact", **where, remedy='give Pipeline() or Exchange("column")')
        if isinstance(self.pacts[0], Broadcast):
            raise PipelineError(
                "rows of the first input cannot go to every subtask", **where,
                remedy="let the first input be the one whose rows are exchanged by keys, and broadcast another one",
            )  # fmt: skip
        if len({len(pact.by) for pact in self.pacts if not isinstance(pact, Broadcast)}) > 1:
            raise PipelineError(
                "the inputs are exchanged by different numbers of columns", **where, remedy="exchange all by the same, or none"
            )
        for name, kept in self.state.items():
            if name.endswith("_") or not name.isidentifier():
                raise PipelineError(f"{name!r} is no name for a state", **where, remedy="use letters, digits, _ between")
            if not isinstance(kept, StateTable | CapabilityState | NotifyState | StashState | ValueState):
                raise PipelineError(
                    f"{kept!r} is no state", **where, remedy="declare a KeyedState, ListState, StashState, CapabilityState, ..."
                )


def _through(summary: Any, frontier: Frontier) -> Frontier:
    """What a way makes of a frontier; before any time has come it is too early to tell.

    >>> _through(2, Frontier([5])), _through(2, Frontier())
    (Frontier([7]), Frontier([]))
    """
    moved = (MIN_WATERMARK if is_least(time) else results_in(_way(summary), time) for time in frontier)
    return Frontier(time for time in moved if time is not None)


def _way(summary: Any) -> Any:
    """A summary for times of every kind: nothing is added to any."""
    return IDENTITY if type(summary) is int and summary == 0 else summary


def _checked(kind: Any, operator: str) -> Any:
    """A kind of times, if it is one."""
    with located(operator=operator):
        parts_of(kind)
    return kind
