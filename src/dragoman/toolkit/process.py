"""Runs a program with limited time and output, without the user's secrets, in its own process group.

The whole group is killed when the program ends, at the time limit, and when the caller is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from dragoman.toolkit.limits import HeadAndTail, Limits
from dragoman.toolkit.root import Refused

TIMED_OUT = 124  # the exit code of timeout(1)
_LINGER = 0.5  # seconds for output that is still in the pipe; a background job may hold it open for ever
# PWD and OLDPWD are directories, SSH_AUTH_SOCK is a path that git needs; both stay.
_SECRET_NAME = re.compile(
    r"^DRAGOMAN_|(^|_|API|ACCESS)KEYS?(_|$)|(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|CRED)S?(_|$)"
    r"|_(PASS|PWD|PAT|AUTH|DSN|SK|PEM)$|(^|_)(COOKIE|BEARER|MNEMONIC)S?$|CONNECTION_STRING|WEBHOOK"
    r"|(^|_)JWT(_|$)|AUTH_CONFIG|^(PGPASSFILE|PASS)$",
    re.IGNORECASE,
)
# A password in a URL (DATABASE_URL, HTTP_PROXY), a private key, a JWT, tokens that say what they are
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@|-----BEGIN [A-Z ]*PRIVATE KEY|(^|\s)eyJ[\w-]{8,}\.[\w-]{8,}\."
    r"|(^|\s)(sk-|gh[opsur]_|github_pat_|glpat-|xox[abp]-|AIza)[\w-]{16,}"
)


@dataclass(frozen=True, slots=True)
class Finished:
    """`code` is 128 + n for a program that signal n ended."""

    output: str
    error: str
    code: int
    timed_out: bool = False


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`environ` without keys, tokens, passwords and settings of dragoman: commands of a model need none."""
    return {
        name: value
        for name, value in environ.items()
        if not _SECRET_NAME.search(name) and not _SECRET_VALUE.search(value)
    }


async def execute(
    argv: Sequence[str], folder: Path, limits: Limits, *, merged: bool = False, given: bytes = b""
) -> Finished:
    """Run `argv` in `folder`, with `given` on stdin. `merged`: stderr goes into the output."""
    if any("\0" in word for word in argv):  # uvloop would cut the word there and run the rest
        raise Refused(f"{argv[0]!r}: a word of the command contains a NUL byte")
    transport, collected = await _start_whole(_start(argv, folder, limits, merged, bool(given)))
    try:
        if given:
            # not isinstance: pipes of uvloop are no asyncio.WriteTransport
            pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
            pipe.write(given)
            pipe.close()
        await asyncio.wait([collected.exited], timeout=limits.seconds)
        timed_out = not collected.exited.done()
        if not timed_out:
            await asyncio.wait([collected.silent], timeout=_LINGER)
    finally:
        _end(transport)
        transport.close()
    code = TIMED_OUT if timed_out else transport.get_returncode() or 0
    return Finished(
        collected.output.text(), collected.error.text(), 128 - code if code < 0 else code, timed_out
    )


class _ProcessOutput(asyncio.SubprocessProtocol):
    """Collects the output. A program may exit long before its pipes close: its children hold them open."""

    def __init__(self, most: int) -> None:
        loop = asyncio.get_running_loop()
        self.output, self.error = HeadAndTail(most), HeadAndTail(most)
        self.exited: asyncio.Future[None] = loop.create_future()
        self.silent: asyncio.Future[None] = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self.output if fd == 1 else self.error).add(data)

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.silent.set_result(None)


_Started: TypeAlias = tuple[asyncio.SubprocessTransport, _ProcessOutput]


async def _start_whole(start: Coroutine[Any, Any, _Started]) -> _Started:
    """The started program. Cancellation waits until it has started, and ends it.

    A `subprocess_exec` of asyncio that is cancelled before all pipes are connected waits for them for ever.
    """
    starting = asyncio.ensure_future(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            transport, _ = starting.result()
            _end(transport)
            transport.close()
        raise


async def _start(argv: Sequence[str], folder: Path, limits: Limits, merged: bool, given: bool) -> _Started:
    try:
        return await asyncio.get_running_loop().subprocess_exec(
            lambda: _ProcessOutput(limits.output),
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
    """Kill the whole group, also after its leader has ended."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        elif transport.get_returncode() is None:
            transport.kill()
