from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files

import dagster_operators

HEAVY = ("pyspark", "dagster", "deltalake", "pyarrow", "pandas", "delta", "pysail")


def loaded_after(program: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after running a program."""
    report = f"import json, sys; print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", f"{program}\n{report}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_public_names_are_sorted_and_importable() -> None:
    names = dagster_operators.__all__
    assert names == sorted(set(names))
    assert [name for name in names if getattr(dagster_operators, name, None) is None] == []
    assert set(names) <= set(dir(dagster_operators))


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import dagster_operators") == set()


def test_what_packages_of_operators_import_is_there_and_loads_nothing_heavy() -> None:
    from dagster_operators import plugins

    assert [name for name in plugins.__all__ if getattr(plugins, name, None) is None] == []
    assert loaded_after("import dagster_operators.plugins") == set()


def test_describing_a_pipeline_loads_neither_spark_nor_dagster() -> None:
    program = """
import dagster_operators as do
pipeline = do.Pipeline("p", root="nowhere")
rows = pipeline.source("rows", do.FileSource("nowhere/*.csv", schema="k STRING, t TIMESTAMP"), event_time="t", lateness="1 hour")
rows.filter("k IS NOT NULL").key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)").to_table("counts")
"""
    assert not loaded_after(program) & {"pyspark", "dagster", "deltalake", "delta", "pysail"}


def test_the_package_says_that_it_is_typed() -> None:
    assert files(dagster_operators).joinpath("py.typed").is_file()
