"""The checks of tables in Dagster: declared with the assets, tried by the stages, reported by the commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_operators.orchestration.tables import TableAsset
from dagster_operators.transactions.manifest import CheckOutcome

if TYPE_CHECKING:
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.plan import EpochHandle


def check_specs(tables: Iterable[TableAsset]) -> Iterator[dg.AssetCheckSpec]:
    """Every check of the tables."""
    for table in tables:
        for name, check in table.checks.items():
            yield dg.AssetCheckSpec(
                name, asset=table.key, description=f"Every new row satisfies {check.expression}", blocking=check.blocking
            )


def staged_outcomes(epochs: Epochs, handle: EpochHandle, tables: Iterable[TableAsset]) -> list[CheckOutcome]:
    """What the checks found in an epoch that is not committed."""
    outcomes: list[CheckOutcome] = []
    for table in tables:
        manifest = epochs.coordinator.valid_manifest(handle, table.stage.name) if table.checks else None
        outcomes += manifest.checks if manifest else ()
    return outcomes


def check_results(
    tables: Mapping[str, TableAsset], outcomes: Iterable[CheckOutcome], epoch: int
) -> Iterator[dg.AssetCheckResult]:
    """For the op that the checks are declared with."""
    for outcome, asset in _declared(tables, outcomes):
        yield dg.AssetCheckResult(
            passed=outcome.passed,
            asset_key=asset.key,
            check_name=outcome.name,
            severity=_severity(outcome),
            description=_description(outcome),
            metadata=_metadata(outcome, epoch),
        )


def check_events(
    tables: Mapping[str, TableAsset], outcomes: Iterable[CheckOutcome], epoch: int
) -> Iterator[dg.AssetCheckEvaluation]:
    """For any other op."""
    for outcome, asset in _declared(tables, outcomes):
        yield dg.AssetCheckEvaluation(
            asset_key=asset.key,
            check_name=outcome.name,
            passed=outcome.passed,
            metadata=_metadata(outcome, epoch),
            severity=_severity(outcome),
            description=_description(outcome),
            blocking=outcome.blocking,
        )


def _declared(tables: Mapping[str, TableAsset], outcomes: Iterable[CheckOutcome]) -> Iterator[tuple[CheckOutcome, TableAsset]]:
    """A roll-forward may bring outcomes of checks that the pipeline no longer has; Dagster does not know these."""
    for outcome in outcomes:
        asset = tables.get(outcome.table)
        if asset is not None and outcome.name in asset.checks:
            yield outcome, asset


def _severity(outcome: CheckOutcome) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if outcome.blocking else dg.AssetCheckSeverity.WARN


def _description(outcome: CheckOutcome) -> str:
    verdict = "satisfy" if outcome.passed else "do not satisfy"
    rows = outcome.total_rows if outcome.passed else outcome.failed_rows
    return f"{rows} of {outcome.total_rows} rows {verdict} {outcome.expression}"


def _metadata(outcome: CheckOutcome, epoch: int) -> dict[str, Any]:
    return {
        "epoch": epoch, "failed_rows": outcome.failed_rows, "total_rows": outcome.total_rows, "expression": outcome.expression,
    }  # fmt: skip
