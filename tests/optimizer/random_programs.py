# ruff: noqa: C901, PLR0911, PLR0912, FBT002, SIM108, S311 - the draws of the 400 programs whose plans are known stay as they are
"""Random programs of Flink's DataSet API, written down as JSON: the same program for the same seed, for ever.

The plans that Flink chose for the seeds 1 to 400 lie beside this file. What is drawn, and in which order, must not change.
"""

from __future__ import annotations

import random

SIZES = [None, (8_000, 100), (8_000_000, 100_000), (80_000_000_000, 1_000_000_000)]
HINTS = ["OPTIMIZER_CHOOSES"] * 5 + [
    "BROADCAST_HASH_FIRST", "BROADCAST_HASH_SECOND", "REPARTITION_HASH_FIRST", "REPARTITION_HASH_SECOND", "REPARTITION_SORT_MERGE"
]  # fmt: skip
LEFT = ["OPTIMIZER_CHOOSES"] * 3 + [
    "BROADCAST_HASH_SECOND",
    "REPARTITION_HASH_FIRST",
    "REPARTITION_HASH_SECOND",
    "REPARTITION_SORT_MERGE",
]
RIGHT = ["OPTIMIZER_CHOOSES"] * 3 + [
    "BROADCAST_HASH_FIRST",
    "REPARTITION_HASH_FIRST",
    "REPARTITION_HASH_SECOND",
    "REPARTITION_SORT_MERGE",
]
FULL = ["OPTIMIZER_CHOOSES"] * 3 + ["REPARTITION_HASH_FIRST", "REPARTITION_HASH_SECOND", "REPARTITION_SORT_MERGE"]
FORWARDS = {"same": "*", "swap": "f0->f1;f1->f0;f2", "add_one": "f0;f2", "mod_five": "f1;f2", "tag": "f0;f1"}


class Program:
    def __init__(self, rng):
        self.rng, self.n = rng, 0
        self.steps, self.sources, self.fanout = [], [], {}
        self.grows = {}  # how many rows a data set may have, so that joins of joins stay small

    def source(self):
        r = self.rng
        name = f"source{len(self.sources)}"
        rows = [[r.randrange(6), r.randrange(20), r.choice("abcd")] for _ in range(r.choice([0, 3, 7, 12]))]
        size = r.choice(SIZES)
        made = {"id": name, "rows": rows}
        if size:
            made["bytes"], made["count"] = size
        self.sources.append(made)
        self.grows[name] = max(len(rows), 1)
        return name

    def add(self, op, inputs, grows, **more):
        self.n += 1
        name = f"{op}{self.n}"
        self.steps.append({"id": name, "op": op, "in": inputs, **{k: v for k, v in more.items() if v is not None}})
        self.grows[name] = grows
        return name

    def keys(self):
        return self.rng.choice([[0], [0], [1], [0, 1], [1, 0], [2], [0, 2]])

    def one(self, a, inside=False):
        r, g = self.rng, self.grows[a]
        kind = r.choice(
            [
                "map",
                "map",
                "flat_map",
                "filter",
                "project",
                "distinct",
                "reduce",
                "reduce",
                "reduce_group",
                "reduce_group",
                "aggregate",
                "min_by",
                "first",
                "map_partition",
                "combine_group",
                "rebalance",
                "partition_hash",
                "partition_range",
                "partition_custom",
                "sort_partition",
                "reduce_all",
                "group_all",
            ]
        )
        if inside and kind in ("partition_range", "reduce_all", "group_all", "partition_custom", "rebalance", "combine_group"):
            kind = "map"
        par = r.choice([None] * 9 + [2])
        if kind == "map":
            fn = r.choice(list(FORWARDS))
            return self.add("map", [a], g, fn=fn, forwarded=r.choice([FORWARDS[fn], None]), parallelism=par)
        if kind == "flat_map":
            fn = r.choice(["twice", "odd_ones", "count_down"])
            if g > 200:
                fn = "odd_ones"
            return self.add(
                "flat_map",
                [a],
                g * 2,
                fn=fn,
                forwarded=r.choice([{"twice": "*", "odd_ones": "*", "count_down": "f0;f2"}[fn], None]),
            )
        if kind == "filter":
            return self.add("filter", [a], g, fn=r.choice(["even_key", "small_value"]))
        if kind == "project":
            return self.add("project", [a], g, fields=r.choice([[1, 0, 2], [0, 1, 2]]))
        if kind == "map_partition":
            return self.add("map_partition", [a], g, forwarded=r.choice(["*", None]))
        if kind == "distinct":
            return self.add("distinct", [a], g, keys=[0, 1, 2])
        if kind == "reduce":
            k = self.keys()
            fn = r.choice(["adds", "larger"])
            return self.add(
                "reduce",
                [a],
                g,
                fn=fn,
                keys=k,
                forwarded=r.choice([";".join(f"f{i}" for i in k) if 1 not in k or fn == "larger" else None, None]),
                combine_hint=r.choice([None] * 4 + ["HASH", "SORT", "NONE"]),
                parallelism=par,
            )
        if kind == "reduce_all":
            return self.add("reduce", [a], 1, fn="adds")
        if kind == "group_all":
            return self.add("reduce_group", [a], 1, fn=r.choice(["group", "combinable"]))
        if kind == "reduce_group":
            k = self.keys()
            if r.random() < 0.4:
                rest = [i for i in (0, 1, 2) if i not in k]
                r.shuffle(rest)
                sort = [[i, r.choice(["asc", "desc"])] for i in rest] or None
                return self.add("reduce_group", [a], g, fn="numbered", keys=k, sort=sort)
            return self.add(
                "reduce_group",
                [a],
                g,
                fn=r.choice(["group", "combinable"]),
                keys=k,
                forwarded=r.choice([";".join(f"f{i}" for i in k if i != 1) or None, None]),
            )
        if kind == "combine_group":
            made = self.add("combine_group", [a], g, keys=r.choice([[0], None]))
            self.partial = True
            return made
        if kind == "aggregate":
            k = self.rng.choice([[0], [2]])
            rest = [i for i in (0, 1) if i not in k]
            how = [[r.choice(["SUM", "MIN", "MAX"]), i] for i in rest] + ([[r.choice(["MIN", "MAX"]), 2]] if 2 not in k else [])
            return self.add("aggregate", [a], g, keys=k, aggregates=how)
        if kind == "min_by":
            return self.add(r.choice(["min_by", "max_by"]), [a], g, keys=r.choice([[0], [1], None]))
        if kind == "first":
            return self.add("first", [a], g, keys=r.choice([[0], [1]]), n=r.choice([1, 2, 5]), order=r.choice(["asc", "desc"]))
        if kind in ("partition_hash", "partition_range"):
            return self.add(kind, [a], g, keys=self.keys())
        if kind == "partition_custom":
            return self.add(kind, [a], g, keys=[0])
        if kind == "sort_partition":
            return self.add(kind, [a], g, keys=[r.randrange(3)], order=r.choice(["asc", "desc"]))
        return self.add("rebalance", [a], g)

    def two(self, a, b):
        r, g, h = self.rng, self.grows[a], self.grows[b]
        kind = r.choice(
            ["join"] * 5
            + [
                "left_outer_join",
                "right_outer_join",
                "full_outer_join",
                "co_group",
                "co_group",
                "cross",
                "union",
                "union",
                "map_broadcast",
            ]
        )
        if kind in ("join", "cross", "left_outer_join", "right_outer_join", "full_outer_join") and g * h > 600:
            kind = "co_group"
        k = r.choice([[0], [0], [1], [0, 1]])
        k2 = r.choice([k, [0] if len(k) == 1 else [1, 0]])
        if kind == "join":
            return self.add("join", [a, b], g * h, keys=k, keys_second=k2, hint=r.choice(HINTS), forwarded=r.choice(["f0", None]))
        if kind == "left_outer_join":
            return self.add(kind, [a, b], g * h, keys=k, keys_second=k2, hint=r.choice(LEFT))
        if kind == "right_outer_join":
            return self.add(kind, [a, b], g * h, keys=k, keys_second=k2, hint=r.choice(RIGHT))
        if kind == "full_outer_join":
            return self.add(kind, [a, b], g * h, keys=k, keys_second=k2, hint=r.choice(FULL))
        if kind == "co_group":
            return self.add(kind, [a, b], g + h, keys=k, keys_second=k2)
        if kind == "cross":
            return self.add(kind, [a, b], g * h, fn=r.choice(["", "tiny", "huge"]))
        if kind == "union":
            return self.add(kind, [a, b], g + h)
        return self.add(kind, [a, b], g)

    def iteration(self, at):
        r = self.rng
        a = r.choice(at)
        if self.grows[a] > 100:
            return None
        outer, self.steps = self.steps, []
        if r.random() < 0.5:
            self.grows["partial"] = self.grows[a]
            inner = "partial"
            for _ in range(r.randrange(1, 4)):
                b = r.choice(at)
                inner = (
                    self.two(inner, b)
                    if r.random() < 0.3 and self.grows[b] * self.grows[inner] < 60
                    else self.one(inner, inside=True)
                )
            body, self.steps = self.steps, outer
            if any(
                s["op"] in ("flat_map", "cross", "join", "left_outer_join", "right_outer_join", "full_outer_join", "union")
                for s in body
            ):
                rounds = 2
            else:
                rounds = r.choice([1, 3, 5])
            return self.add("bulk_iteration", [a], self.grows[inner] * 4, rounds=rounds, body=body)
        b = r.choice(at)
        self.grows["workset"] = self.grows["solution"] = self.grows[a] + self.grows[b]
        moved = self.add("map", ["workset"], self.grows[b], fn=r.choice(["same", "tag"]), forwarded=r.choice(["f0;f1", None]))
        moved = self.add("reduce", [moved], self.grows[b], fn="larger", keys=[0], forwarded=r.choice(["f0", None]))
        delta = self.add("improve", [moved, "solution"], self.grows[b], keys=[0], forwarded=r.choice(["f0", None]))
        if r.random() < 0.5:
            nxt = self.add("map", [delta], self.grows[b], fn="tag", forwarded="f0;f1")
        else:
            nxt = delta
        body, self.steps = self.steps, outer
        solution = self.add("reduce", [a], self.grows[a], fn="adds", keys=[0])
        return self.add(
            "delta_iteration", [solution, b], self.grows[a], keys=[0], rounds=r.choice([2, 10]), body=body, delta=delta, next=nxt
        )


def program(seed):
    rng = random.Random(seed)
    p = Program(rng)
    p.partial = False
    at = [p.source() for _ in range(rng.choice([1, 1, 2, 2, 3]))]
    for _ in range(rng.randrange(2, 9)):
        chance = rng.random()
        if chance < 0.12:
            made = p.iteration(at)
        elif chance < 0.42:
            made = p.two(rng.choice(at), rng.choice(at[-3:]))
        else:
            made = p.one(rng.choice(at[-3:]))
        if made:
            at.append(made)
    read = {i for s in p.steps for i in (*s["in"], *(j for b in s.get("body", ()) for j in b["in"]))}
    ends = [s["id"] for s in p.steps if s["id"] not in read]
    made = {"id": seed, "parallelism": rng.choice([1, 4, 4, 4]), "sources": p.sources, "steps": p.steps, "sinks": ends}
    if rng.random() < 0.2:
        made["batch"] = True
    if p.partial:
        made["plan_only"] = True
    return made
