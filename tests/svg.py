"""Pictures that were drawn, as trees."""

from __future__ import annotations

from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
"""The name space of its elements."""


def tree_of(text: str | bytes) -> ET.Element:
    """A picture as a tree; one that is no XML fails the test."""
    return ET.fromstring(text)  # noqa: S314 - we wrote it ourselves


def lines_of(text: str | bytes) -> dict[int, list[str]]:
    """The lines of text in each box, by its number."""
    groups = [group for group in tree_of(text).iter(f"{SVG}g") if group.get("id")]
    return {int(group.get("id", "")): [line.text or "" for line in group.findall(f"{SVG}text")] for group in groups}


def boxes_of(text: str | bytes) -> dict[int, ET.Element]:
    """The rectangle of each box, by its number."""
    groups = [group for group in tree_of(text).iter(f"{SVG}g") if group.get("id")]
    return {int(group.get("id", "")): rect for group in groups if (rect := group.find(f"{SVG}rect")) is not None}
