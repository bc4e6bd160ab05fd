"""Running the calls of a reply: whether they are allowed, for how long, and beside each other or in a row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any

from msgspec import Struct

from dragoman.client.messages import OpenAICall, ToolMessage
from dragoman.client.tools import Tool
from dragoman.client.values import ToolOutcome, arguments_of, call_name
from dragoman.core.errors import WireError

Approve = Callable[[OpenAICall], Any]  # True, False, or the reason why not; may be async
Notify = Callable[[Any], Awaitable[None]]


class ToolRunStart(Struct, frozen=True):
    """A tool is about to run (or to be refused)."""

    call: OpenAICall


class ToolRunEnd(Struct, frozen=True):
    call: OpenAICall
    message: ToolMessage
    seconds: float


class Executor:
    def __init__(
        self, tools: Iterable[Tool], approve: Approve | None, seconds: float | None, notify: Notify
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._approve, self._seconds, self._notify = approve, seconds, notify
        self._asking = asyncio.Lock()

    def is_handed_back(self, calls: list[OpenAICall]) -> bool:
        """Whether a call is of a tool that only its declarer can run."""
        tools = [self._tools.get(call_name(call)) for call in calls]
        return any(tool is not None and tool.function is None for tool in tools)

    async def run(self, calls: list[OpenAICall]) -> list[ToolMessage]:
        """The answers, in the order of the calls."""
        tools = [self._tools.get(call_name(call)) for call in calls]
        if any(tool is not None and not tool.parallel for tool in tools):
            return [await self._run(call) for call in calls]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run(call)) for call in calls]
        except BaseExceptionGroup as failed:  # tools do not raise, so a hook did
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _run(self, call: OpenAICall) -> ToolMessage:
        await self._notify(ToolRunStart(call))
        started = time.perf_counter()
        message = ToolMessage(call, await self._outcome(call))
        await self._notify(ToolRunEnd(call, message, time.perf_counter() - started))
        return message

    async def _outcome(self, call: OpenAICall) -> ToolOutcome:
        tool = self._tools.get(call_name(call))
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return ToolOutcome(f"There is no tool {call_name(call)!r}; the tools are: {known}", failed=True)
        try:
            arguments = arguments_of(call)
        except WireError as error:
            return ToolOutcome(str(error), failed=True)
        if refusal := await self._refusal(call):
            return ToolOutcome(refusal, failed=True)
        seconds = self._seconds if tool.timeout is None else tool.timeout
        try:
            async with asyncio.timeout(seconds):
                return await tool.acall(arguments)
        except TimeoutError:
            return ToolOutcome(f"The tool {tool.name} took more than {seconds:g} s", failed=True)

    async def _refusal(self, call: OpenAICall) -> str:
        """Why the call must not run; empty where it may."""
        if self._approve is None:
            return ""
        async with self._asking:  # one question at a time
            answer = self._approve(call)
            answer = await answer if isawaitable(answer) else answer
        if answer is True:
            return ""
        return f"This call was not allowed{f': {answer}' if isinstance(answer, str) and answer else ''}."
