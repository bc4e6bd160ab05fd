"""The end of several processes."""

from __future__ import annotations

import os
import time
from typing import Any

from dragoman.gateway.process.workers import Workers


class Dying:
    """A worker that is seen alive once, and has ended when it is looked at again."""

    def __init__(self) -> None:
        self.sentinel, end = os.pipe()
        os.close(end)  # ready, as the sentinel of a process that has ended is
        self._seen = 0

    def is_alive(self) -> bool:
        self._seen += 1
        return self._seen == 1

    def terminate(self) -> None: ...


def test_workers_that_end_at_once_are_not_waited_for() -> None:
    workers: Any = Workers(lambda: None, 2, grace=20)
    dying = Dying()
    workers._running = {dying: 0.0}
    told, tell = os.pipe()
    os.write(tell, b"!")
    began = time.monotonic()
    workers._end(told)
    assert time.monotonic() - began < 10
    for end in (told, tell, dying.sentinel):
        os.close(end)
