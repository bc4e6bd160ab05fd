"""Reads the configuration again while the gateway runs: on SIGHUP, and with `server.reload` on a change.

    running  --SIGHUP, or the file differs--> read
    read     --it has a mistake-------------> running, with the old configuration; the log says what is wrong
    read     --it has none------------------> running, with the new one, except what only a restart can change

A process applies it in place (`Gateway.configure`). Of several workers, each is replaced by a new one, and
the old ones end when their requests have ended (workers.py).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import DragomanError
from dragoman.gateway.config import Config

EVERY = 1.0  # seconds between two looks at the file
# Sockets, stores and logs are opened once. The files of the certificate are read again, under the same names
ONLY_AT_START = (
    "host",
    "port",
    "tls_cert",
    "tls_key",
    "connections_per_address",
    "grace",
    "memory",
    "store_url",
    "retention",
    "jobs",
    "verbose",
    "log_file",
    "inspector",
)
_OF_PROCESS = ("workers", "counting_file")  # not in the file

Load = Callable[[], Config]


class ConfigReloader:
    """`load` reads the configuration as at the start; `note` writes a line of the log."""

    def __init__(self, config: Config, load: Load, note: Callable[[str], object]) -> None:
        self.config, self._load, self._note = config, load, note
        self._version = _version(config.file)
        self._has_terminal = _has_terminal()

    @property
    def hung_up(self) -> bool:
        """Whether a SIGHUP came because the terminal that the gateway was started from is gone."""
        return self._has_terminal and not _has_terminal()

    def changed(self) -> bool:
        """Whether the file differs from the one that was read last; False where it is not to be watched."""
        return bool(self.config.reload and self.config.file) and _version(self.config.file) != self._version

    def read(self) -> Config | None:
        """The new configuration; None where it has a mistake."""
        old = self.config
        self._version = _version(old.file)
        try:
            new = self._load()
            if new.file != old.file:  # a local file that changed is not trusted any more
                raise DragomanError(new.ignored_file or f"{old.file or 'no file'} was read, now {new.file}")
        except DragomanError as error:
            self._note(f"the configuration was not reloaded, the old one stays in force: {error}")
            return None
        fixed = {name: _value(old, name) for name in ONLY_AT_START if _value(old, name) != _value(new, name)}
        self.config = replace(new, **fixed, **{name: _value(old, name) for name in _OF_PROCESS})
        but = f"; a change of {', '.join(fixed)} needs a restart" if fixed else ""
        self._note(f"the configuration was reloaded from {new.file or 'the environment'}{but}")
        return self.config

    async def watch(self, reload: Callable[[], object]) -> None:
        """Call `reload` whenever the file has changed."""
        while True:
            await asyncio.sleep(EVERY)
            if self.changed():
                reload()


def _version(file: str) -> tuple[int, ...]:
    """Differs after an edit in place and after a rename or a changed link over it."""
    try:
        found = os.stat(file)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def _has_terminal() -> bool:
    return any(
        stream is not None and not stream.closed and stream.isatty() for stream in (sys.stdin, sys.stderr)
    )


def _value(config: Config, name: str) -> Any:
    return getattr(config, name)
