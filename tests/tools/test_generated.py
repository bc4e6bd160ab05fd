"""Generated pages and diagrams are up to date; `make generate` writes them."""

from __future__ import annotations

import pytest
from tools.diagrams import DIAGRAMS, DOCS, drawn

from tools import loss_table, tool_call_matrix


@pytest.mark.parametrize("name", DIAGRAMS)
def test_diagrams(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == drawn(DIAGRAMS[name])


def test_the_table_of_loss_codes() -> None:
    assert loss_table.PAGE.read_text(encoding="utf-8") == loss_table.page()


def test_the_tool_call_matrix() -> None:
    assert tool_call_matrix.PAGE.read_text(encoding="utf-8") == tool_call_matrix.page()
