"""One call of a model: the neutral request out, the reply back in neutral terms, and the tries between.

The client is neutral itself, so only the upstream's half of an exchange remains: the ledger makes
names, ids and schemas legal and withholds state that another provider made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NoReturn

from dragoman.client.messages import Conversation
from dragoman.client.providers import Model, model_of
from dragoman.client.requests import request_of
from dragoman.client.results import Result
from dragoman.client.tools import AnyTool
from dragoman.core import jsontext
from dragoman.core.codec import Codec, ProtocolLimits
from dragoman.core.errors import UpstreamError, WireError
from dragoman.core.events import EventStage
from dragoman.core.fields import read_body
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Request, Response, Wire
from dragoman.dialects import recovery
from dragoman.http.client import Reply, TransportError
from dragoman.http.client.retries import RETRYABLE, backoff, read_failure, unreachable
from dragoman.transforms.ledger import Ledger
from dragoman.transforms.restorer import Restorer
from dragoman.transforms.sequence import Sequencer

_LARGEST_REPLY = 256 * 1024 * 1024
_LARGEST_ERROR = 1024 * 1024
_ANYTHING = ProtocolLimits(
    tool_name=r"[\s\S]+",
    tool_name_length=1 << 20,
    call_id=r"[\s\S]+",
    call_id_length=1 << 20,
    custom_tools=True,
    namespaces=True,
    deferred_tools=True,
    hosted_tools=frozenset({"local_shell"}),
    call_state=True,
    text_state=True,
)


class ModelCall:
    """A request as it is sent, and what reads its reply."""

    def __init__(
        self,
        conversation: Conversation,
        model: str | Model,
        tools: Iterable[AnyTool],
        settings: dict[str, Any],
        stream: bool,
    ) -> None:
        strict, extra = settings.pop("strict", False), settings.pop("extra", None)
        target = model_of(model)
        provider = self.provider = target.provider
        codec, losses = provider.codec, Losses()
        self.codec, self.losses, self.strict = codec, losses, strict
        self.asked = request_of(target.name, conversation, tools, settings, stream)
        self._ledger, request = prepared(self.asked, codec, provider.name, losses, provider.summarise)
        if provider.dialect:
            request = provider.dialect.render(request, losses)
        body = codec.encode_request(request, losses)
        if strict:
            losses.refuse()
        self.body = jsontext.encode({**body, **extra} if extra else body)
        self.url = provider.base_url + codec.http.path(target.name, stream)
        self.headers = {
            "content-type": "application/json",
            **codec.http.headers,
            **codec.http.headers_for(body),
            **provider.headers,
        }

    async def send(self) -> Reply:
        """The answer of the upstream, asked again where that may help; raises UpstreamError."""
        provider = self.provider
        for attempt in range(provider.tries):
            failure = await self._attempt()
            if not isinstance(failure, Failure):
                return failure
            if failure.kind not in RETRYABLE or attempt == provider.tries - 1:
                raise UpstreamError(failure)
            await asyncio.sleep(backoff(attempt, failure.retry_after))
        raise AssertionError("there is at least one try")

    async def read(self, reply: Reply) -> Result:
        """The whole reply."""
        try:
            body = await reply.read(_LARGEST_REPLY)
        except TransportError as error:
            self.fail(Failure("truncated", f"provider {self.provider.name}: {error}", 502))
        finally:
            reply.close()
        try:
            wire = read_body(body, self.codec.name)
            failure = self.codec.decode_error(wire, 0)
            if failure:
                self.fail(failure)
            return self.result(self._restored(wire), wire)
        except WireError as error:
            self.fail(Failure("server", f"malformed upstream answer: {error}", 502))

    def stages(self) -> list[EventStage]:
        """What stands between decoding a reply and showing it, in the order of an exchange."""
        stages: list[EventStage] = [Sequencer()]
        if self.provider.dialect:
            stages.append(self.provider.dialect.parser(self.asked.tools, self.losses))
        elif self.provider.recover:
            stages.append(recovery(self.asked.tools, self.losses))
        stages.append(Restorer(self._ledger))
        return stages

    def result(self, response: Response, body: Wire | None = None, frames: list[Any] | None = None) -> Result:
        if self.strict:
            self.losses.refuse()
        return Result(response, list(self.losses), self.provider.name, body, frames or [])

    def fail(self, failure: Failure) -> NoReturn:
        raise UpstreamError(failure)

    async def _attempt(self) -> Reply | Failure:
        provider = self.provider
        try:
            reply = await provider.transport().send(
                "POST", self.url, self.headers, self.body, provider.timeouts
            )
        except TransportError as error:
            return unreachable(provider.name, error)
        if reply.status < 400:
            return reply
        try:
            body = await reply.read(_LARGEST_ERROR)
        except TransportError:
            body = b""
        return read_failure(self.codec, reply.status, body, reply.headers)

    def _restored(self, wire: Wire) -> Response:
        response = self.codec.decode_response(wire, self.losses)
        for stage in self.stages():
            response = stage.whole(response)
        return response


def prepared(
    request: Request, codec: Codec, origin: str, losses: Losses, summarise: bool = False
) -> tuple[Ledger, Request]:
    """`request` as an upstream of this codec takes it, and the ledger that reads the reply."""
    ledger = Ledger(_ANYTHING, codec.limits(request.model), origin, codec.name, losses)
    return ledger, ledger.prepare(request, summarise)
