"""The /metrics page: the numbers of this process and of the other workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.worker_metrics import worker_metrics

_EVERY = 1.0  # seconds; so old may the numbers of a sibling be


class MetricsPage:
    """`gauges` tells what is under way at the moment."""

    def __init__(self, metrics: Metrics, gauges: Callable[[], dict[str, float]]) -> None:
        self._metrics, self._gauges, self._siblings = metrics, gauges, worker_metrics()

    def page(self) -> bytes:
        self._metrics.gauges = self._gauges()
        return self._metrics.page(self._siblings.numbers() if self._siblings else ())

    async def share(self) -> None:
        """Share the numbers with the other workers, where there are any."""
        while self._siblings:
            await asyncio.sleep(_EVERY)
            self._metrics.gauges = self._gauges()
            self._siblings.leave(self._metrics.numbers)

    def close(self) -> None:
        if self._siblings:
            self._siblings.go()
