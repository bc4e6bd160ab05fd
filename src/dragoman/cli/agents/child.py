"""Running a program that has the terminal: its surroundings, its signals, its exit code."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence

_OURS = "127.0.0.1,localhost"
_PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


def surroundings(environ: Mapping[str, str], unset: Sequence[str], said: Mapping[str, str]) -> dict[str, str]:
    """The environment as it is, but for what the agent is told; a proxy must not stand before the gateway."""
    kept = {name: value for name, value in environ.items() if name not in unset}
    direct = {
        name: ",".join(filter(None, (environ.get(name), _OURS)))
        for name in ("NO_PROXY", "no_proxy")
        if name in environ or name == "NO_PROXY"
    }
    return {**kept, **direct, **said}


def attend(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `command` with our terminal until it ends; its exit code, 128 + n where signal n ended it.

    Keys such as Ctrl-C reach it directly and are its own business; other signals to us are passed on.
    """
    child: subprocess.Popen[bytes] | None = None

    def leave_it(number: int, frame: object) -> None:
        """A handler, not SIG_IGN: the child would inherit that."""

    def pass_on(number: int, frame: object) -> None:
        if child is not None:
            child.send_signal(number)

    handlers = {signal.SIGINT: leave_it, signal.SIGQUIT: leave_it}
    handlers |= {getattr(signal, name): pass_on for name in _PASSED_ON}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        child = subprocess.Popen(command, env=environment)
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
