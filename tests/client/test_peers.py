"""The programs of docs/how-to/coming-from-other-libraries.md: ours are no longer than theirs, and run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import Model

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "coming-from-other-libraries.md"
PAIR = re.compile(r"^### ([^\n]+)\n\n```py\n(.*?)^```\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {title: (theirs, ours) for title, theirs, ours in PAIR.findall(PAGE.read_text())}


def lines(program: str) -> list[str]:
    """Without blank lines and without the checks that make ours a test."""
    return [line for line in program.splitlines() if line.strip() and not line.startswith("assert ")]


def test_there_are_programs():
    assert len(PROGRAMS) == 8


@pytest.mark.parametrize(("theirs", "ours"), PROGRAMS.values(), ids=PROGRAMS)
def test_ours_is_not_longer(theirs: str, ours: str):
    assert len(lines(ours)) <= len(lines(theirs))
    assert max(map(len, lines(ours))) <= 110


@pytest.mark.parametrize("ours", [ours for _, ours in PROGRAMS.values()], ids=PROGRAMS)
def test_ours_runs(ours: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """On real HTTP, over each protocol and a dialect."""
    monkeypatch.chdir(tmp_path)
    source = ours.replace('"demo:any"', "MODEL").replace('("talk.json").', '("talk.json", model=MODEL).')
    namespace: dict[str, Any] = {"MODEL": model, "__name__": "__program__"}
    exec(compile(source, str(PAGE), "exec", dont_inherit=True), namespace)
