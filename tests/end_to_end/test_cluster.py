"""On a real Spark standalone cluster, a master and two workers: the same results as in one process, from two workers."""

from __future__ import annotations

import pytest

from tests.end_to_end.cluster import EPOCHS, cluster, pipeline, results, run
from tests.engines import SAIL


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1000)
def test_a_cluster_gives_what_one_process_gives(sail, tmp_path):
    here = pipeline(str(tmp_path / "here"), SAIL, 1)
    here.run_until_caught_up()
    with cluster(tmp_path) as address:
        there = run(str(tmp_path / "there"), address, 3)
    assert there["epochs"] == list(range(1, EPOCHS + 1))
    assert there["tables"] == results(here)
    assert there["workers"] == 2
