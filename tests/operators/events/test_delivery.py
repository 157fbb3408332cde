"""Many and large messages, with kills at random moments: nothing is lost, doubled or out of order, and no counter goes back."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from dagster_operators.api.stored_pipeline import StoredPipeline
from dagster_operators.operators.events.message_bytes import from_ipc
from dagster_operators.operators.events.wiring import table_of
from tests.crash.killed import REPOSITORY
from tests.engines import SAIL

pytestmark = [pytest.mark.slow, pytest.mark.crash, pytest.mark.sail, pytest.mark.timeout(1200)]

KILLS = 4
SEED = int(os.environ.get("DAGSTER_OPERATORS_SEED", str(random.randrange(10**6))))  # noqa: S311

COUNT = """
class Operator:
    def __init__(self):
        self.count = 0

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.count += 1
            send_output("data", dora_event["value"], {"count": self.count})
        return DoraStatus.CONTINUE
"""
DIGEST = """
import hashlib

class Operator:
    def __init__(self):
        self.counts = []

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.counts = [*self.counts[-1:], dora_event["metadata"]["count"]]
            digest = hashlib.sha256(dora_event["value"].buffers()[1]).hexdigest()
            send_output("told", [f"{self.counts} {len(dora_event['value'])} {digest}"])
        return DoraStatus.CONTINUE
"""
DATAFLOW = """
nodes:
  - id: rows
    source:
      files: {path: "FOLDER/input/*.parquet", format: parquet, schema: "t timestamp, data binary", max_files: 1}
      event_time: t
      finished: true
    outputs: {data: data}
  - {id: count, operator: {python: count.py, inputs: {data: rows/data}, outputs: [data]}}
  - {id: digest, operator: {python: digest.py, inputs: {data: count/data}, outputs: [told], output_types: {told: string}}}
"""


def build(folder, root):
    text = Path(folder, "dataflow.yml")
    return do.Pipeline.from_yaml(text, root=str(root), name="delivery", engine=SAIL)


def content(number, size):
    """The bytes of a message: no two have the same."""
    return hashlib.sha256(str(number).encode()).digest() * (size // 32)


def write_input(folder, messages, size, files):
    (folder / "input").mkdir(parents=True)
    for name, text in {"count.py": COUNT, "digest.py": DIGEST, "dataflow.yml": DATAFLOW.replace("FOLDER", str(folder))}.items():
        (folder / name).write_text(text)
    for file in range(files):
        numbers = range(file * messages // files, (file + 1) * messages // files)
        times = pa.array([number * 1_000 for number in numbers], pa.timestamp("us", "UTC"))
        data = pa.array([content(number, size) for number in numbers], pa.binary())
        pq.write_table(pa.table({"t": times, "data": data}), folder / "input" / f"{file:03}.parquet")


def run_and_kill(folder, root, epochs, seconds):
    """Run the pipeline in a process of its own that is killed some seconds after some epochs; whether it came to that."""
    code = (
        "from tests.operators.events import test_delivery as module\n"
        f"pipeline = module.build({str(folder)!r}, {str(root)!r})\n"
        "print('begins', flush=True)\n"
        "while not pipeline.run_epoch(wait_seconds=60).empty:\n"
        "    print('an epoch', flush=True)"
    )
    environment = {**os.environ, "DAGSTER_OPERATORS_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        for _ in range(1 + epochs):
            process.stdout.readline()
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(("messages", "size", "files"), [(10_000, 2**10, 12), (1_000, 2**20, 12)], ids=["1_KiB", "1_MiB"])
def test_killed_at_random_moments_every_message_is_there_once_and_in_order(sail, tmp_path, messages, size, files):
    write_input(tmp_path, messages, size, files)
    root, chance = tmp_path / "root", random.Random(SEED)  # noqa: S311
    killed = sum(run_and_kill(tmp_path, root, chance.randrange(3), chance.uniform(0, 0.6)) for _ in range(KILLS))
    build(tmp_path, root).run_until_caught_up(wait_seconds=60)
    pipeline = build(tmp_path, root)
    told = [(row.seq, row.value) for row in pipeline.read("digest/told").select("seq", "value").collect()]
    digests = [hashlib.sha256(content(number, size)).hexdigest() for number in range(messages)]
    counts = [[number] if number == 1 else [number - 1, number] for number in range(1, messages + 1)]
    wanted = [(number + 1, [f"{counts[number]} {size} {digests[number]}"]) for number in range(messages)]
    note = f"DAGSTER_OPERATORS_SEED={SEED}, {killed} kills"
    assert told == wanted, note
    assert stored(pipeline, "count/data") == [(number + 1, number + 1, digests[number]) for number in range(messages)], note
    assert killed, note


def stored(pipeline, address):
    """The messages of an output as they are stored: number, count and digest of each."""
    table = StoredPipeline(pipeline.root).to_arrow(table_of(address), columns=["seq", "value", "metadata"])
    rows = (row for batch in table.to_batches(max_chunksize=64) for row in batch.to_pylist())
    told = [
        (row["seq"], json.loads(row["metadata"])["count"], hashlib.sha256(from_ipc(row["value"]).buffers()[1]).hexdigest())
        for row in rows
    ]
    return sorted(told)
