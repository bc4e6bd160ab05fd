"""A client's request as it came in, and where its answer goes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from dragoman.core.codec import Codec
from dragoman.core.server import Served, Server
from dragoman.gateway.observability.exchange_record import Seen
from dragoman.http.server import Answer, Incoming


class Visit(Struct, frozen=True):
    """`owner` is whose conversations it may ask for, told from its key."""

    client: Codec
    serves: Server
    served: Served
    incoming: Incoming
    query: Mapping[str, str]
    key: str
    owner: str
    answer: Answer
    seen: Seen

    @property
    def headers(self) -> Mapping[str, str]:
        return self.incoming.headers
