"""From a plan back to a dataflow: here the user's code is imported, and only here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import OperatorsError, PlanError
from dagster_operators.functions.references import IN_PROGRAM, Reference, resolved
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.outputs import SinkOutput
from dagster_operators.graph.scope import Scope
from dagster_operators.graph.user_functions import find
from dagster_operators.plans.logical_plan import LogicalPlan, PlanSink

_OPTIONS = "storage_options"


@dataclass(frozen=True)
class Surroundings:
    """What a plan does not hold.

    Attributes:
        root: The pipeline's storage root.
        storage_options: Access to the root, and to whatever else left its access out.
        secrets: What was left out of sources, operators and sinks, by their names.
    """

    root: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, name: str, left_out: tuple[str, ...]) -> dict[str, Any]:
        """What was left out of a source, operator or sink.

        Raises:
            PlanError: It was not given again.
        """
        given = dict(self.secrets.get(name, {}))
        if _OPTIONS in left_out and self.storage_options:
            given.setdefault(_OPTIONS, dict(self.storage_options))
        missing = [secret for secret in left_out if secret not in given]
        if missing:
            options = {"option": "the secret"}
            how = f"storage_options={options} or secrets={ {name: {_OPTIONS: options}} }"
            if missing[0] != _OPTIONS:
                how = f"secrets={{{name!r}: {{{missing[0]!r}: 'the secret'}}}}"
            raise PlanError(
                f"{missing[0]!r} of {name!r} is left out of the plan, since it may hold secrets", operator=name,
                remedy=f"give it again: from_plan with {how}",
            )  # fmt: skip
        return given


def check_secrets(plan: LogicalPlan, around: Surroundings) -> None:
    """Ask for what was left out, before anything is imported.

    Raises:
        PlanError: Something was not given again, or was given for a name that is not there.
    """
    for node in plan.nodes:
        around.of(node.name, node.operator.left_out())
    for sink in plan.sinks:
        around.of(sink.name, sink.sink.left_out)
    names = {*(node.name for node in plan.nodes), *(sink.name for sink in plan.sinks)}
    for name in around.secrets.keys() - names:
        raise PlanError(
            f"secrets are given for {name!r}, which the plan does not have", pipeline=plan.pipeline,
            remedy=f"it has: {', '.join(sorted(names))}",
        )  # fmt: skip


def build(plan: LogicalPlan, around: Surroundings) -> Dataflow:
    """The dataflow of a plan.

    Raises:
        PlanError: Code of the user's is missing, or is not what it was.
        SchemaError: An operator no longer fits its input.
    """
    try:
        for name, reference in plan.functions.items():
            _require(name, reference)
        dataflow = Dataflow(plan.pipeline)
        for loop in plan.loops:
            dataflow.add_scope(Scope(loop.name, loop.limit, loop.within_subtask, loop.parent, loop.ends))
        for node in plan.nodes:
            dataflow.add(_placed(node.operator, around), node.inputs)
            for stream, name in plan.side_streams:
                if stream.operator == node.name:
                    dataflow.ask_for(stream, name)
        dataflow.automatic.update(plan.automatic)
        dataflow.renamed.update(plan.renamed)
        for variable, fed in (edge for loop in plan.loops for edge in loop.feedback):
            dataflow.feed(variable, fed)
        for table in plan.tables:
            dataflow.add_table(table)
        for sink in plan.sinks:
            _add_sink(dataflow, sink, around)
    except OperatorsError as error:
        raise error.at(pipeline=plan.pipeline) from error.__cause__
    return dataflow


def _require(name: str, reference: Reference) -> None:
    """See that expressions can call a function, and that it is the one they were written for."""
    found = find(name)
    if found is None and "<" not in reference.qualname:
        try:
            import_module(reference.module)
        except ImportError as error:
            raise PlanError(
                f"the function {name!r} cannot be imported from {reference.module!r}: {error}", function=name,
                remedy=f"install what has the module {reference.module!r}",
            ) from error  # fmt: skip
        found = find(name)
    if found is None:
        raise PlanError(
            f"the function {name!r}, which expressions call, is not known", function=name,
            remedy=IN_PROGRAM if reference.module == "__main__" else
            f"declare it before the pipeline is run, as {reference} did when the plan was written",
        )  # fmt: skip
    if found.digest != reference.digest:
        raise PlanError(
            f"the function {name!r} of {found.place} is not what it was when the plan was written", function=name,
            remedy="go back to the code of that time, or write the plan again with to_plan()",
        )  # fmt: skip


def _placed(operator: LogicalOperator, around: Surroundings) -> LogicalOperator:
    """An operator with its secrets, its source in its place."""
    given = operator.with_secrets(around.of(operator.name, operator.left_out()))
    connector = getattr(given, "connector", None)
    if not isinstance(connector, Connector):
        return given
    made = connector.placed(operator.name, around.root, around.storage_options)
    return replace(given, connector=made)  # type: ignore[call-arg]


def _add_sink(dataflow: Dataflow, planned: PlanSink, around: Surroundings) -> None:
    sink = planned.sink
    sink = resolved(sink.with_secrets(around.of(planned.name, sink.left_out)))
    try:
        sink.check(dataflow.type_of(planned.stream))
    except OperatorsError as error:
        raise error.at(sink=planned.name) from None
    dataflow.add_sink(SinkOutput(planned.name, planned.stream, sink, sink.config(), planned.description, planned.asset_key))
