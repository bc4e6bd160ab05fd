"""The targets of the Makefile that a newcomer runs, as `make -n` would run them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="no make")


def make(*words: str, **variables: str) -> str:
    """What it prints, without the lines that a make inside `make test` adds about its folder."""
    unset = "MAKEFLAGS", "MAKELEVEL", "PORT", "RUN"
    environ = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        ["make", *words], cwd=ROOT, env={**environ, **variables}, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    "words, options",
    [
        ((), "--inspect"),
        (("PORT=9000",), "--inspect --port 9000"),
        (("RUN=--verbose",), "--inspect --verbose"),
        (("PORT=9000", "RUN=--verbose"), "--inspect --port 9000 --verbose"),
    ],
)
def test_run_takes_a_port_and_options_and_keeps_the_inspector(words: tuple[str, ...], options: str) -> None:
    started = make("-n", "run", *words).splitlines()[-1]
    assert re.split(r"dragoman serve +", started)[1].split() == options.split()


def test_the_port_may_stand_before_the_command() -> None:
    assert "--port 9000" in make("-n", "run", PORT="9000")


def test_help_says_what_can_be_set_and_keeps_its_column() -> None:
    printed = make("help")
    targets = [line for line in printed.splitlines() if re.match(r"make \S+  ", line)]
    assert len({re.match(r"make \S+ +", line).end() for line in targets}) == 1  # type: ignore[union-attr]
    assert "make run PORT=9000" in printed
