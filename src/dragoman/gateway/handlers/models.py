"""Model lists, in the shape of the client's protocol."""

from __future__ import annotations

from dragoman.gateway.config import Config
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.routing import names, route


class ModelsHandler:
    def __init__(self, config: Config) -> None:
        self._config = config

    async def list(self, request: GatewayRequest) -> None:
        await request.writer.json(200, request.protocol_server.encode_models(names(self._config)))

    async def retrieve(self, request: GatewayRequest) -> None:
        """Any model that can be routed. Raises UnknownModel for another."""
        name = request.route.model
        route(self._config, name)
        await request.writer.json(200, request.protocol_server.encode_model(name))
