"""Reads the configuration again while the gateway runs: on SIGHUP, and with `server.reload` on a change.

    running   --SIGHUP, or the file differs-------------> settling
    settling  --the file is the same 100 ms later-------> read
    read      --it was saved meanwhile------------------> settling
    read      --a start would refuse it, or no key left-> running, by the old one; the log says why
    read      --else------------------------------------> running, by the new one, except `ONLY_AT_START`

Many programs save in place: they empty the file and then write it. So the file must hold still before it is
read, and what is checked is the merged configuration, with the address that the gateway already listens on.

A process applies it in place (`Gateway.configure`). Of several workers, each is replaced by a new one, and
the old ones end when their requests have ended (workers.py).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from dragoman.core.errors import ConfigError, DragomanError
from dragoman.gateway.config import Config, refuse_start

EVERY = 1.0  # seconds between two looks at the file
SETTLE = 0.1  # seconds that it must stay the same before it is read
# Sockets, stores and logs are opened once. The files of the certificate are read again, under the same names
ONLY_AT_START = (
    "host",
    "port",
    "tls_cert",
    "tls_key",
    "connections_per_address",
    "grace",
    "drain",
    "memory",
    "store_url",
    "retention",
    "jobs",
    "verbose",
    "log_file",
    "inspector",
    "hosted",
)
_OF_PROCESS = ("workers", "counting_file")  # not in the file

Load = Callable[[], Config]


class ConfigReloader:
    """`load` reads the configuration as at the start; `note` writes a line of the log."""

    def __init__(self, config: Config, load: Load, note: Callable[[str], object]) -> None:
        self.config, self._load, self._note = config, load, note
        self.requested = False
        self._version: tuple[int, ...] = _version(config.file)
        self._seen: tuple[int, ...] | None = None  # the version at the last look
        self._wake = asyncio.Event()
        self._has_terminal = _has_terminal()

    @property
    def hung_up(self) -> bool:
        """Whether a SIGHUP came because the terminal that the gateway was started from is gone."""
        return self._has_terminal and not _has_terminal()

    def request(self) -> None:
        """Read the file as soon as it has settled."""
        self.requested, self._seen = True, None
        self._wake.set()

    def poll(self) -> Config | None:
        """The new configuration, where one was requested, can be read now, and may replace the old one.

        Call it every `SETTLE` seconds while `requested`, else every `EVERY` seconds."""
        version = _version(self.config.file)
        if not self.requested and self.config.reload and self.config.file and version != self._version:
            self.request()
        if not self.requested or version != self._seen:
            self._seen = version
            return None
        problem = ""
        try:
            new, fixed = self._read()
        except DragomanError as error:
            new, fixed, problem = self.config, (), str(error)
        if _version(self.config.file) != version:  # saved while it was read
            self._seen = None
            return None
        self.requested, self._version = False, version
        if problem:
            self._note(f"the configuration was not reloaded, and the old one stays in use: {problem}")
            return None
        self.config = new
        but = f"; a change of {', '.join(fixed)} needs a restart" if fixed else ""
        self._note(f"the configuration was reloaded from {new.file or 'the environment'}{but}")
        return new

    async def watch(self, apply: Callable[[Config], object]) -> None:
        """Call `apply` with each new configuration."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), EVERY)
            self._wake.clear()
            while True:
                if config := self.poll():
                    apply(config)
                if not self.requested:
                    break
                await asyncio.sleep(SETTLE)

    def _read(self) -> tuple[Config, tuple[str, ...]]:
        """The new configuration with what only a restart can change as it was, and what of it differs."""
        new, old = self._load(), self.config
        if new.file != old.file:  # a local file that changed is not trusted any more
            raise DragomanError(new.ignored_file or f"{old.file or 'no file'} was read, now {new.file}")
        merged = replace(new, **{name: _value(old, name) for name in (*ONLY_AT_START, *_OF_PROCESS)})
        if refusal := refuse_start(merged):
            raise ConfigError(f"{'.'.join(refusal[0])}: {refusal[1]}")
        if old.keys and not merged.keys:
            raise ConfigError("server.keys: The last key is gone. Restart the gateway if nobody needs one.")
        if old.admin_keys and not (merged.keys or merged.admin_keys):
            raise ConfigError(
                "inspector.admin_keys: The last one is gone. Restart the gateway if you mean it."
            )
        return merged, tuple(name for name in ONLY_AT_START if _value(old, name) != _value(new, name))


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
