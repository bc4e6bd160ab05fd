"""One line for each exchange, and the counters behind /metrics. Secrets and contents stay out."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dragoman.core import jsontext

if TYPE_CHECKING:
    from dragoman.gateway.serving import Seen

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Journal:
    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self._registry = registry = CollectorRegistry()
        labels = ("client", "provider", "status")
        self._requests = Counter("dragoman_requests", "Exchanges.", labels, registry=registry)
        self._losses = Counter("dragoman_losses", "What did not survive.", ("kind",), registry=registry)
        self._first = Histogram(
            "dragoman_first_byte_seconds", "To the first byte.", registry=registry, buckets=_SECONDS
        )
        self._total = Histogram("dragoman_seconds", "To the last byte.", registry=registry, buckets=_SECONDS)
        self.in_flight = Gauge("dragoman_in_flight", "Exchanges under way.", registry=registry)

    def told(self, request_id: str, seen: Seen, status: int) -> None:
        provider = seen.target.provider.name if seen.target else ""
        losses = seen.exchange.losses if seen.exchange else []
        seconds = time.monotonic() - seen.started
        self._requests.labels(seen.client, provider, "gone" if seen.gone else str(status)).inc()
        for loss in losses:
            self._losses.labels(loss.kind).inc()
        if seen.first is not None:
            self._first.observe(seen.first)
        self._total.observe(seconds)
        line = {
            "id": request_id,
            "client": seen.client,
            "model": seen.model,
            "provider": provider,
            "upstream": seen.target.model if seen.target else "",
            "status": "gone" if seen.gone else status,
            "tries": seen.tries,
            "first_ms": None if seen.first is None else round(seen.first * 1000),
            "ms": round(seconds * 1000),
            "losses": len(losses),
            **({"error": seen.failure.message[:300]} if seen.failure else {}),
        }
        self._write(jsontext.dumps(line))

    def crashed(self, request_id: str, error: Exception) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        where = "; ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[-4:])
        self._write(jsontext.dumps({"id": request_id, "crash": type(error).__name__, "at": where}))

    def metrics(self) -> bytes:
        return generate_latest(self._registry)
