"""Each place of the package that writes a call on stored data into a remedy has a test that makes the call, or a reason for none.

A new place fails here until it is followed, whether or not any test meets its error, and whatever engine that needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.remedy_places import places

TESTS = Path(__file__).parent

FOLLOWED: Mapping[str, tuple[str, ...]] = {
    "connectors/test_delta_source.py": ("connectors/change_feed.py:_ANEW",),
    "connectors/test_kafka_source.py": ("connectors/kafka_offsets.py:first_offsets", "connectors/kafka_offsets.py:_replaced"),
    "api/datasets/test_kept_solutions.py": ("api/rebuilding.py:Rebuildable._check_read_whole",),
    "connectors/test_pipeline_source.py": ("connectors/delta_versions.py:DeltaVersions._instead",),
    "connectors/test_remedies_of_tables.py": (
        "connectors/delta_files.py:_ANEW", "connectors/delta_versions.py:DeltaVersions._check_nothing_cleaned_up",
        "connectors/delta_versions.py:check_same_table", "connectors/delta_versions.py:_behind_others",
        "connectors/pipeline_source.py:PipelineSource._check_same", "connectors/pipeline_source.py:PipelineSource._refused",
        "connectors/upstream.py:gone",
    ),
    "connectors/test_snapshot_source.py": (
        "runtime/history_choosing.py:HistoryChoosing._check_left", "runtime/lost_history.py:tell_epoch",
    ),
    "connectors/test_remedies_of_topics.py": ("connectors/kafka_records.py:UnfitTimeError.as_input",),
    "end_to_end/test_backfill.py": (
        "api/rebuilding.py:Rebuildable._check_filled", "runtime/backfilling.py:check_neighbours",
        "runtime/rebuilt_part.py:together",
    ),
    "end_to_end/test_changed_pipelines.py": (
        "runtime/stored_changes.py:StoredChanges.drop",
    ),
    "end_to_end/test_changed_sources.py": ("connectors/delta_reader.py:_ANEW",),
    "end_to_end/test_changes_read_anew.py": (
        "plans/source_verdicts.py:SourceVerdicts._as_can_be_read", "runtime/rebuildable.py:_anew",
        "runtime/undecided.py:undecided",
    ),
    "end_to_end/test_remedies_of_decisions.py": (
        "api/output_stream.py:OutputStream.rejects", "runtime/compacting.py:_require_between_epochs",
        "runtime/comparing.py:Comparing.check_decided", "runtime/range_rebuilding.py:RangeRebuilding._look",
        "runtime/range_rebuilding.py:RangeRebuilding._check_tables", "runtime/reading_ranges.py:time_columns",
        "transactions/deciding.py:require_none_waiting", "transactions/history.py:History.at",
        "transactions/recovery.py:check_tables", "transactions/rollback.py:_deleted",
    ),
    "end_to_end/test_remedies_of_going_back.py": (
        "api/going_back.py:GoingBack.set_watermark", "runtime/resetting.py:Resetting._unsaid",
        "runtime/resetting.py:_Behind.check", "runtime/resetting.py:_again", "transactions/rollback.py:_check_sinks",
    ),
    "end_to_end/test_remedies_followed.py": (
        "transactions/codec.py:MADE_WHOLE", "transactions/ledger_repair.py:_require_nothing_cleaned",
        "transactions/lost.py:_back", "transactions/lost.py:computed_anew", "transactions/lost.py:how_to_repair",
        "storage/log_history.py:_actions",
    ),
    "end_to_end/test_remedies_of_states.py": ("state/evolution.py:evolved", "state/evolution.py:_misfit"),
    "end_to_end/test_same_files.py": ("runtime/commands.py:source_named", "storage/location.py:OF_SOURCE"),
    "end_to_end/test_rebuild.py": (
        "runtime/history_choosing.py:HistoryChoosing._without", "runtime/lost_history.py:read_anew",
        "runtime/resetting.py:_Behind.check_begun",
    ),
    "end_to_end/test_widened_columns.py": (
        "runtime/widening.py:_check", "transactions/recovery.py:_anew", "transactions/recovery.py:_columns_back",
    ),
    "runtime/test_ways_out.py": (
        "runtime/stored_changes.py:StoredDiff.lines", "runtime/stored_changes.py:_way_on", "runtime/undecided.py:_in_python",
    ),
    "transactions/test_ledger_repair.py": ("transactions/ledger_repair.py:_require_nothing_deleted",),
    "transactions/test_repair.py": ("transactions/recovery.py:check_table",),
}  # fmt: skip
"""The places whose calls a test makes, by the test's file."""

DECLARED: Mapping[str, str] = {
    "api/elsewhere.py:_OTHER_NAMES": "the call of this package for one of another system: no stored data is wrong",
    "connectors/postgres_sink.py:PostgresSink._put_back": "tests/connectors/test_postgres_crash.py puts a database back",
    "functions/references.py:IN_PYTHON": "the program is a script that is gone",
    "orchestration/freshness.py:_AHEAD": "only looks, before a rollback by hand",
    "orchestration/masked_errors.py:_WHERE_TO_LOOK": "shows the error again, without Dagster",
    "runtime/doctor.py:_sources": "the finding of the doctor for what verify_again refuses, whose error is followed",
    "runtime/history_choosing.py:HistoryChoosing.check": "only looks: the answer is given where the changes are asked",
    "connectors/slicing.py:SeenFiles.move_to": "slices of the ledger that do not add up: only a forged ledger has them",
    "connectors/upstream.py:Upstream.ended": "the reader is put onto another table, by its program",
    "connectors/upstream.py:Upstream.require_files": "the same call as for a table that is another one",
    "operators/relational/to_changes.py:newest_in": "a log of a state without statistics: only a forged one has them",
    "runtime/history_choosing.py:_leading_to": "tests/end_to_end/test_going_back.py puts a source where no epoch was",
    "runtime/rebuilding.py:Rebuilding._check": "both errors guard what a rebuild's own planning makes right",
    "state/run_files.py:_ANEW": "damaged files of a state are noticed before, and that remedy is followed",
    "state/state_file.py:StateFile.of": "somebody else's file in a state is noticed before, as a foreign write",
    "storage/delta_log.py:DeltaLog.commits": "a log that is cleaned between two looks at it: the same call as behind one look",
    "storage/object_content.py:require_marks": "needs an object store: the same call as for a table that is another one",
    "storage/location.py:FileLocation.set_time": "needs an object store: the same call as for a table that is another one",
}
"""The other places, and why no test makes their calls."""

MADE = ("follow(", "eval(", "{method}(")
"""How a test makes a call: word for word, or by its own hand behind a look at the remedy."""


def followed() -> dict[str, str]:
    return {place: path for path, several in FOLLOWED.items() for place in several}


def test_each_place_is_followed_or_declared() -> None:
    new = places().keys() - followed().keys() - DECLARED.keys()
    assert not new, "follow the calls of these remedies in a test, as tests/following.py does, and name it here"


def test_none_is_named_that_is_not_there() -> None:
    named = [*followed(), *DECLARED]
    assert len(named) == len({*named}), "in both"
    assert not {*named} - places().keys()


@pytest.mark.parametrize("path", FOLLOWED)
def test_the_test_makes_the_calls(path: str) -> None:
    text = (TESTS / path).read_text()
    for place in FOLLOWED[path]:
        methods = places()[place]
        assert any(way.format(method=method) in text for way in MADE for method in methods), (place, methods)
