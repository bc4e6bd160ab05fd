"""Best times, with contenders taking turns so that a noisy moment hits all of them alike."""

import gc
from collections.abc import Callable, Sequence
from time import perf_counter

Run = Callable[[], bytes]
Prepare = Callable[[], Run]


def best_times(prepares: Sequence[Prepare], rounds: int) -> list[float]:
    """Seconds of each one's best run. Every run is prepared anew, outside the measured time."""
    gc.collect()
    gc.freeze()  # the peers' imports are a large heap that nobody should pay for walking
    times = [[seconds(prepare()) for prepare in prepares] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def seconds(run: Run) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start
