"""One operator of a dataflow begins anew, and the others go on."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import OperatorFailedError, UndecidedChangeError
from dagster_operators.operators.events.message_bytes import from_ipc
from dagster_operators.operators.events.wiring import EventOperator
from dagster_operators.plans.verdict import Level
from dagster_operators.time.watermark import MAX_WATERMARK
from tests.engines import EMBEDDED, ENGINES, SAIL
from tests.operators.events.dataflows import LOG, dataflow, operator
from tests.operators.events.test_event_program import Driven, rows

STOPS = LOG.replace("return DoraStatus.CONTINUE", "return DoraStatus.STOP")


def two(restart="", text=LOG, **more):
    operators = [
        operator("log", [("n", "numbers/n")], ["log"], restart=restart, **more),
        operator("other", [("n", "numbers/n")], ["log"]),
    ]
    return Driven(dataflow(operators, {"log": text, "other": LOG}))


def gone_on(driven, after):
    after.harness.restore(driven.harness.snapshot())
    return after


def test_it_alone_begins_anew_once():
    before = two().epoch(rows(1, 2))
    again = gone_on(before, two("1")).epoch(rows(3))
    (told,) = again.harness.rows("log/log")
    assert (from_ipc(told["value"]).to_pylist(), told["seq"]) == (["1 INPUT n [3]"], 3)
    assert again.log("other/log") == ["3 INPUT n [3]"]
    assert again.epoch(rows(4)).log() == ["2 INPUT n [4]"]
    assert gone_on(again, two("1")).epoch(rows(5)).log() == ["3 INPUT n [5]"]
    assert gone_on(again, two("2")).epoch(rows(5)).log() == ["1 INPUT n [5]"]
    taken_out = gone_on(again, two()).epoch(rows(5))
    assert taken_out.log() == ["3 INPUT n [5]"]
    assert gone_on(taken_out, two("1")).epoch(rows(6)).log() == ["1 INPUT n [6]"], "which is another one than before"


def test_one_that_had_stopped_is_told_of_events_again():
    before = two(text=STOPS).epoch(rows(1, 2))
    assert before.log() == ["1 INPUT n [1]"]
    assert gone_on(before, two(text=LOG)).epoch(rows(3)).log() == []
    assert gone_on(before, two("1")).epoch(rows(3)).log() == ["1 INPUT n [3]"]


def test_an_input_that_was_closed_is_closed_for_it_again():
    before = two().epoch(rows(1)).epoch(watermark=MAX_WATERMARK)
    again = gone_on(before, two("1")).epoch(watermark=MAX_WATERMARK)
    assert again.log() == ["1 INPUT_CLOSED n None", "2 STOP ALL_INPUTS_CLOSED None"]


def test_its_state_may_be_saved_otherwise_then():
    before = two().epoch(rows(1))
    with pytest.raises(OperatorFailedError, match="was saved as 'plain'") as caught:
        gone_on(before, two(state="pickle")).epoch(rows(2))
    assert "restart: 1" in caught.value.remedy
    assert gone_on(before, two("1", state="pickle")).epoch(rows(2)).log() == ["1 INPUT n [2]"]


def test_it_may_say_itself_what_is_kept_then():
    before = two().epoch(rows(1))
    methods = (
        LOG
        + "\n    def get_state(self):\n        return self.count\n    def set_state(self, value):\n        self.count = value\n"
    )
    with pytest.raises(OperatorFailedError, match="saved as its attributes") as caught:
        gone_on(before, two(text=methods)).epoch(rows(2))
    assert "restart: 1" in caught.value.remedy
    again = gone_on(before, two("1", text=methods)).epoch(rows(2)).epoch(rows(3))
    assert again.log() == ["1 INPUT n [2]", "2 INPUT n [3]"]
    with pytest.raises(OperatorFailedError, match=r"saved by get_state\(\)"):
        gone_on(again, two("1")).epoch(rows(4))
    assert gone_on(again, two("2")).epoch(rows(4)).log() == ["1 INPUT n [4]"]


def test_plans_of_before_have_no_restart():
    plain = EventOperator("a", "op", True, "a.py")  # noqa: FBT003
    assert "restart" not in plain.encode()
    assert EventOperator.decode(plain.encode()) == plain
    again = EventOperator("a", "op", True, "a.py", restart="1")  # noqa: FBT003
    assert EventOperator.decode(again.encode()) == again


FLOW = """
nodes:
  - id: rows
    source: {files: {path: FOLDER/in/*.json, format: json, schema: "v long, t timestamp"}, event_time: t}
    outputs: {v: v}
  - id: one
    operator: {python: count.py, inputs: {v: rows/v}, outputs: [n]RESTART}
  - id: two
    operator: {python: count.py, inputs: {v: rows/v}, outputs: [n]}
"""
COUNT = """
class Operator:
    def __init__(self):
        self.count = 0

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.count += 1
            send_output("n", [self.count])
        return DoraStatus.CONTINUE
"""


@pytest.mark.parametrize("name", ["sail", "spark"])
def test_a_file_that_says_so_is_asked_nothing(tmp_path, name, request):
    request.getfixturevalue(name)
    engine = {"sail": SAIL, "spark": EMBEDDED}[name]
    (tmp_path / "count.py").write_text(COUNT)
    (tmp_path / "in").mkdir()
    for epoch, restart in enumerate(["", "", ", restart: 1", ", restart: 1", ""]):
        (tmp_path / f"in/{epoch}.json").write_text(f'{{"v": 1, "t": "2026-01-01T00:00:0{epoch}Z"}}\n')
        (tmp_path / "dataflow.yml").write_text(FLOW.replace("FOLDER", str(tmp_path)).replace("RESTART", restart))
        pipeline = do.Pipeline.from_yaml(tmp_path / "dataflow.yml", root=str(tmp_path / "root"), engine=engine)
        pipeline.run_epoch()
    found = {node: [row.value[0] for row in pipeline.read(f"{node}/n").collect()] for node in ("one", "two")}
    assert found == {"one": [1, 2, 1, 2, 3], "two": [1, 2, 3, 4, 5]}


@pytest.mark.parametrize(
    "engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
)
def test_one_under_another_id_is_asked_about(tmp_path, engine):
    def made(epoch, node):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / f"in/{epoch}.json").write_text(f'{{"v": 1, "t": "2026-01-01T00:00:0{epoch}Z"}}\n')
        text = FLOW.replace("FOLDER", str(tmp_path)).replace("RESTART", "").replace("id: one", f"id: {node}")
        (tmp_path / "dataflow.yml").write_text(text)
        return do.Pipeline.from_yaml(tmp_path / "dataflow.yml", root=str(tmp_path / "root"), engine=ENGINES[engine])

    (tmp_path / "count.py").write_text(COUNT)
    made(1, "one").run_epoch()
    renamed = made(2, "first")
    with pytest.raises(UndecidedChangeError, match="'one' is not in the file any more, whose state would be dropped") as refused:
        renamed.run_epoch()
    (asked,) = (one for one in renamed.changes() if one.level is Level.DECISION)
    assert f"pipeline.decide({asked.subject!r}, 'drop')" in str(refused.value)
    if engine == "sail":
        assert made(2, "one").changes() == [], "the id that it had"
        renamed = made(2, "first")
    renamed.decide(asked.subject, "drop")
    renamed.run_epoch()
    found = {node: [row.value[0] for row in renamed.read(f"{node}/n").collect()] for node in ("first", "two")}
    assert found == {"first": [1], "two": [1, 2]}
    assert renamed.changes() == []


@pytest.mark.sail
def test_of_a_file_that_changed_the_lines_are_told_once(tmp_path):
    def made(count, outputs):
        (tmp_path / "count.py").write_text(count)
        text = FLOW.replace("FOLDER", str(tmp_path)).replace("RESTART", "").replace("{v: v}", outputs)
        (tmp_path / "dataflow.yml").write_text(text)
        return do.Pipeline.from_yaml(tmp_path / "dataflow.yml", root=str(tmp_path / "root"), engine=SAIL)

    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"v": 1, "t": "2026-01-01T00:00:00Z"}\n')
    made(COUNT, "{v: v}").run_epoch()
    longer = "".join(f"# {number}\n" for number in range(50))
    (told,) = made(f"{COUNT}{longer}", "{v: v, w: v}").changes()
    counts = r"\((\d+) lines added and (\d+) taken out, now \w+\)"
    assert re.findall(rf"(\w+) changed {counts}", told.problem) == [("files", "50", "0"), ("descriptor", "1", "0")]
    shown = CliRunner().invoke(main, ["diff", str(tmp_path / "root"), str(tmp_path / "dataflow.yml")]).output.splitlines()
    begin = shown.index("~ events: files")
    assert shown[begin : begin + 4] == ["~ events: files", "    count.py", "    +# 0", "    +# 1"]
    assert shown[begin + 41 : begin + 44] == ["    ... and 11 lines more", "~ events: descriptor", "    +    w: v"]
    assert not any("EventSource(" in line or "class Operator" in line for line in shown)
