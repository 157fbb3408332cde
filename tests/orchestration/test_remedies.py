"""The commands that an alert names are typed, or pasted, as they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dagster_operators import errors
from dagster_operators.orchestration.failures import as_failure
from dagster_operators.orchestration.remedies import commands_for
from dagster_operators.transactions.lost import PUT_BACK, how_to_repair, lost_error, repair_command
from tests.commands import commands_in, words_of

if TYPE_CHECKING:
    from dagster_operators.errors import OperatorsError

ROOT = "/lake/the flights; of $HOME (a copy)"
TABLE = "tables/all $of 'them'"


def every_error() -> list[OperatorsError]:
    wrong = [
        kind("wrong", table=TABLE, remedy=remedy)
        for kind in (errors.ForeignWriteError, errors.RestoredTableError, errors.DamagedTableError)
        for remedy in (how_to_repair(TABLE), 'pipeline.repair_all(keep="ours")', "restore a backup")
    ]
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.OperatorsError)]
    lost = [lost_error({f"tables/t/e{epoch}-g1-0a/part": "is missing"}, "lost", PUT_BACK) for epoch in (1, 7)]
    elsewhere = errors.BadInputError("written over", remedy=f"put it back: `{repair_command('/their root', TABLE)}`")
    return [*wrong, *(kind("wrong", remedy="") for kind in kinds), *lost, elsewhere]


@pytest.mark.parametrize("error", every_error(), ids=lambda error: f"{type(error).__name__}: {error.remedy}"[:60])
def test_the_commands_of_an_error_are_commands_as_they_stand(error: OperatorsError) -> None:
    commands = commands_for(error, ROOT)
    for command in commands:
        words = words_of(command)
        assert words[1] == ("/their root" if "their root" in error.remedy else ROOT)
        if words[0] == "repair" and "--keep" in words:
            assert words[2:] in (["--keep", "ours"], [TABLE.removeprefix("tables/"), "--keep", "ours"])
    failure = as_failure(error, ROOT)
    metadata = failure.metadata.get("command")
    assert (str(metadata.value).splitlines() if metadata else []) == list(commands)
    assert [*map(words_of, commands)] == [words for words in commands_in(failure.description or "") if words][-len(commands) :]


def test_those_that_a_person_waits_for_name_one() -> None:
    for kind in (errors.ForeignWriteError, errors.LostFileError, errors.DamagedLedgerError, errors.PipelineBusyError,
                 errors.UndecidedChangeError, errors.FencedError, errors.StorageError):  # fmt: skip
        assert commands_for(kind("wrong"), ROOT), kind
