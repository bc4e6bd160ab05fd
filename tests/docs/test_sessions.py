"""Every shell session of the README and of docs/ (a block that begins with `$ `) prints what it says.

A line `…` stands for any number of lines.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SESSION = re.compile(r"^```\n\$ (.*?)^```$", re.MULTILINE | re.DOTALL)


def sessions() -> dict[str, tuple[str, list[str]]]:
    """A command goes on while its lines end in a pipe."""
    found: dict[str, tuple[str, list[str]]] = {}
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in SESSION.findall(page.read_text()):
            first, *lines = block.splitlines()
            while first.endswith("|"):
                first += "\n" + lines.pop(0)
            found[f"{page.relative_to(ROOT)}: {first.splitlines()[0][:40]}"] = (first, lines)
    return found


def pattern(lines: list[str]) -> str:
    return "".join(r"(?:.*\n)*?" if line == "…" else re.escape(line) + "\n" for line in lines)


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """A PATH on which `dragoman` is the one under test."""
    program = tmp_path / "dragoman"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dragoman "$@"\n')
    program.chmod(0o755)
    stored = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return {**os.environ, **stored, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def test_there_are_sessions():
    assert len(sessions()) >= 2


@pytest.mark.parametrize("command, lines", sessions().values(), ids=sessions())
def test_sessions_print_what_they_say(command: str, lines: list[str], shell: dict[str, str]):
    result = subprocess.run(
        ["sh", "-c", command],
        env=shell,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert result.returncode == 0
    assert re.fullmatch(pattern(lines), result.stdout.decode()), result.stdout.decode()
