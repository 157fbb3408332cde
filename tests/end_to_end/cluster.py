"""A Spark standalone cluster on this machine: a master and two workers, each a process; and a pipeline to run on it.

Dagster's processes share it through a Spark Connect server that is the cluster's application.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

import dagster_operators as do
from dagster_operators.runtime.engine import Spark

REPOSITORY = Path(__file__).parents[2]
EPOCHS, ROWS, KEYS = 3, 200, 7
_PATIENCE = 150
_HOST = "127.0.0.1"


class RunningTotal(do.ArrowOperator):
    """Each key's total as of the epoch, from the workers' own state; tells on how many machines' processes it ran."""

    state = {"totals": do.KeyedState("k string, total long", key="k")}

    def output_schema(self, rows: pa.Schema) -> str:
        return "k string, total long, worker long"

    def process_batch(self, batch: pa.RecordBatch, ctx: do.OperatorContext, out: do.Collector) -> None:
        sums = pa.table({"k": batch["k"], "v": batch["v"]}).group_by("k").aggregate([("v", "sum")])
        before = pc.fill_null(ctx.state["totals"].get(sums.select(["k"]))["total"], 0)
        ctx.state["totals"].put(pa.table({"k": sums["k"], "total": pc.add(sums["v_sum"], before)}))

    def handle_checkpoint(self, epoch: int, ctx: do.OperatorContext, out: do.Collector) -> None:
        totals = ctx.state["totals"].scan()
        out.collect(totals.append_column("worker", pa.array([os.getppid()] * totals.num_rows, pa.int64())))


def rows() -> list[list[dict[str, Any]]]:
    """The input, epoch by epoch."""
    return [
        [{"k": f"k{i % KEYS}", "v": i, "t": f"2024-01-01T00:{epoch:02d}:{i % 60:02d}Z"} for i in range(ROWS)]
        for epoch in range(EPOCHS)
    ]


def pipeline(root: str, engine: Spark | None, parallelism: int, *, few: bool = False) -> do.Pipeline:
    """An updating table and an operator with state in the workers; if not few, a table and a window's aggregates, too."""
    made = do.Pipeline("spread", root=root, engine=engine, parallelism=parallelism)
    stream = made.source("rows", do.MemorySource(rows(), schema="k string, v long, t timestamp"), event_time="t", finished=True)
    stream.key_by("k").aggregate(n="count(*)").to_table("counts")
    if not few:
        stream.filter("v % 2 = 0").to_table("even")
        stream.key_by("k").window(do.Tumbling("10 seconds")).aggregate(n="count(*)", total="sum(v)").to_table("windows")
    stream.key_by("k").apply(RunningTotal()).to_table("totals")
    return made


def results(made: do.Pipeline) -> dict[str, list[list[Any]]]:
    """The tables' rows, in an order that does not depend on the engine."""
    columns = {"even": ["k", "v"], "windows": ["k", "window_start", "n", "total"], "counts": ["k", "n"], "totals": ["k", "total"]}
    return {
        table: sorted([str(value) for value in row] for row in made.read(table).select(*columns[table]).collect())
        for table in made.tables
    }


_CONFIG = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": _HOST,
    "spark.driver.bindAddress": _HOST,
    "spark.log.level": "OFF",
}
"""Little memory for each part."""


def job(root: str) -> dg.JobDefinition:
    """The job of two of the tables, a process for each op, on the engine that the environment names."""
    made = pipeline(root, None, 3, few=True)
    return do.build_definitions(made, executor=dg.multiprocess_executor).resolve_job_def("spread_epoch")


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers; gives the master's address, and ends them all."""
    port = _free_port()
    address = f"spark://{_HOST}:{port}"
    with contextlib.ExitStack() as ends:
        _daemon(ends, folder, "master", "master.Master", "--host", _HOST, "--port", str(port), "--webui-port", "0", until="ALIVE")
        for number in (1, 2):
            work = ["--work-dir", str(folder / f"work{number}"), "--host", _HOST, "--webui-port", "0", "--cores", "1"]
            _daemon(
                ends,
                folder,
                f"worker{number}",
                "worker.Worker",
                *work,
                "--memory",
                "700m",
                address,
                until="Successfully registered",
            )
        yield address


@contextlib.contextmanager
def connect_server(folder: Path, master: str) -> Iterator[str]:
    """A Spark Connect server whose work the cluster does; gives its address, and ends it."""
    port = _free_port()
    settings = {**_CONFIG, "spark.connect.grpc.binding.address": _HOST, "spark.connect.grpc.binding.port": str(port)}
    settings["spark.log.level"] = "INFO"
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with contextlib.ExitStack() as ends:
        _daemon(
            ends, folder, "connect", "SparkSubmit", "--master", master, *given, "--class", server, "spark-internal",
            until="Spark Connect server started", heap="512m",
        )  # fmt: skip
        yield f"sc://{_HOST}:{port}"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        return int(free.getsockname()[1])


def _daemon(
    ends: contextlib.ExitStack, folder: Path, name: str, kind: str, *arguments: str, until: str, heap: str = "256m"
) -> None:
    import pyspark

    home = Path(pyspark.__file__).parent
    log = folder / f"{name}.log"
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": heap,
        "PYTHONPATH": str(REPOSITORY),  # the package and the tests' operators, installed on the workers
    }
    with log.open("wb") as output:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    ends.callback(process.wait)
    ends.callback(process.kill)
    deadline = time.monotonic() + _PATIENCE
    while until not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, f"{name} did not start: {log.read_text(errors='replace')}"
        time.sleep(0.1)


def run(root: str, address: str, parallelism: int) -> dict[str, Any]:
    """Run the pipeline on the cluster, driven by a process of its own (this one may have a Spark session already)."""
    command = [sys.executable, "-m", "tests.end_to_end.cluster", root, address, str(parallelism)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=4 * _PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main(root: str, address: str, parallelism: str) -> dict[str, Any]:
    """What the driver's process does."""
    made = pipeline(root, Spark(master=address, config=_CONFIG), int(parallelism))
    epochs = [result.epoch for result in made.run_until_caught_up()]
    workers = {row.worker for row in made.read("totals").select("worker").distinct().collect()}
    return {"epochs": epochs, "tables": results(made), "workers": len(workers)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
