"""What the doctor finds of a store."""

from __future__ import annotations

from dagster_operators.runtime.doctor import examine
from dagster_operators.transactions.coordinator import Coordinator


def _conditions(root, **options):
    (finding,) = (each for each in examine(Coordinator("p", root, **options)) if each.check == "conditions")
    return finding


def test_a_store_that_ignores_conditions_is_an_error(s3, tmp_path):
    root, options = f"{s3.bucket()}/shop", {"storage_options": s3.options()}
    assert _conditions(root, **options).verdict == "ok"
    assert _conditions(str(tmp_path / "shop")).verdict == "ok"
    s3.behave(unconditional=True)
    found = _conditions(root, **options)
    assert found.verdict == "error"
    assert "If-None-Match" in found.remedy
