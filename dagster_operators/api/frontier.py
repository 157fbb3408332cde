"""``do.frontier``: what operators as timely dataflow has them are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.api.frontier_builder import OperatorBuilder
from dagster_operators.api.frontier_capture import barrier, capture, limit_rate, replay
from dagster_operators.api.frontier_iterate import iterate
from dagster_operators.api.frontier_iterator import IteratorSourceInput, iterator_source
from dagster_operators.api.frontier_library import (
    branch,
    branch_when,
    concat,
    concatenate,
    definition_of,
    exchange,
    filter,  # noqa: A004 - timely's names
    flat_map,
    inspect,
    inspect_batch,
    inspect_core,
    inspect_time,
    map,  # noqa: A004
    map_in_place,
    ok_err,
    partition,
    retime,
)
from dagster_operators.api.frontier_probe import ProbeHandle, probe, probe_with
from dagster_operators.api.frontier_results import ResultStream, results
from dagster_operators.api.frontier_scope import LoopHandle, Scope
from dagster_operators.api.frontier_scoped_stream import ScopedStream
from dagster_operators.api.frontier_source import empty, source, to_stream
from dagster_operators.api.frontier_unordered import unordered_input
from dagster_operators.api.frontier_waiting import (
    accumulate,
    aggregate,
    count,
    delay,
    delay_batch,
    delay_total,
    reclock,
    state_machine,
)
from dagster_operators.arguments import checked
from dagster_operators.operators.frontier.capability import Capability, InputCapability, Outlet
from dagster_operators.operators.frontier.capability_set import CapabilitySet
from dagster_operators.operators.frontier.declared import CapabilityState, NotifyState, StashState, ValueState
from dagster_operators.operators.frontier.definition import Definition, FrontierInterest, State
from dagster_operators.operators.frontier.notificator import FrontierNotificator, Notificator
from dagster_operators.operators.frontier.pacts import Broadcast, Exchange, Pact, Pipeline
from dagster_operators.time.antichain import Antichain
from dagster_operators.time.change_batch import ChangeBatch
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.mutable_antichain import MutableAntichain
from dagster_operators.time.product import Product

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Antichain",
    "Broadcast",
    "Capability",
    "CapabilitySet",
    "CapabilityState",
    "ChangeBatch",
    "Exchange",
    "Frontier",
    "FrontierInterest",
    "FrontierNotificator",
    "InputCapability",
    "IteratorSourceInput",
    "LoopHandle",
    "MutableAntichain",
    "Notificator",
    "NotifyState",
    "OperatorBuilder",
    "Outlet",
    "Pipeline",
    "ProbeHandle",
    "Product",
    "ResultStream",
    "Scope",
    "ScopedStream",
    "StashState",
    "ValueState",
    "accumulate",
    "aggregate",
    "barrier",
    "branch",
    "branch_when",
    "capture",
    "concat",
    "concatenate",
    "count",
    "define",
    "definition_of",
    "delay",
    "delay_batch",
    "delay_total",
    "empty",
    "exchange",
    "filter",
    "flat_map",
    "inspect",
    "inspect_batch",
    "inspect_core",
    "inspect_time",
    "iterate",
    "iterator_source",
    "limit_rate",
    "map",
    "map_in_place",
    "ok_err",
    "partition",
    "probe",
    "probe_with",
    "reclock",
    "replay",
    "results",
    "retime",
    "source",
    "state_machine",
    "to_stream",
    "unordered_input",
]


@checked
def define(
    shape: str,
    *pacts: Pact,
    name: str = "operator",
    logic: Callable[..., Any],
    schema: str | pa.Schema | None = None,
    state: State | None = None,
    init: Sequence[int] = (),
) -> Definition:
    """An operator apart from any stream, for the test harness.

    Args:
        shape: How the method of streams is called that makes such an operator.
        pacts: One for each input.
        name: The operator's name.
        logic: The constructor, or with a notificator the logic.
        schema: The output's columns without the time; by default those of the first input.
        state: What lives on between epochs.
        init: The times to be notified of from the beginning.

    >>> from dagster_operators.testing import OperatorHarness
    >>> def late_greeting(capability, info):
    ...     def logic(input, output):
    ...         for time, batch in input:
    ...             output.session(time.delayed(time.time + 5)).give_batch(batch)
    ...     return logic
    >>> operator = define("unary", Pipeline(), logic=late_greeting)
    >>> with OperatorHarness(operator, "word string, t timestamp_ntz", event_time="t") as harness:
    ...     harness.process([{"word": "hello", "t": 1}])
    ...     report = harness.end_epoch()
    ...     harness.rows()
    [{'word': 'hello', 't': datetime.datetime(1970, 1, 1, 0, 0, 0, 6)}]
    """
    return Definition(shape, pacts, name, logic, schema=schema, state=state, initial=init)
