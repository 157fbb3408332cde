"""The places of a plan's operators in a picture: in columns from left to right, each behind those that it reads.

An iteration is a box around the operators of its round. The same plan has the same places always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dagster_operators.optimizer.drawing.drawn import DrawnNode

LINE: Final = 16
"""The height of a line of text."""

HEAD: Final = 2 * LINE + 8
"""The height of the text at the top of an iteration's box."""

GAP: Final = 26
"""The space between boxes of a column."""

_LETTER: Final = 7.3
_BETWEEN: Final = 60
_PADDING: Final = 18


@dataclass(frozen=True)
class Box:
    """The place of an operator.

    Attributes:
        left: Of its left side.
        top: Of its upper side.
        width: From left to right.
        height: From top to bottom.
    """

    left: float
    top: float
    width: float
    height: float

    def moved(self, right: float, down: float) -> Box:
        """The box elsewhere."""
        return replace(self, left=self.left + right, top=self.top + down)


@dataclass(frozen=True)
class Layout:
    """The places of operators.

    Attributes:
        boxes: By the operator's number, those within iterations too.
        width: Of all of them together.
        height: The same.
    """

    boxes: Mapping[int, Box]
    width: float
    height: float


def width_of(text: str) -> float:
    """About the width of a text.

    >>> width_of("a" * 10)
    73.0
    """
    return len(text) * _LETTER


def layout(nodes: Sequence[DrawnNode], texts: Mapping[int, Sequence[str]], labels: Mapping[int, Sequence[str]]) -> Layout:
    """The places of a plan's operators.

    Args:
        nodes: The operators, each behind those that it reads.
        texts: The lines of text in each operator's box, by its number.
        labels: The texts at the ways into each operator, by its number.

    >>> from dagster_operators.optimizer.drawing.drawn import DrawnEdge
    >>> nodes = [DrawnNode(0, "Map", "a", "", 1, None), DrawnNode(1, "Map", "b", "", 1, None, edges=(DrawnEdge(0, ""),))]
    >>> layout(nodes, {0: ["m"], 1: ["m"]}, {}).boxes[1]
    Box(left=85.3, top=0.0, width=25.3, height=34)
    """
    inner = {node.number: layout(node.within, texts, labels) for node in nodes if node.within}
    columns = _columns(nodes)
    boxes: dict[int, Box] = {}
    left, height = 0.0, 0.0
    for number, column in enumerate(columns):
        # The ways into the first column of a round come from outside: their labels need space in the box, too.
        before = [label for node in column for label in labels.get(node.number, ())]
        left += max(map(width_of, before), default=0) + (_BETWEEN if number else 0)
        top, width = 0.0, 0.0
        for node in _in_order(column, boxes):
            box = _box(texts[node.number], inner.get(node.number)).moved(left, top)
            boxes[node.number] = box
            if node.number in inner:
                boxes |= {own: place.moved(left + _PADDING, top + HEAD) for own, place in inner[node.number].boxes.items()}
            top, width = top + box.height + GAP, max(width, box.width)
        left, height = left + width, max(height, top - GAP)
    return Layout(boxes, left, height)


def _columns(nodes: Sequence[DrawnNode]) -> list[list[DrawnNode]]:
    """The operators by how many are before them, at most."""
    home = {own.number: node.number for node in nodes for own in node}
    depth: dict[int, int] = {}
    for node in nodes:
        before = {home[edge.source] for own in node for edge in own.edges if edge.source in home} - {node.number}
        depth[node.number] = max((depth.get(number, -1) + 1 for number in before), default=0)
    columns: list[list[DrawnNode]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        columns[depth[node.number]].append(node)
    return columns


def _in_order(column: Sequence[DrawnNode], boxes: Mapping[int, Box]) -> list[DrawnNode]:
    """A column's operators in the order of those that they read, so that few ways cross."""

    def height(node: DrawnNode) -> tuple[float, int]:
        read = [boxes[edge.source] for own in node for edge in own.edges if edge.source in boxes]
        return (sum(box.top for box in read) / len(read) if read else 0.0, node.number)

    return sorted(column, key=height)


def _box(lines: Sequence[str], inner: Layout | None) -> Box:
    text = max((width_of(line) for line in lines), default=0) + _PADDING
    if inner is None:
        return Box(0, 0, text, len(lines) * LINE + _PADDING)
    return Box(0, 0, max(text, inner.width + 2 * _PADDING), inner.height + HEAD + _PADDING)
