"""What jobs need of the gateway around them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.gateway.conversations.store import LazyStore, StoreError
from dragoman.gateway.jobs.job_table import JobTable
from dragoman.gateway.jobs.queue import JobQueue
from dragoman.gateway.jobs.replay import Replay
from dragoman.gateway.jobs.space import StoreSpace
from dragoman.gateway.observability.metrics import Metrics


class GatewayParts(Struct, frozen=True, eq=False):
    """`report` is told of a store that fails, `crashed` of errors that nobody expected."""

    store: LazyStore
    replay: Replay
    metrics: Metrics
    report: Callable[[StoreError], object]
    crashed: Callable[[str, Exception], object]


class JobServices(Struct, frozen=True, eq=False):
    """`life`: seconds for which a stored reply stays."""

    gateway: GatewayParts
    table: JobTable
    queue: JobQueue
    space: StoreSpace
    life: float
