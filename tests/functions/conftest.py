"""Functions are known to the whole process: a test begins without any, and what it declares is forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dagster_operators.graph import user_functions


@pytest.fixture(autouse=True)
def only_our_own() -> Iterator[None]:
    before = user_functions.known()
    forget_all()
    yield
    forget_all()
    for function in before:
        user_functions.register(function)


def forget_all() -> None:
    for function in user_functions.known():
        user_functions.forget(function.name)
