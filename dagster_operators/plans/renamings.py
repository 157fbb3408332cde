"""What a program says was renamed, against what the pipeline had: who takes over state or a position must mean one there was."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from dagster_operators.errors import ChangedPipelineError
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.unknown import UnknownOperator


def check_renamings(before: LogicalPlan, after: LogicalPlan) -> None:
    """Two that are there at once cannot be the same: each would take what belongs to the other. Nor can two of different kinds.

    Raises:
        ChangedPipelineError: Something is said to be renamed from what it cannot have been.
    """
    then, now = {node.name: node.operator for node in before.nodes}, {node.name: node.operator for node in after.nodes}
    for name, earlier in after.renamed.items():
        if earlier not in then or before.renamed.get(name) == earlier:
            continue  # it was renamed in an epoch before
        if name in then:
            raise _wrong(
                after, name,
                f"it is said to be renamed from {earlier!r}, and in the last epoch there was {name!r} beside {earlier!r}",
                "give it a name that the pipeline did not have then",
            )  # fmt: skip
        if earlier in now and earlier not in after.automatic and earlier not in after.renamed:
            raise _wrong(
                after, name, f"it is said to be renamed from {earlier!r}, which is still there",
                f"leave renamed_from out, or give what is {earlier!r} now another name",
            )  # fmt: skip
        was, operator = then[earlier], now[name]
        if was.kind != operator.kind and not isinstance(was, UnknownOperator) and not isinstance(operator, UnknownOperator):
            raise _wrong(
                after, name, f"it is said to be renamed from {earlier!r}, which was a {was.kind} and no {operator.kind}",
                _instead(before, after, name),
            )  # fmt: skip


def check_known(before: LogicalPlan, after: LogicalPlan, earlier_names: Callable[[], Collection[str]]) -> None:
    """What is new and said to be renamed must be renamed from something that there was.

    Args:
        before: What the last completed epoch ran.
        after: What the next one is to run.
        earlier_names: The operators and sources of epochs before that one; asked only where it matters.

    Raises:
        ChangedPipelineError: The pipeline never had anything of that name.
    """
    then = {node.name for node in before.nodes}
    for name, earlier in after.renamed.items():
        if name not in then and earlier not in then and not {name, earlier} & set(earlier_names()):
            raise _wrong(
                after, name, f"it is said to be renamed from {earlier!r}, and the pipeline never had anything of that name",
                _instead(before, after, name),
            )  # fmt: skip


def _instead(before: LogicalPlan, after: LogicalPlan, name: str) -> str:
    """What may have been meant: what is gone and of the same kind."""
    kind = next(node.operator.kind for node in after.nodes if node.name == name)
    what = "source" if kind == Source.kind else "operator"
    names = list(_gone(before, after, kind))
    gone = f"the {what}s of the last epoch that are gone: {', '.join(map(repr, names))}"
    told = gone if names else f"no {what} like it is gone"
    return f"correct the name, or leave renamed_from out if it is new ({told})"


def _gone(before: LogicalPlan, after: LogicalPlan, kind: str) -> Iterator[str]:
    still_there = {node.name for node in after.nodes if node.name not in after.automatic}
    yield from (node.name for node in before.nodes if node.operator.kind == kind and node.name not in still_there)


def _wrong(after: LogicalPlan, name: str, problem: str, remedy: str) -> ChangedPipelineError:
    source = any(node.name == name and node.operator.kind == Source.kind for node in after.nodes)
    return ChangedPipelineError(problem, pipeline=after.pipeline, **{"source" if source else "operator": name}, remedy=remedy)
