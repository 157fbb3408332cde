"""Sources of the user's own: positions, ends, repeated epochs, idleness."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators.errors import BadInputError, PipelineError, SchemaError, SourceError
from dagster_operators.transactions import failpoints
from dagster_operators.transactions.owner import Owner
from tests.engines import ENGINES, SAIL

MINUTE = 60_000_000


class Clock(do.SourceOperator):
    """A row a minute, ``size`` of them a turn, until ``end``; what it gives differs from turn to turn in ``turn``."""

    turns = 0

    def __init__(self, size=2, end=6, last="final"):
        self.size, self.end, self.last = size, end, last

    def output_schema(self):
        return "minute long, t timestamp, turn long"

    def run(self, ctx, out):
        type(self).turns += 1
        start = ctx.position or 0
        minutes = list(range(start, min(start + self.size, self.end)))
        times = pa.array([minute * MINUTE for minute in minutes], pa.timestamp("us", "UTC"))
        out.collect(pa.table({"minute": pa.array(minutes, pa.int64()), "t": times, "turn": [self.turns] * len(minutes)}))
        ctx.position = start + len(minutes)
        return "graceful" if ctx.position < self.end else self.last

    def has_news(self, position):
        return (position or 0) < self.end

    def display(self):
        return {"size": self.size}


class Queue(do.SourceOperator):
    """Forgets what it gave."""

    waiting = ()

    def output_schema(self):
        return "n long"

    def run(self, ctx, out):
        if Queue.waiting:
            out.collect(pa.table({"n": pa.array(Queue.waiting, pa.int64())}))
        ctx.position = (ctx.position or 0) + len(Queue.waiting)
        Queue.waiting = ()
        return "immediate"


def pipeline(root, source, engine=SAIL, **more):
    made = do.Pipeline("p", root=str(root), engine=engine)
    return made, made.source("clock", source, event_time="t", **more)


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_each_epoch_goes_on_where_the_last_one_ended_and_a_final_end_closes_the_windows(engine, request, tmp_path):
    request.getfixturevalue(engine)
    made, rows = pipeline(tmp_path, Clock(), ENGINES[engine])
    rows.to_table("rows")
    rows.window(do.Tumbling("4 minutes")).aggregate(n="count(*)").to_table("windows")
    results = made.run_until_caught_up()
    assert [result.rows["rows"] for result in results] == [2, 2, 2]
    assert sorted(row.minute for row in made.read("rows").collect()) == list(range(6))
    assert sorted(row.n for row in made.read("windows").collect()) == [2, 4]
    assert made.run_epoch().empty
    assert '"size": 2' in made.explain()


def test_a_run_that_wakes_leaves_the_rows_of_the_one_that_took_over(sail, tmp_path):
    """It was about to choose, and does not know yet that it is fenced; a source that forgets has no other copy (a13)."""
    Queue.waiting = (1, 2, 3)

    def build():
        made = do.Pipeline("p", root=str(tmp_path), engine=SAIL, lease_seconds=1)
        made.source("rows", Queue()).to_table("numbers")
        return made

    zombie, run = build(), build()
    source = zombie.dataflow.nodes["rows"].operator.connector
    handle = run.epochs.begin(Owner.of_process("run"))
    spooled = list((tmp_path / "spool" / "rows").iterdir())
    assert len(spooled) == 1
    source.choose(None, lambda: iter(()))
    assert list((tmp_path / "spool" / "rows").iterdir()) == spooled
    run.epochs.run_stages(handle)
    run.epochs.commit(handle)
    assert sorted(row.n for row in build().read("numbers").collect()) == [1, 2, 3]
    Queue.waiting = (4,)
    build().run_epoch()
    assert spooled[0] not in (tmp_path / "spool" / "rows").iterdir(), "what a complete epoch read is deleted"
    assert sorted(row.n for row in build().read("numbers").collect()) == [1, 2, 3, 4]


def test_a_source_with_nothing_more_right_now_is_asked_again(sail, tmp_path):
    source = Clock(size=9, end=3, last="immediate")
    made, rows = pipeline(tmp_path, source)
    rows.to_table("rows")
    assert made.run_until_caught_up()[0].rows["rows"] == 3
    assert made.run_epoch().empty
    source.end = 4
    assert made.run_epoch().rows["rows"] == 1


class Tally(Clock):
    """Its position is changed in place."""

    broken = False

    def run(self, ctx, out):
        ctx.position = {"next": 0} if ctx.position is None else ctx.position
        start = ctx.position["next"]
        ctx.position["next"] += 2
        out.collect(pa.table({"minute": [start, start + 1], "t": pa.array([0, 0], pa.timestamp("us", "UTC")), "turn": [0, 0]}))
        if type(self).broken and start:
            raise ConnectionError("no answer")
        return "graceful" if ctx.position["next"] < self.end else self.last

    def has_news(self, position):
        return position is None or position["next"] < self.end


def test_a_position_that_is_changed_in_place_is_news_and_not_moved_by_what_failed(sail, tmp_path, monkeypatch):
    made, rows = pipeline(tmp_path, Tally())
    rows.to_table("rows")
    made.run_epoch()
    monkeypatch.setattr(Tally, "broken", True)
    for _ in range(2):
        with pytest.raises(SourceError, match="no answer"):
            made.run_epoch()
    monkeypatch.setattr(Tally, "broken", False)
    made.run_until_caught_up()
    assert sorted(row.minute for row in made.read("rows").collect()) == list(range(6))
    places = [complete.offsets["clock"]["position"] for complete in made.history()]
    assert places == [{"next": 2}, {"next": 4}, {"next": 6}]


class Listener(Clock):
    """Keeps its position in an attribute, which moves on while an epoch runs, and changes what it is asked about."""

    def __init__(self, **more):
        super().__init__(**more)
        self._at = {"next": 0}

    def run(self, ctx, out):
        self._at = ctx.position or self._at
        start = self._at["next"]
        self._at["next"] = start + 2
        ctx.position = self._at
        out.collect(pa.table({"minute": [start, start + 1], "t": pa.array([0, 0], pa.timestamp("us", "UTC")), "turn": [0, 0]}))
        return "graceful" if start + 2 < self.end else self.last

    def reached(self, position):
        position["next"] = 98

    def has_news(self, position):
        if position:
            position["next"] = 98
        return True

    def waits_until(self, position):
        position["next"] = 98
        return -1


@pytest.mark.parametrize("waits_for", [None, "same"])
def test_a_position_that_the_operator_goes_on_changing_is_where_its_turn_ended(sail, tmp_path, waits_for):
    source = Listener()
    source.waits_for = waits_for
    made, rows = pipeline(tmp_path, source)
    rows.filter("true", name="same").to_table("rows")
    with failpoints.watch(lambda name: source._at.update(next=98) if name == "after:append_begin" else None):
        for _ in range(3):
            assert made.epochs.has_news()
            made.run_epoch()
    assert sorted(row.minute for row in made.read("rows").collect()) == list(range(6))
    places = [complete.offsets["clock"]["position"] for complete in made.history()]
    assert places == [{"next": 2}, {"next": 4}, {"next": 6}]


class Locked(Clock):
    lock = threading.Lock()

    def run(self, ctx, out):
        end = super().run(ctx, out)
        ctx.position = {"next": ctx.position, "lock": self.lock}
        return end


def test_a_position_that_cannot_be_copied_is_refused(sail, tmp_path, monkeypatch):
    made, rows = pipeline(tmp_path, Locked())
    rows.to_table("rows")
    with pytest.raises(PipelineError, match="the position cannot be copied when the turn ends: cannot pickle") as raised:
        made.run_epoch()
    assert (raised.value.source, raised.value.pipeline) == ("clock", "p")
    assert raised.value.remedy.startswith("set ctx.position to plain JSON")
    monkeypatch.setattr(Locked, "lock", None)
    made.run_epoch()
    assert sorted(row.minute for row in made.read("rows").collect()) == [0, 1]


def test_a_repeated_epoch_has_the_same_rows(sail, tmp_path):
    class CrashError(Exception):
        pass

    def crash(name):
        if name == "after:append_begin":
            raise CrashError

    made, rows = pipeline(tmp_path, Clock(size=6))
    rows.to_table("rows")
    with failpoints.watch(crash), pytest.raises(CrashError):
        made.run_epoch()
    turn = Clock.turns
    again, rows = pipeline(tmp_path, Clock(size=6))
    rows.to_table("rows")
    again.run_epoch()
    assert {row.turn for row in again.read("rows").collect()} == {turn}


def test_a_turn_that_fails_leaves_nothing(sail, tmp_path):
    class Flaky(Clock):
        broken = True

        def run(self, ctx, out):
            end = super().run(ctx, out)
            if type(self).broken:
                raise ConnectionError("no answer")
            return end

    made, rows = pipeline(tmp_path, Flaky(size=6))
    rows.to_table("rows")
    with pytest.raises(BadInputError, match="the source raised ConnectionError: no answer") as raised:
        made.run_epoch()
    assert (raised.value.source, raised.value.pipeline) == ("clock", "p")
    Flaky.broken = False
    made.run_until_caught_up()
    assert sorted(row.minute for row in made.read("rows").collect()) == list(range(6))


def test_an_idle_source_does_not_hold_the_watermark(sail, tmp_path):
    class Silent(Clock):
        def run(self, ctx, out):
            ctx.idle()
            return "immediate"

    made, rows = pipeline(tmp_path, Clock(size=1, end=12))
    silent = made.source("silent", Silent(), event_time="t")
    rows.union(silent).window(do.Tumbling("2 minutes")).aggregate(n="count(*)").to_table("windows")
    for _ in range(6):
        made.run_epoch()
    assert sorted(row.n for row in made.read("windows").collect()) == [2, 2]  # a minute behind: idleness is told at the begin


def test_sensors_ask_without_a_turn(tmp_path):
    made, rows = pipeline(tmp_path, Clock())
    rows.to_table("rows")
    before = Clock.turns
    assert made.epochs.has_news() == {"clock": {"after": None}}
    assert Clock.turns == before


@pytest.mark.parametrize(("wrong", "error", "told"), [
    ({"run": lambda self, ctx, out: None}, PipelineError, "run returned None"),
    ({"run": lambda self, ctx, out: out.collect(pa.table({"x": [1]}))}, SchemaError, "column 'minute' is missing"),
    ({"output_schema": lambda self: "minute long, t string, turn long"}, SchemaError, "is a string, not a timestamp"),
])  # fmt: skip
def test_what_does_not_fit_is_told(sail, tmp_path, wrong, error, told):
    def run():
        made, rows = pipeline(tmp_path, type("Wrong", (Clock,), wrong)())
        rows.to_table("rows")
        made.run_epoch()

    with pytest.raises(error, match=told):
        run()
