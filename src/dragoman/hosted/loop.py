"""The loop over rounds: hosted tools that the upstream lacks, declared as functions and executed by us.

    hosted = HostedTools(executors, limits)
    run = await hosted.declare(request, native, context)     None: nothing to execute
    end = await run.play(send, add)                          until the model answers or calls a client's tool

    round  --no calls of ours---------------------> done: the end of the round
    round  --calls of ours alone------------------> executed side by side, results appended, next round
    round  --calls of ours and of the client------> executed; the client gets its calls, and the results
                                                    travel through it until its next request (`_sealed`)
    round  --a limit is reached-------------------> done: the model paused

It knows no protocol and no server: `send` sends the request of a round and plays the reply to the client,
`add` gives the client a part. A gateway and the client library pass their own.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.hosted import ExecutedCall, HostedResult
from dragoman.core.jsontext import is_array
from dragoman.core.loss_codes import severity_of
from dragoman.core.losses import Loss
from dragoman.core.model import (
    AnyPart,
    AnyTool,
    Foreign,
    HostedKind,
    HostedTool,
    Message,
    Reasoning,
    Request,
    State,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
)
from dragoman.hosted.executor import CallLimits, HostedContext, HostedExecutor, failure
from dragoman.transforms.rounds import RoundEnd

Send = Callable[[Callable[[Request], Request]], Awaitable[RoundEnd]]
Add = Callable[[AnyPart], Awaitable[None]]

_ORIGIN = "dragoman-hosted"  # of the state in which results travel through a client
_CUT = "\n[The result was longer; the rest was cut.]"


class Offered(Struct, frozen=True):
    """A function that stands for a hosted tool. `name` is the executor's name of it."""

    tool: HostedTool
    executor: HostedExecutor
    name: str
    function: ToolDeclaration  # as the model sees it


class HostedTools:
    """What all requests share. `executors` by the kind of tool that each runs."""

    def __init__(self, executors: Iterable[HostedExecutor], limits: CallLimits | None = None) -> None:
        self._executors: Mapping[HostedKind, HostedExecutor] = {each.kind: each for each in executors}
        self._limits = limits or CallLimits()

    async def declare(
        self,
        request: Request,
        native: frozenset[str],
        client: ProtocolLimits,
        caller: str = "",
    ) -> HostedRun | None:
        """The run of `request`, for an upstream that has hosted tools of the kinds in `native` itself.
        `client` says how its protocol shows an executed call."""
        found = [tool for tool in request.tools if self._runs(tool, native)]
        if not found:
            return None
        deferred = tuple(
            tool for tool in request.tools if isinstance(tool, ToolDeclaration) and tool.deferred
        )
        context = HostedContext(caller, request.messages, deferred, self._limits)
        run = HostedRun(client, context)
        taken = {tool.name for tool in request.tools if isinstance(tool, ToolDeclaration)}
        for tool in found:
            assert isinstance(tool, HostedTool)
            await run.offer(tool, self._executors[tool.kind], taken)
        return run

    def _runs(self, tool: AnyTool, native: frozenset[str]) -> bool:
        return isinstance(tool, HostedTool) and tool.kind in self._executors and tool.kind not in native

    async def close(self) -> None:
        for executor in self._executors.values():
            await executor.close()


class HostedRun:
    """The rounds of one request."""

    def __init__(self, client: ProtocolLimits, context: HostedContext) -> None:
        self._client, self._context, self._limits = client, context, context.limits
        self._offered: dict[str, Offered] = {}  # by the name that the model sees
        self._tools: list[HostedTool] = []
        self._messages: list[Message] = []  # of the rounds so far
        self._loaded: set[str] = set()  # deferred tools that a search has found
        self._uses = Counter[int]()  # by the place of a tool in `_tools`
        self._round = 0
        self._spent = 0.0  # seconds in calls
        self.losses: list[Loss] = []

    async def offer(self, tool: HostedTool, executor: HostedExecutor, taken: set[str]) -> None:
        self._tools.append(tool)
        declared = await executor.declare(tool, self._context)
        if declared.error:
            why = f"its functions could not be listed: {declared.problem or declared.error}"
            self._report("dropped", tool, why, f"hosted.{tool.kind}.dropped")
            return
        self._report("emulated", tool, "the upstream has none: the gateway runs it", "hosted.emulated")
        for function in declared.functions:
            if function.name in declared.approval:
                why = f"{function.name} needs an approval, for which the gateway cannot ask: not offered"
                self._report("dropped", tool, why, f"hosted.{tool.kind}.dropped")
                continue
            name = function.name
            while name in taken or name in self._offered:
                name += "_hosted"
            shown = replace(function, name=name, where=tool.where)
            self._offered[name] = Offered(tool, executor, function.name, shown)

    def _report(self, kind: str, tool: HostedTool, why: str, code: str) -> None:
        self.losses.append(Loss(kind, tool.where, why, code, severity_of(code)))  # type: ignore[arg-type]

    def withholds(self, call: ToolCall) -> bool:
        return call.name in self._offered

    def adapt(self, request: Request) -> Request:
        """The request of the next round."""
        kinds = {tool.kind for tool in self._tools}
        tools: list[AnyTool] = []
        for tool in request.tools:
            if isinstance(tool, ToolDeclaration):
                tools.append(replace(tool, deferred=False) if tool.name in self._loaded else tool)
            elif tool.kind not in kinds:
                tools.append(tool)
        tools += [offered.function for offered in self._offered.values()]
        messages = (*_unsealed(request.messages), *self._messages)
        return replace(
            request,
            tools=tuple(tools),
            tool_choice=self._choice(request.tool_choice),
            messages=messages,
            past=None,
            head=None,
        )

    def _choice(self, choice: ToolChoice | None) -> ToolChoice | None:
        """A choice that forces a call holds for the first round: the next one is to answer."""
        if choice is None or choice.mode == "none":
            return choice
        if self._round and choice.mode == "required":
            return None
        names = dict.fromkeys(choice.names)
        for shown, offered in self._offered.items():
            tool = offered.tool
            label = f"{tool.kind}:{tool.settings.get('label')}"
            if {tool.kind, label, tool.name} & {*choice.hosted, *choice.names}:
                names.pop(tool.name, None)
                names[shown] = None
        if not choice.restricts:
            return choice
        return ToolChoice(choice.mode, tuple(names)) if names else None

    async def play(self, send: Send, add: Add) -> RoundEnd:
        while True:
            end = await send(self.adapt)
            calls = [part for part in end.parts if isinstance(part, ToolCall)]
            ours = [call for call in calls if self.withholds(call)]
            if end.failure or not ours:
                return end
            self._round += 1
            results = await self._execute(ours)
            for call in results:
                self._loaded |= {tool.name for tool in call.result.loaded}
                for item in self._client.hosted_items(call) if self._client.hosted_items else ():
                    await add(Foreign(self._client.protocol, item))
            answers = tuple([_answer(call, executed) for call, executed in zip(ours, results, strict=True)])
            self._messages += [Message("assistant", end.parts), Message("user", answers)]
            if len(calls) > len(ours):
                if not self._client.hosted_results:
                    await add(_sealed(ours, answers))
                return replace(end, stop=Stop("tool_calls"))
            if self._round >= self._limits.rounds or self._spent >= self._limits.seconds_in_all:
                return replace(end, stop=Stop("pause"))

    async def _execute(self, calls: Sequence[ToolCall]) -> list[ExecutedCall]:
        """Side by side; if the client leaves, all are cancelled."""
        began, slots = time.monotonic(), asyncio.Semaphore(self._limits.calls_at_once)

        async def run(call: ToolCall) -> HostedResult:
            async with slots:
                return await self._call(call)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(call)) for call in calls]
        self._spent += time.monotonic() - began
        return [self._executed(call, task.result()) for call, task in zip(calls, tasks, strict=True)]

    async def _call(self, call: ToolCall) -> HostedResult:
        offered, limits = self._offered[call.name], self._limits
        if not call.complete or jsontext.decode_object(call.arguments or "{}") is None:
            return failure("invalid_input", "the arguments are no JSON object")
        place, most = self._tools.index(offered.tool), offered.tool.settings.get("max_uses")
        self._uses[place] += 1
        if type(most) is int and self._uses[place] > most:
            return failure("too_many_uses", f"this tool may be used {most} times in one reply")
        left = min(limits.seconds, max(limits.seconds_in_all - self._spent, 0.0))
        try:
            async with asyncio.timeout(left):
                result = await offered.executor.execute(
                    offered.tool, replace(call, name=offered.name), self._context
                )
        except TimeoutError:
            return failure("timeout", f"the tool took longer than {left:g} s")
        except Exception:
            return failure("unavailable", "the tool could not be run")
        return _bounded(result, limits.result_bytes)

    def _executed(self, call: ToolCall, result: HostedResult) -> ExecutedCall:
        offered = self._offered[call.name]
        server = str(offered.tool.settings.get("label") or "")
        return ExecutedCall(call.id, offered.tool.kind, offered.name, call.arguments, result, server)


def _answer(call: ToolCall, executed: ExecutedCall) -> ToolResult:
    return ToolResult(call.id, call.name, executed.result.content, executed.result.error is not None)


def _bounded(result: HostedResult, most: int) -> HostedResult:
    """With at most so many bytes of text; media that do not fit are left out."""
    content: list[Text | Foreign] = []
    size = sum(len(part.text.encode()) for part in result.content if isinstance(part, Text))
    if size <= most:
        return result
    for part in result.content:
        if isinstance(part, Text) and most > 0:
            data = part.text.encode()
            text = part.text if len(data) <= most else data[:most].decode("utf-8", "ignore") + _CUT
            content.append(replace(part, text=text))
            most -= len(data)
    return replace(result, content=tuple(content))


# Results on their way through a client, beside its own calls


def _sealed(calls: Sequence[ToolCall], answers: Sequence[ToolResult]) -> Reasoning:
    """Hidden reasoning is what clients of every protocol echo unread."""
    rows = [
        [call.id, call.name, call.arguments, _text_of(answer), answer.failed]
        for call, answer in zip(calls, answers, strict=True)
    ]
    return Reasoning(hidden=True, state=State(_ORIGIN, jsontext.dumps(rows)))


def _unsealed(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The conversation with the calls that were executed beside the client's own, and their results."""
    if not any(_is_sealed(part) for message in messages for part in message.parts):
        return messages
    out: list[Message] = []
    waiting: list[ToolResult] = []
    for message in messages:
        parts: list[AnyPart] = []
        for part in message.parts:
            rows = _rows(part)
            parts += [ToolCall(*row[:3]) for row in rows] if rows else () if _is_sealed(part) else (part,)
            waiting += [ToolResult(row[0], row[1], (Text(row[3]),), row[4]) for row in rows]
        if message.role == "user" and waiting:
            parts, waiting = [*waiting, *parts], []
        out.append(replace(message, parts=tuple(parts)))
    return tuple(out) if not waiting else (*out, Message("user", tuple(waiting)))


def _is_sealed(part: AnyPart) -> bool:
    return isinstance(part, Reasoning) and part.state is not None and part.state.origin == _ORIGIN


def _rows(part: AnyPart) -> list[tuple[str, str, str, str, bool]]:
    if not _is_sealed(part) or part.state is None:
        return []
    try:
        rows = jsontext.decode(part.state.data)
    except ValueError:
        return []
    match = [row for row in rows if is_array(row) and len(row) == 5] if is_array(rows) else []
    return [(str(a), str(b), str(c), str(d), bool(e)) for a, b, c, d, e in match]


def _text_of(answer: ToolResult) -> str:
    return "\n".join(part.text for part in answer.content if isinstance(part, Text))
