"""`dragoman` alone: what is found on this machine, and what one can do with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli import next_steps
from dragoman.core.optional import install_command
from dragoman.profiles import known

# name: (variables, programs, what is printed)
CASES: dict[str, tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]] = {
    "nothing": (
        {},
        (),
        ("none. A built-in scripted model", "none is installed", "run claude --model demo:any"),
    ),
    "a vendor's key": ({"OPENAI_API_KEY": "sk-1"}, (), ("OPENAI_API_KEY", "--model openai:gpt-")),
    "a key of many models": ({"GROQ_API_KEY": "gsk-1"}, (), ("GROQ_API_KEY", "--model groq:MODEL")),
    "an agent": ({}, ("codex",), ("agents   Codex", "dragoman run codex")),
}


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for provider in known().values():
        for name in provider.key_variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return monkeypatch


@pytest.mark.parametrize("variables, programs, printed", CASES.values(), ids=CASES)
def test_it_says_what_is_there_and_what_comes_next(
    environ: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str],
    programs: tuple[str, ...], printed: tuple[str, ...],
) -> None:  # fmt: skip
    for name, value in variables.items():
        environ.setenv(name, value)
    for name in programs:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    text = next_steps.next_steps()
    assert [each for each in printed if each not in text] == []
    assert not any(value in text for value in variables.values())


def test_a_missing_extra_is_named(environ: pytest.MonkeyPatch) -> None:
    environ.setattr(next_steps, "find_spec", lambda name: None)
    command = install_command("cli,client,gateway")
    assert f"ask, run, models, serve: first {command}" in next_steps.next_steps()
