"""Tables of another pipeline as sources: one cut, its watermarks, its changes, what is refused."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

import dagster_operators as do
from dagster_operators.connectors.pipeline_source import PipelineSource
from dagster_operators.errors import BadInputError, EndedInputError, MissingInputError, PipelineError, UndecidedChangeError
from dagster_operators.transactions import failpoints
from tests.engines import ENGINES, SAIL

START = datetime(2024, 1, 1, tzinfo=UTC)


def at(minutes):
    return START + timedelta(minutes=minutes)


class Shop:
    """A pipeline with a table of rows, one of windows and one that is updated; each epoch has the rows of one batch."""

    def __init__(self, folder, engine=SAIL):
        self.root, self.batches, self.engine = f"{folder}/shop", [], engine

    def pipeline(self):
        made = do.Pipeline("shop", root=self.root, engine=self.engine)
        source = do.MemorySource(self.batches, schema="v long, t timestamp")
        rows = made.source("rows", source, event_time="t", lateness="10 minutes")
        rows.to_table("orders")
        rows.window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="windows").to_table("hourly")
        rows.key_by("v % 2 AS odd").aggregate(n="count(*)", biggest="max(v)", name="sums").to_table("totals")
        return made

    def sell(self, *rows):
        self.batches.append([(value, at(minutes)) for value, minutes in rows])
        return self.pipeline().run_epoch()


@pytest.fixture
def shop(tmp_path, sail):
    made = Shop(tmp_path)
    made.sell((1, 0), (2, 125))
    return made


def reading(tmp_path, shop, engine=SAIL, **options):
    made = do.Pipeline("report", root=str(tmp_path / "report"), engine=engine)
    source = do.PipelineSource(shop.root, ["orders", "hourly"], **options)
    orders = made.source("orders", source["orders"], event_time="t")
    hours = made.source("hours", source["hourly"])
    orders.select("v").to_table("sold")
    hours.select("n").to_table("counted")
    orders.window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="again").to_table("hourly")
    return made


def rows(pipeline, table):
    return sorted(tuple(row) for row in pipeline.read(table).collect())


def test_a_delta_source_of_an_updating_table_names_the_source_that_reads_its_changes(tmp_path, shop):
    def report(source):
        made = do.Pipeline("report", root=str(tmp_path / "report"), engine=SAIL)
        rows = made.source("totals", source)
        rows = rows.as_changes("_change_type") if isinstance(source, do.PipelineSource) else rows
        rows.key_by("odd").aggregate(n="sum(n)", name="sums").to_table("sums")
        return made

    table = f"{shop.root}/tables/totals"
    report(do.DeltaSource(table)).run_epoch()
    shop.sell((3, 190))
    told = f"PipelineSource({shop.root!r}, 'totals', changes=True) with .as_changes(\"_change_type\") behind it"
    with pytest.raises(BadInputError) as caught:
        report(do.DeltaSource(table)).run_epoch()
    assert f"pipeline.reset('totals', 0, tables=\"restart\"), then put {told} into the program" in caught.value.remedy
    assert "changes=True of DeltaSource" not in caught.value.remedy, "there is no change data feed"
    report(do.DeltaSource(table)).reset("totals", 0, tables="restart")
    changed = report(do.PipelineSource(shop.root, "totals", changes=True))
    with pytest.raises(UndecidedChangeError):
        changed.run_epoch()
    asked = [verdict.subject for verdict in changed.changes() if verdict.choices]
    assert "source totals" in asked
    for subject in asked:
        changed.decide(subject, "restart")
    changed.run_epoch()
    assert rows(changed, "sums") == [(0, 1), (1, 2)]
    shop.sell((4, 200))
    changed.run_epoch()
    assert rows(changed, "sums") == [(0, 2), (1, 2)]
    with pytest.raises(BadInputError) as caught:
        do.DeltaSource(table, starting_version=2).choose(None, lambda: iter(()))
    assert caught.value.remedy == f"it is a table of a pipeline: read its changes by {told}"


def test_it_reads_all_rows_and_then_what_each_epoch_added(tmp_path, shop):
    report = reading(tmp_path, shop)
    report.run_epoch()
    assert (rows(report, "sold"), rows(report, "counted")) == ([(1,), (2,)], [(1,)])
    assert report.run_epoch().empty
    shop.sell((3, 190))
    shop.sell((4, 250))
    result = report.run_epoch()
    assert (result.rows["sold"], result.rows["counted"]) == (2, 2), "both epochs at once"
    offsets = report.epochs.coordinator.last_complete().offsets
    assert {name: offset["epoch"] for name, offset in offsets.items()} == {"orders": 3, "hours": 3}


def test_the_watermark_is_the_tables_own_so_that_nothing_is_late_twice_and_windows_close_together(tmp_path, shop):
    report = reading(tmp_path, shop)
    first = report.run_epoch()
    assert first.watermarks == {"orders": at(115).timestamp() * 1_000_000}, "not that of the largest t, which is 125"
    shop.sell((3, 117), (5, 190))  # 117 is on time there, and would be late here behind a watermark of 125
    second = report.run_epoch()
    assert not any(second.late_rows.values())
    shop.sell((6, 400))
    report.run_epoch()
    assert rows(report, "hourly") == rows(shop.pipeline(), "hourly")


def test_another_event_time_has_a_watermark_of_its_own(tmp_path, shop):
    report = do.Pipeline("report", root=str(tmp_path / "report"), engine=SAIL)
    source = do.PipelineSource(shop.root, "hourly")
    report.source("hours", source, event_time="window_end", lateness="30 minutes").to_table("hours")
    assert report.run_epoch().watermarks == {"hours": at(30).timestamp() * 1_000_000}


def test_time_that_goes_on_without_rows_is_news_to_those_that_have_the_event_time(tmp_path, shop):
    report = do.Pipeline("report", root=str(tmp_path / "report"), engine=SAIL)
    late = report.source("orders", do.PipelineSource(shop.root, "hourly"), event_time="window_start")
    late.window(do.Tumbling("1 hour")).aggregate(n="sum(n)", name="sums").to_table("sums")
    plain = do.Pipeline("plain", root=str(tmp_path / "plain"), engine=SAIL)
    plain.source("orders", do.PipelineSource(shop.root, "hourly")).to_table("hours")
    report.run_epoch()
    plain.run_epoch()
    shop.pipeline().set_watermark("rows", at(121))
    assert report.epochs.has_news()
    assert not plain.epochs.has_news()
    assert not report.run_epoch().empty
    assert not report.epochs.has_news()
    assert plain.run_epoch().empty


def test_all_tables_are_as_of_one_epoch_whatever_the_other_pipeline_does_meanwhile(tmp_path, shop, monkeypatch):
    report = reading(tmp_path, shop)
    report.run_epoch()
    shop.sell((3, 190))
    choose, went_on = PipelineSource.choose, []

    def choose_while_it_goes_on(source, *args):
        chosen = choose(source, *args)
        if not went_on:
            went_on.append(shop.sell((5, 250)))
        return chosen

    monkeypatch.setattr(PipelineSource, "choose", choose_while_it_goes_on)
    report.run_epoch()
    assert (rows(report, "sold"), rows(report, "counted")) == ([(1,), (2,), (3,)], [(1,), (1,)]), "both of epoch 2"
    report.run_epoch()
    assert (rows(report, "sold"), rows(report, "counted")) == ([(1,), (2,), (3,), (5,)], [(1,), (1,), (1,)])


def test_a_lookup_is_of_the_same_epoch_and_may_be_an_updating_table(tmp_path, shop):
    made = do.Pipeline("report", root=str(tmp_path / "report"), engine=SAIL)
    source = do.PipelineSource(shop.root, ["orders", "totals"], max_epochs=1)
    orders = made.source("orders", source["orders"]).with_columns(odd="v % 2")
    orders.lookup(source["totals"], on="odd", columns=["n"], name="counts").to_table("sold")
    made.run_epoch()
    shop.sell((3, 70))
    shop.sell((5, 75))
    results = made.run_until_caught_up()
    assert len(results) == 2, "one epoch of the other at a time"
    assert sorted((row.v, row.n) for row in made.read("sold").collect()) == [(1, 1), (2, 1), (3, 2), (5, 3)]


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.spark])])
def test_a_lookup_in_an_updating_table_is_of_the_epoch_that_was_begun_with(engine, request, tmp_path):
    """Rows are corrected and go in the other pipeline, also while an epoch that looks them up lies dead."""
    request.getfixturevalue(engine)
    words = [("insert", "a", 1), ("insert", "b", 2)], [("update_before", "a", 1), ("update_after", "a", 3)], [("delete", "b", 2)]
    came, asked = [], []

    def prices():
        made = do.Pipeline("prices", root=str(tmp_path / "prices"), engine=ENGINES[engine])
        rows = made.source("told", do.MemorySource(came, schema="op string, item string, price long")).as_changes("op")
        rows.latest("item").to_table("prices")
        return made

    def report():
        made = do.Pipeline("report", root=str(tmp_path / "report"), engine=ENGINES[engine])
        orders = made.source("orders", do.MemorySource(asked, schema="no long, item string"))
        orders.lookup(do.PipelineSource(str(tmp_path / "prices"), "prices"), on="item", columns=["price"]).to_table("priced")
        return made

    def epoch(number):
        came.append(words[number])
        prices().run_epoch()

    def found():
        return {row.no: row.price for row in report().read("priced").collect()}

    def die(name):
        if name.startswith("stage:files_written"):
            raise KeyboardInterrupt

    epoch(0)
    asked.append([(1, "a"), (2, "b"), (3, "c")])
    report().run_epoch()
    assert found() == {1: 1, 2: 2, 3: None}
    asked.append([(4, "a"), (5, "b")])
    with failpoints.watch(die), pytest.raises(KeyboardInterrupt):
        report().run_epoch()
    epoch(1)
    epoch(2)
    report().run_epoch()
    assert found() == {1: 1, 2: 2, 3: None, 4: 1, 5: 2}, "as when the epoch began"
    asked.append([(6, "a"), (7, "b")])
    report().run_epoch()
    assert found() == {1: 1, 2: 2, 3: None, 4: 1, 5: 2, 6: 3, 7: None}


def test_epochs_without_rows_do_not_hold_up_what_reads_one_at_a_time(tmp_path, shop):
    made = do.Pipeline("report", root=str(tmp_path / "report"), engine=SAIL)
    made.source("hours", do.PipelineSource(shop.root, "hourly", max_epochs=1)).to_table("hours")
    made.run_epoch()
    for value in range(3):
        shop.sell((value, 126))  # closes no window
    shop.sell((9, 300))
    made.run_until_caught_up()
    assert rows(made, "hours") == rows(shop.pipeline(), "hourly")


def test_an_epoch_that_was_interrupted_reads_what_it_was_to_read(tmp_path, shop):
    report = reading(tmp_path, shop)

    def die(name):
        if name.startswith("stage:files_written"):
            raise KeyboardInterrupt

    with failpoints.watch(die), pytest.raises(KeyboardInterrupt):
        report.run_epoch()
    shop.sell((3, 130))
    reading(tmp_path, shop).run_epoch()
    again = reading(tmp_path, shop)
    assert rows(again, "sold") == [(1,), (2,)]
    again.run_epoch()
    assert rows(again, "sold") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_the_changes_of_an_updating_table_lead_to_the_same_table(engine, request, tmp_path):
    request.getfixturevalue(engine)
    shop = Shop(tmp_path, ENGINES[engine])
    made = do.Pipeline("report", root=str(tmp_path / "report"), engine=ENGINES[engine])
    changed = made.source("totals", do.PipelineSource(shop.root, "totals", changes=True))
    changed.as_changes("_change_type").latest("odd").to_table("totals")
    changed.to_table("changes")
    shop.sell((1, 0), (2, 1))
    made.run_epoch()
    shop.sell((3, 2))
    shop.sell((5, 3))
    made.run_epoch()
    assert rows(made, "totals") == rows(shop.pipeline(), "totals") == [(0, 1, 2), (1, 3, 5)]
    told = Counter((row.odd, row.n, row["_change_type"]) for row in made.read("changes").collect())
    assert told == {(0, 1, "insert"): 1, (1, 1, "insert"): 1, (1, 1, "delete"): 1, (1, 3, "insert"): 1}, "not of what was between"


def test_an_updating_table_is_refused_without_its_changes(tmp_path, shop):
    made = do.Pipeline("report", root=str(tmp_path / "report"), engine=SAIL)
    made.source("totals", do.PipelineSource(shop.root, "totals")).to_table("totals")
    with pytest.raises(BadInputError, match=r"'totals' is an updating or replaced table.*changes=True.*as_changes"):
        made.run_epoch()


def test_rows_that_were_taken_back_are_refused_with_the_epoch_that_did_it(tmp_path, shop):
    shop.sell((3, 130))
    report = reading(tmp_path, shop)
    changes = do.Pipeline("changes", root=str(tmp_path / "changes"), engine=SAIL)
    source = changes.source("orders", do.PipelineSource(shop.root, "orders", changes=True))
    source.to_table("orders")
    report.run_epoch()
    changes.run_epoch()
    shop.pipeline().rollback(to=1)
    with pytest.raises(BadInputError, match=r"epoch 3, a rollback to epoch 1, of the pipeline 'shop'.*changes=True") as raised:
        report.run_epoch()
    assert raised.value.source == "orders"
    changes.run_epoch()
    told = [(row.v, row["_change_type"]) for row in changes.read("orders").collect()]
    assert sorted(told) == [(1, "insert"), (2, "insert"), (3, "delete"), (3, "insert")]
    report.reset("orders", 0, tables="restart")
    report.reset("hours", 0, tables="restart")
    report.run_epoch()
    assert rows(report, "sold") == [(1,), (2,)], "the way out works"


def test_what_somebody_else_wrote_is_not_read_before_or_after_it_is_put_right(tmp_path, shop):
    import pyarrow as pa
    from deltalake import write_deltalake

    report = reading(tmp_path, shop)
    report.run_epoch()
    foreign = pa.table({"v": [99], "t": pa.array([at(70)], pa.timestamp("us", "UTC"))})
    write_deltalake(f"{shop.root}/tables/orders", foreign, mode="append")
    assert report.run_epoch().empty
    shop.pipeline().repair("orders", keep="ours")
    shop.sell((3, 130))
    report.run_epoch()
    assert rows(report, "sold") == [(1,), (2,), (3,)]


def test_before_the_first_epoch_there_is_nothing_new_and_a_run_says_whose_epoch_is_missing(tmp_path, sail):
    report = reading(tmp_path, Shop(tmp_path))
    assert not report.epochs.has_news()
    with pytest.raises(MissingInputError, match="no epoch of the pipeline that is read is complete"):
        report.run_epoch()


def test_another_pipeline_in_the_same_place_and_an_unknown_table_are_told(tmp_path, shop):
    import shutil

    made = do.Pipeline("other", root=str(tmp_path / "other"), engine=SAIL)
    made.source("x", do.PipelineSource(shop.root, "nothing")).to_table("x")
    with pytest.raises(PipelineError, match=r"no table 'nothing' in its epoch 1.*hourly, orders, totals"):
        made.run_epoch()
    report = reading(tmp_path, shop)
    report.run_epoch()
    shutil.rmtree(shop.root)
    shop.sell((7, 0))
    with pytest.raises(BadInputError, match="not the one that was read at epoch 1"):
        reading(tmp_path, shop).run_epoch()


def test_a_pipeline_that_is_gone_is_no_lack_of_news_and_may_begin_anew(tmp_path, shop):
    reading(tmp_path, shop).run_epoch()
    (tmp_path / "shop").rename(tmp_path / "aside")
    report = reading(tmp_path, shop)
    for look in (report.run_epoch, report.epochs.has_news):
        with pytest.raises(MissingInputError, match="the pipeline that is read is gone"):
            look()
    report.reset(["orders", "hours"], 0, tables="restart")
    shop.batches.clear()
    shop.sell((9, 0))
    report = reading(tmp_path, shop)
    report.run_until_caught_up()
    assert rows(report, "sold") == [(9,)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: do.PipelineSource("", "t"), "needs a pipeline and a table"),
        (lambda: do.PipelineSource("r", []), "needs a pipeline and a table"),
        (lambda: do.PipelineSource("r", "t", max_epochs=0), "at least 1"),
        (lambda: do.PipelineSource("r", ["a", "b"])["c"], "there are: a, b"),
        (lambda: do.Pipeline("p", root="x").source("s", do.PipelineSource("r", ["a", "b"])), r"take one of them: source\['a'\]"),
    ],
    ids=["no root", "no table", "limit", "other table", "several"],
)
def test_mistakes(make, message):
    with pytest.raises(PipelineError, match=message):
        make()


def test_as_a_plan_and_in_yaml_it_is_the_same(tmp_path, shop):
    upstream = shop.pipeline()
    made = do.Pipeline("report", root=str(tmp_path / "report"))
    made.source("orders", do.PipelineSource(upstream, "orders", max_epochs=2), event_time="t").to_table("sold")
    again = do.Pipeline.from_plan(made.to_plan(), root=str(tmp_path / "report"))
    source = again.dataflow.nodes["orders"].operator.connector
    assert (
        source
        == made.dataflow.nodes["orders"].operator.connector
        == do.PipelineSource(shop.root, "orders", max_epochs=2, pipeline="shop")
    )
    file = tmp_path / "report.yaml"
    connector = f"{{root: {shop.root}, tables: orders, max_epochs: 2}}"
    file.write_text(
        f"pipeline: report\nsources:\n  orders:\n    pipeline_source: {connector}\n    event_time: t\n"
        "streams: {}\ntables:\n  sold: {from: orders}\n"
    )
    written = do.Pipeline.from_query_file(str(file), root=str(tmp_path / "report"))
    assert written.dataflow.nodes["orders"].operator.connector.fingerprint() == source.fingerprint()


class ChangedShop(Shop):
    """The shop with another program: ``orders`` is called something else, or not written."""

    orders: str | None = None

    def pipeline(self):
        made = do.Pipeline("shop", root=self.root, engine=self.engine)
        source = do.MemorySource(self.batches, schema="v long, t timestamp")
        rows = made.source("rows", source, event_time="t", lateness="10 minutes")
        rows.select("v").to_table("values")
        if self.orders:
            rows.to_table(self.orders)
        return made


def sold(tmp_path, shop, table="orders", **options):
    made = do.Pipeline("report", root=str(tmp_path / "report"), engine=shop.engine)
    made.source("orders", do.PipelineSource(shop.root, table), **options).select("v").to_table("sold")
    return made


@pytest.fixture
def left(tmp_path, sail):
    """A shop whose ``orders`` were read, and are no longer written since two epochs; the last rows in them were not read."""
    made = ChangedShop(tmp_path)
    made.orders = "orders"
    made.sell((1, 0), (2, 125))
    sold(tmp_path, made).run_epoch()
    made.sell((3, 130))
    made.orders = None
    made.sell((4, 140))
    made.sell((5, 150))
    return made


def test_a_table_that_is_no_longer_written_is_told_once_all_of_it_is_read(tmp_path, left):
    report = sold(tmp_path, left)
    report.run_epoch()
    assert rows(report, "sold") == [(1,), (2,), (3,)]
    for look in (report.run_epoch, report.epochs.has_news):
        with pytest.raises(EndedInputError, match=r"no longer writes the table 'orders': its epoch 2 .*\(values\)") as raised:
            look()
        assert (raised.value.source, raised.value.table, raised.value.retryable) == ("orders", "orders", False)
    left.orders = "orders"
    left.pipeline().decide("table orders", "keep")
    left.sell((6, 160))
    report.run_epoch()
    assert rows(report, "sold") == [(1,), (2,), (3,), (6,)], "put back, as the remedy says"


@pytest.mark.parametrize("dropped", [False, True], ids=["left out", "dropped"])
def test_what_is_said_to_be_finished_goes_on_without_the_table(tmp_path, left, dropped):
    sold(tmp_path, left).run_epoch()
    if dropped:
        left.pipeline().drop("orders")
        with pytest.raises(EndedInputError, match="'shop' dropped the table 'orders'"):
            sold(tmp_path, left).run_epoch()
    report = sold(tmp_path, left, finished=True)
    assert not report.epochs.has_news()
    assert report.run_epoch().empty
    assert rows(report, "sold") == [(1,), (2,), (3,)]


def test_a_table_that_was_renamed_is_read_by_its_new_name(tmp_path, left):
    sold(tmp_path, left).run_epoch()
    left.orders = "bought"
    left.sell((6, 160))
    with pytest.raises(EndedInputError, match=r"if it was renamed, name the one that it is now \(bought, values\)"):
        sold(tmp_path, left).run_epoch()
    report = sold(tmp_path, left, table="bought")
    report.reset("orders", 0, tables="restart")
    report.decide("source orders", "restart")
    report.run_epoch()
    assert rows(report, "sold") == [(6,)], "what there is by that name, and nothing twice"


def test_a_lookup_in_a_table_that_is_no_longer_written_is_refused_and_may_be_one_of_a_delta_table(tmp_path, left):
    def report(lookup):
        made = do.Pipeline("priced", root=str(tmp_path / "priced"), engine=SAIL)
        values = made.source("values", do.PipelineSource(left.root, "values"))
        values.lookup(lookup, on="v", columns=["t"], name="times").to_table("timed")
        return made

    with pytest.raises(EndedInputError, match=r"no longer writes the table 'orders'.*DeltaSource\('.*tables/orders'\)") as raised:
        report(do.PipelineSource(left.root, "orders")).run_epoch()
    assert raised.value.operator == "times"
    made = report(do.DeltaSource(f"{left.root}/tables/orders"))
    made.run_epoch()
    assert sorted(row.v for row in made.read("timed").collect() if row.t) == [1, 2, 3]


def test_a_rebuild_of_another_table_leaves_the_table_written(tmp_path, shop):
    report = sold(tmp_path, shop)
    report.run_epoch()
    shop.pipeline().rebuild("totals")
    shop.pipeline().compact()
    assert report.run_epoch().empty
    shop.sell((3, 130))
    report.run_epoch()
    assert rows(report, "sold") == [(1,), (2,), (3,)]
