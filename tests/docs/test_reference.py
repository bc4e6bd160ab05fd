"""The reference pages name everything that is public."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman import client
from dragoman.client import RequestSettings, RunOptions

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "client.md").read_text()
NAMED = set(re.findall(r"[`( ](\w+)", PAGE))


@pytest.mark.parametrize("kind", ["names", "settings", "options"])
def test_the_page_of_the_client_names_everything(kind: str):
    public = {
        "names": client.__all__,
        "settings": list(RequestSettings.__annotations__),
        "options": list(RunOptions.__annotations__),
    }[kind]
    assert [name for name in public if name not in NAMED] == []
