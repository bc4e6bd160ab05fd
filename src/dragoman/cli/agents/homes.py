"""A home for an agent that takes some settings from a file only: the user's own, where that file says more.

Everything else in it is a link, so that sessions, logins and habits stay where they are.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dragoman.cli.agents import Home
from dragoman.core import jsontext
from dragoman.core.jsontext import is_object


@contextmanager
def lent(home: Home | None, own: Path) -> Generator[dict[str, str]]:
    """The variable that leads to the lent home, which goes away again."""
    if home is None:
        yield {}
        return
    with TemporaryDirectory(prefix="dragoman-") as directory:
        folder = Path(directory, home.folder)
        folder.mkdir()
        for entry in _entries(own / home.folder):
            if entry.name != home.file:
                (folder / entry.name).symlink_to(entry)
        settings = merged(_settings(own / home.folder / home.file), home.settings)
        (folder / home.file).write_bytes(jsontext.encode(settings))
        yield {home.variable: directory}


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`under`, but for what `over` says, however deep."""
    both = {
        key: merged(under[key], value)
        for key, value in over.items()
        if is_object(value) and is_object(under.get(key))
    }
    return {**under, **over, **both}


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _settings(path: Path) -> dict[str, Any]:
    """What the user has set; nothing where it cannot be read, since agents differ in what they let pass."""
    try:
        value = jsontext.decode(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if is_object(value) else {}
