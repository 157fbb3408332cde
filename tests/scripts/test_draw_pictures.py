"""The pictures of the concepts are what the script draws of the code as it is."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.svg import SVG, tree_of

REPOSITORY = Path(__file__).parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(REPOSITORY / "scripts" / "draw_pictures.py"))


@pytest.mark.parametrize("name", SCRIPT["PICTURES"])
def test_the_stored_picture_is_up_to_date(name: str) -> None:
    stored = (REPOSITORY / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
    assert stored == SCRIPT["PICTURES"][name]().svg(), "run: python scripts/draw_pictures.py"


@pytest.mark.parametrize("name", SCRIPT["PICTURES"])
def test_everything_is_within_the_picture(name: str) -> None:
    picture = SCRIPT["PICTURES"][name]()
    tree = tree_of(picture.svg())
    for rect in tree.iter(f"{SVG}rect"):
        assert float(rect.get("x", 0)) + float(rect.get("width", 0)) <= picture.width
        assert float(rect.get("y", 0)) + float(rect.get("height", 0)) <= picture.height
    for text in tree.iter(f"{SVG}text"):
        size, x = float(text.get("font-size", 0)), float(text.get("x", 0))
        width = 0.55 * size * len(text.text or "")  # about, as the font is the reader's
        left = {"start": x, "middle": x - width / 2, "end": x - width}[text.get("text-anchor", "start")]
        assert left >= 0, text.text
        assert left + width <= picture.width, text.text


@pytest.mark.parametrize("name", SCRIPT["PICTURES"])
def test_a_page_shows_it(name: str) -> None:
    pages = [REPOSITORY / "ARCHITECTURE.md", *(REPOSITORY / "docs").rglob("*.md")]
    assert any(f"pictures/{name}.svg)" in page.read_text(encoding="utf-8") for page in pages)
