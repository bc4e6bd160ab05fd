"""A reply that takes several rounds with the model: tools of its provider's kind that it lacks run here.

The loop is that of the gateway (`hosted/loop.py`). What the tools did are parts of the result, which a later
request has as calls with results again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from dragoman.client.background import close_with_loop
from dragoman.client.hosted_parts import HOSTED_CODEC, ORIGIN
from dragoman.client.providers import Model, pool
from dragoman.client.requests import NEUTRAL, ModelCall, Question, request_of
from dragoman.client.results import Result
from dragoman.client.server_tools import ServerTool, settings_of
from dragoman.client.tools import ToolLike
from dragoman.core.errors import UpstreamError
from dragoman.core.events import Event, fold, unfold
from dragoman.core.model import AnyPart, Failure, Request, Response
from dragoman.http.client import Timeouts, TransportError
from dragoman.transforms.rounds import RoundEnd, RoundJoiner

if TYPE_CHECKING:
    from dragoman.hosted.loop import HostedRun, HostedTools
    from dragoman.hosted.settings import HostedSettings

Show = Callable[[Sequence[Event]], Awaitable[None]]
_LIMITS = replace(NEUTRAL, protocol=ORIGIN, hosted=HOSTED_CODEC)
_NOT_SETTINGS = ("strict", "extra", "provider_options", "timeout", "tries", "output_mode", "output_retries")


def lacking_tools(tools: Sequence[ToolLike], model: Model) -> list[ServerTool]:
    """Those that the provider of `model` does not run itself, and the others of their kinds."""
    found = [each for each in tools if isinstance(each, ServerTool)]
    if not found:
        return []
    native = native_tools(model, {each.kind for each in found})
    kinds = {each.kind for each in found if each.is_local or each.kind not in native}
    return [each for each in found if each.kind in kinds]


def native_tools(model: Model, kinds: Collection[str]) -> frozenset[str]:
    """What the surface of the provider runs that runs most of these kinds."""
    each_set = [
        surface.codec.limits(surface.profile(model.name)).hosted_tools for surface in model.provider.surfaces
    ]
    return max(each_set, key=lambda native: len(native & set(kinds)))


def rounds_of(question: Question) -> RoundedCall | None:
    """None where one round is enough."""
    lacking = lacking_tools(question.tools, question.model)
    return RoundedCall(question, lacking) if lacking else None


class RoundedCall:
    """`lacking`: the tools that run here."""

    def __init__(self, question: Question, lacking: Sequence[ServerTool]) -> None:
        self._question, self._lacking, self.expected = question, lacking, question.expected
        self._settings_here = settings_of(lacking)  # raises ConfigError before anything is sent
        self._first: ModelCall | None = None
        self._frames: list[Any] = []
        self._joiner = RoundJoiner()

    async def result(self, show: Show | None = None) -> Result[Any]:
        """`show` gets the events of the reply as they arrive. Raises UpstreamError."""
        events: list[Event] = []

        async def pass_on(passed: Sequence[Event]) -> None:
            events.extend(passed)
            if show and passed:
                await show(passed)

        async with self._time_limit():
            run = await self._declare()
            run.streams = self._question.stream
            joiner = self._joiner = RoundJoiner(run)

            async def send(adapt: Callable[[Request], Request]) -> RoundEnd:
                return await self._round(adapt, pass_on)

            async def add(part: AnyPart) -> None:
                await pass_on(joiner.add(part))

            end = await run.play(send, add, joiner.lead)
        return self._result(fold([*events, joiner.end(end.stop)]), run)

    async def _declare(self) -> HostedRun:
        asked, kinds = self._question, {tool.kind for tool in self._lacking}
        given = {name: value for name, value in asked.settings.items() if name not in _NOT_SETTINGS}
        request = request_of(asked.model.name, asked.conversation, asked.tools, given, False)
        wanted = {tool.kind for tool in asked.tools if isinstance(tool, ServerTool)}
        native = native_tools(asked.model, wanted) - kinds
        run = await hosted_tools(self._settings_here).declare(request, native, _LIMITS)
        assert run, "a tool of this request runs here"
        return run

    async def _round(self, adapt: Callable[[Request], Request], show: Show) -> RoundEnd:
        call = ModelCall(self._question, adapt)
        joiner = self._joiner
        joiner.begin_round()
        if self._question.stream:
            await self._read_stream(call, show)
        else:
            response, wire = await call.read_response(await call.send())
            self._frames.append(wire)
            for event in unfold(response):
                await show(joiner.feed(event))
        joiner.is_begun, self._first = True, self._first or call
        end = joiner.end_round()
        if end.failure:
            raise UpstreamError(end.failure)
        return end

    async def _read_stream(self, call: ModelCall, show: Show) -> None:
        reply = await call.send()
        reader, feed = call.pipeline.read_stream(self._frames), self._joiner.feed
        try:
            async for data in reply:
                for event in reader.feed(data):
                    await show(feed(event))
            for event in reader.close():
                await show(feed(event))
        except TransportError as error:
            if not reader.ended:
                raise UpstreamError(
                    Failure("truncated", f"the upstream's stream broke: {error}", 502)
                ) from error
        finally:
            reply.close()

    def _result(self, response: Response, run: HostedRun) -> Result[Any]:
        call = self._first
        assert call, "a reply has a first round"
        for loss in run.losses:
            call.losses.items[loss] = None
        return call.result(response, self._frames)

    @asynccontextmanager
    async def _time_limit(self) -> AsyncGenerator[None]:
        """`timeout` is that of all rounds together."""
        seconds = self._question.settings.get("timeout")
        clock = asyncio.timeout(None if isinstance(seconds, Timeouts) else seconds)
        try:
            async with clock:
                yield
        except TimeoutError:
            if not clock.expired():
                raise
            name = self._question.model.provider.name
            why = f"provider {name}: no complete reply within {seconds:g} s"
            raise UpstreamError(Failure("timeout", why, 504)) from None


# Connections to MCP servers belong to the event loop that opened them, and are kept for later calls there
_Kept = tuple["HostedTools", AsyncGenerator[None]]
_tools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Kept]] = WeakKeyDictionary()


def hosted_tools(settings: HostedSettings) -> HostedTools:
    from dragoman.hosted.loop import HostedTools
    from dragoman.hosted.settings import build_executors

    key, known = repr(settings), _tools.setdefault(asyncio.get_running_loop(), {})
    if key not in known:
        hosted = HostedTools(build_executors(settings, pool()).values(), settings.limits)
        known[key] = hosted, close_with_loop(hosted.close)
    return known[key][0]
