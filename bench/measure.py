"""Best times, with contenders taking turns so that a noisy moment hits all of them alike.

Time is this thread's CPU time: on a busy machine a long run is interrupted and a short one is not, and
wall clock would then compare the neighbours' load.
"""

import gc
from collections.abc import Callable, Sequence
from time import thread_time

Run = Callable[[], bytes]
Prepare = Callable[[], Run]


def best_times(prepares: Sequence[Prepare], rounds: int) -> list[float]:
    """CPU seconds of each one's best run. Every run is prepared anew, outside the measured time."""
    gc.collect()
    gc.freeze()  # the peers' imports are a large heap that nobody should pay for walking
    times = [[seconds(prepare()) for prepare in prepares] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def seconds(run: Run) -> float:
    start = thread_time()
    run()
    return thread_time() - start
