"""The programs in timely dataflow's folder of examples that need no network, on rows of our own, however they are cut.

Where the original gives what depends on the order of rows or on the number of workers, what does not is compared.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.time.frontier import meet
from tests.operators.frontier.driving import CUTS, run
from tests.operators.frontier.test_scope import BY_K, SCHEMA, scoped
from tests.operators.frontier.test_scope_rounds import rounds_of, run_in_rounds

pytestmark = pytest.mark.parametrize(("parallelism", "size"), CUTS)

RANK = 60
EDGES = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 0), (5, 6), (6, 5), (4, 7), (7, 8), (8, 4)]
GRAPH = [(0, {"k": source, "v": target}) for source, target in EDGES]


def pairs(found):
    return {time: Counter((row["k"], row["v"]) for row in rows) for time, rows in found.items()}


def either_way(build, rows, parallelism, size, *, by="v", further=(), iterative=False):
    """What comes out of a scope: at a parallelism of one in one subtask, else in rounds."""
    inputs = 1 + len(further)
    if parallelism == 1:
        operator = scoped(build, inputs=inputs, iterative=iterative)
        return pairs(run(operator, SCHEMA, rows, *further, size=size, restart=1))
    definition = rounds_of(build, *[frontier.Exchange(by)] * inputs, iterative=iterative)
    return pairs(run_in_rounds(definition, rows, iter([parallelism, 2] * 500), size, further)[0])


def distinct(capability, info):
    """``distinct.rs``: each value once at each time."""

    def logic(given, output):
        for time, batch in given:
            values = pa.table({"v": batch["v"]}).group_by("v").aggregate([])
            keys = pa.table({"v": values["v"], "at": pa.repeat(time.time, values.num_rows)})
            fresh = pc.is_null(info.state["seen"].get(keys)["n"])
            info.state["seen"].put(keys.append_column("n", pa.repeat(1, keys.num_rows)))
            output.session(time).give_batch(pa.table({"k": values["v"], "v": values["v"]}).filter(fresh))

    return logic


def test_distinct(parallelism, size):
    values = [0, 1, 2, 2, 2, 3, 3, 4, 0, 0, 3, 4, 4, 5, 7, 7]
    rows = [(time, {"k": 0, "v": v}) for time in range(2) for v in values]
    state = {"seen": do.KeyedState("v long, at long, n long", key=["v", "at"])}
    operator = frontier.define("unary", frontier.Exchange("v"), logic=distinct, state=state)
    found = pairs(run(operator, SCHEMA, rows, parallelism=parallelism, size=size, restart=2))
    assert found == {time: Counter((v, v) for v in set(values)) for time in range(2)}


def hash_join(capability, info):
    """``hashjoin.rs``: rows of both inputs with the same key, each pair when its second row comes."""
    lists = info.state["left"], info.state["right"]

    def logic(left, right, output):
        for number, given in enumerate((left, right)):
            for time, batch in given:
                for row in batch.to_pylist():
                    key = pa.table({"k": [row["k"]]})
                    for other in lists[1 - number].get(key)["v"].to_pylist():
                        output.session(time).give(k=(row["v"], other)[number], v=(other, row["v"])[number])
                    lists[number].append(pa.table({"k": [row["k"]], "v": [row["v"]]}))

    return logic


def test_hash_join(parallelism, size):
    left = [(time, {"k": n % 4, "v": n}) for time in range(2) for n in range(9)]
    right = [(time, {"k": n % 3, "v": 100 + n}) for time in range(2) for n in range(7)]
    state = {name: do.ListState(SCHEMA, key="k") for name in ("left", "right")}
    operator = frontier.define("binary", BY_K, BY_K, logic=hash_join, state=state)
    found = pairs(run(operator, SCHEMA, left, right, parallelism=parallelism, size=size, restart=2))
    together = sum(found.values(), Counter())
    assert together == Counter((one["v"], two["v"]) for _, one in left for _, two in right if one["k"] == two["k"])


def union_find(capability, info):
    """``unionfind.rs``: of some edges those that join two trees, with a forest that lives on."""
    parents = info.state["parents"]

    def root(x):
        while True:
            found = parents.get(pa.table({"k": [x]}))["v"][0].as_py()
            if found is None:
                return x
            x = found

    def logic(given, output):
        for time, batch in given:
            for row in batch.to_pylist():
                x, y = root(row["k"]), root(row["v"])
                if x != y:
                    output.session(time).give(k=row["k"], v=row["v"])
                    parents.put(pa.table({"k": [max(x, y)], "v": [min(x, y)]}))

    return logic


def trees(edges):
    """The nodes that hang together."""
    found = {node: {node} for edge in edges for node in edge}
    for a, b in edges:
        if found[a] is not found[b]:
            found[a] |= found[b]
            for node in found[b]:
                found[node] = found[a]
    return {frozenset(nodes) for nodes in found.values()}


def test_union_find(parallelism, size):
    rows = [(place // 3, row) for place, (_, row) in enumerate(GRAPH)]
    state = {"parents": do.KeyedState(SCHEMA, key="k")}
    operator = frontier.define("unary", frontier.Pipeline(), logic=union_find, state=state)
    found = pairs(run(operator, SCHEMA, rows, parallelism=parallelism, size=size, restart=2))
    forest = list(sum(found.values(), Counter()))
    assert trees(forest) == trees(EDGES)
    assert len(forest) == 9 - len(trees(EDGES)), "an edge more than a forest has"


def breadth_first(edges, reached, output, notificator):
    """``bfs.rs``: a node that is reached for the first time reaches its neighbours one step later."""
    waiting, targets, parents = (notificator.info.state[name] for name in ("waiting", "targets", "parents"))
    for time, batch in edges:
        targets.append(batch)
        notificator.notify_at(time)
    for time, batch in reached:
        waiting.append(pa.table(batch).append_column("at", pa.repeat(time.time, batch.num_rows)))
        notificator.notify_at(time)
    for capability, _ in notificator:
        every = waiting.scan()
        here = every.filter(pc.equal(every["at"], capability.time)).sort_by("v")
        waiting.delete(here)
        for row in here.to_pylist():
            key = pa.table({"k": [row["k"]]})
            if parents.get(key)["v"][0].as_py() is None:
                parents.put(pa.table({"k": [row["k"]], "v": [row["v"]]}))
                further = targets.get(key)["v"].to_pylist()
                output.session(capability).give_iterator({"k": target, "v": row["k"]} for target in further)
                output.session(capability).give(k=-1 - row["k"], v=0)


def bfs(scope, edges, roots):
    """Rows (-1 - node, 0) come out at the time at which a node was reached."""
    handle, cycle = scope.feedback(1)
    state = {
        "waiting": do.ListState(f"{SCHEMA}, at long", key=["k", "at"]),
        "targets": do.ListState(SCHEMA, key="k"),
        "parents": do.KeyedState(SCHEMA, key="k"),
    }
    reached = roots.concat(cycle)
    told = edges.binary_notify(reached, BY_K, BY_K, "bfs", [], breadth_first, schema=SCHEMA, state=state)
    again, left = frontier.branch(told, lambda time, batch: pc.less(batch["k"], 0))
    handle.connect(again)
    scope.leave(left)


def test_bfs(parallelism, size):
    """Edges come at time 0, and the root at 1: then an edge is there before a node needs it, however epochs are cut."""
    roots = [(1, {"k": 0, "v": 0})]
    found = either_way(bfs, GRAPH, parallelism, size, further=[roots])
    assert found == {
        1: Counter([(-1, 0)]), 2: Counter([(-2, 0), (-3, 0)]), 3: Counter([(-4, 0)]), 4: Counter([(-5, 0)]),
        5: Counter([(-8, 0)]), 6: Counter([(-9, 0)]),
    }  # fmt: skip


def ping_pong(scope, rows):
    """``pingpong.rs``: rows are exchanged and counted up until a time is reached."""
    handle, cycle = scope.feedback(1)
    counted = frontier.map_in_place(frontier.exchange(rows.concat(cycle), frontier.Exchange("v")), increased)
    _, again = frontier.branch_when(counted, lambda time: time < 5)
    again.connect_loop(handle)
    scope.leave(counted)


def increased(batch):
    return batch.set_column(batch.schema.get_field_index("v"), "v", pc.add(batch["v"], 1))


def test_ping_pong(parallelism, size):
    rows = [(0, {"k": v, "v": v}) for v in range(6)]
    found = either_way(ping_pong, rows, parallelism, size, by="k")
    assert found == {time: Counter((v, v + 1 + time) for v in range(6)) for time in range(6)}


class Ranks:
    """The ranks and targets of nodes, and what each gives to its targets: five sixths of its rank, in whole numbers."""

    def __init__(self, state):
        self.ranks, self.targets = state["ranks"], state["targets"]

    def given_by(self, node):
        key = pa.table({"k": [node]})
        return shares(self.rank(key), sorted(self.targets.get(key)["v"].to_pylist()))

    def rank(self, key):
        rank = self.ranks.get(key)["v"][0].as_py()
        return RANK if rank is None else rank

    def add_rank(self, node, change):
        self.ranks.put(pa.table({"k": [node], "v": [self.rank(pa.table({"k": [node]})) + change]}))

    def add_target(self, node, target):
        self.targets.append(pa.table({"k": [node], "v": [target]}))


def shares(rank, to):
    share = rank * 5 // 6
    return Counter({target: share // len(to) + (place < share % len(to)) for place, target in enumerate(to)})


def page_rank(capability, info):
    """``pagerank.rs``: what came changes ranks and targets, and what nodes give to others then is told, as changes."""
    of_edges, of_moved, ranks = info.state["edges"], info.state["moved"], Ranks(info.state)

    def logic(edges, moved, output):
        edges.for_each(of_edges.add)
        moved.for_each(of_moved.add)
        both = meet([edges.frontier, moved.frontier])
        changes = {}
        for stash, change in ((of_edges, ranks.add_target), (of_moved, ranks.add_rank)):
            for time, rows in stash.complete(both):
                _, found = changes.setdefault(time.time, (time, Counter()))
                for row in rows.sort_by([("k", "ascending"), ("v", "ascending")]).to_pylist():
                    found.subtract(ranks.given_by(row["k"]))
                    change(row["k"], row["v"])
                    found.update(ranks.given_by(row["k"]))
        for time, found in changes.values():
            output.session(time).give_iterator({"k": node, "v": by} for node, by in sorted(found.items()) if by)

    return logic


def ranking(scope, edges):
    handle, cycle = scope.loop_variable(1)
    state = {
        "edges": frontier.StashState(),
        "moved": frontier.StashState(input=1),
        "ranks": do.KeyedState(SCHEMA, key="k"),
        "targets": do.ListState(SCHEMA, key="k"),
    }
    changes = edges.binary_frontier(cycle, BY_K, BY_K, "page_rank", page_rank, schema=SCHEMA, state=state)
    handle.connect(changes)
    scope.leave(changes)


def settled_ranks(edges):
    """The ranks that give what each node has as what it gets, from the same one each, by the same steps in plain Python."""
    ranks, given = Counter(), {}
    nodes = {node for edge in edges for node in edge}
    for node in nodes:
        ranks[node] = RANK
    while True:
        changes = Counter()
        for node in nodes:
            now = shares(ranks[node], sorted(target for source, target in edges if source == node))
            changes.update(now)
            changes.subtract(given.get(node, Counter()))
            given[node] = now
        if not any(changes.values()):
            return {node: rank - RANK for node, rank in ranks.items() if rank != RANK}
        ranks.update(changes)


def test_page_rank(parallelism, size):
    if size == 1:
        pytest.skip("an edge in each epoch takes many rounds: those of 7 show the same")
    found = either_way(ranking, GRAPH, parallelism, size, iterative=True)
    together = Counter()
    for (node, change), count in sum(found.values(), Counter()).items():
        together[node] += change * count
    assert {node: change for node, change in together.items() if change} == settled_ranks(EDGES)
