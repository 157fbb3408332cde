"""Positions that somebody wrote are none behind all that there is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import dagster_operators as do
from dagster_operators.connectors.upstream import Upstream
from dagster_operators.errors import PipelineError


def test_a_version_that_the_table_has_not_come_to_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"v": [1]}))
    do.DeltaSource(path).check_position({"version": 0, "commit": "x"})
    with pytest.raises(PipelineError, match=r"has not come to version 5: .* To do: name one up to 0, the last there is"):
        do.DeltaSource(path).check_position({"version": 5, "commit": "x"})
    do.DeltaSource(str(tmp_path / "none")).check_position({"version": 5, "commit": "x"})  # the next epoch tells


def test_an_epoch_that_the_other_pipeline_has_not_come_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = do.PipelineSource(str(tmp_path / "shop"), "orders")
    source.check_position({"epoch": 9})  # it has not run
    monkeypatch.setattr(Upstream, "epoch", lambda _self: SimpleNamespace(epoch=1))
    source.check_position({"epoch": 1})
    with pytest.raises(PipelineError, match=r"has not come to epoch 3: .* To do: name one up to 1, the last there is"):
        source.check_position({"epoch": 3})
