"""Operators that the package puts between a node without inputs and a table of its messages: they send on what they read.

Messages of an operator's output have numbers, and are there once whatever is run again; those of a source have not. So a table
reads an operator, and of a node without inputs one that is added for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dagster_operators.api.events.written import WrittenInput, WrittenOperator
from dagster_operators.api.queries.located import Located

ID: Final = "messages"
"""The operator's id in the node of the table."""

FILE: Final = "dagster_operators_relay.py"

TEXT: Final = """class Operator:
    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            send_output(event["id"], event["value"], event["metadata"])
        return DoraStatus.CONTINUE
"""


def relays(tables: Sequence[tuple[str, Located]], senders: Sequence[WrittenOperator]) -> list[WrittenOperator]:
    """An operator for each table that reads an output, with a type, of a node without inputs.

    Args:
        tables: The id and content of each node that is a table.
        senders: The nodes without inputs.
    """
    outputs = {f"{sender.node}/{output}": (sender, output) for sender in senders for output in sender.outputs}
    found = []
    for name, node in tables:
        own = node.data["table"]
        given = own.data.get("input") if isinstance(own.data, dict) else None
        sender, output = outputs.get(given.data, (None, "")) if given is not None and isinstance(given.data, str) else (None, "")
        if given is None or sender is None or output not in dict(sender.types):
            continue
        found.append(
            WrittenOperator(
                name, ID, alone=False, file=FILE, at=own, inputs=[WrittenInput(output, given)], outputs=(output,),
                types=((output, dict(sender.types)[output]),),
            )
        )  # fmt: skip
    return found
