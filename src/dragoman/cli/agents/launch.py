"""Running an agent that owns the terminal: its environment and home, its signals, its exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from dragoman.cli.agents import AgentHome
from dragoman.core import jsontext
from dragoman.core.jsontext import is_object
from dragoman.profiles import known

_LOOPBACK = "127.0.0.1,localhost"
_FORWARDED_SIGNALS = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_DATABASE = ("PGPASSWORD", "PGPASSFILE", "DATABASE_URL")
# Strings are matched first, so that a // or a comma inside one stays
_NOT_JSON = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


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
    visible = {
        name: value
        for name, value in environ.items()
        if name not in hidden and not name.startswith("DRAGOMAN_")
    }
    direct = {
        name: ",".join(filter(None, (environ.get(name), _LOOPBACK)))
        for name in ("NO_PROXY", "no_proxy")
        if name in environ or name == "NO_PROXY"
    }
    return {**visible, **direct, **added}


@contextmanager
def temporary_home(home: AgentHome | None, own: Path) -> Generator[dict[str, str]]:
    """A home for an agent that takes some settings from a file only: the user's own, with changes.

    Everything else in it is a symbolic link, so that sessions, logins and preferences stay where they are. It
    is removed afterwards; the result is the variable that points to it.
    """
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
        settings = merge_tables(_settings(user / home.file), home.settings)
        (folder / home.file).write_bytes(jsontext.encode(settings))
        yield {home.variable: directory}


def merge_tables(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`under` with what `over` sets, at any depth."""
    both = {
        key: merge_tables(under[key], value)
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
        record: Any = jsontext.decode(line.encode())
        self.exchanges += "status" in record
        if record.get("error"):
            self.failed += 1
            source = record.get("provider") or "dragoman"
            self._last = f"{record.get('status')} from {source}: {record['error']}"

    def summary(self) -> str:
        return f"dragoman: {self.failed} of {self.exchanges} exchanges failed, the last with {self._last}"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
