"""The pages of ``docs/``: what they link to is there, and programs that are whole can be built and give what the page says."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import dagster_operators
from dagster_operators.runtime.engine import ENGINE_VARIABLE

REPOSITORY = Path(__file__).parents[1]
PAGES = [
    *(REPOSITORY / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]

WORDS = 1500
"""The most words of a page: one idea, read in ten minutes."""
LONG_PAGES = {"docs/engines_compared.md"}
"""The only page with more: a generated list."""


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def headings(page: Path) -> set[str]:
    """The anchors of a page, as the usual readers of Markdown make them of its headings."""
    found = re.findall(r"^#+ +(.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in headings(target), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_is_short(page: Path) -> None:
    words = [word for word in page.read_text().split() if re.search(r"\w", word)]
    assert (len(words) > WORDS) == (name_of(page) in LONG_PAGES), f"{len(words)} words: split the page by its ideas"


def programs(page: str) -> dict[str, Any]:
    """What is defined once all programs of a page have run, one after the other; none of them runs an epoch."""
    found: dict[str, Any] = {}
    for program in re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / page).read_text(), re.DOTALL):
        exec(compile(program, page, "exec"), found)  # noqa: S102 - our own pages
    return found


def test_programs_that_come_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = programs("migration.md")
    assert list(made["pipeline"].tables) == ["hourly", "planes"]
    assert list(made["shop"].tables) == ["orders", "revenue"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("sail")
def test_the_revenue_of_orders_that_are_updated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ENGINE_VARIABLE, "sail")
    shop = programs("migration.md")["shop"]
    (tmp_path / "input" / "orders").mkdir(parents=True)
    hours_and_amounts = [(1, 10, 10), (2, 10, 5.5), (1, 12, 11)], [(3, 12, 1), (1, 11, 99)]
    revenue = []
    for epoch, orders in enumerate(hours_and_amounts):
        rows = [
            {"id": i, "day": "2024-01-01", "amount": much, "updated_at": f"2024-01-01T{hour}:00:00"} for i, hour, much in orders
        ]
        (tmp_path / "input" / "orders" / f"{epoch}.json").write_text("\n".join(map(json.dumps, rows)))
        assert not shop.run_epoch().empty
        revenue += [float(row.revenue) for row in shop.read("revenue").collect()]
    assert revenue == [11 + 5.5, 11 + 5.5 + 1]


def test_engines_of_the_spark_page_are_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as that shows without a cluster: what Spark would be started with."""
    from pyspark.sql import SparkSession

    monkeypatch.setenv("POD_IP", "10.0.0.7")
    monkeypatch.setenv("HOSTNAME", "run-1")
    text = (REPOSITORY / "docs/spark.md").read_text()
    own, yarn, kubernetes = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found: dict[str, Any] = {"do": dagster_operators, "os": os}
    exec(compile(own, "spark.md", "exec"), found)  # noqa: S102 - our own page
    assert found["pipeline"].engine.session.__annotations__["return"] in {"SparkSession", SparkSession}
    exec(compile(yarn, "spark.md", "exec"), found)  # noqa: S102
    settings = found["engine"]._spark().settings()
    assert settings["spark.submit.deployMode"] == "client"
    assert settings["spark.archives"].endswith("#environment")
    exec(compile(kubernetes, "spark.md", "exec"), found)  # noqa: S102
    engine = found["engine"]._spark()
    assert engine.master == "k8s://https://kubernetes.default.svc"
    settings = engine.settings()
    assert settings["spark.driver.host"] == "10.0.0.7"
    assert settings["spark.kubernetes.driver.pod.name"] == "run-1"
    assert settings["spark.sql.shuffle.partitions"] == "16"
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"


def test_the_root_follows_the_deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_CLOUD_DEPLOYMENT_NAME", raising=False)
    made = programs("deployment.md")
    assert made["pipeline"].root == "data/flights"
    monkeypatch.setenv("DAGSTER_CLOUD_DEPLOYMENT_NAME", "prod")
    assert made["root"]("flights") == "s3://lake/flights"
    monkeypatch.setenv("DAGSTER_CLOUD_DEPLOYMENT_NAME", "a1b2")
    monkeypatch.setenv("DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT", "1")
    assert made["root"]("flights") == "s3://lake-of-branches/a1b2/flights"
