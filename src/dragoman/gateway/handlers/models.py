"""Model lists, in the shape of the client's protocol, with what is known about each model."""

from __future__ import annotations

from dragoman.gateway.config import Config
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.routing import UnknownModel, names, route
from dragoman.protocols import upstream
from dragoman.serving.server import ListedModel


class ModelsHandler:
    def __init__(self, config: Config) -> None:
        self._config = config

    async def list(self, request: GatewayRequest) -> None:
        caller = request.caller
        usable = [name for name in names(self._config) if caller is None or caller.may_use(name)]
        listed = tuple([self._list_model(name) for name in usable])
        await request.writer.json(200, request.protocol_server.encode_models(listed))

    async def retrieve(self, request: GatewayRequest) -> None:
        """Any model that can be routed and that the key may use. Raises UnknownModel for another."""
        name = request.route.model
        if request.caller and not request.caller.may_use(name):
            raise UnknownModel(f"The key {request.caller.name!r} may not use the model {name!r}.")
        route(self._config, name)
        await request.writer.json(200, request.protocol_server.encode_model(self._list_model(name)))

    def _list_model(self, name: str) -> ListedModel:
        """With the facts about its first target, the one that answers as long as it can."""
        try:
            provider, model = (target := route(self._config, name)[0]).provider, target.model
        except UnknownModel:  # none of its targets has a key
            return ListedModel(name)
        profile = provider.profile(model)
        hosted = upstream(provider.protocol).limits(profile).hosted_tools
        return ListedModel(name, profile, provider.protocol, hosted)
