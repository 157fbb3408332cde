"""Write the storage roots that later versions are tested with. Run by hand, with the code of the checkout it is started in:

    python -m tests.compatibility.make_roots FOLDER [PIPELINE ...]

For a version whose checkout lacks this folder, put that checkout first on the path:

    cd CHECKOUT; PYTHONPATH=CHECKOUT:HERE python -m tests.compatibility.make_roots FOLDER

An archive has a folder for each way in which a pipeline was left: with two epochs complete, or killed in the third one. In it
are the root and what the pipeline reads; beside them in ``rows.json`` the rows that this version finds in the root, and those of
a run over all epochs. A JSON file for each pipeline has what the version's plan and history say.
"""

from __future__ import annotations

import json
import lzma
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

import dagster_operators as do
from dagster_operators.transactions.failpoints import VARIABLE
from tests.compatibility.pipelines import INPUTS, PIPELINES
from tests.compatibility.recorded import history_of, plan_of, states_of, tables_of
from tests.engines import ENGINES

EPOCHS: Final = 2
"""So many are complete in each root."""

WRITTEN: Final = 1_704_067_200
"""When the files of a root were written, as the archive tells it: long ago, and all at once."""


@dataclass(frozen=True)
class Maker:
    """How the roots of a pipeline are made.

    Attributes:
        undecided: The failpoint before the third epoch's decision at which the process is killed; empty: there is no such root.
        decided: One behind it.
    """

    pipeline: str
    undecided: str = ""
    decided: str = ""
    engine: str = "sail"


MAKERS: Final = (
    # Undecided: some stages are prepared, of the next one there are files. Decided: some tables are committed, or all, or none.
    Maker("windows", "stage:half_files#4", "after:commit_table:3"),
    Maker("keyed", "stage:files_written#4", "before:append_complete"),
    Maker("joins", "before:append_prepared#5", "before:commit_table:2"),
    Maker("user", "after:write_manifest#2", "after:append_decision"),
    Maker("lake"),
    Maker("mixed", decided="after:commit_table:2", engine="spark"),
)


def main(folder: Path, pipelines: Sequence[str]) -> None:
    """Make those of some pipelines, or of all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="roots-") as scratch:
        for maker in (maker for maker in MAKERS if not pipelines or maker.pipeline in pipelines):
            made, fresh = Path(scratch, maker.pipeline), Path(scratch, f"{maker.pipeline}-whole")
            _in_a_process(_begin, maker, made / "complete")
            for end in ("undecided", "decided"):
                if place := getattr(maker, end):
                    shutil.copytree(made / "complete", made / end)
                    _in_a_process(_go_on, maker, made / end, place)
            _in_a_process(_record, maker, made, fresh, folder / f"{maker.pipeline}-{do.__version__}.json")
            pack(made, folder / f"{maker.pipeline}-{do.__version__}.tar.xz")


def _in_a_process(what: Callable[..., None], maker: Maker, *arguments: Any) -> None:
    child = multiprocessing.get_context("spawn").Process(target=what, args=(maker, *arguments))
    child.start()
    child.join()
    expected = -signal.SIGKILL if what is _go_on else 0
    if child.exitcode != expected:
        raise RuntimeError(f"{maker.pipeline}, {what.__name__}: the process ended with {child.exitcode} instead of {expected}")


def _begin(maker: Maker, folder: Path) -> None:
    """Run the first epochs."""
    pipeline = _pipeline(maker, folder, INPUTS.get(maker.pipeline))
    for _ in range(EPOCHS):
        pipeline.run_epoch()


def _go_on(maker: Maker, folder: Path, place: str) -> None:
    """Run the next epoch up to a failpoint."""
    pipeline = _pipeline(maker, folder)
    os.environ[VARIABLE] = place
    pipeline.run_epoch()


def _pipeline(maker: Maker, folder: Path, write_inputs: Callable[[Path], None] | None = None) -> do.Pipeline:
    """The pipeline with its root in a folder, which becomes the working folder."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    if write_inputs:
        write_inputs(folder)
    socket.gethostname = lambda: "elsewhere"  # the ledger names the machine
    write = pq.write_table
    # What is not compressed by itself becomes smaller in the archive.
    pq.write_table = lambda *args, **how: write(*args, **{**how, "compression": "none"})
    return PIPELINES[maker.pipeline](str(folder / "root"), ENGINES[maker.engine])


def _record(maker: Maker, made: Path, fresh: Path, file: Path) -> None:
    """Write down what the version at hand says of the root it has made, and what it makes of all epochs."""
    kept = _pipeline(maker, made / "complete")
    _write_json(file, {"plan": plan_of(made / "complete" / "root"), "history": history_of(kept)})
    rows = {"first": tables_of(kept, 1), "states": states_of(kept)}
    whole = _pipeline(maker, fresh, INPUTS.get(maker.pipeline))
    whole.run_until_caught_up()
    _write_json(made / "rows.json", {**rows, "all": tables_of(whole)})


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def pack(folder: Path, archive: Path) -> None:
    """Put a folder's files into an archive, sorted."""
    with lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".crc":
                with path.open("rb") as content:
                    tar.addfile(_entry(path, path.relative_to(folder).as_posix()), content)


def _entry(path: Path, name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = path.stat().st_size, WRITTEN
    if {"in", "spool"}.intersection(name.split("/")):  # a source knows a file by its time of change, in microseconds
        # The archive keeps it as a float, and what is unpacked has that cut off: hence half a microsecond more.
        entry.mtime = (path.stat().st_mtime_ns // 1000 + 0.5) / 1e6  # type: ignore[assignment]
    return entry


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
