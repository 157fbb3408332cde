"""Scopes whose rows go to other subtasks in rounds of stages: the same comes out, whatever the cuts, parallelism and kills."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import EndlessLoopError, PipelineError
from dagster_operators.operators.frontier.routes import ROUTE, routes
from dagster_operators.operators.frontier.travelling import Told
from dagster_operators.testing import OperatorHarness
from dagster_operators.time.reachability import InputOf
from dagster_operators.time.watermark import MAX_WATERMARK
from dagster_operators.transactions.failpoints import watch
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.operators.frontier.driving import run
from tests.operators.frontier.test_exchange_in_scope import BY_V, ROWS, counted, emitted, expected, less, pairs, summing, total
from tests.operators.frontier.test_scope import BY_K, SCHEMA, count_round, scoped

ZERO = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone


def rounds_of(build, *pacts, iterative=True, **more):
    """The definition of the operator that does the rounds, for a scope that streams enter by these pacts."""
    pipeline = do.Pipeline("p", root="nowhere")
    scope = frontier.Scope("scope", pipeline, iterative=iterative, within_subtask=False, **more)
    source = do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz")
    streams = [pipeline.source(f"rows_{number}", source, event_time="t") for number in range(len(pacts) or 1)]
    build(scope, *(scope.enter(stream, pact) for stream, pact in zip(streams, pacts or [BY_K], strict=True)))
    scope.build()
    return pipeline.dataflow.nodes["scope_rounds"].operator.definition


class Rounds:
    """Drives such an operator in memory, round by round, each with a parallelism of its own."""

    def __init__(self, definition, parallelisms):
        self.body, self.snapshot, self.rounds, self.travelled = definition.constructor, None, 0, 0
        entering = [f"{SCHEMA}, t timestamp_ntz, {ROUTE} long"] * self.body.entries
        columns = [*entering, *self.body.going_on]
        self.made = lambda parallelism: OperatorHarness(definition, *columns, event_time="t", parallelism=parallelism)
        self.parallelisms = iter(parallelisms)

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
                    harness.process(
                        [{**row, "t": time, ROUTE: routes()[(60 + 41 * place) % 128]} for place, (time, row) in enumerate(rows)],
                        index,
                    )
            else:
                for index, table in enumerate(fed, start=self.body.entries):
                    harness.process(table, index)
            harness.move(end)
            harness.end_epoch()
            self.snapshot = harness.snapshot()
            found += [((row.pop("t") - ZERO) // timedelta(microseconds=1), row) for row in harness.rows()]
            before, fed = fed, [harness.table(port) for port in ports]
            self.rounds += 1
            self.travelled += sum(table.num_rows for number, table in enumerate(fed) if number != 1)
            if not any(table.num_rows for table in fed):
                told = Told.together(before[1].column(0).to_pylist())
                return found, told.frontiers[InputOf("leave", 0)].outside()


def run_in_rounds(definition, rows, parallelisms, size=None, further=()):
    """What comes out at each time, checked against the frontiers on the way; ``size`` rows of each input in each epoch."""
    driver, found = Rounds(definition, parallelisms), defaultdict(list)
    passed = do.frontier.Frontier([-(2**63)])
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


def waiting(scope, rows):
    kept = {"rows": do.TimeState("v long, t bigint", time="t")}
    scope.leave(frontier.exchange(rows.unary(frontier.Pipeline(), "kept", count_round, state=kept), BY_V))


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


def test_what_works_in_one_subtask_alone_is_refused():
    with pytest.raises(PipelineError, match=r"'kept' keeps 'rows', whose rows expire.*without a retention"):
        rounds_of(waiting)
    pipeline = do.Pipeline("p", root="nowhere")
    source = pipeline.source("rows", do.MemorySource([], schema=f"{SCHEMA}, t timestamp"), event_time="t")
    scope = frontier.Scope("scope", pipeline, within_subtask=False)
    scope.leave(frontier.exchange(scope.enter(frontier.retime(source, lambda time: time, times=int), BY_K), BY_V))
    with pytest.raises(PipelineError, match=r"no event time, and the scope goes in rounds.*retime\(\.\.\., times=datetime\)"):
        scope.build()


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
