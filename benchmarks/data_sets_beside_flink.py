"""Programs of data sets beside Flink's DataSet API: sums, joins, iterations, functions. We read files and are durable.

- (a) 20 million rows of two longs, grouped by one of 100,000 keys, and summed;
- (b) 10 million rows joined with a million on a key of the latter, and summed by one of its fields: 1,000 groups;
- (c) connected components by a delta iteration, of 200,000 vertices and a million edges;
- (d) page rank in 10 rounds, of the same graph;
- (e) word count with a function of rows in Python, of 200,000 lines of ten words.

Ours is an epoch of a new pipeline: it reads Parquet files, and commits the sums to a Delta table. Flink 1.20 makes the same rows
in memory, by a sequence and a map, and writes the sums as CSV: it reads nothing, and nothing of it is durable. Its jars come from
Maven Central, by mvn; ``FlinkDataSets.java`` is compiled beside them. Both have two cores; Flink's JVM has a heap of 2 GB, and
768 MB beside it that it sorts in. The seconds of Flink are those of the job, without the start of its cluster; its processor time
has that in it.

Learnt: of five million rows of (a) in one process, 0.08 s of processor time go into files from the engine, 0.05 s out of them,
and 0.28 s into Arrow's hash of keys and the sums; the exchange of the sums is 0.01 s. Of (b) it is 0.31 s for the exchange by
key, and 0.8 s for the lookup. Of (c) most was Arrow's hash of keys, and the order of the edges in each round's lookup, which each
task made anew; a join with the solution set row by row took half of all. Since the lookup of the edges is remembered, and whole
numbers are found without a hash, the last of eight rounds takes 0.03 s instead of 0.49 s; most is the grouping of the first
rounds, then the solution set, which each round writes anew. With a million edges and 40 rounds of 100 rows, an epoch takes 1.9 s
of processor time instead of 11.1 s. Of (e) most is in Python: rows are tuples.
"""

from __future__ import annotations

import argparse
import csv
import math
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dagster_operators as do
from benchmarks import graphs
from benchmarks.events import engine
from benchmarks.harness import Claim, Spread, at_most, processor_seconds, workplace

VERSION = "1.20.0"
PROGRAMS = {
    "sum": (20_000_000, 100_000), "join": (10_000_000, 1_000_000), "components": (1_000_000, 200_000),
    "ranks": (1_000_000, 200_000), "words": (200_000, 20_000),
}  # fmt: skip
"""The rows and the keys of each program: edges and vertices of a graph, lines and words of texts."""
GOALS = {"sum": 1.0, "join": 1.0, "components": 1.5, "ranks": 1.5, "words": None}
"""How many times Flink's time each may take; None where it is only said."""
REPEATS = 5
_SCHEMA = "k long, v long"
_VALUES = 1_000
_FILE = 1_000_000
_OPENED = ("java.util", "java.lang")
"""The packages of Java that Flink looks into."""


def data(folder: Path, rows: int, keys: int) -> None:
    """The rows that Flink makes, too, in files."""
    folder.mkdir(parents=True)
    for begin in range(0, rows, _FILE):
        numbers = np.arange(begin, min(begin + _FILE, rows))
        pq.write_table(pa.table({"k": numbers * 7919 % keys, "v": numbers % _VALUES}), folder / f"{begin:012d}.parquet")


def pipeline(root: Path, place: Path, program: str, on: str) -> do.Pipeline:
    """The program, from files into a table."""
    made = do.Pipeline("beside_flink", root=str(root), engine=engine(on))
    if program in graphs.PROGRAMS:
        made = do.Pipeline("beside_flink", root=str(root), engine=engine(on), parallelism=2)  # as Flink has it
        graphs.PROGRAMS[program](made, place)
        return made

    def rows(name: str) -> do.DataSet:
        return made.source(name, do.FileSource(str(place / name), format="parquet", schema=_SCHEMA)).data_set()

    summed = rows("rows")
    if program == "join":
        pairs = summed.join(rows("groups")).where("k").equal_to("k")
        summed = pairs.project_second("v").project_first("v").data_set()
    summed.group_by(0).sum(1).to_table("results", schema="k long, v long")
    return made


class Flink:
    """Flink's local cluster, in a JVM that runs a program for each line that it gets.

    Args:
        place: A folder for its jars and results.
    """

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self._place = place
        wanted = "".join(
            f"<dependency><groupId>org.apache.flink</groupId><artifactId>{name}</artifactId><version>{VERSION}</version></dependency>"
            for name in ("flink-java", "flink-clients")
        )
        head = "<modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version>"
        (place / "pom.xml").write_text(f"<project>{head}<dependencies>{wanted}</dependencies></project>")
        _run(place, "mvn", "-q", "dependency:copy-dependencies", "-DoutputDirectory=lib")
        _run(place, "javac", "-nowarn", "-cp", "lib/*", "-d", "out", str(Path(__file__).with_name("FlinkDataSets.java")))
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        command = [_tool("java"), "-Xmx2g", *opened, "-cp", "lib/*:out", "FlinkDataSets"]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            command, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, program: str, rows: int, keys: int) -> tuple[float, float]:
        """The seconds and the processor seconds of a program."""
        asked, answers = self._process.stdin, self._process.stdout
        if asked is None or answers is None:
            raise SystemExit("Flink's process has no pipes")
        print(program, rows, keys, self._place / program, file=asked, flush=True)
        for line in answers:
            if line.startswith("seconds "):
                _, seconds, worked = line.split()
                return float(seconds), float(worked)
        raise SystemExit("Flink's process has ended")

    def results(self, program: str) -> dict[str, float]:
        """The results that it wrote, by key."""
        files = sorted((self._place / program).iterdir())
        return {key: float(value) for file in files for key, value in csv.reader(file.read_text().splitlines())}

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not there, and Flink needs it")
    return found


def _run(place: Path, tool: str, *arguments: str) -> None:
    subprocess.run([_tool(tool), *arguments], cwd=place, check=True)  # noqa: S603 - tools of Java, with our arguments


def _ours(root: Path, place: Path, program: str, on: str) -> tuple[float, float, dict[str, float]]:
    made = pipeline(root, place, program, on)
    began, worked = time.perf_counter(), processor_seconds()
    made.run_epoch()
    seconds = time.perf_counter() - began, processor_seconds() - worked
    keys, values = made.to_arrow("results").columns
    shutil.rmtree(root)
    return *seconds, dict(zip(map(str, keys.to_pylist()), map(float, values.to_pylist()), strict=True))


def _are_equal(ours: dict[str, float], theirs: dict[str, float]) -> bool:
    """Whether results are the same, but for the order in which floating-point numbers were added."""
    return ours.keys() == theirs.keys() and all(math.isclose(value, theirs[key], rel_tol=1e-9) for key, value in ours.items())


def _compared(place: Path, flink: Flink, program: str, *, part: int, on: str, repeats: int, processor: bool) -> Claim:
    rows, keys = (number // part for number in PROGRAMS[program])
    if program == "words":
        graphs.lines(place, rows, keys)
    elif program in graphs.PROGRAMS:
        graphs.graph(place, rows, keys)
    else:
        data(place / "rows", rows, keys)
        data(place / "groups", keys, keys)
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for repeat in range(1 + repeats):  # the first one warms both
        *mine, results = _ours(place / f"root {repeat}", place, program, on)
        theirs.append(flink.run(program, rows, keys))
        ours.append((mine[0], mine[1]))
        if not _are_equal(results, flink.results(program)):
            raise SystemExit(f"the results of {program} are others than Flink's")
    by = 1 if processor else 0
    spread: dict[str, Any] = {
        f"{whose}{kind}": Spread.of([one[which] for one in measured[1:]]).__dict__
        for whose, measured in (("", ours), ("flink_", theirs)) for which, kind in enumerate(("seconds", "processor_seconds"))
    }  # fmt: skip
    mine_by, theirs_by = [one[by] for one in ours[1:]], [one[by] for one in theirs[1:]]
    details = {"rows": rows, "keys": keys, "engine": on, **spread}
    return at_most(f"data_sets_{program}_beside_flink", mine_by, theirs_by, goal=GOALS[program] or math.inf, details=details)


def measure(
    *, part: int = 1, on: str = "sail", repeats: int = REPEATS, processor: bool = False, programs: Sequence[str] = tuple(PROGRAMS)
) -> list[Claim]:
    """The claims; of one row in ``part`` only, to see that it works."""
    with workplace() as place:
        flink = Flink(place / "flink")
        try:
            return [
                _compared(place / name, flink, name, part=part, on=on, repeats=repeats, processor=processor) for name in programs
            ]
        finally:
            flink.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", type=int, default=1, help="one row in so many, to see that it works")
    parser.add_argument("--engine", default="sail", choices=("spark", "sail"))
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"how often each is measured ({REPEATS})")
    parser.add_argument("--processor", action="store_true", help="compare processor time, as where others are at work")
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS), help="some of them alone")
    given = parser.parse_args()
    chosen = {"repeats": given.repeats, "processor": given.processor, "programs": given.programs}
    for claim in measure(part=given.part, on=given.engine, **chosen):
        claim.report()
