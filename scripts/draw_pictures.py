"""Draws the pictures of the concepts: ``python scripts/draw_pictures.py`` writes them to ``docs/pictures``.

Names and numbers come from the code, so a picture changes with it; ``tests/scripts/test_draw_pictures.py`` compares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final

import pyarrow as pa

from dagster_operators.graph.changes import CHANGE, DELETE, DELETED, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from dagster_operators.graph.key_group import KEY_GROUPS
from dagster_operators.state.key_hash import group_bounds, hash_columns
from dagster_operators.state.key_hash import key_groups as hashed_groups
from dagster_operators.transactions.effects import CallParticipant, CommitTable, WriteManifest
from dagster_operators.transactions.failpoints import FAILPOINTS
from dagster_operators.transactions.records import Begin, Complete, Decision, Generation, Prepared

FOLDER: Final = Path(__file__).parents[1] / "docs" / "pictures"

INK, PALE = "#1f2933", "#7b8794"
FILL: Final = {
    "plain": "#ffffff",
    "data": "#e3f2fd",
    "work": "#fff8e1",
    "ledger": "#e8f5e9",
    "atomic": "#ffe0b2",
    "gone": "#eceff1",
}


class Drawing:
    """An SVG picture of boxes, lines and texts, on a white ground so that it can be read in dark pages."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self.title, self.width, self.height = title, width, height
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, text: str, *, size: int = 13, color: str = INK, anchor: str = "middle", bold: bool = False
    ) -> None:
        """A line of text; ``y`` is its base line."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, *lines: str, fill: str = "plain") -> None:
        """A box with lines of text in its middle, the first of them bold."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{FILL[fill]}" stroke="{INK}"/>'
        )
        first = y + height / 2 - (len(lines) - 1) * 8.5 + 4.5
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + 17 * number, line, bold=number == 0, size=13 if number == 0 else 12)

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """A line through the points, with a head at the last."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.4"{dash} marker-end="url(#head)"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, *, color: str = PALE, dashed: bool = False) -> None:
        """A line without a head."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}"{dash}/>')

    def dot(self, x: float, y: float, color: str) -> None:
        """A row."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="6" fill="{color}" stroke="{INK}"/>')

    def svg(self) -> str:
        """The picture as text."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'font-family="system-ui, sans-serif">\n<title>{escape(self.title)}</title>\n'
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>\n'
            f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def epoch() -> Drawing:
    """The path of an epoch, from the slices of its sources to the completion."""
    drawing = Drawing("The path of an epoch", 860, 430)
    drawing.box(610, 20, 230, 390, fill="ledger")
    drawing.text(725, 44, "ledger", bold=True, size=15)
    records = (
        (Generation, 60, "this run may write"),
        (Begin, 130, "the slices of all sources"),
        (Prepared, 210, "one for each stage"),
        (Decision, 285, "the one atomic point"),
        (Complete, 350, "the version of each table"),
    )
    for record, y, meaning in records:
        drawing.box(630, y, 190, 48, record.kind, meaning, fill="atomic" if record is Decision else "plain")
    drawing.box(10, 60, 160, 48, "begin", "settle, compare, choose", fill="work")
    drawing.box(20, 150, 150, 48, "sources", "files, topics, tables", fill="data")
    for number, x in enumerate((220, 350)):
        drawing.box(x, 150, 100, 48, f"stage {number + 1}", "a job", fill="work")
        drawing.box(x, 225, 100, 48, "staged files", "no reader", fill="data")
        drawing.arrow((x + 50, 198), (x + 50, 225))
    drawing.box(480, 225, 100, 48, "manifests", "files, digests", fill="data")
    drawing.box(220, 300, 230, 48, "commit", "one manifest for each stage", fill="work")
    drawing.box(220, 370, 110, 40, "tables, state", fill="data")
    drawing.box(345, 370, 105, 40, "sinks", fill="data")
    drawing.arrow((170, 74), (630, 74))
    drawing.arrow((170, 96), (600, 96), (600, 150), (630, 150))
    drawing.arrow((95, 108), (95, 150))
    drawing.arrow((170, 174), (220, 174))
    drawing.arrow((320, 174), (350, 174))
    drawing.arrow((450, 249), (480, 249))
    drawing.arrow((580, 240), (630, 234))
    drawing.arrow((450, 312), (630, 312))
    drawing.arrow((275, 348), (275, 370))
    drawing.arrow((398, 348), (398, 370))
    drawing.arrow((450, 336), (590, 336), (590, 374), (630, 374))
    return drawing


def event_time() -> Drawing:
    """Rows by event time in three epochs, the watermark behind each, and what closes or is late."""
    epochs = ((1, 3, 12), (4, 11, 25), (8, 26))
    drawing = Drawing("Event time and watermark", 860, 330)
    left, scale, watermark = 150, 23, 0
    for start, name in ((0, "window [0, 10)"), (10, "window [10, 20)"), (20, "window [20, 30)")):
        drawing.box(left + start * scale, 36, 10 * scale, 30, name, fill="data")
    drawing.text(70, 56, "lateness 0", color=PALE)
    for second in range(0, 30, 5):
        drawing.line(left + second * scale, 66, left + second * scale, 270, color="#e4e7eb")
        drawing.text(left + second * scale, 290, f"{second} s", size=12, color=PALE)
    for number, rows in enumerate(epochs):
        y = 105 + 65 * number
        drawing.text(70, y + 5, f"epoch {number + 1}", bold=True)
        for row in rows:
            late = row // 10 * 10 + 10 <= watermark
            drawing.dot(left + row * scale, y, "#ef5350" if late else "#42a5f5")
            drawing.text(left + row * scale, y - 11, f"{row} late" if late else str(row), size=12)
        watermark = max(watermark, *rows)
        drawing.line(left + watermark * scale, y + 12, left + watermark * scale, y + 42, color="#e65100")
        drawing.text(left + watermark * scale - 6, y + 34, f"watermark {watermark}", size=12, color="#e65100", anchor="end")
    drawing.text(
        430,
        316,
        "A window closes behind the epoch in which the watermark reaches its end. Rows that come later are late.",
        size=12,
    )
    return drawing


def row_kinds() -> Drawing:
    """The three kinds of rows, with the same history in each."""
    drawing = Drawing("Kinds of rows", 860, 270)
    changes = (f"a 1  {INSERT}", f"b 2  {INSERT}", f"a 1  {UPDATE_BEFORE}", f"a 3  {UPDATE_AFTER}", f"b 2  {DELETE}")
    columns = (
        ("append", "each row stays", ("a 1", "b 2", "a 3"), ("a 1", "b 2", "a 3"), "", "sources, windows"),
        ("updating", "one row for each key", ("a 1", "b 2", "a 3", f"b   {DELETED}"), ("a 3",), "", "aggregate, latest"),
        ("retracting", "rows are added and taken back", changes, ("a 3",), CHANGE, "as_changes, to_changes, join"),
    )
    for number, (name, meaning, rows, result, column, givers) in enumerate(columns):
        x = 20 + 280 * number
        drawing.text(x + 130, 28, name, bold=True, size=15)
        drawing.text(x + 130, 47, meaning, size=12, color=PALE)
        drawing.box(x, 60, 170, 130, fill="data")
        drawing.text(x + 85, 205, f"the stream, with {column}" if column else "the stream", size=12, color=PALE)
        for place, row in enumerate(rows):
            drawing.text(x + 14, 82 + 22 * place, row, anchor="start")
        drawing.arrow((x + 170, 125), (x + 195, 125))
        drawing.box(x + 195, 60, 60, 130, fill="ledger")
        for place, row in enumerate(result):
            drawing.text(x + 225, 82 + 22 * place, row)
        drawing.text(x + 225, 205, "current rows", size=12, color=PALE)
        drawing.text(x + 130, 240, f"from {givers}", size=12, color=PALE)
    return drawing


def two_phase_commit() -> Drawing:
    """The durable steps of the commit, and what the next run does if this one dies before each."""
    steps = (
        (WriteManifest, "write_manifest", "stages", "the stage runs again"),
        (Prepared, "append_prepared", "stages", "the stage runs again"),
        (CallParticipant, "prepare_participant", "prepare", "the epoch is taken up, stages are kept"),
        (Decision, "append_decision", "decide", "the epoch is taken up, stages are kept"),
        (CommitTable, "commit_table", "commit", "the tables that are left are committed"),
        (CallParticipant, "commit_participant", "commit", "the sinks that are left are committed"),
        (Complete, "append_complete", "commit", "the completion is appended"),
    )
    drawing = Drawing("Two-phase commit, and a crash before each step", 860, 60 + 46 * len(steps))
    drawing.text(60, 30, "phase", bold=True)
    drawing.text(270, 30, "durable step", bold=True)
    drawing.text(600, 30, "if the run dies before it, in the next run", bold=True)
    for number, (_, step, phase, consequence) in enumerate(steps):
        if f"before:{step}" not in FAILPOINTS:
            raise ValueError(f"{step} is no durable step of the protocol: say its new name")
        y = 46 + 46 * number
        atomic = step == "append_decision"
        drawing.text(60, y + 22, phase)
        drawing.box(
            150,
            y,
            240,
            34,
            step.replace("_", " "),
            fill="atomic" if atomic else "ledger" if step.startswith("append") else "data",
        )
        drawing.text(430, y + 22, consequence, anchor="start")
        if number:
            drawing.arrow((270, y - 12), (270, y))
        if atomic:
            drawing.text(840, y + 22, "before: may be given up", anchor="end", color="#e65100", size=12)
        if step == "commit_table":
            drawing.text(840, y + 22, "after: always carried out", anchor="end", color="#e65100", size=12)
    return drawing


def rebuild() -> Drawing:
    """A rebuild beside the pipeline."""
    drawing = Drawing("A rebuild", 860, 300)
    drawing.text(20, 30, "pipeline", anchor="start", bold=True)
    for number in range(4):
        drawing.box(120 + 110 * number, 40, 90, 40, f"epoch {number + 5}", fill="work")
        if number:
            drawing.arrow((100 + 110 * number, 60), (120 + 110 * number, 60))
    drawing.box(560, 40, 120, 40, "epoch 9", "takes over", fill="atomic")
    drawing.arrow((540, 60), (560, 60))
    drawing.box(720, 40, 120, 40, "epoch 10", fill="work")
    drawing.arrow((680, 60), (720, 60))
    drawing.text(20, 175, "<root>/rebuild", anchor="start", bold=True)
    drawing.box(150, 150, 150, 48, "epochs 1 to 4", "many at a time", fill="data")
    drawing.box(330, 150, 150, 48, "epochs 5 to 8", "the slices of the ledger", fill="data")
    drawing.arrow((300, 174), (330, 174))
    drawing.arrow((480, 174), (620, 174), (620, 80))
    drawing.text(640, 150, "files move in,", anchor="start", size=12)
    drawing.text(640, 167, "one commit over all tables", anchor="start", size=12)
    drawing.arrow((165, 80), (165, 118), (395, 118), (395, 150), dashed=True)
    drawing.text(280, 112, "what these epochs have read", size=12, color=PALE)
    drawing.text(
        430, 245, "The new program computes tables and state anew from everything that the pipeline's epochs have read.", size=12
    )
    drawing.text(
        430,
        265,
        "Epochs go on meanwhile. Readers see the old rows until the one commit, and earlier epochs stay readable.",
        size=12,
    )
    return drawing


def key_groups() -> Drawing:
    """State sorted by the hash, and which subtask has which key groups at two parallelisms."""
    drawing = Drawing("State by key group", 860, 290)
    left, width = 140, 700
    drawing.text(70, 60, "keys", bold=True)
    airports = ("JFK", "LGA", "EWR", "BOS")
    for key, group in zip(airports, hashed_groups(hash_columns([pa.array(airports)])).tolist(), strict=True):
        x = left + width * group / KEY_GROUPS
        drawing.text(x, 60, key)
        drawing.arrow((x, 68), (x, 96))
    drawing.text(490, 24, f"key group = the top seven bits of xxhash64(key), 0 to {KEY_GROUPS - 1}", size=12, color=PALE)
    drawing.text(70, 120, "state files", bold=True)
    drawing.box(left, 98, width, 34, "a run: Parquet, sorted by the hash", fill="data")
    for row, parallelism in enumerate((2, 4)):
        y = 165 + 50 * row
        drawing.text(70, y + 21, f"{parallelism} subtasks", bold=True)
        for subtask in range(parallelism):
            first, behind = group_bounds(subtask, parallelism)
            part = width / parallelism
            drawing.box(left + part * subtask, y, part - 4, 34, f"groups {first} to {behind - 1}", fill="work")
    drawing.text(
        490, 277, "With another parallelism nothing is moved: each subtask reads its slice of the files.", size=12, color=PALE
    )
    return drawing


PICTURES: Final[dict[str, Callable[[], Drawing]]] = {
    picture.__name__: picture for picture in (epoch, event_time, row_kinds, two_phase_commit, rebuild, key_groups)
}


def main(folder: Path = FOLDER) -> None:
    """Write all pictures."""
    for name, picture in PICTURES.items():
        (folder / f"{name}.svg").write_text(picture().svg(), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
