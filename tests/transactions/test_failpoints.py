"""A failpoint can be named for one stage, or one round of a stage."""

from __future__ import annotations

import os
import signal

import pytest

from dagster_operators.transactions import failpoints
from dagster_operators.transactions.effects import Append, ReadLedger, WriteManifest, stage_of
from dagster_operators.transactions.manifest import Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Generation, Prepared


@pytest.mark.parametrize(
    ("wanted", "dies"),
    [
        ("stage:half_files", True),
        ("stage:half_files@steps@2", True),
        ("stage:half_files@steps@2#1", True),
        ("stage:half_files@steps@2#2", False),
        ("stage:half_files@steps@1", False),
        ("stage:half_files@steps", False),
        ("stage:files_written@steps@2", False),
    ],
)
def test_the_round_of_a_stage_is_part_of_the_name(monkeypatch, wanted, dies):
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    monkeypatch.setattr(failpoints, "_reached", type(failpoints._reached)())
    monkeypatch.setenv(failpoints.VARIABLE, wanted)
    seen = []
    with failpoints.watch(seen.append):
        failpoints.reach("stage:half_files", stage="steps@2")
    assert killed == ([(os.getpid(), signal.SIGKILL)] if dies else [])
    assert seen == ["stage:half_files"]


def test_effects_say_which_stage_they_are_about():
    manifest = Manifest("p", 1, "steps@2", "a", "f", {}, ())
    prepared = Prepared(1, 1, "b", "steps@2", "a", "f", {}, "digest")
    assert stage_of(Append(prepared, 3)) == "steps@2"
    assert stage_of(Append(Generation(1, Owner.of_process("test")), 3)) is None
    assert stage_of(WriteManifest(manifest)) == "steps@2"
    assert stage_of(ReadLedger()) is None
