"""Records of Kafka as the spool has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dagster_operators.connectors.kafka_records import _time
from dagster_operators.errors import BadInputError


def test_a_time_out_of_range_names_the_record() -> None:
    record: Any = SimpleNamespace(timestamp=lambda: (1, 1 << 60), topic=lambda: "t", partition=lambda: 3, offset=lambda: 7)
    with pytest.raises(BadInputError, match="offset 7 of partition 3") as raised:
        _time(record)
    assert raised.value.topic == "t"
    assert "{'offsets': {'3': 8}}" in raised.value.remedy
