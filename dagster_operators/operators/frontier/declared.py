"""What a frontier operator says about what lives on between its epochs, beside state tables: capabilities and waiting rows.

The constructor runs in every epoch, so that what is only in its variables is gone at the end of one. What is declared is in
``info.state`` by its name: capabilities as a ``CapabilitySet``, notifications as a ``FrontierNotificator``, rows as a ``Stash``.
"""

from __future__ import annotations

from dataclasses import dataclass

from dagster_operators.arguments import checked_constructor


@checked_constructor
@dataclass(frozen=True)
class CapabilityState:
    """A set of capabilities for one output.

    Attributes:
        output: The output's number.
    """

    output: int = 0


@dataclass(frozen=True)
class NotifyState:
    """Notifications that were asked for, with their capabilities."""


@checked_constructor
@dataclass(frozen=True)
class ValueState:
    """A value for each key that the rows are exchanged by; found as a state table with the key columns and ``value_``.

    Attributes:
        type: The value's type in Spark DDL.
    """

    type: str


@checked_constructor
@dataclass(frozen=True)
class StashState:
    """Rows that wait under capabilities until their time is complete.

    Attributes:
        input: The number of the input whose columns they have.
        schema: Their columns as Spark DDL, if they are not those of an input; if the operator's rows are distributed by key,
            the key columns are among them.
    """

    input: int = 0
    schema: str | None = None
