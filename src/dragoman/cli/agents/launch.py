"""Running an agent that owns the terminal: its environment, its signals, its exit code, and what failed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dragoman.core.jsontext import decode
from dragoman.profiles import known

_LOOPBACK = "127.0.0.1,localhost"
_FORWARDED_SIGNALS = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_DATABASE = ("PGPASSWORD", "PGPASSFILE", "DATABASE_URL")


def environment_of(
    environ: Mapping[str, str], unset: Iterable[str], added: Mapping[str, str], secrets: Iterable[str] = ()
) -> dict[str, str]:
    """The environment of an agent, without our own settings and secrets; `added` wins over all.

    The gateway holds the keys, so the agent and what it starts need none: DRAGOMAN_*, the keys of known
    providers, `secrets` of the configuration and of the store are left out. Proxies do not apply to loopback.
    """
    hidden = {*unset, *secrets, *_DATABASE}
    for provider in known().values():
        hidden |= {*provider.key_variables}
    kept = {
        name: value
        for name, value in environ.items()
        if name not in hidden and not name.startswith("DRAGOMAN_")
    }
    direct = {
        name: ",".join(filter(None, (environ.get(name), _LOOPBACK)))
        for name in ("NO_PROXY", "no_proxy")
        if name in environ or name == "NO_PROXY"
    }
    return {**kept, **direct, **added}


def run_agent(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `command` with our terminal until it ends; its exit code, 128 + n where signal n ended it.

    Keys such as Ctrl-C reach it directly and it handles them; other signals to us are forwarded.
    """
    child: subprocess.Popen[bytes] | None = None

    def ignore(number: int, frame: object) -> None:
        """A handler instead of SIG_IGN, which the child would inherit."""

    def forward(number: int, frame: object) -> None:
        if child is not None:
            child.send_signal(number)

    handlers = {signal.SIGINT: ignore, signal.SIGQUIT: ignore}
    handlers |= {getattr(signal, name): forward for name in _FORWARDED_SIGNALS}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        child = subprocess.Popen(command, env=environment)
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


class RunLog:
    """Receives the access log of the private gateway: silent while the agent has the terminal.

    `file` receives every line; it names models and errors, so only its owner may read it.
    """

    def __init__(self, file: str = "") -> None:
        self._file = open(file, "a", encoding="utf-8", opener=_private) if file else None  # noqa: SIM115 - closed in __exit__
        self.exchanges = self.failed = 0
        self._last = ""

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file:
            self._file.close()

    def write(self, line: str) -> None:
        if self._file:
            self._file.write(line + "\n")
            self._file.flush()
        record: Any = decode(line.encode())
        self.exchanges += "status" in record
        if record.get("error"):
            self.failed += 1
            source = record.get("provider") or "dragoman"
            self._last = f"{record.get('status')} from {source}: {record['error']}"

    def summary(self) -> str:
        return f"dragoman: {self.failed} of {self.exchanges} exchanges failed, the last with {self._last}"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
