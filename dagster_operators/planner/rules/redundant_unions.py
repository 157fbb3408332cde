"""Unions that need not be: of one stream, and those whose rows go into another union."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.graph.rule import Rewritten, Rule
from dagster_operators.operators.relational.union import Union


class RedundantUnions(Rule):
    """Leaves out unions of one stream, and makes one union of those that follow one another."""

    name: ClassVar[str] = "redundant_unions"

    @override
    def apply(self, plan: Dataflow) -> Rewritten:
        rewriting = Rewriting(plan)
        for node in rewriting:
            if isinstance(node.operator, Union):
                self._leave_out(rewriting, node) if len(node.inputs) == 1 else self._flatten(rewriting, node)
        return rewriting.result()

    def _leave_out(self, rewriting: Rewriting, node: Node) -> None:
        stream = StreamRef(node.name)
        same = rewriting.type_of(node.inputs[0]) == node.type
        if same and node.operator.chain and rewriting.is_inner(node.name):
            rewriting.did(f"{node.name} is a union of one stream, and left out")
            rewriting.redirect(stream, node.inputs[0])
            rewriting.remove(node.name)

    def _flatten(self, rewriting: Rewriting, node: Node) -> None:
        inner = [stream.operator for stream in node.inputs if self._goes_into(rewriting, node, stream)]
        if not inner:
            return
        inputs = tuple(
            before
            for stream in node.inputs
            for before in (rewriting.node(stream.operator).inputs if stream.operator in inner else (stream,))
        )
        chain = node.operator.chain
        made = node.operator.outputs([rewriting.type_of(stream) for stream in inputs])
        if made == node.outputs:
            rewriting.put(replace(node.operator, chain=chain), inputs)
            for name in inner:
                rewriting.remove(name)
            rewriting.did(f"{node.name} takes the streams of the union{'s' if len(inner) > 1 else ''} {', '.join(inner)}")

    def _goes_into(self, rewriting: Rewriting, node: Node, stream: StreamRef) -> bool:
        """Whether what a union reads is another union whose rows go nowhere else, and may be of the same stage."""
        before = rewriting.node(stream.operator)
        linked = before.operator.chain and node.operator.chain
        return isinstance(before.operator, Union) and linked and before.scope == node.scope and rewriting.is_inner(before.name)
