"""How long a line of standard input takes until its message is in a table, in ``dagster-operators run --stdin``.

Lines are given one at a time, each once the message of the one before is committed: an epoch each, the shortest latency there is.
No ratio is claimed: the seconds are told, with their spread, and the first epochs, which start the engine, are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.event_operators import FORWARD
from benchmarks.harness import Spread, workplace

FIRST = 3
DATAFLOW = """
nodes:
  - id: rows
    source: {files: {path: in/*.json, format: json, schema: "t timestamp, v long"}, event_time: t}
    outputs: {v: v}
  - id: send
    operator: {python: forward.py, inputs: {v: rows/v}, outputs: [data]}
"""


def measure(folder: Path, on: str, lines: int) -> list[float]:
    """The seconds that each line took."""
    folder.mkdir(parents=True)
    (folder / "forward.py").write_text(FORWARD)
    (folder / "dataflow.yml").write_text(DATAFLOW)
    command = [sys.executable, "-m", "dagster_operators.cli", "run", "dataflow.yml", "--stdin", "rows"]
    environment = {**os.environ, "DAGSTER_OPERATORS_ENGINE": on}
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    stdin, stdout = process.stdin, process.stdout
    if stdin is None or stdout is None:
        raise SystemExit("the run has no pipes")
    seconds = []
    for number in range(lines):
        began = time.perf_counter()
        stdin.write(json.dumps({"t": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z", "v": number}) + "\n")
        while not stdout.readline().startswith("epoch "):
            if process.poll() is not None:
                raise SystemExit(f"the run ended with {process.returncode}")
        seconds.append(time.perf_counter() - began)
    stdin.close()
    process.wait()
    return seconds


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sail", choices=["sail", "spark"])
    parser.add_argument("--lines", type=int, default=30)
    given = parser.parse_args()
    with workplace() as place:
        found = Spread.of(measure(place / "run", given.engine, given.lines + FIRST)[FIRST:])
    print(json.dumps({"name": "live_latency_seconds", "met": None, "details": {"lines": given.lines, **vars(found)}}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
