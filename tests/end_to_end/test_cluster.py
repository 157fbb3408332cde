"""On a real Spark standalone cluster, a master and two workers: the same results as in one process, from two workers."""

from __future__ import annotations

import dagster as dg
import pytest

from dagster_operators.runtime.engine import ENGINE_VARIABLE, Spark
from tests.end_to_end.cluster import EPOCHS, cluster, connect_server, pipeline, results, run
from tests.engines import SAIL


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    """The address of a cluster's master, with two workers."""
    with cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(1000)
def test_a_cluster_gives_what_one_process_gives(master, sail, tmp_path):
    here = pipeline(str(tmp_path / "here"), SAIL, 1)
    here.run_until_caught_up()
    there = run(str(tmp_path / "there"), master, 3)
    assert there["epochs"] == list(range(1, EPOCHS + 1))
    assert there["tables"] == results(here)
    assert there["workers"] == 2


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(1000)
def test_the_processes_of_a_dagster_run_share_a_cluster(master, sail, tmp_path, monkeypatch):
    here = pipeline(str(tmp_path / "here"), SAIL, 1, few=True)
    here.run_epoch()
    root = str(tmp_path / "there")
    with connect_server(tmp_path, master) as address, dg.instance_for_test() as instance:
        monkeypatch.setenv(ENGINE_VARIABLE, address)
        made = dg.build_reconstructable_job("tests.end_to_end.cluster", "job", (root,))
        assert dg.execute_job(made, instance).success
        Spark(remote=address).session().stop()
    there = pipeline(root, SAIL, 1, few=True)
    (complete,) = there.history()
    assert complete.owner.kind != "process", "the run owns the epoch, whichever of its processes works on it"
    assert results(there) == results(here)
