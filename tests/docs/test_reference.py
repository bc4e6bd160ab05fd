"""The reference pages name everything that is public."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from dragoman import client
from dragoman.cli import COMMANDS, main
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


CLI_PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
SECTIONS = dict(re.findall(r"^## dragoman (\w+)\n(.*?)(?=^## |\Z)", CLI_PAGE, re.DOTALL | re.M))


def _options(command: click.Command) -> list[str]:
    own = [
        option
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden
        for option in each.opts[:1] + each.secondary_opts
    ]
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return own + [option for each in below for option in _options(each)]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_the_command_line_names_every_option(name: str):
    command = main.get_command(click.Context(main), name)
    assert command
    # chat takes the options of ask, and says so
    named = set(re.findall(r"--?[a-z][a-z-]*", SECTIONS[name] + SECTIONS["ask"] * (name == "chat")))
    assert [option for option in _options(command) if option not in named] == []


def test_the_page_of_the_command_line_names_no_command_that_is_gone():
    assert set(SECTIONS) == set(COMMANDS)
