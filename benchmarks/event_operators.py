"""Event operators beside dora from its package, and operators in libraries.

- Messages of 8 B, 1 KiB, 64 KiB and 1 MiB between two Python operators in one stage of a large epoch: at least as many a second
  as dora passes on between two operators in two processes. In both the first operator makes them. Ours are stored exactly once,
  with the epoch; dora's are in memory. dora is run by ``--dora``, the folder of programs of an environment that has it
  (``pip install dora-rs dora-rs-cli``); without it the rates alone are told.
- Beside it the same where the messages come out of a source's files, which dora has not.
- Events that an operator in C is told of and answers: at least 40,000 a second, where a compiler is there.

Rates are of the time that an epoch takes beyond that of one with a single message.
``--scale 0.1`` takes a tenth of the messages.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dagster_operators as do
from benchmarks.events import engine
from benchmarks.harness import Claim, Spread, workplace

MESSAGES = {8: 200_000, 2**10: 100_000, 2**16: 5_000, 2**20: 500}
"""How many messages of each size."""

NATIVE = 500_000
WANTED = 40_000
SCHEMA = "t timestamp, data binary"

FORWARD = """
from dora import DoraStatus

class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            send_output("data", dora_event["value"])
        return DoraStatus.CONTINUE
"""
TAKE = """
from dora import DoraStatus

class Operator:
    def __init__(self):
        self.count = 0

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.count += len(dora_event["value"]) > 0
        return DoraStatus.CONTINUE
"""
BURST = 50
"""So many messages our first operator sends at an event."""

MAKE = """
import numpy as np, pyarrow as pa
from dora import DoraStatus

VALUES = [pa.array(np.random.default_rng(seed).integers(0, 256, SIZE, np.uint8)) for seed in range(16)]

class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            for number in range(dora_event["value"][0].as_py()):
                send_output("data", VALUES[number % len(VALUES)])
        return DoraStatus.CONTINUE
"""
MADE = """
nodes:
  - id: rows
    source: {files: {path: FOLDER/input/*.parquet, format: parquet, schema: "t timestamp, n long"}, event_time: t}
    outputs: {n: n}
  - id: send
    operator: {python: make.py, inputs: {n: rows/n}, outputs: [data]}
  - id: take
    operator: {python: take.py, inputs: {data: send/data}}
"""
OURS = """
nodes:
  - id: rows
    source: {files: {path: FOLDER/input/*.parquet, format: parquet, schema: "t timestamp, data binary"}, event_time: t}
    outputs: {data: data}
  - id: send
    operator: {python: forward.py, inputs: {data: rows/data}, outputs: [data]}
  - id: take
    operator: {python: take.py, inputs: {data: send/data}}
"""
LIBRARY = """
  - id: native
    operator: {shared-library: forward, inputs: {data: rows/data}, outputs: [data], state: none}
"""
DORA = """
nodes:
  - id: send
    operator: {python: send.py, inputs: {tick: dora/timer/millis/500}, outputs: [data]}
  - id: take
    operator: {python: receive.py, inputs: {data: {source: send/data, queue_size: COUNT, queue_policy: backpressure}}}
"""
SEND = """
import numpy as np, pyarrow as pa
from dora import DoraStatus

class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] != "INPUT":
            return DoraStatus.CONTINUE
        value = pa.array(np.zeros(SIZE, np.uint8))
        for _ in range(COUNT):
            send_output("data", value)
        return DoraStatus.STOP
"""
RECEIVE = """
import json, time
from dora import DoraStatus

class Operator:
    def __init__(self):
        self.count, self.first, self.last = 0, 0.0, 0.0

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.last = time.perf_counter()
            self.first, self.count = self.first or self.last, self.count + 1
        if dora_event["type"] == "INPUT_CLOSED" or self.count == COUNT:
            with open("FOLDER/received.json", "w") as file:
                json.dump([self.count, self.last - self.first], file)
        return DoraStatus.STOP if self.count == COUNT else DoraStatus.CONTINUE
"""
C = """
#include "operator_api.h"
DoraInitResult_t dora_init_operator(void) { DoraInitResult_t result = {0}; return result; }
DoraResult_t dora_drop_operator(void *context) { DoraResult_t result = {0}; return result; }
OnEventResult_t dora_on_event(RawEvent_t *event, const SendOutput_t *send_output, void *context) {
    OnEventResult_t result = {.status = 0};
    if (event->input == NULL) return result;
    Vec_uint8_t data = dora_read_data(event->input);
    result.result = dora_send_operator_output(send_output, "data", data.ptr, data.len);
    dora_free_data(data);
    return result;
}
"""
_API = Path(__file__).parents[1] / "jobs" / "delays"


def measure(place: Path, on: str, dora: Path | None, scale: float, repeats: int) -> Iterator[Claim]:
    """The claims, one after another."""
    for size, most in MESSAGES.items():
        count = max(20, int(most * scale))
        ours, read, beside = [], [], []
        for repeat in range(repeats):
            ours.append(_rate(place / f"{size}-{repeat}", MADE, size, count, on))
            read.append(_rate(place / f"read-{size}-{repeat}", OURS, size, count, on))
            beside += [] if dora is None else [_of_dora(place / f"dora-{size}-{repeat}", dora, size, count)]
            shutil.rmtree(place, ignore_errors=True)
        rate, other = statistics.median(ours), statistics.median(beside) if beside else None
        details: dict[str, Any] = {
            "messages": count,
            "messages_per_second": round(rate),
            "MB_per_second": round(rate * size / 1e6),
            "read_from_files_per_second": round(statistics.median(read)),
        }
        if other:
            ratios = Spread.of([one / another for one, another in zip(ours, beside, strict=True)])
            yield Claim(f"event_operators_{size}_bytes_vs_dora", rate / other, 1.0, True, ratios, {**details, "dora": other})  # noqa: FBT003
        else:
            print(json.dumps({"name": f"event_operators_{size}_bytes", "met": None, "details": details}), flush=True)
    compiler = shutil.which("cc")
    if compiler is None:
        print("there is no C compiler: operators in libraries are left out", flush=True)
        return
    count = max(20, int(NATIVE * scale))
    rates = [_native(place / f"native-{repeat}", compiler, count, on) for repeat in range(repeats)]
    found = Spread.of(rates)
    yield Claim("event_operators_in_c_events_per_second", found.median, WANTED, True, found, {"events": count})  # noqa: FBT003


def _rate(folder: Path, nodes: str, size: int, count: int, on: str) -> float:
    """Messages a second of an epoch, less what one with a single message takes."""
    (folder / "input").mkdir(parents=True)
    files = {"forward.py": FORWARD, "take.py": TAKE, "make.py": MAKE, "dataflow.yml": nodes}
    for name, text in files.items():
        (folder / name).write_text(text.replace("FOLDER", str(folder)).replace("SIZE", str(size)))
    pipeline = do.Pipeline.from_yaml(folder / "dataflow.yml", root=str(folder / "root"), engine=engine(on))
    seconds = []
    for epoch, rows in enumerate((1, 1, count)):
        columns = {"data": pa.array([os.urandom(size)] * rows, pa.binary())}
        if nodes == MADE:
            each = [BURST] * (rows // BURST) + [rows % BURST]
            columns = {"n": pa.array([number for number in each if number], pa.int64())}
        times = pa.array(range(epoch * count, epoch * count + len(next(iter(columns.values())))), pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"t": times, **columns}), folder / "input" / f"{epoch}.parquet", use_dictionary=True)
        began = time.perf_counter()
        pipeline.run_epoch()
        seconds.append(time.perf_counter() - began)
    return count / max(1e-3, seconds[2] - seconds[1])


def _native(folder: Path, compiler: str, count: int, on: str) -> float:
    folder.mkdir(parents=True)
    (folder / "forward.c").write_text(C)
    sources = [str(folder / "forward.c"), str(_API / "operator_api.c")]
    command = [compiler, "-O2", "-shared", "-fPIC", f"-I{_API}", "-o", str(folder / "libforward.so"), *sources]
    subprocess.run(command, check=True)  # noqa: S603 - the machine's compiler
    return _rate(folder, OURS.partition("  - id: send")[0] + LIBRARY.lstrip("\n"), 8, count, on)


def _of_dora(folder: Path, programs: Path, size: int, count: int) -> float:
    """Messages a second that the second operator received, from its first to its last one."""
    folder.mkdir(parents=True)
    for name, text in {"send.py": SEND, "receive.py": RECEIVE, "dataflow.yml": DORA}.items():
        own = text.replace("SIZE", str(size)).replace("COUNT", str(count)).replace("FOLDER", str(folder))
        (folder / name).write_text(own)
    path = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(programs.parent)}
    command = [str(programs / "dora"), "run", "dataflow.yml", "--stop-after", "120s"]
    subprocess.run(command, cwd=folder, env=path, check=False, capture_output=True)  # noqa: S603
    received, seconds = json.loads((folder / "received.json").read_text())
    return round(float(received) / max(1e-3, float(seconds)), 1)


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sail", choices=["sail", "spark"])
    parser.add_argument("--dora", type=Path, help="the folder of programs of an environment that has dora")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with workplace() as place:
        for claim in measure(place / "run", given.engine, given.dora, given.scale, given.repeats):
            claim.report()


if __name__ == "__main__":
    sys.exit(main())
