"""Dataflows in YAML: what is wrong in them, and how they run."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from datetime import datetime, timedelta

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.api.events.dataflow_file import DataflowFile
from dagster_operators.api.events.python_files import PythonFiles
from dagster_operators.cli.main import main
from dagster_operators.errors import OperatorFailedError, PipelineError, QueryError
from dagster_operators.operators.events.source_modules import SourceModules
from tests.engines import EMBEDDED, SAIL

START = datetime(2026, 1, 1)  # noqa: DTZ001 - as Spark gives it back

FILES = {
    "count.py": """
class Operator:
    def __init__(self):
        self.count = 0

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.count += 1
            send_output("count", [self.count], {"of": dora_event["id"]})
        return DoraStatus.CONTINUE
""",
    "scale.py": """
import pyarrow.compute as pc
from dora import DoraStatus
from factors import FACTOR

class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            send_output("scaled", pc.multiply(dora_event["value"], FACTOR), dora_event["metadata"])
        return DoraStatus.CONTINUE
""",
    "factors.py": "FACTOR = 10\n",
    "half.py": "class Operator:\n    def get_state(self):\n        return 1\n",
    "dataflow.yml": """
nodes:
  - id: numbers
    source: numbers
    outputs:
      n: v
  - id: counter
    operator:
      python: count.py
      inputs:
        number: numbers/n
        tick: dora/timer/secs/2
      outputs:
        - count
      output_types: {count: int64}
  - id: both
    operators:
      - id: first
        python: {source: scale.py}
        inputs: {n: numbers/n}
        outputs: [scaled]
      - id: second
        python: scale.py
        inputs: {n: {source: first/scaled, queue_size: 100}}
        outputs: [scaled]
""",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def numbers(*batches):
    sources = do.Sources()
    rows = [[{"t": START + timedelta(seconds=number), "v": number} for number in batch] for batch in batches]
    sources.add("numbers", do.MemorySource(rows, schema="t timestamp, v long"), event_time="t", finished=True)
    return sources


def build(folder, *batches, **settings):
    return do.Pipeline.from_yaml(folder / "dataflow.yml", root=str(folder / "root"), sources=numbers(*batches), **settings)


@pytest.fixture(params=["sail", "spark"])
def engine(request):
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


# --- running ---------------------------------------------------------------------------------------------------------


def messages(pipeline, address):
    return [(row.seq, (row.time - START).seconds, list(row.value)) for row in pipeline.read(address).collect()]


def test_a_dataflow_runs_epoch_by_epoch_and_its_outputs_are_read_by_their_addresses(folder, engine):
    for _ in range(2):  # each epoch is run by a pipeline of its own, as after a crash
        build(folder, [1, 2], [4, 5], engine=engine).run_epoch()
    pipeline = build(folder, [1, 2], [4, 5], engine=engine)
    assert messages(pipeline, "counter/count") == [
        (1, 1, [1]), (2, 2, [2]), (3, 3, [3]), (4, 4, [4]), (5, 5, [5]), (6, 5, [6])
    ]  # fmt: skip
    assert messages(pipeline, "both/second/scaled") == [(1, 1, [100]), (2, 2, [200]), (3, 4, [400]), (4, 5, [500])]
    (row,) = pipeline.read("counter/count").where("seq = 3").collect()
    assert json.loads(row.metadata) == {"of": "tick"}
    done = {(row.epoch, row.operator): (row.events, row.stopped) for row in pipeline.read("events").collect()}
    assert done[1, "counter"] == (2, None)
    assert done[2, "counter"] == (7, "ALL_INPUTS_CLOSED")


def test_a_message_keeps_types_that_spark_lacks(folder, sail):
    (folder / "scale.py").write_text(FILES["scale.py"].replace('pc.multiply(dora_event["value"], FACTOR)', "bytes([1, 255])"))
    pipeline = build(folder, [1], engine=SAIL)
    pipeline.run_epoch()
    assert messages(pipeline, "both/first/scaled") == [(1, 1, [1, 255])]


def test_an_error_of_an_operator_leaves_everything_as_it_was(folder, sail):
    pipeline = build(folder, [1], [2], engine=SAIL)
    pipeline.run_epoch()
    (folder / "scale.py").write_text(FILES["scale.py"].replace("FACTOR)", "1 / 0)"))
    with pytest.raises(OperatorFailedError, match="ZeroDivisionError") as caught:
        build(folder, [1], [2], engine=SAIL).run_epoch()
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("both", "first")
    (folder / "scale.py").write_text(FILES["scale.py"])
    again = build(folder, [1], [2], engine=SAIL)
    assert messages(again, "counter/count") == [(1, 1, [1])]
    again.run_epoch()
    assert messages(again, "counter/count") == [(1, 1, [1]), (2, 2, [2])]


def test_timers_without_a_source_go_by_the_clock(folder, sail):
    (folder / "dataflow.yml").write_text("""
nodes:
  - id: counter
    operator: {python: count.py, inputs: {tick: dora/timer/millis/10}, outputs: [count], output_types: {count: int64}}
""")
    pipeline = do.Pipeline.from_yaml(folder / "dataflow.yml", root=str(folder / "root"), engine=SAIL)
    pipeline.run_epoch()
    pipeline.run_epoch()
    counts = [row.value[0] for row in pipeline.read("counter/count").collect()]
    assert counts == list(range(1, len(counts) + 1))
    assert counts


# --- as a plan -------------------------------------------------------------------------------------------------------


def test_a_plan_holds_the_files_themselves(folder):
    pipeline = build(folder, [1])
    data = pipeline.to_plan()
    for name in FILES:
        (folder / name).unlink()
    again = do.Pipeline.from_plan(data, root="unused")
    assert again.to_plan() == data
    assert dict(again.dataflow.nodes["events"].operator.files).keys() == {"count.py", "scale.py", "factors.py"}


def test_what_files_of_a_package_import_from_beside_themselves_goes_with_them(tmp_path):
    texts = {
        "op.py": "from pkg.a import f", "pkg/__init__.py": "from . import named", "pkg/named.py": "", "b.py": "",
        "pkg/a.py": "from .b import g\nfrom .sub.deep import h\nf = g + h", "pkg/b.py": "g = 1", "pkg/sub/__init__.py": "",
        "pkg/sub/deep.py": "from ..c import h\nfrom .. import e", "pkg/c.py": "h = 2", "pkg/e.py": "", "pkg/other.py": "",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    files = PythonFiles(tmp_path)
    files.add("op.py")
    assert sorted(files.texts) == sorted(texts.keys() - {"pkg/other.py", "b.py"})
    assert SourceModules(files.texts, "", "op").load("op.py").f == 3


def test_what_lies_beside_a_file_is_taken_before_what_lies_elsewhere(tmp_path, monkeypatch):
    beside, current = tmp_path / "ops", tmp_path / "current"
    for place in (beside, current):
        place.mkdir()
        for name in ("helper", "click", "json"):
            (place / f"{name}.py").write_text(f"NAME = {place.name!r}\n")
    (beside / "op.py").write_text(
        "import json\nfrom click import NAME as b\nfrom helper import NAME as a\nfound = a, b, json.dumps\n"
    )
    monkeypatch.chdir(current)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    files = PythonFiles(tmp_path)
    files.add("ops/op.py")
    assert sorted(files.texts) == ["ops/click.py", "ops/helper.py", "ops/op.py"]  # json is the standard library's
    assert SourceModules(files.texts, "ops", "op").load("ops/op.py").found == ("ops", "ops", json.dumps)


def test_the_folder_makes_no_difference(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for name in FILES:
        shutil.copy(folder / name, other / name)
    assert build(folder, [1]).to_plan() == build(other, [1]).to_plan()


def test_lineage_follows_the_wiring(folder):
    from dagster_operators.planner.lineage import TableLineage

    pipeline = build(folder, [1])
    columns = TableLineage(pipeline.dataflow).columns(pipeline.tables["counter__count"])
    assert {name for _, name in columns["value"]} == {"v"}
    assert {name for _, name in columns["time"]} == {"t"}


# --- one entry point -------------------------------------------------------------------------------------------------


def test_queries_are_told_apart_by_their_keys(tmp_path):
    path = tmp_path / "flights.yaml"
    path.write_text(
        "pipeline: flights\nsources:\n  rows: {files: {path: in, schema: 'v long'}}\n"
        "streams:\n  big: {from: rows, steps: [filter: v > 1]}\ntables: {big: big}\n"
    )
    assert list(do.Pipeline.from_yaml(path, root="unused").tables) == ["big"]


def test_a_source_of_the_file_itself(folder):
    text = FILES["dataflow.yml"].replace(
        "source: numbers", "source: {files: {path: in, schema: 't timestamp, v long'}, event_time: t, lateness: 1 hour}"
    )
    (folder / "dataflow.yml").write_text(text)
    pipeline = do.Pipeline.from_yaml(folder / "dataflow.yml", root="unused")
    assert pipeline.name == "dataflow"
    assert list(pipeline.tables) == ["events", "counter__count", "both__first__scaled", "both__second__scaled"]


def test_a_node_may_be_a_script(folder):
    (folder / "show.py").write_text("from dora import Node\nfrom factors import FACTOR\n")
    (folder / "dataflow.yml").write_text("""
nodes:
  - id: show
    path: show.py
    env: {WIDTH: 80}
    restart_policy: on-failure
    inputs: {tick: dora/timer/secs/1}
    outputs: [shown]
    output_types: {shown: string}
""")
    operator = do.Pipeline.from_yaml(folder / "dataflow.yml", root="unused").dataflow.nodes["events"].operator
    (one,) = operator.operators
    assert (one.path, one.language, one.state, one.env) == ("show", "script", "replay", (("WIDTH", "80"),))
    assert operator.types == {"show/shown": "string"}
    assert dict(operator.files).keys() == {"show.py", "factors.py"}


# --- what is wrong ---------------------------------------------------------------------------------------------------


def told(folder, old, new, text=None):
    path = folder / "dataflow.yml"
    path.write_text((text or FILES["dataflow.yml"]).replace(old, new))
    with pytest.raises(QueryError) as caught:
        build(folder, [1])
    return str(caught.value).replace(str(path), "dataflow.yml")


WRONG = {
    "key": ("python: count.py", "python: count.py\n      restarts: yes",
        "dataflow.yml:10:7: the operator 'counter' has no key 'restarts'"),
    "top": ("nodes:", "nodez: 1\nnodes:", "dataflow.yml:2:1: a dataflow has no key 'nodez'"),
    "node": ("number: numbers/n", "number: nummern/n",
        "dataflow.yml:11:17: source node `nummern` mapped to input `counter/number` does not exist"),
    "output": ("number: numbers/n", "number: numbers/m",
        "dataflow.yml:11:17: output `numbers/m` mapped to input `counter/number` does not exist"),
    "no such operator": ("{source: first/scaled, queue_size: 100}", "counter/opp/count",
        "dataflow.yml:24:21: output `counter/opp/count` mapped to input `both/second/n` does not exist"),
    "no operator": ("number: numbers/n", "number: numbers/op/n",
        "dataflow.yml:11:17: output `numbers/op/n` mapped to input `counter/number` does not exist"),
    "timer": ("secs/2", "secs/0", "dataflow.yml:12:15: 'dora/timer/secs/0' is no timer"),
    "unit": ("secs/2", "hours/2", "dataflow.yml:12:15: 'dora/timer/hours/2' is no timer"),
    "dora": ("dora/timer/secs/2", "dora/log", "dataflow.yml:12:15: there is no input 'dora/log'"),
    "logs": ("dora/timer/secs/2", "dora/logs/loud", "dataflow.yml:12:15: 'dora/logs/loud' is no source of log entries"),
    "logs of": ("dora/timer/secs/2", "dora/logs/info/x", "dataflow.yml:12:15: 'dora/logs/info/x' names no node with operators"),
    "file": ("python: count.py", "python: cuont.py",
        "dataflow.yml:9:15: the operator 'counter': the file 'cuont.py' is not there"),
    "class": ("python: count.py", "python: factors.py",
        "dataflow.yml:9:15: the operator 'counter': the file 'factors.py' has no class Operator"),
    "half": ("python: count.py", "python: half.py",
        "dataflow.yml:9:15: the operator 'counter', in 'half.py': it has get_state() without set_state(value), so that"),
    "type": ("int64", "int65", "dataflow.yml:15:29: the operator 'counter': 'int65' is no type of values"),
    "queue": ("queue_size: 100", "queue_size: many",
        "dataflow.yml:24:56: the input 'n' of the operator 'both/second': its queue_size is 'many'"),
    "timeout": ("queue_size: 100", "input_timeout: 5", "it cannot time out, since here an input is closed when what it reads is"),
    "policy": ("queue_size: 100", "queue_policy: newest", "there is no queue_policy 'newest'"),
    "kind": ("    operators:", "    operator: {}\n    operators:",
        "dataflow.yml:16:5: the node 'both': multiple exclusive fields set"),
    "place": ("    operators:", "    inputs: {}\n    operators:",
        "the node 'both' has 'inputs' beside its operators. To do: move it into the operators: block"),
    "twice": ("id: second", "id: first", "there is another operator of 'both' with the id 'first'"),
    "id": ("id: counter", "id: a/b", "'a/b' is no id for a node"),
    "build": ("python: count.py", "python: count.py\n      build: [make]", "build is no text"),
    "wasm": ("python: count.py", "wasm: count.wasm", "operators in WebAssembly are not run here"),
    "url": ("python: count.py", "python: https://example.org/count.py", "its Python file is at a URL"),
    "source": ("source: numbers", "source: nummern", "there is no source 'nummern'"),
    "no outputs": ("    outputs:\n      n: v", "    description: none", "the source 'numbers' has no outputs"),
    "state": ("python: count.py", "python: count.py\n      state: json", "its state cannot be saved as 'json'"),
    "delay": ("queue_size: 100", "delay: soon", "the input 'n' of the operator 'both/second': its delay is 'soon'"),
    "time limit": ("python: count.py", "python: count.py\n      time_limit: 0 s",
        "the operator 'counter': its time_limit is '0 s'"),
    "program": ("operator:\n      python: count.py", "path: ./program\n    args:",
        "dataflow.yml:8:11: the node 'counter': its path is the native program './program', which speaks to dora's daemon"),
    "no script": ("operator:\n      python: count.py", "path: cuont.py\n    args:",
        "dataflow.yml:8:11: the node 'counter': the file 'cuont.py' is not there"),
    "no inputs": ("inputs: {n: {source: first/scaled, queue_size: 100}}", "env: {n: 1}",
        "has no inputs, so that it is told of nothing. To do: give it a timer"),
    "an operator": ("operator:\n      python: count.py", "path: count.py\n    args:",
        "the node 'counter': the script 'count.py' has a class Operator and does nothing with a Node. To do: make it"),
    "arguments": ("operator:\n      python: count.py", "path: count.py\n    args:",
        "dataflow.yml:10:7: the node 'counter': args is no text"),
    "no operators": ("    operators:", "    operators: []\n    description:",
        "dataflow.yml:17:16: the operators of 'both' are none. To do: begin each with"),
    "conda": ("{source: scale.py}", "{source: scale.py, conda_env: vision}",
        "the operator 'both/first': it runs in the workers' own Python, not in the conda environment"),
    "deploy": ("    operators:", "    deploy: 5\n    operators:", "dataflow.yml:17:13: the node 'both': deploy is '5'"),
    "strict": ("nodes:", "strict_types: 1\nnodes:", "dataflow.yml:2:15: the dataflow: strict_types is '1'"),
    "when": ("nodes:", "exit_when_nodes_finish: [a]\nnodes:", "2:25: the dataflow: exit_when_nodes_finish is ['a']"),
    "health": ("nodes:", "health_check_interval: -1\nnodes:", "2:24: the dataflow: health_check_interval is '-1'"),
    "rules": ("nodes:", "type_rules: [{from: a/b}]\nnodes:", "2:13: the dataflow: type_rules is [{'from': 'a/b'}]"),
    "restarts": ("python: count.py", "python: count.py\n      restart_policy: bogus",
        "dataflow.yml:10:23: the operator 'counter': restart_policy is 'bogus'. To do: write never, on-failure or always"),
    "how often": ("python: count.py", "python: count.py\n      max_restarts: abc",
        "dataflow.yml:10:21: the operator 'counter': max_restarts is 'abc'"),
    "framing": ("python: count.py", "python: count.py\n      output_framing: {count: zip}",
        "dataflow.yml:10:23: the operator 'counter': output_framing is {'count': 'zip'}"),
    "framing of": ("python: count.py", "python: count.py\n      output_framing: {n: raw}",
        "dataflow.yml:10:23: the operator 'counter' has no output 'n' for its output_framing"),
    "core type": ("int64", "std/core/v1/Int65", "15:29: the operator 'counter': 'std/core/v1/Int65' is no type of values"),
    "wanted": ("scale.py\n        inputs: {n: {source: first/scaled, queue_size: 100}}",
        "scale.py\n        inputs: {n: counter/count}\n        input_types: {n: Int32}",
        "dataflow.yml:25:26: the input 'n' of the operator 'both/second' wants 'Int32', and 'counter/count' sends 'int64'"),
    "wanted of": ("scale.py\n        inputs: {n: {source: first/scaled, queue_size: 100}}",
        "scale.py\n        inputs: {n: counter/count}\n        input_types: {m: Int32}",
        "dataflow.yml:25:22: the operator 'both/second' has no input 'm' for its type. To do: declare it in inputs:"),
    "wanted strictly": ("nodes:", ("strict_types: true\nnodes:\n  - {id: b, path: scale.py, inputs: {n: a/o}, "
        "input_types: {n: Int}}\n  - {id: a, operator: {python: scale.py, inputs: {n: b/o}, outputs: [o]}}"),
        "wants 'Int', and 'a/o' says no type (strict_types). To do: give it one under output_types"),
    "digest": ("operator:\n      python: count.py", "path: factors.py\n    path_sha256: 0\n    args:",
        "dataflow.yml:9:18: the node 'counter': path_sha256 is '0'. To do: write the 64 digits"),
    "no yaml": ("nodes:", "nodes: [", "this is no YAML"),
    "no nodes": ("nodes:", "debug:", "the dataflow has no list of nodes"),
}  # fmt: skip


OWN_SOURCE = "source: {files: {path: in, schema: 't timestamp, v long'}, event_time: t, lateness: 1 hour}"
WRONG_SOURCES = {
    "lateness": ("1 hour", "soon", "4:89: the source 'numbers': the lateness: 'soon' is no duration"),
    "type": ("long", "lonk", "4:40: not a schema: no type is called 'lonk'"),
    "event time": ("event_time: t", "event_time: v", "4:76: the event time 'v' is a bigint, not a timestamp"),
    "no event time": ("event_time: t", "event_time: w", "4:76: the event time uses column 'w', which its input does not have"),
    "column": ("n: v", "n: w", "6:10: the output 'numbers/n' is the column 'w', which the source does not have"),
}


@pytest.mark.parametrize("name", WRONG_SOURCES)
def test_what_is_wrong_in_a_source_has_its_line_and_column(name, folder):
    old, new, wanted = WRONG_SOURCES[name]
    text = FILES["dataflow.yml"].replace("source: numbers", OWN_SOURCE)
    assert f"dataflow.yml:{wanted}" in told(folder, old, new, text)


def test_what_is_wrong_in_a_source_is_told_with_all_else(folder):
    text = FILES["dataflow.yml"].replace("source: numbers", OWN_SOURCE.replace("1 hour", "soon")).replace("n: v", "n: w")
    found = told(folder, "secs/2", "secs/x", text)
    assert [line.split(":")[1] for line in found.splitlines()[1:]] == ["4", "6", "12"]


@pytest.mark.parametrize("name", WRONG)
def test_an_error_has_its_line_and_column(name, folder):
    old, new, wanted = WRONG[name]
    assert old in FILES["dataflow.yml"]
    assert wanted in told(folder, old, new)


SETTINGS = """
strict_types: true
exit_when_nodes_finish: false
health_check_interval: 0.5
debug: {enable_debug_inspection: true}
type_rules: [{from: mine/v1/A, to: mine/v1/B}]
deploy: {machine: a, working_dir: b, labels: {gpu: "true"}, distribute: scp}
nodes:
  - id: a
    name: first
    cpu_affinity: [0, 2]
    operator: {python: count.py, inputs: {t: dora/timer/hz/1e3}, input_types: {t: UInt64}, outputs: [o, p],
      output_types: {o: mine/v1/A, p: "std/media/v1/AudioFrame[rate=8]"}, output_framing: {o: arrow-ipc},
      output_metadata: {o: [k]}, restart_policy: on-failure, max_restarts: 3, restart_delay: 0.5, min_log_level: INFO,
      max_log_size: 50MB, max_rotated_files: 5}
  - id: b
    path: show.py
    path_sha256: DIGEST
    inputs: {o: a/o, p: a/p}
    input_types: {o: mine/v1/B, p: std/media/v1/AudioFrame}
    max_restart_delay: 1
    restart_window: 1
    health_check_timeout: 1
    finish_grace_secs: 1
    shared_memory_pool_size: 64MB
"""


def of_settings(folder, old="", new=""):
    (folder / "show.py").write_text("print()\n")
    digest = hashlib.sha256(b"print()\n").hexdigest()
    assert old in SETTINGS
    return DataflowFile(SETTINGS.replace(old, new).replace("DIGEST", digest), "dataflow.yml", folder, {})


def test_what_tells_dora_how_to_run_its_processes_is_right_as_dora_has_it(folder):
    made = of_settings(folder)
    assert [(one.path, one.types, one.inputs[0].interval) for one in made.operators[:1]] == [("a", (), 1_000_000)]
    assert made.named_types == {"a/o": "mine/v1/A", "a/p": "std/media/v1/AudioFrame[rate=8]"}


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("{from: mine/v1/A,", "{from: mine/v1/C,", "wants 'mine/v1/B', and 'a/o' sends 'mine/v1/A'"),
        ("p: std/media/v1/AudioFrame}", "p: 'std/media/v1/AudioFrame[rate=16]'}", "wants 'std/media/v1/AudioFrame[rate=16]'"),
        ("t: UInt64", "t: String", "wants 'String', and 'dora/timer/hz/1e3' sends 'std/core/v1/UInt64'"),
        ("hz/1e3", "hz/1e-300", "'dora/timer/hz/1e-300' is no timer"),
        ("hz/1e3", "hz/inf", "'dora/timer/hz/inf' is no timer"),
    ],
)
def test_types_of_inputs_and_timers_are_looked_at(folder, old, new, wanted):
    with pytest.raises(QueryError, match=re.escape(wanted)):
        of_settings(folder, old, new)


def test_a_script_that_is_another_one_than_its_digest_says_is_refused(folder):
    wrong = "0" * 64
    with pytest.raises(QueryError, match=r"the file 'show.py' has another SHA-256 than path_sha256: ([0-9a-f]{64})") as caught:
        of_settings(folder, "DIGEST", wrong)
    (told,) = re.findall(r"path_sha256: ([0-9a-f]{64})", str(caught.value))
    assert of_settings(folder, "DIGEST", told).operators[1].language == "script"


def test_a_type_that_has_but_a_name_is_pinned_by_the_first_message(folder):
    made = of_settings(folder)
    assert made.operators[0].types == ()
    (folder / "dataflow.yml").write_text(SETTINGS.replace("    path_sha256: DIGEST\n", ""))
    told = CliRunner().invoke(main, ["check", str(folder / "dataflow.yml")], catch_exceptions=False).output
    assert "a/o has the type mine/v1/A by its name alone: its first message says what the others have to be" in told


def test_each_circle_is_remarked_on_where_it_is_closed(folder):
    nodes = "".join(
        f"  - {{id: {name}, operator: {{python: count.py, inputs: {{t: dora/timer/secs/1, x: {reads}/o}}, outputs: [o]}}}}\n"
        for name, reads in ("ab", "ba", "cd", "dc", "ee")
    )
    remarks = DataflowFile(f"nodes:\n{nodes}", "dataflow.yml", folder, {}).remarks
    assert re.findall(r"yml:(\d+):(\d+): .*without a delay: (.*?);", "\n".join(remarks)) == [
        ("3", "76", "b -> a -> b"), ("5", "76", "d -> c -> d"), ("6", "76", "e -> e"),
    ]  # fmt: skip
    delayed = f"nodes:\n{nodes}"
    for name in "bde":
        delayed = delayed.replace(f"x: {name}/o", f"x: {{source: {name}/o, delay: 1 s}}")
    assert DataflowFile(delayed, "dataflow.yml", folder, {}).remarks == []


def test_variables_are_as_they_are_written(folder):
    text = """
env: {ZERO: 0, ONE: 1, FLOAT: 1.0, NEGATIVE: -1, TRUE: true, FALSE: False, TEXT: "1", NOTHING: null, EMPTY: ""}
nodes: [{id: a, operator: {python: count.py, inputs: {t: dora/timer/secs/1}}}]
"""
    (one,) = DataflowFile(text, "dataflow.yml", folder, {}).operators
    assert dict(one.env) == {
        "ZERO": "0", "ONE": "1", "FLOAT": "1.0", "NEGATIVE": "-1", "TRUE": "true", "FALSE": "false", "TEXT": "1", "NOTHING": "",
        "EMPTY": "",
    }  # fmt: skip
    with pytest.raises(QueryError) as caught:
        DataflowFile(text.replace("ONE: 1", "ONE: [1], OTHER: {a: 1}").replace("count.py", "lost.py"), "dataflow.yml", folder, {})
    assert [line.split(":")[1:3] for line in str(caught.value).splitlines()[1:]] == [["2", "21"], ["2", "33"], ["3", "36"]]


def test_all_errors_are_told_at_once(folder):
    text = told(folder, "numbers/n", "lost/n").replace("count.py", "lost.py")
    assert text.splitlines()[0] == "dataflow.yml has 2 errors"
    both = FILES["dataflow.yml"].replace("count.py", "lost.py").replace("secs/2", "secs/x")
    assert told(folder, "", "", both).splitlines()[0] == "dataflow.yml has 2 errors"


def test_all_that_is_wrong_with_one_input_is_told_and_nothing_that_is_not(folder):
    node = "  - {id: show, path: factors.py, outputs: [], inputs: {n: {source: numbers/n, queue_size: many, delay: 1 mss}}}\n"
    found = told(folder, "", "", FILES["dataflow.yml"] + node)
    assert ["queue_size" in line or "delay" in line for line in found.splitlines()[1:]] == [True, True]


def test_an_output_that_is_not_there_is_told_beside_what_is_wrong_with_its_source(folder):
    text = FILES["dataflow.yml"].replace("source: numbers", OWN_SOURCE.replace("1 hour", "soon"))
    found = told(folder, "number: numbers/n", "number: numbers/m", text)
    assert [line.split(":")[1] for line in found.splitlines()[1:]] == ["4", "11"]
    assert "output `numbers/m` mapped to input `counter/number` does not exist" in found


def test_a_circle_with_a_delay_is_right(folder):
    text = FILES["dataflow.yml"].replace("{n: numbers/n}", "{n: {source: second/scaled, delay: 10 ms}}")
    (folder / "dataflow.yml").write_text(text)
    (first,) = [one for one in build(folder, [1]).dataflow.nodes["events"].operator.operators if one.id == "first"]
    assert [(one.source, one.delay) for one in first.inputs] == [("both/second/scaled", 10_000)]


def test_python_that_is_none_is_told(folder):
    (folder / "count.py").write_text("class Operator\n")
    assert "the file 'count.py' is no Python, line 1" in told(folder, "", "")


def test_a_file_that_would_grow_beyond_all_bounds_is_refused(folder):
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
    )
    assert "more than 500000 values" in told(folder, "", "", f"{bomb}nodes: *g\n")


def test_a_source_without_event_time_is_refused(folder):
    sources = do.Sources()
    sources.add("numbers", do.MemorySource([], schema="t timestamp, v long"))
    with pytest.raises(QueryError, match="the source 'numbers' has no event time"):
        do.Pipeline.from_yaml(folder / "dataflow.yml", root="unused", sources=sources)
    alone = {"numbers": do.MemorySource([], schema="t timestamp, v long")}
    with pytest.raises(QueryError, match=r"no event time.*sources.add\('shop', FileSource\(...\), event_time='at'\)"):
        do.Pipeline.from_yaml(folder / "dataflow.yml", root="unused", sources=alone)
    with pytest.raises(PipelineError, match=r"'numbers\.csv' is no source"):
        do.Pipeline.from_yaml(folder / "dataflow.yml", root="unused", sources={"numbers": "numbers.csv"})


def test_queries_take_a_source_alone(tmp_path):
    path = tmp_path / "q.yaml"
    path.write_text("pipeline: q\nstreams: {big: {from: rows, steps: [filter: v > 1]}}\ntables: {big: big}\n")
    sources = {"rows": do.FileSource("in", schema="v long")}
    assert do.Pipeline.from_yaml(path, root="unused", sources=sources).tables["big"].name == "big"


def test_a_file_that_is_not_there():
    with pytest.raises(PipelineError, match="the file cannot be read"):
        do.Pipeline.from_yaml("lost.yml", root="unused")
