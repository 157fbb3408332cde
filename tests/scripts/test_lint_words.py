"""The check of names and sentences, on a small repository."""

from __future__ import annotations

import doctest
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "lint_words.py"
LONG = " ".join(["word"] * 26) + "."
SHORT = " ".join(["word"] * 25) + "."


@pytest.fixture
def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("lint_words", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, path in (("REPOSITORY", tmp_path), ("ALLOWED", tmp_path / "allowed.txt"), ("CACHE", tmp_path / ".cache" / "words")):
        monkeypatch.setattr(module, name, path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "dagster_operators").mkdir()
    module.write({})
    return module


@pytest.fixture
def module_with(tmp_path: Path) -> Callable[[str], None]:
    return lambda text: (tmp_path / "dagster_operators" / "a.py").write_text(text) and None


def test_its_examples(lint: ModuleType) -> None:
    assert doctest.testmod(lint).failed == 0


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("found = 1", 1),
        ("found: int = 1", 1),
        ("def f(told): ...", 1),
        ("[one for one in x]", 1),
        ("a.found = 1", 0),
        ("table = found", 0),
        (f'"""{LONG}"""', 1),
        (f'"""{SHORT} {SHORT}"""', 0),
        (f'"""Short.\n\n{LONG}"""', 1),
        (f'"""Short.\n\nArgs:\n    a: {LONG}\n"""', 1),
        (f'"""Short.\n\n>>> {LONG}\n"""', 0),
        (f'"""Short::\n\n    {LONG}\n"""', 0),
        (f'X = 1\n"""{LONG}"""', 1),
        (f"x = '{LONG}'", 0),
    ],
)
def test_a_module(lint: ModuleType, module_with: Callable[[str], None], text: str, findings: int) -> None:
    module_with(text)
    assert sum(map(sum, lint.counts().values())) == findings
    assert lint.check(lower=False) == findings


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        (LONG, 1),
        (f"{SHORT}\n{SHORT}", 0),
        (f"- {LONG}\n- {LONG}", 2),
        (f"| {LONG} | {SHORT} |", 1),
        (f"```\n{LONG}\n```", 0),
        (f"# {LONG}", 0),
        (f"`{LONG}` {SHORT}", 1),
        (f"**{SHORT}** {SHORT}", 0),
        (f"[{LONG}](x.md)", 1),
    ],
)
def test_a_page(lint: ModuleType, tmp_path: Path, text: str, findings: int) -> None:
    (tmp_path / "docs" / "a.md").write_text(text)
    assert sum(map(sum, lint.counts().values())) == findings


def test_exceptions_may_only_become_fewer(
    lint: ModuleType, module_with: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = "dagster_operators/a.py"
    lint.write({path: (2, 0)})
    module_with("found = told = 1")
    assert lint.check(lower=False) == 0
    module_with("found = told = one = 1")
    assert lint.check(lower=False) == lint.check(lower=True) == 1
    assert f"  {path}:1: one" in capsys.readouterr().out
    assert lint.allowed() == {path: (2, 0)}
    module_with("found = 1")
    assert lint.check(lower=False) == 1
    assert "--lower" in capsys.readouterr().out
    assert lint.check(lower=True) == lint.check(lower=False) == 0
    assert lint.allowed() == {path: (1, 0)}
    module_with("x = 1")
    assert lint.check(lower=True) == 0
    assert lint.allowed() == {}


def test_a_long_sentence_does_not_stand_for_a_name(lint: ModuleType, module_with: Callable[[str], None]) -> None:
    lint.write({"dagster_operators/a.py": (1, 0)})
    module_with(f'"""{LONG}"""')
    assert lint.check(lower=False) == 1


def test_a_changed_file_is_looked_at_again(lint: ModuleType, module_with: Callable[[str], None]) -> None:
    for text, expected in (("found = 1", 1), ("x = 1", 0), ("found = 1", 1)):
        module_with(text)
        assert sum(map(sum, lint.counts().values())) == expected
