"""A client's request as it came in, and where its answer goes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from dragoman.core.codec import Codec
from dragoman.core.server import ProtocolServer, RouteMatch
from dragoman.gateway.observability.exchange_record import ExchangeRecord
from dragoman.http.server import ResponseWriter, ServerRequest


class GatewayRequest(Struct, frozen=True):
    """`owner` is whose conversations it may ask for, told from its key."""

    client: Codec
    serves: ProtocolServer
    served: RouteMatch
    incoming: ServerRequest
    query: Mapping[str, str]
    key: str
    owner: str
    answer: ResponseWriter
    seen: ExchangeRecord

    @property
    def headers(self) -> Mapping[str, str]:
        return self.incoming.headers
