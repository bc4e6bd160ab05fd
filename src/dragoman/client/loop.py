"""The agent loop: the model calls, the tools run, their results go back, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from inspect import isawaitable
from typing import Any, Generic, Literal, Unpack

from msgspec import Struct

from dragoman.client.background import Calls
from dragoman.client.display import markdown_of
from dragoman.client.events import StreamEvent
from dragoman.client.executing import Approve, Executor, ToolRunEnd, ToolRunStart
from dragoman.client.generating import agenerate
from dragoman.client.limits import Bounds, Stopped, added
from dragoman.client.messages import AnyMessage, AssistantMessage, Prompt, ToolMessage, messages_of
from dragoman.client.output import Output, OutputError
from dragoman.client.prices import total_cost
from dragoman.client.providers import Model, model_of
from dragoman.client.requests import RequestSettings
from dragoman.client.results import Result
from dragoman.client.tools import AnyTool, Tool, tools_of
from dragoman.client.transcripts import export
from dragoman.core.losses import Loss
from dragoman.core.model import Message, OutputFormat, Usage, Wire


class TurnStart(Struct, frozen=True):
    """Request number `number` to the model."""

    number: int


class TurnEnd(Struct, frozen=True):
    number: int
    result: Result[Any]


RunEvent = StreamEvent | TurnStart | TurnEnd | ToolRunStart | ToolRunEnd
OnEvent = Callable[[RunEvent], Any]


class RunOptions(RequestSettings, total=False):
    """Every keyword of `run`, settings of the requests included."""

    max_turns: int | None
    max_seconds: float | None
    max_total_tokens: int | None
    tool_timeout: float | None
    approve: Approve | None
    on_event: OnEvent | None


class Run(Generic[Output]):
    """What an agent loop did. `messages` is the whole conversation, ready to be continued.

    `stopped` is why it ended: answer, turns, time, tokens, or tool_calls (of tools without a function).
    """

    def __init__(self, messages: list[AnyMessage | Message], model: Model, tools: list[AnyTool]) -> None:
        self.messages, self.model, self.tools = messages, model, tools
        self.results: list[Result[Output]] = []
        self.usage = Usage()
        self.stopped: Stopped = "answer"

    @property
    def content(self) -> str:
        """The text of the last reply."""
        return self.results[-1].content if self.results else ""

    @property
    def output(self) -> Output:
        """The typed output, validated; raises OutputError where the run stopped before there was one."""
        if self.stopped != "answer" or not self.results:
            raise OutputError([f"the run stopped before an answer: {self.stopped}"])
        return self.results[-1].output

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """Calls that nobody has answered yet."""
        last = self.messages[-1] if self.messages else None
        return last.tool_calls if isinstance(last, AssistantMessage) else []

    @property
    def cost(self) -> float | None:
        """US dollars for all replies; None where the price of one is not known."""
        return total_cost([result.cost for result in self.results])

    @property
    def losses(self) -> list[Loss]:
        return list(dict.fromkeys(loss for result in self.results for loss in result.losses))

    def export(self, protocol: str, model: str = "") -> Wire:
        """The conversation as the body of a request in that protocol; state only for who made it."""
        provider = self.model.provider
        origin = provider.name if provider.protocol == protocol else ""
        return export(self.messages, protocol, model or self.model.name, self.tools, origin)

    def add(self, result: Result[Output]) -> None:
        self.results.append(result)
        self.messages.append(result)
        self.usage = added(self.usage, result.usage)

    def _repr_markdown_(self) -> str:  # Jupyter
        return markdown_of(self.messages)

    def __repr__(self) -> str:
        return f"Run(stopped={self.stopped!r}, turns={len(self.results)}, content={self.content!r})"


async def arun(
    conversation: Prompt,
    model: str | Model,
    tools: Iterable[AnyTool] = (),
    *,
    output: type[Output] | OutputFormat | Wire | Literal["json", "text"] | None = None,
    max_turns: int | None = 20,
    max_seconds: float | None = None,
    max_total_tokens: int | None = None,
    tool_timeout: float | None = None,
    approve: Approve | None = None,
    on_event: OnEvent | None = None,
    **settings: Unpack[RequestSettings],
) -> Run[Output]:
    """Ask, run what is called, send back the results, until the model answers or a limit is reached.

    `approve(call)` is called before each call: True lets it run; False, or a text that says why not, becomes
    a failed result. `on_event` sees every event of every reply and every tool that runs. Settings as for
    `agenerate`. Cancelling the task cancels the request and the tools that are under way.
    """
    listed: list[AnyTool] = list(tools_of(tools))
    run: Run[Output] = Run(list(messages_of(conversation)), model_of(model), listed)
    bounds = Bounds(max_turns, max_seconds, max_total_tokens, tool_timeout)
    able = [tool for tool in listed if isinstance(tool, Tool)]
    clock = asyncio.timeout(bounds.seconds)
    executor = Executor(able, approve, tool_timeout, _notifier(on_event))
    try:
        async with clock:
            run.stopped = await _turns(run, executor, bounds, output, on_event, settings)
    except TimeoutError:
        if not clock.expired():
            raise
        run.stopped = "time"
    return run


def run(
    conversation: Prompt,
    model: str | Model,
    tools: Iterable[AnyTool] = (),
    *,
    output: type[Output] | OutputFormat | Wire | Literal["json", "text"] | None = None,
    max_turns: int | None = 20,
    max_seconds: float | None = None,
    max_total_tokens: int | None = None,
    tool_timeout: float | None = None,
    approve: Approve | None = None,
    on_event: OnEvent | None = None,
    **settings: Unpack[RequestSettings],
) -> Run[Output]:
    """Like `arun`, for code that is not async; `approve` and `on_event` are called on your thread."""
    calls = Calls()
    return calls.wait(
        arun(
            conversation,
            model,
            tools,
            output=output,
            max_turns=max_turns,
            max_seconds=max_seconds,
            max_total_tokens=max_total_tokens,
            tool_timeout=tool_timeout,
            approve=calls.on_caller(approve) if approve else None,
            on_event=calls.on_caller(on_event) if on_event else None,
            **settings,
        )
    )


async def _turns(
    run: Run[Any],
    executor: Executor,
    bounds: Bounds,
    output: Any,
    on_event: OnEvent | None,
    settings: RequestSettings,
) -> Stopped:
    notify = _notifier(on_event)
    while True:
        number = len(run.results) + 1
        await notify(TurnStart(number))
        result = await agenerate(
            run.messages, run.model, output=output, tools=run.tools, on_event=on_event, **settings
        )
        run.add(result)
        await notify(TurnEnd(number, result))
        calls = result.tool_calls
        if not calls:
            return "answer"
        if executor.is_handed_back(calls):
            return "tool_calls"
        if reached := bounds.reached(number, run.usage):
            return reached
        answers: list[ToolMessage] = await executor.run(calls)
        run.messages += answers
        if result.has_output:  # in the same reply as the calls
            return "answer"


def _notifier(on_event: OnEvent | None) -> Callable[[RunEvent], Any]:
    async def notify(event: RunEvent) -> None:
        if on_event:
            shown = on_event(event)
            if isawaitable(shown):
                await shown

    return notify
