"""What some of the Pythons that we promise to run on get wrong must not stand in the source."""

from __future__ import annotations

import re
from pathlib import Path

import dragoman

_POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")


def test_no_group_is_repeated_possessively() -> None:
    """Python 3.11.0 to 3.11.4 match `(?:a|"b*")*+` where they must not: calls of models stayed text."""
    sources = Path(dragoman.__file__).parent.rglob("*.py")
    found = [path.name for path in sources if _POSSESSIVE_GROUP.search(path.read_text(encoding="utf-8"))]
    assert found == []
    assert _POSSESSIVE_GROUP.search('"(?:[a-z]++|x)*+"')
