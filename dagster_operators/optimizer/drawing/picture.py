"""A plan as SVG: operators with their estimated and actual rows, the costly ones in colour, and how rows move between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dagster_operators.optimizer.drawing.drawn import DrawnEdge, DrawnNode
from dagster_operators.optimizer.drawing.layout import LINE, Box, layout, width_of

_MARGIN: Final = 20
_BEND: Final = 40
_NO_TEXT: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML has no way to write."""

_STYLE: Final = (
    "text{font:12px ui-monospace,monospace;fill:#1b1b1b}.head{font-weight:bold}.way{fill:none;stroke:#8a8a8a;stroke-width:1.2}"
    ".moves{stroke:#1f5fa8;stroke-width:2}.ship{font-size:11px;fill:#4a4a4a}.box{stroke:#4a4a4a}.round{fill:#f4f6f9;stroke:#6b7a90}"
)
_KEY: Final = (
    "The deeper the colour, the larger the operator's part of the estimated cost. Blue ways move rows between parts. "
    "Actual rows of an iteration are those of all its rounds."
)


def picture(plans: Mapping[str, Sequence[DrawnNode]]) -> str:
    """Plans as one SVG, one below the other; the same plans give the same text.

    Args:
        plans: The plans, by the name of the operator of the pipeline that each is of.

    >>> from dagster_operators.optimizer.drawing.drawn import DrawnEdge, DrawnNode
    >>> rows = DrawnNode(0, "Data Source", "rows", "", 2, 1000.0, 990)
    >>> edges = (DrawnEdge(0, "Hash Partition on [0]", moves=True),)
    >>> sums = DrawnNode(1, "Reduce", "a < b", "SORTED_REDUCE", 2, None, 7, share=1.0, edges=edges)
    >>> text = picture({"sums": (rows, sums)})
    >>> [words in text for words in ("a &lt; b", "estimated 1,000, actual 990", "estimated ?, actual 7", "Hash Partition on [0]")]
    [True, True, True, True]
    """
    parts: list[str] = []
    width, top = width_of(_KEY) * 0.9, float(_MARGIN + LINE)
    for name, nodes in plans.items():
        every = [own for node in nodes for own in node]
        texts = {node.number: _lines(node) for node in every}
        labels = {node.number: [text for edge in node.edges for text in (edge.ship, edge.local)] for node in every}
        placed = layout(nodes, texts, labels)
        parts += [_text(_MARGIN, top, f"plan of {name}", "head"), f'<g transform="translate({_MARGIN} {_number(top + LINE)})">']
        boxes = {node.number: _box(node, placed.boxes[node.number], texts[node.number]) for node in every}
        # What is later lies above: operators hide the ways that pass them, and iterations nothing.
        parts += [boxes[node.number] for node in every if node.within]
        parts += [way for node in every for way in _ways(node, placed.boxes)]
        parts += [boxes[node.number] for node in every if not node.within]
        parts.append("</g>")
        width, top = max(width, placed.width), top + placed.height + 4 * LINE
    parts.append(_text(_MARGIN, top, _KEY, "ship"))
    wide, high = _number(width + 2 * _MARGIN), _number(top + LINE)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img">'
    ground = f'<style>{_STYLE}</style><rect width="{wide}" height="{high}" fill="#ffffff"/>'
    return "\n".join([head, ground, *parts, "</svg>", ""])


def _lines(node: DrawnNode) -> list[str]:
    parts = "1 part" if node.parallelism == 1 else f"{node.parallelism} parts"
    title = node.name if node.name == node.kind else f"{node.name} ({node.kind})"
    if node.within:
        rounds = "" if node.rounds is None else ", 1 round" if node.rounds == 1 else f", {node.rounds:,} rounds"
        return [title, f"{parts}{rounds}, {_rows(node)}"]
    return [
        title,
        ", ".join(filter(None, (node.strategy, parts, node.way and f"by {node.way}"))),
        *([f"function: {node.function}"] if node.function else []),
        f"rows: {_rows(node)}",
        f"cost: {node.share:.1%}",
    ]


def _rows(node: DrawnNode) -> str:
    estimated = f"estimated {'?' if node.estimated is None else _count(node.estimated)}"
    if node.actual is None:
        return estimated
    shared = f" of all {node.named_so} of this name" if node.named_so > 1 else ""
    return f"{estimated}, actual {_count(node.actual)}{shared}"


def _count(number: float) -> str:
    return f"{round(number):,}"


def _box(node: DrawnNode, box: Box, lines: Sequence[str]) -> str:
    place = f'x="{_number(box.left)}" y="{_number(box.top)}" width="{_number(box.width)}" height="{_number(box.height)}" rx="5"'
    look = 'class="round"' if node.within else f'class="box" fill="{_colour(node.share)}"'
    texts = [
        _text(box.left + 9, box.top + LINE * (number + 1) + 2, line, "" if number else "head")
        for number, line in enumerate(lines)
    ]
    return f'<g id="{node.number}"><rect {place} {look}/>{"".join(texts)}</g>'


def _colour(share: float) -> str:
    """White for what costs nothing, and from yellow to red for what costs more.

    >>> _colour(0.0), _colour(1.0)
    ('#ffffff', '#ff7043')
    """
    # The root makes shares apart from each other that are small: of many operators few have a large one.
    much = min(max(share, 0.0), 1.0) ** 0.5
    red, green, blue = (round(255 + (end - 255) * much) for end in (255, 112, 67))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _ways(node: DrawnNode, boxes: Mapping[int, Box]) -> Iterator[str]:
    """The ways into an operator, each at a height of its own."""
    for number, edge in enumerate(node.edges):
        start, end = boxes[edge.source], boxes[node.number]
        yield _way(edge, start, end, end.top + end.height * (number + 1) / (len(node.edges) + 1))


def _way(edge: DrawnEdge, start: Box, end: Box, height: float) -> str:
    first = (start.left + start.width, start.top + start.height / 2)
    last = (end.left, height)
    middle = last[0] - max(map(width_of, (edge.ship, edge.local))) - _BEND
    points = " ".join(map(_number, (middle + _BEND / 2, first[1], middle, last[1], middle + _BEND, last[1])))
    line = f"M{_number(first[0])} {_number(first[1])}H{_number(middle)}C{points}H{_number(last[0])}"
    drawn = f'<path class="{"way moves" if edge.moves else "way"}" d="{line}"/>'
    place = middle + _BEND + 4
    return (
        drawn
        + _text(place, height - 3, edge.ship, "ship")
        + (_text(place, height + 11, edge.local, "ship") if edge.local else "")
    )


def _text(left: float, top: float, text: str, look: str) -> str:
    kind = f' class="{look}"' if look else ""
    return f'<text x="{_number(left)}" y="{_number(top)}"{kind}>{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    r"""A text as XML has it.

    >>> _escaped("a<b>&" + chr(0))
    'a&lt;b&gt;&amp;\ufffd'
    """
    # Names are the user's: a character that XML does not have would make the whole picture unreadable.
    clean = _NO_TEXT.sub("\ufffd", text)
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
