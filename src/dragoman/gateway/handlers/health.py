"""Routes of the gateway itself: health, readiness, metrics, and what agents probe before they talk."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST

from dragoman import __version__
from dragoman.core.routes import Route
from dragoman.gateway.admission import AdmissionControl
from dragoman.gateway.observability.metrics_page import MetricsPage
from dragoman.gateway.request import GatewayRequest

ROUTES = (
    *(
        Route(method, path, "health")
        for method in ("GET", "HEAD")
        for path in ("/", "/healthz", "/api/hello")  # the last one is Claude Code's
    ),
    Route("GET", "/readyz", "ready"),
    Route("HEAD", "/readyz", "health"),
    Route("GET", "/metrics", "metrics"),
)


class HealthHandler:
    def __init__(self, admission: AdmissionControl, metrics: MetricsPage) -> None:
        self._admission, self._metrics = admission, metrics

    async def health(self, request: GatewayRequest) -> None:
        await request.writer.json(200, {"status": "ok", "dragoman": __version__})

    async def ready(self, request: GatewayRequest) -> None:
        """A saturated gateway is ready all the same: taken out of a balancer's list, it would leave its
        load to the others until none is left, while each of them refuses what it cannot take in a
        millisecond."""
        saturated = self._admission.full
        await request.writer.json(200, {"status": "ok", "dragoman": __version__, "saturated": saturated})

    async def metrics(self, request: GatewayRequest) -> None:
        await request.writer.whole(200, self._metrics.page(), kind=CONTENT_TYPE_LATEST.encode())


async def refuse_websocket(request: GatewayRequest) -> None:
    """Codex tries a WebSocket first; this status makes it fall back to HTTP at once."""
    error = {"message": "this gateway speaks HTTP only", "type": "invalid_request_error"}
    await request.writer.json(426, {"error": error}, [(b"upgrade", b"HTTP/1.1")])
