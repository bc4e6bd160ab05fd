"""`dragoman` on asyncio's own event loop, with the CPU time of every callback.

    python timed_gateway.py FILE serve …

Each callback of more than `_LEAST` milliseconds is a line of FILE: milliseconds, then what ran.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

_LEAST = 5.0


def main() -> None:
    file = Path(sys.argv.pop(1)).open("a", buffering=1)  # noqa: SIM115 - as long as the process runs
    sys.modules["uvloop"] = None  # pyright: ignore[reportArgumentType] - its callbacks cannot be wrapped
    run: Callable[[asyncio.Handle], None] = vars(asyncio.Handle)["_run"]

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        took = 1000 * (time.thread_time() - began)
        if took > _LEAST:
            file.write(f"{took:.1f} {_name(handle)}\n")

    setattr(asyncio.Handle, "_run", timed)  # noqa: B010 - it is nobody's business but the loop's
    from dragoman.cli import main as cli

    cli()


def _name(handle: asyncio.Handle) -> str:
    callback = getattr(handle, "_callback", None)
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"task {getattr(task.get_coro(), '__qualname__', '')}"
    return getattr(callback, "__qualname__", type(callback).__name__)


if __name__ == "__main__":
    main()
