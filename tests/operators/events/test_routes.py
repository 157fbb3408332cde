"""What scripts and operators print and log as messages, without an engine."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from ast import literal_eval

import pytest

from dagster_operators.operators.events import live_script
from dagster_operators.operators.events.event_window import delivery_order, stopping_order
from dagster_operators.operators.events.message_bytes import from_ipc
from dagster_operators.operators.events.routes import ALL, LEAST, LOGS, STDOUT
from dagster_operators.operators.events.sender_node import SenderNode, SenderScript, frames
from dagster_operators.time.watermark import MAX_WATERMARK
from tests.operators.events.dataflows import LOG, dataflow, operator
from tests.operators.events.test_event_program import Driven, rows

SAYS = """
n = event["value"][0].as_py() if event["type"] == "INPUT" else 0
print("line", n, end="")
print("", "rest", sep="!")
logging.info("seen %d", n)
logging.getLogger("a.b").warning("high")
logging.debug("small")
"""
SCRIPT = f"""
import logging
from dora import Node
node = Node()
logging.error("begun")
for event in node:
    {SAYS.strip().replace(chr(10), chr(10) + "    ")}
    node.log("info", "own", "eye", {{"by": "me"}})
    node.log_debug("deep")
"""
OPERATOR = f"""
import logging

class Operator:
    def on_event(self, event, send_output):
        {SAYS.strip().replace(chr(10), chr(10) + "        ")}
        return DoraStatus.CONTINUE
"""


@pytest.fixture(autouse=True, params=[True, False], ids=["kept", "told_again"])
def is_kept(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(live_script, "_MOST", 0)
    yield request.param
    live_script.end_all()


def says(text, routes, language="script"):
    state = "replay" if language == "script" else "plain"
    one = operator("one", [("n", "numbers/n")], ["lines", "entries"], state=state, language=language, routes=tuple(routes))
    log = operator("log", [("lines", "one/lines"), ("entries", "one/entries")], ["log"])
    return Driven(dataflow([one, log], {"one": text, "log": LOG}))


def entries(driven, *parts):
    found = [json.loads(value[0]) for value in driven.values("one/entries")]
    return [tuple(entry[part] for part in parts) for entry in found]


CUTS = [[rows(1, 2)], [rows(1), rows(2)], [rows(1), [], rows(2)]]


@pytest.mark.parametrize("language", ["script", "python"])
def test_lines_that_are_printed_are_messages_the_same_for_every_cut(language, capsys):
    found = []
    for cut in CUTS:
        driven = says(SCRIPT if language == "script" else OPERATOR, [(STDOUT, "lines")], language)
        for batch in cut:
            driven.epoch(batch)
        found.append(driven.values("one/lines"))
    assert found == [[["line 1!rest\n"], ["line 2!rest\n"]]] * 3
    assert "line 1!rest\n" in capsys.readouterr().out


@pytest.mark.parametrize(("language", "least"), [("script", ""), ("script", "info"), ("script", "warn"), ("python", "")])
def test_log_entries_are_messages_the_same_for_every_cut(language, least):
    out, level, found = sys.stdout, logging.getLogger().level, []
    for cut in CUTS:
        routes = [(LOGS, "entries"), *([(LEAST, least)] if least else [])]
        driven = says(SCRIPT if language == "script" else OPERATOR, routes, language)
        for batch in cut:
            driven.epoch(batch)
        found.append(entries(driven, "level", "message", "target", "fields", "timestamp"))
        assert (sys.stdout, logging.getLogger().level) == (out, level)
    assert found[0] == found[1] == found[2]
    of_two = [one[:4] for one in found[0] if one[4].endswith("00:00:02+00:00")]
    wanted = [("INFO", "seen 2", "root", None), ("WARN", "high", "a.b", None)]
    wanted += [("INFO", "own", "eye", {"by": "me"}), ("DEBUG", "deep", None, None)] if language == "script" else []
    assert of_two == {"": wanted, "info": wanted[:3], "warn": wanted[1:2]}[least]
    assert (("ERROR", "begun", "root", None) in [one[:4] for one in found[0]]) == (language == "script")


def test_who_reads_dora_logs_gets_the_entries_of_all_others():
    one = operator("one", [("n", "numbers/n")], [], state="replay", language="script", routes=((ALL, ""),))
    two = operator("two", [("n", "numbers/n")], [], routes=((ALL, ""),))
    reads = [("all", "dora/logs"), ("high", "dora/logs/warn"), ("of", "dora/logs/info/two")]
    made = dataflow([operator("log", reads, ["log"]), one, two], {"one": SCRIPT, "two": OPERATOR, "log": LOG})
    assert (delivery_order(made.operators), stopping_order(made.operators)[-1]) == (None, "log")
    driven = Driven(made).epoch(rows(1)).epoch(rows(2))
    found = [text.split(" ", 2)[2].partition(" ") for text in driven.log()]
    told = [
        (name, entry["node_id"], entry["message"]) for name, _, text in found for entry in [json.loads(literal_eval(text)[0])]
    ]
    of_two = [one for one in told if one[0] == "of" or (one[0] == "all" and one[1] == "two")]
    assert of_two == [(name, "two", text) for n in (1, 2) for text in (f"seen {n}", "high") for name in ("all", "of")]
    assert [one[1:] for one in told if one[0] == "high"] == [("one", "begun"), *[(node, "high") for node in ("one", "two")] * 2]
    assert driven.epoch(watermark=MAX_WATERMARK).log()[-1].split(" ", 1)[1] == "STOP ALL_INPUTS_CLOSED None"


def test_what_a_node_without_inputs_prints_and_logs_is_sent(monkeypatch):
    pipe = io.BytesIO()
    told = {"node": "one", "outputs": ["lines", "entries"], "after": 0, "routes": ((STDOUT, "lines"), (LOGS, "entries"))}
    sender = SenderScript(told, pipe)
    monkeypatch.setattr("dagster_operators.operators.events.dora_node.CURRENT.script", sender, raising=False)
    with sender.routes.taken():
        thread = threading.Thread(target=print, args=("in", "a", "thread"))
        thread.start()
        thread.join()
        SenderNode().log("warn", "own", "eye")
        logging.getLogger("eye.own").info("seen")
    sent = [(header["output"], from_ipc(value)[0].as_py()) for header, value in frames(bytearray(pipe.getvalue()))]
    assert sent[0] == ("lines", "in a thread\n")
    found = [(output, *(json.loads(text)[part] for part in ("level", "message", "target"))) for output, text in sent[1:]]
    assert found == [("entries", "WARN", "own", "eye"), ("entries", "INFO", "seen", "eye.own")]
