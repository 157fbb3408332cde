"""What a plan holds of kinds that no installed package knows: enough to show it and to tell it from others, not to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from google.protobuf.message import DecodeError

from dagster_operators.errors import OperatorsError, PlanError
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.values import Fields, canonical_fields
from dagster_operators.plans import values_pb2
from dagster_operators.plans.messages import read_settings


@dataclass(frozen=True, kw_only=True, eq=False)
class UnknownOperator(LogicalOperator):
    """An operator of a plan that cannot be made here, since its package is not installed or is an older one.

    Attributes:
        kind: Its kind.
        data: Its settings as the plan has them.
        problem: Why it cannot be made.
        needed: What would have to be installed.
        package: The distribution that brings the kind.
    """

    kind: str  # type: ignore[misc]  # of the object: no class of it is there
    label: ClassVar[str] = "unknown"
    data: bytes = b""
    problem: str = ""
    needed: str = ""
    package: str = ""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its settings by name if they tell their names, else what holds them."""
        return _named(self.data) or {"settings": self.data}

    def encode(self) -> Fields:
        """Its settings, as far as they are known."""
        return {"name": self.name, "chain": self.chain, **self.settings}

    def config(self) -> dict[str, Any]:
        """Its settings as one text."""
        return {"settings": canonical_fields(self.settings)}

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, UnknownOperator) and other.kind == self.kind

    __hash__ = LogicalOperator.__hash__

    def explain(self, *, details: bool = False) -> str:
        """One line, with what to install."""
        return f"{super().explain(details=details)} [not known here: install {self.needed}]"

    def error(self) -> PlanError:
        """Why it cannot be run."""
        return PlanError(self.problem, operator=self.name, kind=self.kind, package=self.package, remedy=f"install {self.needed}")

    def output(self, inputs: Sequence[StreamType]) -> StreamType:  # noqa: ARG002
        """Nothing is known of its rows.

        Raises:
            PlanError: Always.
        """
        raise self.error()

    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:  # noqa: ARG002
        """Nothing is known of its columns.

        Raises:
            PlanError: Always.
        """
        raise self.error()


@dataclass(frozen=True)
class UnknownSink:
    """A sink of a plan that cannot be made here.

    Attributes:
        kind: Its kind.
        data: The plan's message with it.
    """

    kind: str
    data: bytes
    left_out: ClassVar[tuple[str, ...]] = ()

    def encode(self) -> Fields:
        """What holds its settings."""
        return {"settings": self.data}

    def __str__(self) -> str:
        return f"{self.kind} [not known here]"


def _named(data: bytes) -> dict[str, Any] | None:
    """Settings that a kind without a message of its own has; None if these are not such, or hold values of unknown kinds."""
    try:
        message = values_pb2.Settings.FromString(data)
        again = message.SerializeToString(deterministic=True) == data and all(
            field.name.isidentifier() for field in message.fields
        )
        return read_settings(message) if again else None
    except (DecodeError, OperatorsError):
        return None
