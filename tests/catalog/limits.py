"""A package from outside, as far as the catalog sees one: an operator with a lowering rule and a fluent method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dagster_operators.graph.operator import LogicalOperator, same_columns
from dagster_operators.operators.physical import Analysis, RelationalOperator


@dataclass(frozen=True, kw_only=True)
class Head(LogicalOperator):
    """Hands on a number of rows of each epoch."""

    kind: ClassVar[str] = "head"
    rows: int

    def config(self):
        return {"rows": self.rows}

    def output(self, inputs):
        return inputs[0]

    def lineage(self, inputs):
        return same_columns(inputs[0])


class TakeRows(RelationalOperator):
    def __init__(self, rows):
        self.rows = rows

    def analyse(self, inputs):
        return Analysis(inputs[0])

    def run(self, context, inputs):
        return None if inputs[0] is None else inputs[0].limit(self.rows)


def take(operator, inputs):
    return TakeRows(operator.rows)


def head(stream, rows, *, name=None):
    return stream.through(Head, name=name, rows=rows)


def register(catalog):
    catalog.add_operator(
        "head",
        f"{__name__}:Head",
        lowerings={"take": f"{__name__}:take"},
        stream={"head": f"{__name__}:head"},
        samples=f"{__name__}:samples",
        docs="docs/head.md",
    )


def samples():
    return [Head(name="first", rows=3)]
