"""The diagrams of the documentation are what `tools/diagrams.py` draws."""

from __future__ import annotations

import pytest
from tools.diagrams import DIAGRAMS, DOCS, drawn


@pytest.mark.parametrize("name", DIAGRAMS)
def test_diagrams_are_up_to_date(name: str) -> None:
    """`python tools/diagrams.py` writes them."""
    assert (DOCS / name).read_text(encoding="utf-8") == drawn(DIAGRAMS[name])
