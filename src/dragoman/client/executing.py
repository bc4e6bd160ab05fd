"""Running the calls of a reply: whether they are allowed, for how long, and how many at a time.

A call passes these steps; each of them may answer it instead of the tool:

    known tool → readable arguments → approval → before_tool → the function, within its time → after_tool
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from inspect import isawaitable
from typing import Any

from msgspec import Struct

from dragoman.client.context import Hooks, RunContext
from dragoman.client.messages import OpenAICall, ToolMessage
from dragoman.client.tools import Tool
from dragoman.client.values import ToolOutcome, call_id, call_name, get_arguments
from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_object

# True, False, or the reason why not. A function may be async; a mapping has the decisions by call id
Approve = Callable[[OpenAICall], Any] | Mapping[str, bool | str]
Notify = Callable[[Any], Awaitable[None]]
MakeContext = Callable[[OpenAICall | None, Callable[[Any], None] | None], RunContext[Any]]


class ToolRunStart(Struct, frozen=True):
    """A tool is about to run (or to be refused)."""

    call: OpenAICall


class ToolRunProgress(Struct, frozen=True):
    """What a generator yielded, or RunContext.progress was given."""

    call: OpenAICall
    value: Any


class ToolRunEnd(Struct, frozen=True):
    call: OpenAICall
    message: ToolMessage
    seconds: float


class Executor:
    def __init__(
        self,
        tools: Iterable[Tool],
        options: Mapping[str, Any],
        notify: Notify | None,
        hooks: Sequence[Hooks[Any]],
        context: MakeContext,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._approve: Approve | None = options.get("approve")
        self._seconds: float | None = options.get("tool_timeout")
        self._notify = notify
        self._hooks, self._context = hooks, context
        self._asking = asyncio.Lock()
        most: int | None = options.get("max_parallel")
        self._running = asyncio.Semaphore(most) if most else nullcontext()
        self._finished: dict[int, ToolMessage] = {}  # of the calls that run now, by their place

    def is_handed_back(self, calls: list[OpenAICall]) -> bool:
        """Whether a call is of a tool that only its declarer can run."""
        tools = [self._tools.get(call_name(call)) for call in calls]
        return any(tool is not None and tool.function is None for tool in tools)

    def needs_decision(self, call: OpenAICall) -> bool:
        """Whether the call needs an approval, and there is neither a function that decides nor a decision."""
        tool = self._tools.get(call_name(call))
        if tool is None or not tool.needs_approval or callable(self._approve):
            return False
        return self._approve is None or call_id(call) not in self._approve

    async def run(self, calls: list[OpenAICall]) -> list[ToolMessage]:
        """The answers, in the order of the calls."""
        tools = [self._tools.get(call_name(call)) for call in calls]
        if any(tool is not None and not tool.parallel for tool in tools):
            for index, call in enumerate(calls):
                await self._run(index, call)
            return self.take_finished()
        try:
            async with asyncio.TaskGroup() as group:
                for index, call in enumerate(calls):
                    group.create_task(self._run(index, call))
        except BaseExceptionGroup as failed:  # tools do not raise, so a hook did
            raise failed.exceptions[0] from None
        return self.take_finished()

    def take_finished(self) -> list[ToolMessage]:
        """The answers that there are, in the order of the calls; not all, where `run` was cancelled."""
        finished, self._finished = self._finished, {}
        return [message for _, message in sorted(finished.items())]

    async def _run(self, index: int, call: OpenAICall) -> None:
        async with self._running:
            if self._notify is None:
                message = await self._answer(call, self._context(call, None))
            else:
                message = await self._run_with_events(call, self._notify)
        self._finished[index] = message

    async def _run_with_events(self, call: OpenAICall, notify: Notify) -> ToolMessage:
        """The answer, with events before and after it, and with those of its progress between."""
        await notify(ToolRunStart(call))
        started = time.perf_counter()
        loop, values = asyncio.get_running_loop(), asyncio.Queue[Any]()

        def progress(value: Any) -> None:
            loop.call_soon_threadsafe(values.put_nowait, value)

        async def show() -> None:
            while (value := await values.get()) is not _END:
                await notify(ToolRunProgress(call, value))

        showing = asyncio.create_task(show())
        try:
            message = await self._answer(call, self._context(call, progress))
            loop.call_soon(values.put_nowait, _END)  # behind what the tool has shown
            await showing
        finally:
            showing.cancel()
        await notify(ToolRunEnd(call, message, time.perf_counter() - started))
        return message

    async def _answer(self, call: OpenAICall, context: RunContext[Any]) -> ToolMessage:
        answer = await self._outcome(call, context)
        message = answer if isinstance(answer, ToolMessage) else ToolMessage(call, answer)
        for hooks in reversed(self._hooks):
            message = await await_value(hooks.after_tool(context, call, message)) or message
        return message

    async def _outcome(self, call: OpenAICall, context: RunContext[Any]) -> ToolOutcome | ToolMessage:
        tool = self._tools.get(call_name(call))
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return ToolOutcome(f"There is no tool {call_name(call)!r}; the tools are: {known}", failed=True)
        try:
            arguments = get_arguments(call)
        except WireError as error:
            return ToolOutcome(str(error), failed=True)
        if refusal := await self._refusal(call, tool):
            return ToolOutcome(refusal, failed=True)
        for hooks in self._hooks:
            instead = await await_value(hooks.before_tool(context, call))
            if isinstance(instead, ToolMessage):
                return instead
            arguments = instead if is_object(instead) else arguments
        seconds = self._seconds if tool.timeout is None else tool.timeout
        try:
            async with asyncio.timeout(seconds):
                return await tool.acall(arguments, context)
        except TimeoutError:
            return ToolOutcome(f"The tool {tool.name} took more than {seconds:g} s", failed=True)

    async def _refusal(self, call: OpenAICall, tool: Tool) -> str:
        """Why the call must not run; empty where it may."""
        if self._approve is None or tool.needs_approval is False:
            return ""
        if callable(self._approve):
            async with self._asking:  # one question at a time
                answer = await await_value(self._approve(call))
        else:
            answer = self._approve.get(call_id(call), True)  # the run stops before those that need one
        if answer is True:
            return ""
        return f"This call was not allowed{f': {answer}' if isinstance(answer, str) and answer else ''}."


_END = object()


async def await_value(value: Any) -> Any:
    return await value if isawaitable(value) else value
