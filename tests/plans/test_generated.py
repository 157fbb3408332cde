"""The committed Python of the .proto files is what they give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dagster_operators import plans

PLANS = Path(plans.__file__).parent
REPOSITORY = PLANS.parent.parent


def test_the_generated_modules_are_up_to_date(tmp_path):
    pytest.importorskip("grpc_tools")
    made = subprocess.run(
        ["scripts/make-proto", sys.executable, str(tmp_path)], cwd=REPOSITORY, check=False, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    again = {path.name: path.read_text() for path in (tmp_path / "dagster_operators" / "plans").iterdir()}
    assert {path.name: path.read_text() for path in PLANS.glob("*_pb2.py*")} == again
    assert {path.stem for path in PLANS.glob("*.proto")} == {name.partition("_pb2")[0] for name in again}
