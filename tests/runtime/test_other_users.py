"""Sail's server on a machine with other users: a warning, or a refusal."""

from __future__ import annotations

import logging

import pytest

from dagster_operators.errors import EngineError
from dagster_operators.runtime import other_users
from dagster_operators.runtime.engine import Spark
from dagster_operators.runtime.other_users import PRIVATE, check_alone


@pytest.fixture
def machine(monkeypatch):
    """A machine with users who have processes; others of its /etc/passwd have none."""
    monkeypatch.setattr(other_users.os, "getuid", lambda: 1000)
    monkeypatch.setattr(other_users, "_name", {1001: "bob"}.get)

    def with_users(*owners):
        monkeypatch.setattr(other_users, "_owners", lambda: iter(owners))
        other_users._others.cache_clear()
        other_users._warn.cache_clear()

    yield with_users
    other_users._others.cache_clear()
    other_users._warn.cache_clear()


ALONE = [0, 1000, 33, 0, 1000]


def test_other_people_are_warned_of_once_and_refused_where_that_is_asked(machine, caplog):
    machine(*ALONE)
    check_alone({})
    check_alone({PRIVATE: "true"})
    assert not caplog.records
    machine(*ALONE, 1001, 1001)
    with caplog.at_level(logging.WARNING):
        check_alone({})
        check_alone({})
        check_alone({PRIVATE: "false"})
    assert [record.getMessage().count("(bob)") for record in caplog.records] == [1]
    with pytest.raises(EngineError, match=r"other users of this machine \(bob\)"):
        Spark(remote="sail", config={PRIVATE: "true"}).session()
    with pytest.raises(EngineError, match="'perhaps'"):
        check_alone({PRIVATE: "perhaps"})


def test_the_users_of_processes_are_those_of_the_machine():
    assert other_users.os.geteuid() in set(other_users._owners()) or not other_users._PROCESSES.exists()
