"""`stream` and `astream`: the events of a reply as they arrive, then the whole of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, Unpack, cast

from msgspec import Struct

from dragoman.client.background import wait_for
from dragoman.client.hosted_parts import ORIGIN, HostedCallResult, read_part
from dragoman.client.messages import Prompt, openai_call
from dragoman.client.output import ExpectedOutput, Output, OutputSpec, expect_output
from dragoman.client.partial_json import PartialJson
from dragoman.client.providers import Model, model_of
from dragoman.client.requests import ModelCall, Question, RequestSettings
from dragoman.client.results import Result
from dragoman.client.rounds import RoundedCall, rounds_of
from dragoman.client.setting_types import lists_keywords
from dragoman.client.tools import ToolLike, tools_of
from dragoman.core.errors import ConfigError, UpstreamError
from dragoman.core.events import Event, PartDelta, PartEnd, PartStart, ResponseEnd, ResponseFailed, fold
from dragoman.core.model import AnyPart, Failure, Foreign, Reasoning, Refusal, Text, ToolCall, Usage
from dragoman.http.client import Reply, TransportError
from dragoman.pipeline import EventReader

_QUEUED = 64  # pieces of a reply that nobody has read yet


class TextDelta(Struct, frozen=True):
    text: str


class ReasoningDelta(Struct, frozen=True):
    text: str


class RefusalDelta(Struct, frozen=True):
    text: str


class ToolCallStart(Struct, frozen=True):
    """`index` counts the calls of a reply."""

    index: int
    id: str
    name: str


class ToolCallDelta(Struct, frozen=True):
    """A piece of the arguments' JSON text."""

    index: int
    text: str


class ToolCallEnd(Struct, frozen=True):
    """`call` is whole, in OpenAI's shape; None where the reply was cut inside it."""

    index: int
    call: dict[str, Any] | None


class HostedCallStart(Struct, frozen=True):
    """A tool of the provider's kind that the provider lacks runs here: a search, a fetch, an MCP call."""

    call: HostedCallResult


class HostedCallEnd(Struct, frozen=True):
    call: HostedCallResult


class Finish(Struct, frozen=True):
    """`reason` in OpenAI's words."""

    reason: str
    usage: Usage


class OutputDelta(Struct, frozen=True):
    """More of a typed output: `value` is the JSON of all that has arrived of it, not validated yet."""

    value: Any


StreamEvent = (
    TextDelta
    | ReasoningDelta
    | RefusalDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | HostedCallStart
    | HostedCallEnd
    | OutputDelta
    | Finish
)


class AsyncStream(Generic[Output]):
    """`async with … as events: async for event in events: …`, then `events.result`. Leaving early cancels."""

    def __init__(self, call: ModelCall) -> None:
        self._call, self._reading = call, StreamReader(call)
        self._reply: Reply | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._waiting: deque[StreamEvent] = deque()
        self._ended = False

    @property
    def result(self) -> Result[Output]:
        """The whole reply, once the last event has been shown."""
        if self._reading.result is None:
            raise ConfigError("The stream has not ended. Read its events first.")
        return self._reading.result

    async def __aenter__(self) -> AsyncStream[Output]:
        self._reply = self._reply or await self._call.send()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the rest unread and close the connection, which cancels the request at the upstream."""
        self._ended = True
        self._waiting.clear()
        if self._reply:
            self._reply.close()

    def __aiter__(self) -> AsyncStream[Output]:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._waiting.extend(await self.next_events())
        return self._waiting.popleft()

    async def texts(self) -> AsyncIterator[str]:
        """The text of the reply as it arrives, and nothing else."""
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    async def partial_outputs(self) -> AsyncIterator[Any]:
        """The JSON of a typed output as it grows, not validated yet; `result.output` is the valid one."""
        async for event in self:
            if isinstance(event, OutputDelta):
                yield event.value

    async def next_events(self) -> list[StreamEvent]:
        """The events of the next piece of the reply; empty at its end."""
        while not self._ended:
            events = await self._piece()
            if events:
                return events
        return []

    async def _piece(self) -> list[StreamEvent]:
        try:
            if self._pieces is None:
                await self.__aenter__()
                self._pieces = aiter(cast(Reply, self._reply))
            async with self._call.time_limit():
                data = await anext(self._pieces)
            return self._reading.feed(data)
        except StopAsyncIteration:
            self._ended = True
            return self._reading.close()
        except TransportError as error:
            self.close()
            if self._reading.result is not None:  # the reply is whole; only the connection ended badly
                return []
            raise UpstreamError(Failure("truncated", f"the upstream's stream broke: {error}", 502)) from error
        except BaseException:
            self.close()
            raise


class RoundedStream(AsyncStream[Output]):
    """The stream of a reply that takes several rounds: a task plays them, as far as somebody reads."""

    def __init__(self, rounds: RoundedCall) -> None:
        self._rounds, self._view = rounds, EventView(rounds.expected)
        self._queue: asyncio.Queue[list[StreamEvent] | Result[Any] | Exception] = asyncio.Queue(_QUEUED)
        self._task: asyncio.Task[None] | None = None
        self._done: Result[Any] | None = None
        self._waiting, self._ended = deque(), False

    @property
    def result(self) -> Result[Output]:
        if self._done is None:
            raise ConfigError("The stream has not ended. Read its events first.")
        return self._done

    async def __aenter__(self) -> RoundedStream[Output]:
        self._task = self._task or asyncio.get_running_loop().create_task(self._play())
        return self

    def close(self) -> None:
        self._ended = True
        self._waiting.clear()
        if self._task:
            self._task.cancel()

    async def _play(self) -> None:
        async def show(events: Sequence[Event]) -> None:
            if shown := [each for event in events for each in self._view.show(event)]:
                await self._queue.put(shown)

        try:
            await self._queue.put(await self._rounds.result(show))
        except Exception as error:
            await self._queue.put(error)

    async def _piece(self) -> list[StreamEvent]:
        await self.__aenter__()
        match await self._queue.get():
            case Result() as result:
                self._ended, self._done = True, result
                return [Finish(result.finish_reason, result.usage)]
            case Exception() as error:
                self._ended = True
                raise error
            case events:
                return events


def open_stream(question: Question) -> AsyncStream[Any]:
    """The events of the reply; `question` is streamed."""
    rounds = rounds_of(question)
    return RoundedStream(rounds) if rounds else AsyncStream(ModelCall(question))


class Stream(Generic[Output]):
    """`with … as events: for event in events: …`, then `events.result`. Leaving early cancels."""

    def __init__(self, events: AsyncStream[Output]) -> None:
        self._stream: AsyncStream[Output] = events
        self._waiting: deque[StreamEvent] = deque()

    @property
    def result(self) -> Result[Output]:
        """The whole reply, once the last event has been shown."""
        return self._stream.result

    def __enter__(self) -> Stream[Output]:
        wait_for(self._stream.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.clear()
        wait_for(self._stream.__aexit__())

    def __iter__(self) -> Stream[Output]:
        return self

    def texts(self) -> Iterator[str]:
        """The text of the reply as it arrives, and nothing else."""
        return (event.text for event in self if isinstance(event, TextDelta))

    def partial_outputs(self) -> Iterator[Any]:
        """The JSON of a typed output as it grows, not validated yet; `result.output` is the valid one."""
        return (event.value for event in self if isinstance(event, OutputDelta))

    def __next__(self) -> StreamEvent:
        if not self._waiting:
            self._waiting.extend(wait_for(self._stream.next_events()))
        if not self._waiting:
            raise StopIteration
        return self._waiting.popleft()


@lists_keywords(RequestSettings)
def astream(
    conversation: Prompt,
    model: str | Model,
    *,
    output: OutputSpec[Output] = None,
    tools: Iterable[ToolLike] = (),
    **settings: Unpack[RequestSettings],
) -> AsyncStream[Output]:
    """The reply of `model` as it arrives; arguments as for `agenerate`. An invalid output is not retried."""
    expected = expect_output(output, settings)
    return open_stream(
        Question(conversation, model_of(model), tools_of(tools), settings, expected, stream=True)
    )


@lists_keywords(RequestSettings)
def stream(
    conversation: Prompt,
    model: str | Model,
    *,
    output: OutputSpec[Output] = None,
    tools: Iterable[ToolLike] = (),
    **settings: Unpack[RequestSettings],
) -> Stream[Output]:
    """The reply of `model` as it arrives; arguments as for `generate`. An invalid output is not retried."""
    return Stream(astream(conversation, model, output=output, tools=tools, **settings))


class StreamReader:
    """`feed` and `close` raise UpstreamError where the upstream fails, breaks its protocol or is cut off."""

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self._frames: list[Any] = []
        self._events: list[Event] = []
        self._view = EventView(call.expected)
        self.result: Result[Any] | None = None

    @cached_property
    def _reader(self) -> EventReader:
        return self._call.pipeline.read_stream(self._frames)  # of the surface that answered

    def feed(self, data: bytes) -> list[StreamEvent]:
        return [shown for event in self._reader.feed(data) for shown in self._show(event)]

    def close(self) -> list[StreamEvent]:
        return [shown for event in self._reader.close() for shown in self._show(event)]

    def _show(self, event: Event) -> Iterable[StreamEvent]:
        self._events.append(event)
        match event:
            case ResponseEnd():
                self.result = self._call.result(fold(self._events), self._frames)
                return (Finish(self.result.finish_reason, self.result.usage),)
            case ResponseFailed():
                raise UpstreamError(event.failure)
            case _:
                return self._view.show(event)


class EventView:
    """Neutral events as the caller sees them, but for the end."""

    def __init__(self, expected: ExpectedOutput[Any] | None) -> None:
        self._expected = expected
        self._part: AnyPart | None = None  # the open one
        self._text: list[str] = []
        self._calls = -1
        self._hosted: dict[str, HostedCallResult] = {}
        self._partial, self._shown_output = PartialJson(), None

    def show(self, event: Event) -> Iterable[StreamEvent]:
        match event:
            case PartDelta() if event.text:
                return self._delta(event.text)
            case PartStart():
                return self._start(event.part)
            case PartEnd():
                return self._end(event.complete)
            case _:
                return ()

    def _start(self, part: AnyPart) -> Iterable[StreamEvent]:
        self._part = part
        self._text = []
        if self._expected:
            self._partial = PartialJson()
            if isinstance(part, ToolCall) and part.name == self._expected.tool:
                self._part = Text()  # the call gives the answer: see ExpectedOutput.restore
        if isinstance(part, Foreign) and part.origin == ORIGIN:
            call = read_part(part.body, self._hosted)
            return (HostedCallStart(call) if part.body["type"] == "call" else HostedCallEnd(call),)
        if not isinstance(self._part, ToolCall):
            return ()
        self._calls += 1
        return (ToolCallStart(self._calls, self._part.id, self._part.name),)

    def _delta(self, text: str) -> Iterable[StreamEvent]:
        match self._part:
            case Text():
                return (TextDelta(text), *self._output_delta(text)) if self._expected else (TextDelta(text),)
            case Reasoning():
                return (ReasoningDelta(text),)
            case Refusal():
                return (RefusalDelta(text),)
            case ToolCall():
                self._text.append(text)
                return (ToolCallDelta(self._calls, text),)
            case _:
                return ()

    def _output_delta(self, text: str) -> Iterable[StreamEvent]:
        self._partial.feed(text)
        value = self._expected.partial(self._partial.value()) if self._expected else None
        if value is None or value == self._shown_output:
            return ()
        self._shown_output = value
        return (OutputDelta(value),)

    def _end(self, complete: bool) -> Iterable[StreamEvent]:
        part, self._part = self._part, None
        if not isinstance(part, ToolCall):
            return ()
        whole = openai_call(ToolCall(part.id, part.name, "".join(self._text))) if complete else None
        return (ToolCallEnd(self._calls, whole),)
