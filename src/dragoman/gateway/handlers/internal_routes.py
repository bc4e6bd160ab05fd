"""Routes of the gateway itself: health, readiness, metrics, and what agents probe before they talk."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from prometheus_client import CONTENT_TYPE_LATEST

from dragoman import __version__
from dragoman.gateway.admission import AdmissionControl
from dragoman.gateway.conversations.store import LazyStore, StoreError, within
from dragoman.gateway.observability.metrics_page import MetricsPage
from dragoman.gateway.request import GatewayRequest
from dragoman.serving.routes import Route

_STORE_EVERY = 1.0  # seconds between two checks of the store
_STORE_SECONDS = 2.0  # that it may take

ROUTES = (
    *(
        Route(method, path, "health")
        for method in ("GET", "HEAD")
        for path in ("/", "/healthz", "/api/hello")  # the last one is Claude Code's
    ),
    Route("GET", "/readyz", "ready"),
    Route("HEAD", "/readyz", "ready"),
    Route("GET", "/metrics", "metrics"),
    Route("GET", "/v1/key", "key"),
)


class HealthHandler:
    """`is_draining`: the gateway will end soon, and nothing new should be sent here."""

    def __init__(
        self,
        admission: AdmissionControl,
        metrics: MetricsPage,
        store: LazyStore,
        is_draining: Callable[[], bool] = bool,
    ) -> None:
        self._admission, self._metrics, self._store = admission, metrics, store
        self._is_draining = is_draining
        self._store_works, self._store_checked = True, 0.0

    async def health(self, request: GatewayRequest) -> None:
        await request.writer.json(200, {"status": "ok", "dragoman": __version__})

    async def key(self, request: GatewayRequest) -> None:
        """What the owner of a key may know about it: its limits, and what it has used of them."""
        caller, budgets = self._admission.callers.find(request.key), self._admission.budgets
        assert caller, "the key was checked"
        readings = await budgets.read(caller) if budgets else []
        allowance = caller.allowance
        expires = datetime.fromtimestamp(caller.expires, UTC).isoformat() if caller.expires else None
        body = {
            "name": caller.name,
            "expires": expires,
            "models": list(caller.models) or ["*"],
            "requests_per_minute": allowance.requests_per_minute,
            "concurrency": allowance.concurrency,
            "budgets": [reading.as_wire() for reading in readings],
        }
        await request.writer.json(200, body)

    async def ready(self, request: GatewayRequest) -> None:
        """503 while it drains, or while a store of its own cannot be read.

        A saturated gateway is ready all the same: taken out of a balancer's list, it would leave its load to
        the others until none is left, while each of them refuses what it cannot take in a millisecond. So is
        one without the database that all share: taken out, all would be out at once, and with them the
        requests that need no store. `?store=required` asks for it, for a start with a wrong address.
        """
        body: dict[str, object] = {"status": "ok", "dragoman": __version__, "saturated": self._admission.full}
        if self._is_draining():
            await request.writer.json(503, {**body, "status": "draining"})
        elif await self._has_store():
            await request.writer.json(200, body)
        elif self._store.is_shared and request.query.get("store") != "required":
            await request.writer.json(200, {**body, "store": "cannot be read"})
        else:
            await request.writer.json(503, {**body, "status": "the store cannot be read"})

    async def _has_store(self) -> bool:
        """Checks the store at most once a second: probes come from many machines."""
        if not self._store.opened or time.monotonic() - self._store_checked < _STORE_EVERY:
            return self._store_works
        self._store_checked = time.monotonic()
        try:
            await within(_STORE_SECONDS, self._store.check())
            self._store_works = True
        except StoreError:
            self._store_works = False
        return self._store_works

    async def metrics(self, request: GatewayRequest) -> None:
        await request.writer.whole(200, self._metrics.page(), kind=CONTENT_TYPE_LATEST.encode())
