"""`dragoman`, which collects its garbage at SIGUSR1: what is measured after it is what is held.

python collecting_gateway.py serve …
"""

from __future__ import annotations

import gc
import signal
from types import FrameType

from dragoman.cli import main


def collect(number: int, frame: FrameType | None) -> None:
    gc.collect()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, collect)
    main()
