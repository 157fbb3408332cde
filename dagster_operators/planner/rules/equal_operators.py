"""Equal operators over one stream are computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from typing_extensions import override

from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.graph.traits import Trait
from dagster_operators.operators.relational.union import Union


class EqualOperators(Rule):
    """Makes one of operators of equal signature that read the same streams, as long as less is written between stages by it.

    Only of such as keep no state: what an operator has stored depends on since when it is there, which the plan does not tell.
    """

    name: ClassVar[str] = "equal_operators"
    needed_by: ClassVar[tuple[str, ...]] = ("redundant_projections", "redundant_unions")

    @override
    def apply(self, plan: Dataflow) -> Rewritten:
        rewriting = Rewriting(plan)
        signatures = {node.name: node.operator.signature() for node in rewriting if _may_be_shared(node)}
        while equal := _equal(rewriting, signatures):  # those behind may become equal by it
            if not sum(_make_one(rewriting, same) for same in equal):
                break
        return rewriting.result()


def _may_be_shared(node: Node) -> bool:
    stateless = Trait.ROW_WISE in node.operator.traits or isinstance(node.operator, Union)
    return stateless and bool(node.inputs) and node.operator.chain and Trait.REPEATABLE in node.operator.traits


def _equal(rewriting: Rewriting, signatures: Mapping[str, str]) -> list[list[Node]]:
    """The operators that read the same and make the same of it, where one of them is enough."""
    groups: dict[tuple[object, ...], list[Node]] = {}
    for node in rewriting:
        if node.name in signatures:
            groups.setdefault((node.scope, node.inputs, signatures[node.name]), []).append(node)
    alike = [[node for node in same if node.outputs == same[0].outputs] for same in groups.values()]
    return [same for same in alike if len(same) > 1 and _saves(rewriting, same)]


def _saves(rewriting: Rewriting, same: Sequence[Node]) -> bool:
    """Whether the rows of one of them are written anyway, or those that they read need not be written any more."""
    if any(rewriting.ends_at(StreamRef(node.name)) for node in same):
        return True
    names = {node.name for node in same}
    return all(set(rewriting.readers(stream)) <= names and not rewriting.ends_at(stream) for stream in same[0].inputs)


def _make_one(rewriting: Rewriting, same: Sequence[Node]) -> int:
    """Let all who read one of several equal operators read a single one of them; returns how many are gone."""
    kept = next((node for node in same if rewriting.ends_at(StreamRef(node.name))), same[0])
    others = [node for node in same if node is not kept and rewriting.is_plain(node.name)]
    for node in others:
        rewriting.redirect(StreamRef(node.name), StreamRef(kept.name))
        rewriting.remove(node.name)
        rewriting.did(f"{node.name} is the same as {kept.name}, and computed once")
    return len(others)
