"""TPC-H's tables, and what becomes of their rows: changes in steps, as Parquet files.

The rows are those of `tpchgen-cli`_, which writes what TPC's own ``dbgen`` does. Each row of a table that changes has a life: the
step that it comes in, two in which it may be corrected, and perhaps one in which it goes; an order takes its lines along. A
corrected row keeps its key and has the other values of some other row, so that all values stay those of TPC-H. A life is a
function of the seed and the row's key alone, so any step can be made without those before it.

.. _tpchgen-cli: https://pypi.org/project/tpchgen-cli/
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.nexmark.chance import Chance, Ints

PROGRAM: Final = "tpchgen-cli==4.0.0"
"""The package with the generator of the rows; uv fetches it into a folder of its own when it is first run."""

KEYS: Final = {
    "customer": ("c_custkey",),
    "supplier": ("s_suppkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
"""The tables that change, with their keys."""

STATIC: Final = ("nation", "region")
"""The tables that do not."""

_LATER: Final = {"customer": 0.1, "supplier": 0.1, "orders": 0.4, "lineitem": 0.05}
"""What share of the rows is not there from the first step on."""

_GOES: Final = {"customer": 0.05, "supplier": 0.05, "orders": 0.15, "lineitem": 0.05}
"""What share of the rows goes, if there are steps enough behind the one that brings it."""

_CORRECTED: Final = {"customer": 0.1, "supplier": 0.1, "orders": 0.15, "lineitem": 0.15}
"""What share of the rows is corrected, and what share of them again."""

_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Life:
    """What becomes of the rows of a table: for each row when it comes and goes, and which rows' values it has when.

    Attributes:
        born: The first step that it is there after.
        gone: The first step that it is no longer there after.
        corrected: For each correction its step, and the row whose values it brings.
    """

    born: Ints
    gone: Ints
    corrected: tuple[tuple[Ints, Ints], ...]

    def values(self, step: int) -> Ints:
        """For each row after a step the row whose values it has; -1 if it is not there."""
        found = np.arange(len(self.born))
        for when, other in self.corrected:
            found = np.where(when <= step, other, found)
        there: Ints = np.where((self.born <= step) & (step < self.gone), found, -1)
        return there


@dataclass(frozen=True)
class Tpch:
    """TPC-H's tables at a scale, changing in steps.

    Attributes:
        base: The folder with the tables as TPC-H has them; :meth:`make` fills it.
        scale: 1 is 1.5 million orders.
        steps: How many steps there are; the first one brings most rows.
        seed: Another seed gives the rows other lives.
    """

    base: Path
    scale: float = 0.01
    steps: int = 10
    seed: int = 1

    def make(self) -> Tpch:
        """Writes TPC-H's tables, if they are not there; a file appears when all of them are whole."""
        if not (self.base / "done").exists():
            self.base.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "uv", "tool", "run", "--from", PROGRAM, "tpchgen-cli", "parquet"]
            tables = ",".join((*KEYS, *STATIC))
            wanted = ["-s", str(self.scale), "--tables", tables, "--output-dir", str(self.base)]
            subprocess.run([*command, *wanted], check=True, capture_output=True)  # noqa: S603 - our own words
            (self.base / "done").touch()
        return self

    def table(self, name: str) -> pa.Table:
        """A table as TPC-H has it."""
        rows = pq.read_table(self.base / f"{name}.parquet")
        plain = [pa.string() if pa.types.is_string_view(field.type) else field.type for field in rows.schema]
        return rows.cast(pa.schema(zip(rows.column_names, plain, strict=True), metadata=None))

    def rows(self, name: str, step: int) -> pa.Table:
        """The rows of a table that are there after a step."""
        if name in STATIC:
            return self.table(name)
        values = self._lives[name].values(step)
        return self._taken(name, np.flatnonzero(values >= 0), values)

    def changes(self, name: str, step: int) -> pa.Table:
        """What a step changes in a table: rows with the column ``op``, in no order."""
        life = self._lives[name]
        before, after = life.values(step - 1), life.values(step)
        added, taken = (before < 0) & (after >= 0), (before >= 0) & (after < 0)
        updated = (before >= 0) & (after >= 0) & (before != after)
        parts = []
        words = {"insert": (added, after), "delete": (taken, before)}
        for word, (which, values) in {**words, "update_before": (updated, before), "update_after": (updated, after)}.items():
            rows = self._taken(name, np.flatnonzero(which), values)
            parts.append(rows.append_column("op", pa.array([word] * rows.num_rows, pa.string())))
        changes = pa.concat_tables(parts)
        order = np.argsort(Chance(self.seed + step, np.arange(changes.num_rows)).bits(0))
        return changes.take(pa.array(order))

    def write(self, folder: Path) -> None:
        """Writes a file for each step of each table that changes into ``folder/<table>``, and the others as one file.

        A file appears whole, and is left alone if it is there.
        """
        for name in (*KEYS, *STATIC):
            for step in range(1, self.steps + 1 if name in KEYS else 2):
                path = folder / name / f"{step:06d}.parquet"
                if path.exists():
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
                pq.write_table(self.changes(name, step) if name in KEYS else self.table(name), hidden)
                os.utime(hidden, (1_000_000_000 + step, 1_000_000_000 + step))
                hidden.replace(path)

    # --- what becomes of the rows ------------------------------------------------------------------------------------

    @cached_property
    def _bases(self) -> dict[str, pa.Table]:
        return {name: self.table(name) for name in KEYS}

    def _taken(self, name: str, rows: Ints, values: Ints) -> pa.Table:
        """Rows with their own keys and the values of others."""
        base = self._bases[name]
        keys, others = base.take(pa.array(rows)), base.take(pa.array(values[rows]))
        columns = [(keys if column in KEYS[name] else others).column(column) for column in base.column_names]
        return pa.table(columns, names=base.column_names)

    @cached_property
    def _lives(self) -> dict[str, Life]:
        lives = {name: self._life(name) for name in KEYS}
        orders, lines = (self._bases[name].column(KEYS[name][0]).to_numpy() for name in ("orders", "lineitem"))
        order = np.searchsorted(orders, lines)  # both come in the order of their keys
        own, whole = lives["lineitem"], lives["orders"]
        born, gone = np.maximum(own.born, whole.born[order]), np.minimum(own.gone, whole.gone[order])
        lives["lineitem"] = Life(born, gone, own.corrected)
        return lives

    def _life(self, name: str) -> Life:
        base = self._bases[name]
        keys = base.column(KEYS[name][0]).to_numpy()
        if name == "lineitem":
            keys = keys * 8 + base.column("l_linenumber").to_numpy()
        chance = Chance(self.seed * len(KEYS) + list(KEYS).index(name), keys)
        late = 2 + chance.below(max(self.steps - 1, 1), 1)
        born = np.where(chance.fraction(0) < _LATER[name], late, 1)
        gone = np.where(chance.fraction(2) < _GOES[name], born + 1 + chance.below(self.steps, 3), _NEVER)
        first = np.where(chance.fraction(4) < _CORRECTED[name], 2 + chance.below(self.steps, 5), _NEVER)
        again = chance.fraction(6) < _CORRECTED[name]
        second = np.where((first < _NEVER) & again, np.where(first < _NEVER, first, 0) + 1 + chance.below(self.steps, 7), _NEVER)
        others = [chance.below(len(keys), draw) for draw in (8, 9)]
        return Life(born, gone, ((first, others[0]), (second, others[1])))
