"""What must hold for every logical operator, whoever wrote it: tried on one operator at a time, without an engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from dagster_operators.catalog.loading import catalog
from dagster_operators.catalog.registration import Registration
from dagster_operators.errors import PlanError
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.graph.ports import MAIN
from dagster_operators.plans.codec import from_bytes, to_bytes
from dagster_operators.plans.logical_plan import LogicalPlan, PlanNode


def check_operator(operator: LogicalOperator, *inputs: StreamType) -> None:
    """Try everything that must hold for every operator: it is registered, a value, fit for plans, and told apart from others.

    Args:
        operator: An operator that fits the inputs.
        inputs: The types of the streams that it reads.

    Raises:
        AssertionError: Something does not hold, with what.

    >>> from dagster_operators.operators.relational.filter import Filter
    >>> check_operator(Filter(name="big", condition="v > 1"), StreamType(("k", "v")))
    """
    registration = catalog().operator(operator.kind)
    _expect(registration is not None, operator, f"no installed package registers the kind {operator.kind!r}")
    if registration is not None:
        for check in _CHECKS:
            check(operator, registration, inputs)


def _expect(holds: object, operator: LogicalOperator, problem: str) -> None:
    if not holds:
        raise AssertionError(f"{type(operator).__name__} {operator.name!r}: {problem}")


def _is_registered(operator: LogicalOperator, registration: Registration, _: Sequence[StreamType]) -> None:
    other = registration.operator
    _expect(other is type(operator), operator, f"the kind {operator.kind!r} is registered for {other.__qualname__}")
    _expect(registration.summary, operator, "its class has no docstring, which says in one line what it does")


def _is_a_value(operator: LogicalOperator, _: Registration, __: Sequence[StreamType]) -> None:
    again = type(operator).decode(operator.encode())
    _expect(again == operator, operator, "what decode makes of its encoded settings is not equal to it")
    _expect(hash(again) == hash(operator), operator, "equal operators have different hashes")
    other = replace(operator, name=f"{operator.name}_other")
    _expect(other != operator, operator, "it equals an operator of another name")
    try:
        type(operator).decode({**operator.encode(), "no_such_setting": None})
    except PlanError:
        return
    _expect(holds=False, operator=operator, problem="decode accepts a setting that it does not have")


def _fits_into_plans(operator: LogicalOperator, registration: Registration, _: Sequence[StreamType]) -> None:
    plan = LogicalPlan("kit", (PlanNode(operator, (), registration.package),))
    data = to_bytes(plan)
    again = from_bytes(data)
    _expect(again.nodes[0].operator == operator, operator, "read from a plan it is not equal to what was written")
    _expect(to_bytes(again) == data, operator, "written again its plan has other bytes")
    _expect(again.nodes[0].operator.signature() == operator.signature(), operator, "read from a plan it has another signature")


def _explains_itself(operator: LogicalOperator, _: Registration, __: Sequence[StreamType]) -> None:
    short, long = operator.explain(), operator.explain(details=True)
    _expect("\n" not in short and short.startswith(operator.kind), operator, f"explain is not one line with its kind: {short!r}")
    _expect(operator.name in long and short in long, operator, f"explain with details lacks its name or settings: {long!r}")
    _expect(json.dumps(operator.config(), default=str), operator, "its config is no JSON")
    _expect(operator.fingerprint() == replace(operator).fingerprint(), operator, "a copy of it has another fingerprint")


def _knows_its_streams(operator: LogicalOperator, _: Registration, inputs: Sequence[StreamType]) -> None:
    ports = operator.inputs(inputs)
    _expect(len(ports) == len(inputs), operator, f"it has {len(ports)} input ports for {len(inputs)} streams")
    outputs = operator.outputs(inputs)
    _expect(next(iter(outputs), None) == MAIN, operator, f"its first output is not {MAIN!r}: {list(outputs)}")
    known = {(number, column) for number, stream in enumerate(inputs) for column in stream.columns or ()}
    for column, origins in operator.lineage(inputs).items() if inputs else ():
        _expect(origins <= known, operator, f"column {column!r} is said to come of what its inputs lack: {set(origins) - known}")


def _is_lowered(operator: LogicalOperator, _: Registration, inputs: Sequence[StreamType]) -> None:
    offered = catalog().lower(operator, inputs)
    _expect(offered, operator, "no lowering rule offers anything")
    again = catalog().lower(operator, inputs)
    _expect(offered == again, operator, "lowered twice it gives different physical operators: let these be values")


_CHECKS: Final[tuple[Callable[[LogicalOperator, Registration, Sequence[StreamType]], None], ...]] = (
    _is_registered,
    _is_a_value,
    _fits_into_plans,
    _explains_itself,
    _knows_its_streams,
    _is_lowered,
)
