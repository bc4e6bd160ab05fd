"""A program that runs for a limited time with limited output, in a process group of its own.

Whatever it started goes with it: at the end, at the time limit, and when the caller is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dragoman.toolkit.limits import Kept, Limits
from dragoman.toolkit.root import Refused

TIMED_OUT = 124  # as timeout(1) says it
_LINGER = 0.5  # seconds for output that is still in the pipe; a background job may hold it open for ever
_SECRET = re.compile(r"(_|^)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)|APIKEY", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Finished:
    """`code` is 128 + n for a program that signal n ended."""

    output: str
    error: str
    code: int
    timed_out: bool = False


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Everything but keys and tokens: what a model runs has no need of them."""
    return {name: value for name, value in environ.items() if not _SECRET.search(name)}


async def execute(
    argv: Sequence[str], folder: Path, limits: Limits, *, merged: bool = False, given: bytes = b""
) -> Finished:
    """Run `argv` in `folder`. `merged`: its errors stand between its output, as on a terminal."""
    transport, heard = await _start(argv, folder, limits, merged, bool(given))
    try:
        if given and isinstance(pipe := transport.get_pipe_transport(0), asyncio.WriteTransport):
            pipe.write(given)
            pipe.close()
        await asyncio.wait([heard.exited], timeout=limits.seconds)
        timed_out = not heard.exited.done()
        if not timed_out:
            await asyncio.wait([heard.silent], timeout=_LINGER)
    finally:
        _end(transport)
        transport.close()
    code = TIMED_OUT if timed_out else transport.get_returncode() or 0
    return Finished(heard.output.text(), heard.error.text(), 128 - code if code < 0 else code, timed_out)


class _Heard(asyncio.SubprocessProtocol):
    """What a program says. It may exit long before its pipes do, which others can hold open."""

    def __init__(self, most: int) -> None:
        loop = asyncio.get_running_loop()
        self.output, self.error = Kept(most), Kept(most)
        self.exited: asyncio.Future[None] = loop.create_future()
        self.silent: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self.output if fd == 1 else self.error).add(data)

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.silent.set_result(None)


async def _start(
    argv: Sequence[str], folder: Path, limits: Limits, merged: bool, given: bool
) -> tuple[asyncio.SubprocessTransport, _Heard]:
    try:
        return await asyncio.get_running_loop().subprocess_exec(
            lambda: _Heard(limits.output),
            *argv,
            cwd=folder,
            env=environment(),
            stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise Refused(f"{argv[0]}: {getattr(error, 'strerror', None) or error}") from None


def _end(transport: asyncio.SubprocessTransport) -> None:
    """The whole group, also after its leader has gone."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        elif transport.get_returncode() is None:
            transport.kill()
