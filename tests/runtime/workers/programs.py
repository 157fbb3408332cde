"""Small programs, and a subtask of them that keeps in memory what leaves it."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa

from dagster_operators.runtime.workers.program_graph import Edge, ProgramGraph
from dagster_operators.runtime.workers.subtask import ROUNDS, Member, Subtask, SubtaskId
from dagster_operators.state.store import StateStore
from dagster_operators.time import Frontier

SCHEMA = pa.schema([("v", pa.int64())])


def batch(*values):
    return pa.RecordBatch.from_pydict({"v": list(values)}, schema=SCHEMA)


def values(rows):
    return rows.column("v").to_pylist()


class Logging:
    """Writes down what it is called with, and hands rows on; ``held`` is what it says of its outputs."""

    def __init__(self, name, log, held=None):
        self.name, self.log, self.held = name, log, held

    def open(self, ctx):
        self.ctx = ctx
        self.log.append((self.name, "open"))

    def on_batch(self, port, rows, out):
        self.log.append((self.name, "batch", port, values(rows)))
        out.collect(rows)

    def on_frontier(self, inputs, out):
        self.log.append((self.name, "frontier", [frontier.to_json() for frontier in inputs]))
        return {} if self.held is None else dict.fromkeys(self.ctx.ports, Frontier([self.held]))

    def on_end(self, reason, out):
        self.log.append((self.name, "end", reason))

    def close(self):
        self.closed = True


class Running:
    """A subtask of programs.

    Args:
        programs: The programs by name, in order.
        edges: As (source, port, target, input) and optionally True for feedback.
        inputs: How many inputs a program has, if not one.
        ports: The ports of a program, if not ``main`` alone.
        entries: The inputs that get rows; by default the first one's.
        states: The state of a program, if it has any.
        shared: What the programs share, if they are of one logical operator.
    """

    def __init__(self, programs, edges, *, inputs=None, ports=None, entries=None, states=None, rounds=ROUNDS, shared=None):
        self.out = defaultdict(list)
        names = list(programs)
        counts = {name: (inputs or {}).get(name, 1) for name in names}
        self.graph = ProgramGraph(counts, [Edge(*edge) for edge in edges], entries or [(names[0], 0)])
        members = [member(name, programs[name], (ports or {}).get(name), (states or {}).get(name), shared) for name in names]
        self.subtask = Subtask(SubtaskId(1, 0, 1), self.graph, members, self._write, rounds=rounds)
        self.subtask.open()

    def _write(self, name, port, rows):
        self.out[name, port] += values(rows)

    def process(self, *rows, target=None):
        self.subtask.process(target or (next(iter(self.graph.inputs)), 0), batch(*rows))

    def advance(self, watermark):
        self.subtask.advance(self._everywhere(watermark))

    def finish(self, watermark=10):
        return self.subtask.finish(self._everywhere(watermark))

    def _everywhere(self, watermark):
        return dict.fromkeys(self.graph.entries, Frontier.from_watermark(watermark))


def member(name, program, ports, state, shared):
    schemas = dict.fromkeys(ports or ["main"], SCHEMA)
    own = {} if shared is None else shared
    return Member(name, program, schemas, frozenset(schemas), (), state or StateStore({}), Frontier([0]), {}, own)
