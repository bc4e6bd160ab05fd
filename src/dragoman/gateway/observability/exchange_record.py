"""What the log, the metrics and the spans will say about an exchange."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dragoman.core.losses import Loss
from dragoman.core.model import Failure, Usage

if TYPE_CHECKING:
    from dragoman.exchange import Exchange
    from dragoman.gateway.upstreams.routing import Target


class ExchangeRecord(Struct, eq=False):
    """One exchange. Times are seconds since it began; `first` is None until something was said."""

    id: str
    client: str
    action: str
    started: float = field(default_factory=time.perf_counter)
    caller: str = ""  # the name of the key
    address: str = ""  # of the client, or of the proxy before us
    shed: str = ""  # which limit turned it away
    waited: float = 0.0  # seconds in line
    model: str = ""
    stream: bool = False
    target: Target | None = None
    exchange: Exchange | None = None
    failure: Failure | None = None
    usage: Usage | None = None
    spent: Usage | None = None  # on summaries, beside the reply
    tools: int = 0
    calls: int = 0
    tries: int = 0
    status: int = 0
    gone: bool = False
    crash: Exception | None = None
    lost: list[Loss] = []  # by the gateway, beside what the translation lost
    first: float | None = None
    span: Any = None

    def first_byte(self) -> None:
        self.first = time.perf_counter() - self.started

    def add_spent(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def provider(self) -> str:
        return self.target.provider.name if self.target else ""

    @property
    def losses(self) -> list[Loss]:
        translated = self.exchange.bare_losses if self.exchange else []
        return translated + self.lost if self.lost else translated
