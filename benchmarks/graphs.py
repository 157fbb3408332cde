"""A graph and texts that are the same in Python and Java, and the programs over them as data sets: components, ranks, words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import dagster_operators as do

DAMPING = 0.85
ROUNDS = 10
WORDS_OF_LINE = 10
_FILE = 1_000_000


def mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Numbers without an order, as FlinkDataSets.java has them, none negative."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((numbers ^ (numbers >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def graph(place: Path, edges: int, vertices: int) -> None:
    """Vertices and edges in files."""
    numbers = np.arange(edges, dtype=np.uint64)
    first, second = (mixed(numbers * np.uint64(2) + np.uint64(one)) % vertices for one in (1, 2))
    _written(place / "vertices", {"v": np.arange(vertices)})
    _written(place / "edges", {"x": first, "y": second})


def lines(place: Path, count: int, words: int) -> None:
    """Lines of ten words, in files."""
    numbers = mixed(np.arange(count * WORDS_OF_LINE, dtype=np.uint64)) % words
    texts = [" ".join(f"w{number}" for number in line) for line in numbers.reshape(count, WORDS_OF_LINE).tolist()]
    _written(place / "lines", {"line": texts})


def _written(folder: Path, columns: dict[str, object]) -> None:
    folder.mkdir(parents=True)
    table = pa.table(columns)
    for begin in range(0, table.num_rows, _FILE):
        pq.write_table(table.slice(begin, _FILE), folder / f"{begin:012d}.parquet")


def _rows(pipeline: do.Pipeline, place: Path, name: str, schema: str) -> do.DataSet:
    return pipeline.source(name, do.FileSource(str(place / name), format="parquet", schema=schema)).data_set()


def components(pipeline: do.Pipeline, place: Path) -> None:
    """The smallest vertex that each is connected to, by a delta iteration."""
    vertices = _rows(pipeline, place, "vertices", "v long").select("v", "v AS c")
    one_way = _rows(pipeline, place, "edges", "x long, y long")
    edges = one_way.union(one_way.select("y AS x", "x AS y"))
    loop = vertices.iterate_delta(vertices, 100, "v")
    near = loop.workset.join(edges).where("v").equal_to("x").project_second("y").project_first("c").data_set()
    least = near.group_by("y").min("c").select("y AS v", "c AS new")
    pairs = least.join(loop.solution_set).where("v").equal_to("v").project_first("v", "new").project_second("c")
    changed = pairs.data_set().filter("new < c").select("v", "new AS c")
    loop.close_with(changed, changed).to_table("results", schema="v long, c long")


def ranks(pipeline: do.Pipeline, place: Path) -> None:
    """Page rank: each vertex hands its rank on in equal shares."""
    vertices = pq.ParquetDataset(place / "vertices").read().num_rows
    rest, share = f"{(1 - DAMPING) / vertices!r}D", f"{DAMPING!r}D"
    pages = _rows(pipeline, place, "vertices", "v long")
    edges = _rows(pipeline, place, "edges", "x long, y long")
    degrees = edges.select("x", "1L AS degree").group_by("x").sum("degree")
    links = edges.join(degrees).where("x").equal_to("x").project_first("x", "y").project_second("degree").data_set()
    least = pages.select("v", f"{rest} AS rank")
    loop = pages.select("v", f"{1 / vertices!r}D AS rank").iterate(ROUNDS)
    pairs = loop.rows_of_round.join(links).where("v").equal_to("x").project_second("y", "degree").project_first("rank")
    given = pairs.data_set().select("y AS v", f"{share} * rank / degree AS rank")
    loop.close_with(given.union(least).group_by("v").sum("rank")).to_table("results", schema="v long, rank double")


def words(pipeline: do.Pipeline, place: Path) -> None:
    """Word count, by a function of rows in Python."""
    texts = _rows(pipeline, place, "lines", "line string")
    found = texts.flat_map(lambda row: [(word, 1) for word in row.line.split()], schema="word string, n long")
    found.group_by("word").sum("n").to_table("results")


PROGRAMS: Final[dict[str, Callable[[do.Pipeline, Path], None]]] = {"components": components, "ranks": ranks, "words": words}
