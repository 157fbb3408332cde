"""Scopes whose rows go to other subtasks in rounds of stages: the same comes out, whatever the cuts, parallelism and kills."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import EndlessLoopError, PipelineError, SchemaError
from dagster_operators.operators.frontier.routes import ROUTE, routes
from dagster_operators.operators.frontier.travelling import Told
from dagster_operators.testing import OperatorHarness
from dagster_operators.time.frontier import Frontier
from dagster_operators.time.kinds import Times, assembled, parts_of, taken_apart
from dagster_operators.time.product import Product
from dagster_operators.time.reachability import InputOf
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.operators.frontier.driving import run
from tests.operators.frontier.test_exchange_in_scope import BY_V, ROWS, counted, emitted, expected, less, pairs, summing, total
from tests.operators.frontier.test_scope import BY_K, SCHEMA, count_round, scoped
from tests.operators.frontier.test_times import Version

ZERO = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone


def rounds_of(build, *pacts, iterative=True, times=datetime, there=None, **more):
    """The definition of the operator that does the rounds, for a scope that streams enter by these pacts, at times of a kind."""
    pipeline = do.Pipeline("p", root="nowhere")
    scope = frontier.Scope("scope", pipeline, iterative=iterative, within_subtask=False, **more)
    source = do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz")
    streams = [pipeline.source(f"rows_{number}", source, event_time="t") for number in range(len(pacts) or 1)]
    if there is not None:
        streams = [frontier.retime(stream, there, times=times) for stream in streams]
    build(scope, *(scope.enter(stream, pact) for stream, pact in zip(streams, pacts or [BY_K], strict=True)))
    scope.build()
    return pipeline.dataflow.nodes["scope_rounds"].operator.definition


class Round(OperatorHarness):
    """A harness for one round: its inputs come to the end of the epoch, and the time is that of its beginning all the same."""

    end = MIN_WATERMARK

    def __init__(self, definition, *columns, moved, parallelism):
        self.moved = moved
        super().__init__(definition, *columns, event_time="t", parallelism=parallelism)

    def _frontiers(self):
        return dict.fromkeys(self._entries, self.moved(self.end))

    def _members(self, store):
        return [replace(member, begin=self.moved(self.watermark)) for member in super()._members(store)]


class Rounds:
    """Drives such an operator in memory, round by round, each with a parallelism of its own, over times that a function makes."""

    def __init__(self, definition, parallelisms, there=lambda time: time):
        self.body, self.snapshot, self.rounds, self.travelled = definition.constructor, None, 0, 0
        self.definition, self.there, self.parallelisms = definition, there, iter(parallelisms)
        (self.times,) = {own.kind: own for own in self.body.time_columns()}.values()

    def made(self, parallelism):
        parts = zip(self.times.names, parts_of(self.times.kind), strict=True)
        time = ", ".join(f"{name} {'timestamp_ntz' if part is datetime else 'long'}" for name, part in parts)
        columns = [*[f"{SCHEMA}, {time}, {ROUTE} long"] * self.body.entries, *self.body.going_on]
        return Round(self.definition, *columns, moved=self.moved, parallelism=parallelism)

    def moved(self, watermark):
        """The frontier at a watermark, in the times that there are."""
        frontier = Frontier.from_watermark(watermark)
        if frontier.finished or self.times.kind is datetime:
            return frontier
        of_kind = Times(self.times.kind, self.times.names)
        return Frontier([of_kind.least if watermark == MIN_WATERMARK else self.there(watermark)])

    def epoch(self, inputs, end):
        """What leaves in an epoch with these rows of each input, as pairs of a time and a row; the frontier of what leaves."""
        found, ports, fed = [], self.body.further_ports, None
        while True:
            parallelism = next(self.parallelisms)
            harness = self.made(parallelism)
            if self.snapshot is not None:
                harness.restore(self.snapshot, parallelism=parallelism)
            if fed is None:
                # Wherever rows enter: they are sent on to where they belong.
                for index, rows in enumerate(inputs):
                    harness.process([self._entering(place, *pair) for place, pair in enumerate(rows)], index)
            else:
                for index, table in enumerate(fed, start=self.body.entries):
                    harness.process(table, index)
            harness.end = end
            harness.end_epoch()
            self.snapshot = harness.snapshot()
            found += map(self._left, harness.rows())
            before, fed = fed, [harness.table(port) for port in ports]
            self.rounds += 1
            self.travelled += sum(table.num_rows for number, table in enumerate(fed) if number != 1)
            if not any(table.num_rows for table in fed):
                self.snapshot = replace(self.snapshot, watermark=end, watermarks=(end,) * len(harness.inputs))
                told = Told.together(before[1].column(0).to_pylist())
                return found, Frontier(map(self.body.outside, told.frontiers[InputOf("leave", 0)]))

    def _entering(self, place, time, row):
        parts = zip(self.times.names, taken_apart(self.there(time)), strict=True)
        return {**row, **dict(parts), ROUTE: routes()[(60 + 41 * place) % 128]}

    def _left(self, row):
        parts = [row.pop(name) for name in self.times.names]
        micros = [(part - ZERO) // timedelta(microseconds=1) if isinstance(part, datetime) else part for part in parts]
        return assembled(self.times.kind, micros), row


def run_in_rounds(definition, rows, parallelisms, size=None, further=(), **more):
    """What comes out at each time, checked against the frontiers on the way; ``size`` rows of each input in each epoch."""
    driver, found = Rounds(definition, parallelisms, **more), defaultdict(list)
    passed = driver.moved(MIN_WATERMARK)
    inputs = [rows, *further]
    most = max(map(len, inputs))
    size = size or most
    for start in range(0, most, size):
        end = min((time for every in inputs for time, _ in every[start + size :]), default=MAX_WATERMARK)
        left, after = driver.epoch([every[start : start + size] for every in inputs], end)
        assert all(passed.less_equal(time) for time, _ in left), "a row came behind its frontier"
        assert passed.dominates(after), "a frontier went back"
        passed = after
        for time, row in left:
            found[time].append(row)
    assert passed.finished
    return {time: sorted(rows, key=repr) for time, rows in sorted(found.items())}, driver


def always(parallelism):
    while True:
        yield parallelism


@pytest.mark.parametrize(("parallelism", "size"), [(1, None), (3, 2), (3, None)])
def test_rows_go_where_they_meet(parallelism, size):
    found, driver = run_in_rounds(rounds_of(summing), ROWS, always(parallelism), size)
    assert counted(found) == expected(ROWS)
    assert (driver.travelled > 0) == (parallelism > 1)


@fresh_examples(5)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=6),
    changing=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    size=st.integers(1, 6),
)
def test_any_rows_in_any_cut_and_another_parallelism_in_each_round(rows, changing, size):
    def forever():
        while True:
            yield from changing

    given_rows = [(time, {"k": k, "v": v}) for time, k, v in sorted(rows)]
    found, _ = run_in_rounds(rounds_of(summing), given_rows, forever(), size)
    assert counted(found) == expected(given_rows)


def components(scope, rows):
    """Rows (k, v) are edges; every node tells its neighbours of the smallest node that it knows of, until nothing changes."""
    handle, cycle = scope.loop_variable(1)
    state = {
        "stash": frontier.StashState(),
        "labels": do.KeyedState("k long, label long", key="k"),
        "edges": do.ListState("k long, other long", key="k"),
    }
    labels = rows.concat(cycle).unary_frontier(BY_K, "labels", smallest, schema=(SCHEMA), state=state)
    known, told = frontier.branch(labels, lambda time, batch: pc.less(batch["v"], 0))
    handle.connect(told)
    scope.leave(known)


def smallest(capability, info):
    """A row with v below 0 says that -1 - v is a label for k; it gives such rows, and (k, label) for each that is new."""
    stash, labels, edges = info.state["stash"], info.state["labels"], info.state["edges"]

    def logic(given, output):
        given.for_each(stash.add)
        for time, rows in stash.complete(given.frontier):
            out = []
            for k in sorted(set(rows["k"].to_pylist())):
                own = [row["v"] for row in rows.to_pylist() if row["k"] == k]
                key, fresh = pa.table({"k": [k]}), [v for v in own if v >= 0]
                if fresh:
                    edges.append(pa.table({"k": [k] * len(fresh), "other": fresh}))
                others = edges.get(key)["other"].to_pylist()
                before = labels.get(key)["label"][0].as_py()
                label = min([-1 - v for v in own if v < 0] + [k if before is None else before])
                if label != before:
                    labels.put(pa.table({"k": [k], "label": [label]}))
                    out.append({"k": k, "v": label})
                to = others if label != before else fresh
                out += [{"k": other, "v": -1 - label} for other in to]
            output.session(time).give_iterator(out)

    return logic


def last_labels(found):
    """The smallest label that was told of each node."""
    labels = {}
    for row in (row for rows in found.values() for row in rows):
        labels[row["k"]] = min(row["v"], labels.get(row["k"], row["v"]))
    return labels


@fresh_examples(4)
@given(
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=6),
    parallelism=st.integers(2, 3),
    size=st.sampled_from([4, None]),
)
def test_state_by_the_keys_of_an_exchange_lasts_from_round_to_round(edges, parallelism, size):
    """Edges enter by v, so that nearly all of them have to go to another subtask."""
    rows = [(time, {"k": k, "v": v}) for time, (a, b) in enumerate(edges) for k, v in [(a, b), (b, a)]]
    found, _ = run_in_rounds(rounds_of(components, BY_V), rows, always(parallelism), size)
    wanted = {node: node for edge in edges for node in edge}
    for _ in edges:
        for a, b in edges:
            wanted[a] = wanted[b] = min(wanted[a], wanted[b])
    assert last_labels(found) == wanted


def nested(scope, rows):
    inner = frontier.Scope("inner", scope, iterative=True)
    summing(inner, inner.enter(rows, BY_V))
    scope.leave(inner.build())


def gathered(scope, rows):
    """An operator whose rows are not exchanged and that waits for frontiers: all its rows meet."""
    handle, cycle = scope.loop_variable(1)
    every = frontier.aggregate(rows.concat(cycle), BY_V, total, emitted, schema=SCHEMA)
    less = frontier.map(every, lambda batch: batch.set_column(1, "v", pc.subtract(batch["v"], 1)))
    handle.connect(frontier.filter(less, lambda batch: pc.greater_equal(batch["v"], 0)))
    state = {"stash": frontier.StashState()}
    scope.leave(every.unary_frontier(frontier.Pipeline(), "rounds", count_round, schema=SCHEMA, state=state))


def far_and_back(scope, rows):
    """Rows go elsewhere and from there to where they are counted, which takes two rounds: their time is not complete before."""
    scope.leave(frontier.aggregate(frontier.exchange(rows, BY_V), BY_K, total, emitted, schema=SCHEMA))


def test_a_time_is_not_complete_while_its_rows_are_under_way():
    rows = [(0, {"k": 5, "v": v}) for v in range(8)]
    found, driver = run_in_rounds(rounds_of(far_and_back), rows, always(3))
    assert counted(found) == {0: Counter({(40, 5): 1})}
    assert driver.travelled > 8, "rows went to two places, one after the other"


@pytest.mark.parametrize("build", [nested, gathered])
def test_what_comes_out_is_what_comes_out_of_one_subtask(build):
    alone = run(scoped(build, pact=BY_K, iterative=True), SCHEMA, ROWS)
    found, driver = run_in_rounds(rounds_of(build), ROWS, iter([3, 2, 1] * 50), 3)
    assert counted(found) == counted(alone)
    assert driver.travelled


FIRST = []


def first_only(capability, info):
    """Notes where the first capability is given."""
    if capability is not None:
        FIRST.append(info.index)
        info.state["kept"].insert(capability)

    def logic(given, output):
        for time, batch in given:
            output.session(time).give_batch(batch)
        if given.frontier.finished:
            info.state["kept"].clear()

    return logic


def beginning(scope, rows):
    state = {"kept": frontier.CapabilityState()}
    scope.leave(frontier.exchange(rows, BY_V).unary_frontier(BY_V, "first", first_only, schema=SCHEMA, state=state))


@pytest.mark.parametrize(("parallelisms", "given_to"), [([3] * 40, [0, 1, 2]), ([1, *[3] * 40], [0])])
def test_first_capabilities_are_given_once_and_not_in_every_round(parallelisms, given_to):
    FIRST.clear()
    found, driver = run_in_rounds(rounds_of(beginning), ROWS, iter(parallelisms), 3)
    assert sorted(FIRST) == given_to
    assert driver.rounds > 6
    assert counted(found) == counted(run(scoped(lambda scope, rows: scope.leave(rows), pact=BY_K), SCHEMA, ROWS))


def narrow(batch):
    return batch.set_column(batch.schema.get_field_index("v"), "v", batch["v"].cast(pa.int32()))


def seen_before(capability, info):
    """For each row how many of its v there were so far, that included."""

    def logic(given, output):
        for time, batch in given:
            counts = info.state["counts"]
            for v in batch["v"].cast(pa.int64()).to_pylist():
                before = counts.get(pa.table({"v": [v]}))["k"][0].as_py() or 0
                counts.put(pa.table({"v": [v], "k": [before + 1]}))
                output.session(time).give(k=before + 1, v=v)

    return logic


def narrowed(scope, rows):
    state = {"counts": do.KeyedState("v long, k long", key="v")}
    narrower = frontier.map(rows, narrow, schema="k long, v int")
    scope.leave(narrower.unary(BY_V, "seen", seen_before, schema=SCHEMA, state=state))


def test_rows_are_sent_to_where_state_is_though_their_column_is_of_a_narrower_type():
    found, driver = run_in_rounds(rounds_of(narrowed), ROWS, always(3), 2)
    of_each = Counter(row["v"] for _, row in ROWS)
    wanted = Counter((k + 1, v) for v, count in of_each.items() for k in range(count))
    assert Counter((row["k"], row["v"]) for rows in found.values() for row in rows) == wanted
    assert driver.travelled


@pytest.mark.parametrize("iterative", [True, False])
def test_a_loop_that_does_not_end_is_told(iterative):
    def endless(scope, rows):
        handle, cycle = scope.feedback(1)
        every = frontier.exchange(rows.concat(cycle), BY_V)
        handle.connect(frontier.map(every, lambda batch: batch.set_column(1, "v", pc.add(batch["v"], 1))))
        scope.leave(every)

    with pytest.raises(EndlessLoopError, match="still go around after 5 rounds"):
        run_in_rounds(rounds_of(endless, iterative=iterative, limit=5), ROWS[:1], iter([3] * 40))


def met_by_all(scope, rows, rules):
    """In every round each row meets all rules that are left, wherever it is."""
    (handle, cycle), (again, left) = scope.loop_variable(1), scope.loop_variable(1)
    every, known = rows.concat(cycle), rules.concat(left)
    handle.connect(frontier.map(every, less, name="fewer_rows"))
    again.connect(frontier.map(known, less, name="fewer_rules"))
    state = {"left": frontier.StashState(), "right": frontier.StashState(input=1)}
    scope.leave(every.binary_frontier(known, BY_V, frontier.Broadcast(), "pairs", pairs, schema=SCHEMA, state=state))


RULES = [(time, {"k": 100 + k, "v": v}) for time, k, v in [(0, 1, 1), (0, 1, 1), (1, 2, 2), (2, 3, 0), (2, 4, 3)]]


def met(rows, rules):
    """The same in plain Python."""
    found = {}
    for time, row in rows:
        for at, rule in rules:
            if at == time:
                several = range(min(row["v"], rule["v"]) + 1)
                found.setdefault(time, Counter()).update((row["k"], rule["v"] - number) for number in several)
    return found


@pytest.mark.parametrize("entering", [BY_K, frontier.Broadcast()], ids=["by_key", "broadcast"])
@pytest.mark.parametrize(
    ("parallelisms", "size"), [([1], None), ([3], None), ([3], 1), ([3], 2), ([1, 3, 2], 2), ([2, 5, 1], None)]
)
def test_what_is_broadcast_meets_all_rows_in_every_round(parallelisms, size, entering):
    definition = rounds_of(met_by_all, BY_K, entering)
    found, driver = run_in_rounds(definition, ROWS, iter(parallelisms * 100), size, [RULES])
    assert counted(found) == met(ROWS, RULES)
    assert counted(run(scoped(met_by_all, pact=BY_K, iterative=True, inputs=2), SCHEMA, ROWS, RULES)) == met(ROWS, RULES)
    assert driver.travelled or parallelisms == [1]


@fresh_examples(5)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=6),
    rules=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=4),
    changing=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    size=st.integers(1, 6),
)
def test_any_rows_meet_any_that_are_broadcast(rows, rules, changing, size):
    given_rows, given_rules = ([(time, {"k": k, "v": v}) for time, k, v in sorted(some)] for some in (rows, rules))
    definition = rounds_of(met_by_all, BY_K, frontier.Broadcast())
    found, _ = run_in_rounds(definition, given_rows, iter(changing * 200), size, [given_rules])
    assert counted(found) == met(given_rows, given_rules)


def seen_lately(capability, info):
    """For each row how many of its v there were at most three before its time, as three kinds of state have them."""
    recent, newest, once = (info.state[name] for name in ("recent", "newest", "once"))

    def logic(given, output):
        for time, batch in given:
            now = time.time.outer
            for v in batch["v"].to_pylist():
                key = pa.table({"v": [v]})
                before = recent.range(now - 3, now + 1, key)
                last = newest.get(key)["at"][0].as_py()
                places = [at for at in once.get(key)["at"].to_pylist() if at >= now - 3]
                found = before.num_rows + 100 * len(places) + 10_000 * (last is not None and last >= now - 3)
                output.session(time).give(k=found, v=v)
                row = pa.table({"v": [v], "at": [now]})
                recent.append(row)
                newest.put(row)
                once.append(row)
            if now >= 8:
                recent.delete_before(now - 3)

    return logic


def lately(scope, rows):
    """In each round rows have the next smaller v, and meet those of it that there were."""
    handle, cycle = scope.loop_variable(1)
    every = rows.concat(cycle)
    handle.connect(frontier.map(every, less, name="fewer"))
    state = {
        "recent": do.TimeState("v long, at bigint", key="v", time="at", retention=3),
        "newest": do.KeyedState("v long, at bigint", key="v", time="at", retention=3),
        "once": do.ListState("v long, at bigint", key="v", time="at", retention=3),
    }
    scope.leave(every.unary(BY_V, "lately", seen_lately, schema=SCHEMA, state=state))


def all_lately(capability, info):
    """For each row how many there were at most three before its time, all in one subtask."""

    def logic(given, output):
        for time, batch in given:
            now = time.time.outer
            for row in batch.to_pylist():
                output.session(time).give(k=info.state["rows"].range(now - 3, now + 1).num_rows, v=0)
                info.state["rows"].append(pa.table({"v": [row["v"]], "at": [now]}))

    return logic


def together(scope, rows):
    state = {"rows": do.TimeState("v long, at bigint", time="at", retention=3)}
    spread = frontier.exchange(rows, BY_V)
    scope.leave(spread.unary(frontier.Pipeline(), "together", all_lately, schema=SCHEMA, state=state))


ONE_BY_ONE = [(time, {"k": 1, "v": v}) for time, v in enumerate([2, 1, 2, 0, 0, 1, 2, 2, 0, 1, 2, 0])]
"""Rows at a time of their own, each in an epoch: what comes out does not depend on the order of rows within one."""


@pytest.mark.parametrize("build", [lately, together])
def test_state_expires_as_in_one_subtask(build):
    alone = run(scoped(build, pact=BY_K, iterative=True), SCHEMA, ONE_BY_ONE, size=1)
    assert len({row["k"] for rows in alone.values() for row in rows}) > 3
    travelled = 0
    for parallelisms in ([1], [3], [2, 3, 1]):
        found, driver = run_in_rounds(rounds_of(build), ONE_BY_ONE, iter(parallelisms * 200), 1)
        assert counted(found) == counted(alone)
        travelled += driver.travelled
    assert travelled


OTHER_TIMES = {
    "numbers": (int, lambda time: time),
    "pairs": ((int, int), lambda time: (time, time)),
    "products": (Product(datetime, int), lambda time: Product(time, 7)),
    "own": (Version, lambda time: Version(time, 9 - time)),
}
"""The kind, and the way there."""


@pytest.mark.parametrize("parallelisms", [[1], [3], [2, 3, 1]])
@pytest.mark.parametrize("kind", OTHER_TIMES)
def test_times_of_other_kinds(kind, parallelisms):
    """The same rows come out as with event times, each at what became of its time."""
    times, there = OTHER_TIMES[kind]
    definition = rounds_of(summing, times=times, there=there)
    found, driver = run_in_rounds(definition, ROWS, iter(parallelisms * 200), 2, there=there)
    assert counted(found) == {there(time): rows for time, rows in expected(ROWS).items()}
    assert driver.travelled or parallelisms == [1]


def by_one(scope, rows):
    """Rows go around elsewhere, at a later second part of the time, until that is 3; all come out."""
    handle, cycle = scope.feedback((0, 1))
    every = frontier.exchange(rows.concat(cycle), BY_V)
    frontier.branch_when(every, lambda time: time[1] < 3)[1].connect_loop(handle)
    scope.leave(every)


def test_feedback_moves_a_part_of_the_time():
    times, there = OTHER_TIMES["pairs"]
    definition = rounds_of(by_one, times=times, there=there, iterative=False)
    found, _ = run_in_rounds(definition, ROWS, iter([2, 3, 1] * 200), 2, there=there)
    wanted = {}
    for time, row in ROWS:
        for part in range(time, 4):
            wanted.setdefault((time, part), Counter())[row["k"], row["v"]] += 1
    assert counted(found) == wanted


def test_feedback_that_does_not_advance_times_of_several_parts_is_refused():
    scope = frontier.Scope("scope", do.Pipeline("p", root="nowhere"))
    for summary in ((0, 0), (1, -1), Product(0, 0)):
        with pytest.raises(PipelineError, match=r"does not advance time by .*never end"):
            scope.feedback(summary)
    with pytest.raises(PipelineError, match="rounds are whole numbers"):
        frontier.Scope("other", do.Pipeline("p", root="nowhere"), iterative=True).feedback((0, 1))


def test_what_a_scope_in_rounds_cannot_work_on_is_refused():
    pipeline = do.Pipeline("p", root="nowhere")
    rows = pipeline.source("rows", do.MemorySource([], schema=f"{SCHEMA}, t timestamp"), event_time="t")
    numbered = frontier.retime(rows, lambda time: time, times=int)
    refused = [
        ([rows.with_columns({ROUTE: "k"})], "have a column 'do_route_'.*rename it"),
        ([rows, numbered], r"different kinds: event times and int.*do\.frontier\.retime"),
        ([rows.drop("t")], "have no time.*give the source an event_time"),
    ]
    for number, (entering, told) in enumerate(refused):
        scope = frontier.Scope(f"scope_{number}", pipeline, within_subtask=False)
        first, *_ = [scope.enter(stream, BY_K) for stream in entering]
        scope.leave(frontier.exchange(first, BY_V))
        with pytest.raises((PipelineError, SchemaError), match=told):
            scope.build()
    scope = frontier.Scope("remedied", pipeline, within_subtask=False)
    again = frontier.retime(numbered, lambda time: time, times=datetime)
    first, _ = [scope.enter(stream, BY_K) for stream in (rows, again)]
    scope.leave(frontier.exchange(first, BY_V))
    assert scope.build().event_time == "t"


def built(root, engine, parallelism):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    batch = [{**row, "t": datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time)} for time, row in ROWS]
    source = do.MemorySource([batch[:4], batch[4:]], schema=f"{SCHEMA}, t timestamp")
    scope = frontier.Scope("scope", pipeline, iterative=True, within_subtask=False)
    summing(scope, scope.enter(pipeline.source("rows", source, event_time="t", finished=True), BY_K))
    left = scope.build()
    left.select("k", "v", "unix_micros(t) AS time").to_table("sums")
    left.window(do.Tumbling("1 second")).aggregate(rows="count(*)").to_table("windows")
    return pipeline


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_run_that_dies_in_the_third_round_goes_on_there(tmp_path, engine):
    pipeline = built(tmp_path, ENGINES[engine], 3)

    def die(point):
        if point == "before:append_prepared" and "scope_rounds@1" in pipeline.epochs.coordinator.view().prepared:
            raise KeyboardInterrupt

    with watch(die), pytest.raises(KeyboardInterrupt):
        pipeline.run_epoch()
    again = built(tmp_path, ENGINES[engine], 2)
    done = dict(again.epochs.coordinator.view().prepared)
    assert {key.partition("@")[2] for key in done} == {"", "0", "1"}
    again.run_epoch()
    assert again.explain(holds=True).endswith("scope: 1970-01-01T00:00:00.000001Z by aggregate.stash")
    manifests = {manifest.stage: manifest.attempt for manifest in again.epochs.coordinator.view().last_decision.manifests}
    assert {key: manifests[key] for key in done} == {key: record.attempt for key, record in done.items()}
    assert max(int(key.partition("@")[2] or 0) for key in manifests) > 2
    again.run_until_caught_up()
    found = defaultdict(list)
    for row in again.read("sums").collect():
        found[row["time"]].append((row["k"], row["v"]))
    assert {time: Counter(rows) for time, rows in found.items()} == expected(ROWS)
    assert [row["rows"] for row in again.read("windows").collect()] == [sum(map(len, found.values()))]


def everything(root, engine, parallelism, *, within_subtask=False):
    """A scope over pairs of numbers: rules meet rows in every round, and state expires; what comes out has moments again."""
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    moments = [datetime.fromtimestamp(second, UTC) for second in range(3)]
    given_rows = {
        "rows": [[{"k": k, "v": k % 3, "t": moment} for k in range(4)] for moment in moments],
        "rules": [[{"k": 100 + v, "v": v, "t": moment} for v in range(2)] for moment in moments],
    }
    streams = []
    for name, batches in given_rows.items():
        source = do.MemorySource(batches, schema=f"{SCHEMA}, t timestamp")
        stream = pipeline.source(name, source, event_time="t", finished=True)
        streams.append(frontier.retime(stream, fifth, times=Version, name=f"{name}_there"))
    scope = frontier.Scope("scope", pipeline, iterative=True, within_subtask=within_subtask)
    rows, rules = scope.enter(streams[0], BY_K), scope.enter(streams[1], frontier.Broadcast())
    met_by_all(scope, rows, rules)
    kept = {"recent": do.TimeState("v long, at timestamp", key="v", time="at", retention="1 second")}
    scope.leave(rows.unary(BY_V, "recently", seen_recently, schema=SCHEMA, state=kept))
    for name, left in zip(("met", "recently"), scope.build(), strict=True):
        back = frontier.retime(left, moment_of, times=datetime, name=f"{name}_back")
        back.select("k", "v", "unix_micros(t) AS time").to_table(name)
    return pipeline


def fifth(time):
    return Version(time, 5)


def moment_of(time):
    return time.major


def seen_recently(capability, info):
    """For each row how many of its v there were in the last second, itself left out, as far as earlier epochs had them."""

    def logic(given, output):
        recent = info.state["recent"]
        for time, batch in given:
            now = time.time.outer.major
            found = recent.range(now - 1_000_000, now, pa.table({"v": batch["v"]}))["v"].to_pylist()
            for v in batch["v"].to_pylist():
                output.session(time).give(k=found.count(v), v=v)
            moments = pa.array([now] * batch.num_rows).cast(pa.timestamp("us", "UTC"))
            recent.append(pa.table({"v": batch["v"], "at": moments}))

    return logic


def tables_of(pipeline):
    return {name: Counter(tuple(row) for row in pipeline.read(name).collect()) for name in ("met", "recently")}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_run_is_stopped_behind_every_round_and_rescaled(tmp_path, engine, monkeypatch):
    alone = everything(tmp_path / "alone", SAIL, 1, within_subtask=True)
    alone.run_until_caught_up()
    gone, stopped = set(), 0
    monkeypatch.setattr(Owner, "is_gone", lambda owner: owner.run_id in gone)

    def die(place):
        few = engine == "spark" and stopped > 4  # its stages take long
        if place == "after:append_prepared" and not few and not pipeline.epochs.coordinator.view().prepared.keys() <= before:
            raise Stopped

    for number in range(80):
        pipeline = everything(tmp_path / "rounds", ENGINES[engine], number % 3 + 1)
        if number % 2:  # as whoever has the plan alone runs it
            settings = {"root": str(tmp_path / "rounds"), "engine": ENGINES[engine], "parallelism": number % 3 + 1}
            pipeline = do.Pipeline.from_plan(pipeline.to_plan(), **settings)
        before = set(pipeline.epochs.coordinator.view().prepared)
        try:
            with watch(die):
                is_over = pipeline.run_epoch().empty
        except Stopped:
            stopped += 1
            gone.add(pipeline._owner.run_id)
            pipeline.epochs.coordinator._lease.pause()
        else:
            if is_over:
                break
    assert stopped > (4 if engine == "spark" else 10)
    assert tables_of(everything(tmp_path / "rounds", ENGINES[engine], 2)) == tables_of(alone)
    met_rows, recently = tables_of(alone).values()
    assert met_rows.total() > 5
    assert any(k for k, _, time in recently if time)


class Stopped(BaseException):
    """The end of a run."""


def both(root, *, within_subtask):
    """All pairs of rows of two streams that have the same time and v; and the first stream as it is."""
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL, parallelism=3)
    moments = [datetime.fromtimestamp(second, UTC) for second in range(2)]
    rows = {time: [[{"k": k, "v": 0, time: moment} for k in range(4)] for moment in moments] for time in ("t", "at")}
    streams = [
        pipeline.source(
            f"by_{time}", do.MemorySource(given, schema=f"{SCHEMA}, {time} timestamp"), event_time=time, finished=True
        )
        for time, given in rows.items()
    ]
    scope = frontier.Scope("scope", pipeline, within_subtask=within_subtask)
    first, second = (scope.enter(stream, BY_K) for stream in streams)
    state = {"left": frontier.StashState(), "right": frontier.StashState(input=1)}
    scope.leave(first.binary_frontier(second, BY_V, BY_V, "pairs", pairs, schema=SCHEMA, state=state))
    scope.leave(frontier.exchange(first, BY_V), schema=SCHEMA)
    for name, stream in zip(("pairs", "same"), scope.build(), strict=True):
        stream.to_table(name)
    pipeline.run_until_caught_up()
    return {name: Counter(tuple(row) for row in pipeline.read(name).collect()) for name in ("pairs", "same")}


@pytest.mark.slow
@pytest.mark.sail
def test_several_streams_enter_and_leave(tmp_path):
    found = both(tmp_path / "rounds", within_subtask=False)
    assert found == both(tmp_path / "alone", within_subtask=True)
    assert {name: rows.total() for name, rows in found.items()} == {"pairs": 32, "same": 8}
