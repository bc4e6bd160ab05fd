"""`generate` and `agenerate`: one reply of a model, whole; or shown as it grows, by a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import isawaitable
from typing import Any, Unpack

from dragoman.client.background import Calls, wait_for
from dragoman.client.calling import ModelCall
from dragoman.client.events import StreamEvent
from dragoman.client.messages import Prompt
from dragoman.client.providers import Model
from dragoman.client.requests import RequestSettings
from dragoman.client.results import Result
from dragoman.client.streaming import AsyncStream
from dragoman.client.tools import AnyTool

OnEvent = Callable[[StreamEvent], Any]


async def agenerate(
    conversation: Prompt,
    model: str | Model,
    *,
    tools: Iterable[AnyTool] = (),
    on_event: OnEvent | None = None,
    **settings: Unpack[RequestSettings],
) -> Result:
    """The reply of `model`, which is `"provider:model"` or `Provider(…).model(…)`.

    `on_event` is called with each event as it arrives. Settings: temperature, max_tokens, tool_choice, … ;
    `strict=True` refuses what would be lost; `extra` is put into the request as it is.
    Raises UpstreamError where the provider fails.
    """
    if on_event is None:
        call = ModelCall(conversation, model, tools, settings, stream=False)
        return await call.read(await call.send())
    async with AsyncStream(ModelCall(conversation, model, tools, settings, stream=True)) as events:
        async for event in events:
            shown = on_event(event)
            if isawaitable(shown):
                await shown
    return events.result


def generate(
    conversation: Prompt,
    model: str | Model,
    *,
    tools: Iterable[AnyTool] = (),
    on_event: OnEvent | None = None,
    **settings: Unpack[RequestSettings],
) -> Result:
    """Like `agenerate`, for code that is not async; `on_event` is called on your thread."""
    if on_event is None:
        return wait_for(agenerate(conversation, model, tools=tools, **settings))
    calls = Calls()
    shown = calls.on_caller(on_event)
    return calls.wait(agenerate(conversation, model, tools=tools, on_event=shown, **settings))
