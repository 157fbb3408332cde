"""Records of Kafka as the spool has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dagster_operators.connectors.kafka_records import UnfitTimeError, _time


def test_a_time_out_of_range_names_the_record_and_goes_on_behind_it_alone() -> None:
    record: Any = SimpleNamespace(timestamp=lambda: (1, 1 << 60), topic=lambda: "t", partition=lambda: 3, offset=lambda: 7)
    with pytest.raises(UnfitTimeError) as raised:
        _time(record)
    error = raised.value.as_input({2: 5, 3: 7})
    assert "offset 7 of partition 3" in error.problem
    assert error.topic == "t"
    assert "{'offsets': {'2': 5, '3': 8}}" in error.remedy, "a partition that is not named would begin anew"
