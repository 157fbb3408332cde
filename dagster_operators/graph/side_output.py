"""A further output of an operator, as a stream of its own: late rows, rejected rows, or a port that the operator declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType


@dataclass(frozen=True, kw_only=True)
class SideOutput(LogicalOperator):
    """One of the side outputs of the operator before it. It computes nothing and always runs in that operator's stage.

    Attributes:
        port: Which output.
        type: What its rows are.
    """

    kind: ClassVar[str] = "side_output"
    port: str
    type: StreamType

    @override
    def config(self) -> dict[str, Any]:
        return {"port": self.port}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return self.type

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {}  # it is the operator's side_lineage, over the operator's inputs

    @override
    def chains_after(self, before: LogicalOperator) -> bool:
        return True

    @override
    def lower(self, inputs: Sequence[StreamType]) -> object:
        return None
