"""Spark with a root on an S3 server: the same rows as on a local root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dagster_operators.storage.root import Root
from tests.end_to_end.test_object_store import stored


@pytest.mark.slow
@pytest.mark.spark
def test_three_epochs_give_the_rows_of_a_local_root(s3, tmp_path):
    bucket, place = s3.bucket(), Path(__file__).parents[2]
    program = [sys.executable, "-m", "tests.end_to_end.spark_on_s3", s3.endpoint, bucket, str(tmp_path)]
    done = subprocess.run(program, cwd=place, capture_output=True, text=True, check=False)
    if "cannot be downloaded" in done.stderr and os.environ.get("CI") != "true":
        pytest.skip("S3A cannot be downloaded here")
    assert done.returncode == 0, done.stderr
    epochs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(epochs) == 3
    assert [remote for remote, _ in epochs] == [local for _, local in epochs]
    assert epochs[2][0] == [
        [["a", 1, "Ann"], ["a", 2, "Ann"], ["a", 3, "Ann"], *[["b", 7, "Bob"]] * 3],
        [["a", 6], ["b", 21]],
    ]
    assert "hidden-from-all" not in stored(Root(f"{bucket}/shop", s3.options()))
