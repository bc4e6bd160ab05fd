"""The conversations of `ask` and `chat` in the user's data folder: one JSON file each, for the owner only."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

import click

from dragoman.client import Conversation, UserMessage
from dragoman.core.errors import ConfigError, DragomanError
from dragoman.core.user_folders import data_folder

_TITLE = 60  # characters


class ChatHistory:
    """`folder` is None where there is no home directory: then nothing is stored."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        base = data_folder(environ)
        self.folder = base / "chats" if base else None

    def new(self) -> Path | None:
        """Where the next conversation is stored; names sort by time."""
        if self.folder is None:
            return None
        return self.folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.json"

    def recent(self, count: int = 20) -> list[Path]:
        """The latest first."""
        files = sorted(self.folder.glob("*.json"), reverse=True) if self.folder else []
        return files[:count]

    def find(self, name: str) -> Path:
        """The conversation with that id or beginning of one, or the file; empty: the latest."""
        if name and Path(name).is_file():
            return Path(name)
        found = [path for path in self.recent(10_000) if path.stem.startswith(name)]
        if not found:
            what = f"no conversation {name!r}" if name else "no conversation yet"
            raise ConfigError(f"there is {what} in {self.folder}")
        return found[0]

    def save(self, conversation: Conversation, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        conversation.save(path)
        os.chmod(path, 0o600)


def title_of(conversation: Conversation) -> str:
    """The beginning of the first prompt."""
    first = next((each.content for each in conversation if isinstance(each, UserMessage)), "")
    line = " ".join(first.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def listed(history: ChatHistory, count: int = 20) -> list[str]:
    """`id  title` of the latest conversations; a file that is not readable is left out."""
    lines: list[str] = []
    for path in history.recent(count):
        try:
            lines.append(f"{path.stem}  {title_of(Conversation.load(path))}")
        except (DragomanError, OSError) as error:
            click.echo(f"{path}: {error}", err=True)
    return lines
