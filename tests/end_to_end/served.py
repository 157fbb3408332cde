"""What the browser test's Dagster serves: the demo pipeline in the folder that the environment names."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from tests.orchestration import demo

FOLDER = "DEMO_FOLDER"


@dg.definitions
def defs() -> dg.Definitions:
    return demo.definitions(Path(os.environ[FOLDER]))
