"""A temporary home for an agent that takes some settings from a file only: the user's own, with changes.

Everything else in it is a symbolic link, so that sessions, logins and preferences stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from dragoman.cli.agents import Home
from dragoman.core import jsontext
from dragoman.core.jsontext import is_object

# Strings are matched first, so that a // or a comma inside one stays
_NOT_JSON = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


@contextmanager
def temporary_home(home: Home | None, own: Path) -> Generator[dict[str, str]]:
    """The variable that points to the temporary home, which is removed afterwards."""
    if home is None:
        yield {}
        return
    with TemporaryDirectory(prefix="dragoman-") as directory:
        folder = Path(directory, home.folder)
        folder.mkdir()
        user = own / home.folder
        for entry in sorted(user.iterdir()) if user.is_dir() else ():
            if entry.name != home.file:
                (folder / entry.name).symlink_to(entry)
        settings = merged(_settings(user / home.file), home.settings)
        (folder / home.file).write_bytes(jsontext.encode(settings))
        yield {home.variable: directory}


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`under` with what `over` sets, at any depth."""
    both = {
        key: merged(under[key], value)
        for key, value in over.items()
        if is_object(value) and is_object(under.get(key))
    }
    return {**under, **over, **both}


def _settings(path: Path) -> dict[str, Any]:
    """The user's settings; Gemini CLI allows comments in them, and trailing commas do no harm."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError:
        return {}
    for _ in range(2):  # a comma before a comment is trailing once the comment is gone
        text = _NOT_JSON.sub(lambda found: found[0] if found[0].startswith('"') else "", text)
    try:
        value = jsontext.decode(text.encode())
    except ValueError as error:
        click.echo(f"dragoman: {path} is not used: {error}", err=True)
        return {}
    return value if is_object(value) else {}
