"""The engine as a resource, and without Dagster."""

from __future__ import annotations

import dagster as dg
import pytest

from dagster_operators import Pipeline, SparkEngine
from dagster_operators.errors import EngineError
from dagster_operators.runtime.engine import ENGINE_VARIABLE


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "spark"),
        ({"master": "spark://host:7077"}, "spark"),
        ({"remote": "sc://host:15002"}, "connect"),
        ({"remote": "sail"}, "sail"),
    ],
)
def test_an_engine_is_chosen_by_its_address(settings: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
    assert SparkEngine(**settings).name == name


def test_without_an_address_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, "sail")
    assert SparkEngine().name == "sail"
    assert SparkEngine(master="local[2]").name == "spark"


def test_an_engine_has_one_address() -> None:
    with pytest.raises(EngineError, match="not both"):
        SparkEngine(master="local[2]", remote="sail").session()


def test_sessions_are_shared_and_outlive_a_run(sail: object) -> None:
    assert sail is not None
    engine = SparkEngine(remote="sail")
    session = engine.session()
    seen = []

    @dg.op(required_resource_keys={"engine"})
    def use(context) -> None:
        seen.append(context.resources.engine.session())

    @dg.job(resource_defs={"engine": SparkEngine(remote="sail")})
    def run() -> None:
        use()

    run.execute_in_process()
    run.execute_in_process()
    assert seen == [session, session]
    assert session.range(3).count() == 3
    assert Pipeline("p", root="unused", engine=engine).epochs.session is session
