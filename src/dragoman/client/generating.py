"""`generate` and `agenerate`: one reply of a model, whole; or shown as it grows, by a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import isawaitable
from typing import Any, Unpack

from msgspec.structs import replace

from dragoman.client.background import Calls, wait_for
from dragoman.client.budget import add_usage, total_cost
from dragoman.client.messages import Prompt, UserMessage, messages_of
from dragoman.client.output import Output, OutputError, OutputSpec, correction, expect_output
from dragoman.client.providers import Model, model_of
from dragoman.client.requests import ModelCall, Question, RequestSettings
from dragoman.client.results import Result
from dragoman.client.rounds import rounds_of
from dragoman.client.setting_types import check_settings, lists_keywords
from dragoman.client.streaming import StreamEvent, open_stream
from dragoman.client.tools import ToolLike, tools_of

OnEvent = Callable[[StreamEvent], Any]
_OUTPUT_RETRIES = 2


@lists_keywords(RequestSettings)
async def agenerate(
    conversation: Prompt,
    model: str | Model,
    *,
    output: OutputSpec[Output] = None,
    tools: Iterable[ToolLike] = (),
    on_event: OnEvent | None = None,
    **settings: Unpack[RequestSettings],
) -> Result[Output]:
    """The reply of `model`, which is `"provider:model"` or `Provider(…).model(…)`.

    `output`: a type (pydantic's models, a dataclass, a TypedDict, list[int], …) or a JSON Schema; the result
    has a validated value of it as `output`. An invalid one is sent back to the model `output_retries` times,
    then OutputError is raised. `on_event` is called with each event as it arrives. Settings: temperature,
    max_tokens, tool_choice, … ; `strict=True` refuses what would be lost; `extra` is put into the request as
    it is. Raises UpstreamError where the provider fails.
    """
    expected = expect_output(output, settings)
    question = Question(conversation, model_of(model), tools_of(tools), settings, expected)
    if expected is None:
        return await _reply(question, on_event)
    check_settings(settings)
    retries = settings.get("output_retries")
    messages = messages_of(conversation)
    replies: list[Result[Any]] = []
    for _ in range(1 + (_OUTPUT_RETRIES if retries is None else retries)):
        result = await _reply(replace(question, conversation=messages), on_event)
        replies.append(result)
        if not result.problems or result.tool_calls:
            break
        if result.finish_reason != "stop":
            raise OutputError(result.problems, _sum(replies))
        messages = [*messages, result, UserMessage(correction(result.problems, expected))]
    else:
        raise OutputError(replies[-1].problems, _sum(replies))
    return _sum(replies)


@lists_keywords(RequestSettings)
def generate(
    conversation: Prompt,
    model: str | Model,
    *,
    output: OutputSpec[Output] = None,
    tools: Iterable[ToolLike] = (),
    on_event: OnEvent | None = None,
    **settings: Unpack[RequestSettings],
) -> Result[Output]:
    """Like `agenerate`, for code that is not async; `on_event` is called on your thread."""
    if on_event is None:
        return wait_for(agenerate(conversation, model, output=output, tools=tools, **settings))
    calls = Calls()
    shown = calls.on_caller(on_event)
    return calls.wait(agenerate(conversation, model, output=output, tools=tools, on_event=shown, **settings))


async def _reply(question: Question, on_event: OnEvent | None) -> Result[Any]:
    if on_event is None:
        if rounds := rounds_of(question):
            return await rounds.result()
        call = ModelCall(question)
        return await call.read(await call.send())
    async with open_stream(replace(question, stream=True)) as events:
        async for event in events:
            shown = on_event(event)
            if isawaitable(shown):
                await shown
    return events.result


def _sum(replies: list[Result[Any]]) -> Result[Any]:
    """The last reply, with the tokens and losses of all."""
    last = replies[-1]
    for reply in replies[:-1]:
        last.usage = add_usage(last.usage, reply.usage)
    last.cost = total_cost([reply.cost for reply in replies])
    last.losses = list(dict.fromkeys(loss for reply in replies for loss in reply.losses))
    return last
