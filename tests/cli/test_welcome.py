"""What a starting gateway prints: only commands of agents that are installed and that it can serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli.welcome import welcome
from dragoman.gateway.config import load

LOCAL = '[providers.local]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'

TWO = LOCAL + LOCAL.replace("local", "far")

# name: (file, environment, what the line of Claude Code holds, what it does not hold)
CASES: dict[str, tuple[str, dict[str, str], str, str]] = {
    "its own vendor": ("", {"ANTHROPIC_API_KEY": "k"}, "claude", "--model"),
    "the demo": ("", {}, "claude", "--model"),
    "a pattern": (LOCAL + '[models]\n"claude-*" = "local:m"\n', {}, "claude", "--model"),
    "an alias alone": (TWO + '[models]\nbig = "local:m"\n', {}, "big", "claude-"),
    "one server, whose models have other names": (LOCAL + 'models = ["qwen"]\n', {}, "local:qwen", "claude-"),
}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the PATH. Claude Code is installed there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("text, environ, held, missing", CASES.values(), ids=CASES)
def test_agents_get_names_that_are_served(text: str, environ: dict[str, str], held: str, missing: str):
    lines = welcome(load(text, environ), "http://127.0.0.1:1", 1).splitlines()
    line = next(line for line in lines if line.startswith("Claude Code"))
    assert held in line
    assert missing not in line


def test_where_no_model_has_a_name_it_says_so():
    printed = welcome(load(TWO, {}), "http://127.0.0.1:1", 1)
    assert "Claude Code" not in printed
    assert "add a row to [models]" in printed


def test_an_agent_that_is_not_installed_has_no_line():
    printed = welcome(load("", {}), "http://127.0.0.1:1", 1)
    assert "Claude Code" in printed
    assert "Codex" not in printed
    assert "OPENAI_BASE_URL=http://127.0.0.1:1/v1" in printed


def test_without_an_agent_it_says_how_to_install_one(programs: Path):
    (programs / "claude").unlink()
    printed = welcome(load("", {}), "http://127.0.0.1:1", 1)
    assert "None is installed. `dragoman run claude` tells you" in printed
    assert "Claude Code" not in printed
