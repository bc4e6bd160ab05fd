"""What the log, the metrics and the spans will say about an exchange."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dragoman.core.losses import Loss
from dragoman.core.model import Failure, Usage

if TYPE_CHECKING:
    from dragoman.exchange import Exchange
    from dragoman.gateway.routing import Target


class Seen:
    """One exchange. Times are seconds since it began; `first` is None until something was said."""

    __slots__ = (
        "action", "caller", "calls", "client", "crash", "exchange", "failure", "first", "gone", "id", "lost",
        "model", "shed", "span", "started", "status", "stream", "target", "tools", "tries", "usage", "waited",
    )  # fmt: skip

    def __init__(self, id: str, client: str, action: str) -> None:
        self.id, self.client, self.action = id, client, action
        self.started = time.perf_counter()
        self.caller = ""  # the name of the key
        self.shed = ""  # which limit turned it away
        self.waited = 0.0  # seconds in line
        self.model = ""
        self.stream = False
        self.target: Target | None = None
        self.exchange: Exchange | None = None
        self.failure: Failure | None = None
        self.usage: Usage | None = None
        self.tools: int = 0
        self.calls: int = 0
        self.tries = 0
        self.status = 0
        self.gone = False
        self.crash: Exception | None = None
        self.lost: list[Loss] = []  # by the gateway, beside what the translation lost
        self.first: float | None = None
        self.span: Any = None

    def first_byte(self) -> None:
        self.first = time.perf_counter() - self.started

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def provider(self) -> str:
        return self.target.provider.name if self.target else ""

    @property
    def losses(self) -> list[Loss]:
        translated = self.exchange.losses if self.exchange else []
        return translated + self.lost if self.lost else translated
