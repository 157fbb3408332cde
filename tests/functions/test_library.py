"""Functions from a shared library that the machine's C compiler makes: values, nulls, errors, and its way to the workers."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dagster_operators import MemorySource, Pipeline, load_udf
from dagster_operators.errors import EngineError, MissingInputError, PipelineError, UserFunctionError
from dagster_operators.functions import library
from dagster_operators.storage.cache import CACHE_VARIABLE, _default_folder
from tests.engines import ENGINES


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs a C compiler")
        pytest.skip("needs a C compiler")
    target = tmp_path_factory.mktemp("library") / "libmine.so"
    source = Path(__file__).with_name("mine.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(target), str(source)], check=True)
    return target


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, for this process and for Sail, whose workers are in it."""
    monkeypatch.setattr(library, "_loaded", {})
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def selected(engine: str, root: Path, expression: str, rows: list[tuple[Any, ...]], schema: str) -> list[Any]:
    pipeline = Pipeline("p", root=str(root), engine=ENGINES[engine])
    pipeline.source("rows", MemorySource([rows], schema=schema)).select(f"{expression} AS y").to_table("results")
    pipeline.run_epoch()
    return [row["y"] for row in pipeline.read("results").collect()]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_compiled_function_runs_in_the_workers(
    engine: str, compiled: Path, cache: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    request.getfixturevalue(engine)
    moved = Path(shutil.copy(compiled, tmp_path / "gone.so"))
    load_udf(moved, "double_negative", args=["long"], returns="long")
    moved.unlink()
    rows = [(n,) if n % 3 else (None,) for n in range(10)]
    found = selected(engine, tmp_path / "root", "double_negative(x)", rows, "x int")
    assert sorted(found, key=repr) == sorted((-2 * n if n % 3 else None for n in range(10)), key=repr)
    kept = f"{hashlib.sha256(compiled.read_bytes()).hexdigest()}.so"
    if engine == "sail":
        assert [path.name for path in cache.iterdir()] == [kept]
    else:  # Spark's workers were started in an environment without our folder
        folder = _default_folder()
        (folder / kept).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def test_values_types_and_slices(compiled: Path) -> None:
    negative = load_udf(compiled, "double_negative", args=["long"], returns="long")
    assert negative(pa.array([9, 1, None, 3], pa.int16()).slice(1)) == pa.array([-2, None, -6])
    assert negative(pa.array([9, 1, None, 3]).slice(1)) == pa.array([-2, None, -6])
    assert negative(pa.array([], pa.int64())) == pa.array([], pa.int64())
    weigh = load_udf(compiled, "weigh", args=["string", "long"], returns="long")
    assert weigh(pa.array(["x", "ab", ""]).slice(1), pa.array([10, 20])).to_pylist() == [12, 20]


def test_nothing_is_leaked(compiled: Path) -> None:
    negative = load_udf(compiled, "double_negative", args=["long"], returns="long")
    before = pa.total_allocated_bytes()
    for _ in range(50):
        assert len(negative(pa.array(range(1000)))) == 1000
    assert pa.total_allocated_bytes() == before


def test_what_the_function_says_is_told(compiled: Path) -> None:
    weigh = load_udf(compiled, "weigh", args=["string", "long"], returns="long")
    with pytest.raises(UserFunctionError, match="'weigh' failed: row 1 weighs less than nothing"):
        weigh(pa.array(["a", "b"]), pa.array([1, -1]))
    with pytest.raises(UserFunctionError, match="takes 2 arguments and was given 1"):
        weigh(pa.array(["a"]))
    with pytest.raises(UserFunctionError, match="returned 0 and no array"):
        load_udf(compiled, "nothing", args=["long"], returns="long")(pa.array([1]))
    with pytest.raises(UserFunctionError, match="one column of longs"):
        load_udf(compiled, "double_negative", args=["double"], returns="long", name="of_doubles")(pa.array([1.0]))


def test_a_rebuilt_library_is_another_function(compiled: Path, tmp_path: Path) -> None:
    first = load_udf(compiled, "double_negative", args=["long"], returns="long")
    rebuilt = tmp_path / "rebuilt.so"
    rebuilt.write_bytes(compiled.read_bytes() + b"\0")
    with pytest.raises(PipelineError, match="two different functions"):
        load_udf(rebuilt, "double_negative", args=["long"], returns="long")
    assert load_udf(compiled, "double_negative", args=["long"], returns="long").digest == first.digest


def test_what_is_no_library_is_refused(compiled: Path, cache: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="No such file"):
        load_udf(tmp_path / "none.so", "f", args=["long"], returns="long")
    with pytest.raises(PipelineError, match="no symbol 'triple'"):
        load_udf(compiled, "triple", args=["long"], returns="long")
    text = tmp_path / "text.so"
    text.write_bytes(b"\0f\0")
    with pytest.raises(EngineError, match="cannot be loaded"):
        load_udf(text, "f", args=["long"], returns="long")(pa.array([1]))
    cache.chmod(0o777)
    library._loaded.clear()
    with pytest.raises(EngineError, match="written by others"):
        load_udf(compiled, "weigh", args=["string", "long"], returns="long")(pa.array(["a"]), pa.array([1]))


def test_a_damaged_copy_is_written_anew(compiled: Path, cache: Path) -> None:
    negative = load_udf(compiled, "double_negative", args=["long"], returns="long")
    negative(pa.array([1]))
    copy = next(cache.iterdir())
    copy.unlink()
    copy.write_bytes(b"damaged")
    library._loaded.clear()
    assert negative(pa.array([1])).to_pylist() == [-2]
    assert copy.read_bytes() == compiled.read_bytes()
