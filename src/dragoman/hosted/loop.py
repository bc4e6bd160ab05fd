"""The loop over rounds: hosted tools that the upstream lacks, declared as functions and executed by us.

    hosted = HostedTools(executors, limits)
    run = await hosted.declare(request, native, context)     None: nothing to execute
    joiner = RoundJoiner(run)
    end = await run.play(send, add, lead)                    until the model answers or calls a client's tool

    start  --the client has approved calls--------> executed; they are the first parts of the reply
    round  --a call of ours is complete-----------> it starts, while the rest of the round streams on
    round  --no calls of ours---------------------> done: the end of the round
    round  --calls of ours alone------------------> results appended, next round
    round  --calls of ours and of the client------> executed; the client gets its calls, and the results
                                                    travel through it until its next request (`history`)
    round  --one needs the client's approval------> done: the client is asked
    round  --a limit is reached-------------------> the model must answer, or the turn pauses

It knows no protocol and no server: `send` sends the request of a round and plays the reply to the client,
`add` gives the client a part, `lead` one in front of all others. A gateway and the client library pass their
own.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from secrets import token_hex

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.hosted import FoundSource, HostedCall, HostedListing, HostedResult, ShownCall
from dragoman.core.loss_codes import severity_of
from dragoman.core.losses import Loss
from dragoman.core.model import (
    AnyPart,
    AnyTool,
    Citation,
    Foreign,
    HostedKind,
    HostedTool,
    Message,
    Request,
    Stop,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Wire,
)
from dragoman.hosted.calls import RunningCalls, Work
from dragoman.hosted.citations import find_citations, source_key
from dragoman.hosted.executor import (
    CallLimits,
    DeclaredFunctions,
    HostedContext,
    HostedExecutor,
    failure,
)
from dragoman.hosted.history import Approvals, past_calls, restore_calls, seal_results
from dragoman.hosted.search_session import SearchSessions
from dragoman.transforms.rounds import RoundEnd, RoundHooks

Send = Callable[[Callable[[Request], Request]], Awaitable[RoundEnd]]
Add = Callable[[AnyPart], Awaitable[None]]
Lead = Callable[[AnyPart], None]

_MOST_APPROVED = 4096  # results of approved calls that are kept for a client that asks again
_NO_MORE = "the reply may use no more tools: answer with what you have"


class Offered(Struct, frozen=True):
    """A function that stands for a hosted tool. `name` is the executor's name of it; `asks`: the client must
    approve a call."""

    tool: HostedTool
    executor: HostedExecutor
    name: str
    function: ToolDeclaration  # as the model sees it
    asks: bool = False

    @property
    def server(self) -> str:
        return str(self.tool.settings.get("label") or "")


class HostedTools:
    """What all requests share. `executors` by the kind of tool that each runs."""

    def __init__(self, executors: Iterable[HostedExecutor], limits: CallLimits | None = None) -> None:
        self._executors: Mapping[HostedKind, HostedExecutor] = {each.kind: each for each in executors}
        self._limits = limits or CallLimits()
        self._approved = ApprovedCalls()
        # for clients that search by themselves; None: there is no search
        searches = "web_search" in self._executors
        self.searches = SearchSessions(self._executors, self._limits) if searches else None

    async def declare(
        self,
        request: Request,
        native: frozenset[str],
        client: ProtocolLimits,
        caller: str = "",
    ) -> HostedRun | None:
        """The run of `request`, for an upstream that has hosted tools of the kinds in `native` itself.
        `client` says how its protocol shows an executed call. Raises ApprovalError."""
        found = [tool for tool in request.tools if self._runs(tool, native)]
        if not found:
            return None
        deferred = tuple(
            tool for tool in request.tools if isinstance(tool, ToolDeclaration) and tool.deferred
        )
        context = HostedContext(caller, request.messages, deferred, self._limits)
        run = HostedRun(client, context, self._approved, client.hosted.most_calls(request))
        taken = {tool.name for tool in request.tools if isinstance(tool, ToolDeclaration)}
        for tool in found:
            assert isinstance(tool, HostedTool)
            await run.offer(tool, self._executors[tool.kind], taken)
        return run

    def _runs(self, tool: AnyTool, native: frozenset[str]) -> bool:
        return isinstance(tool, HostedTool) and tool.kind in self._executors and tool.kind not in native

    async def close(self) -> None:
        await self._approved.close()
        for executor in self._executors.values():
            await executor.close()


class ApprovedCalls:
    """Calls that clients approved. Each runs once, whether the client waits for it or asks again: an approval
    that was sent twice must not delete a file twice."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[tuple[str, str], asyncio.Task[HostedResult]] = OrderedDict()

    async def run(self, caller: str, approval: str, call: Work) -> HostedResult:
        task = self._tasks.get((caller, approval))
        if task is None:
            task = asyncio.ensure_future(call())
            self._tasks[caller, approval] = task
            while len(self._tasks) > _MOST_APPROVED:
                self._tasks.popitem(last=False)
        return await asyncio.shield(task)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def _always() -> bool:
    return True


class HostedRun(RoundHooks):
    """The rounds of one request."""

    def __init__(
        self, client: ProtocolLimits, context: HostedContext, approved: ApprovedCalls, most: int | None = None
    ) -> None:
        self._protocol, self._codec, self._context = client.protocol, client.hosted, context
        self._client, self._limits, self._approved, self._most = client, context.limits, approved, most
        self._approvals = Approvals(context.messages, client)
        self._listed = {
            past.server for past in past_calls(context.messages, client) if past.step == "listing"
        }
        self._offered: dict[str, Offered] = {}  # by the name that the model sees
        self._tools: list[HostedTool] = []
        self._leading: list[Wire] = []  # items that come before the reply
        self._messages: list[Message] = []  # of the rounds so far
        self._loaded: set[str] = set()  # deferred tools that a search has found
        self._sources: dict[str, FoundSource] = {}  # what a text may cite
        self._uses = Counter[int]()  # by the place of a tool in `_tools`
        self._running = RunningCalls(self._limits)
        self._begun: dict[str, HostedCall] = {}  # calls of this round, by their ids in it
        self._stem, self._ids = token_hex(8), 0
        self._round = 0
        self.may_go_on: Callable[[], Awaitable[bool]] = _always  # whether another round is allowed
        self.streams = False  # the client gets a stream, which shows calls while they run
        self.losses: list[Loss] = []
        self.counts = Counter[HostedKind]()  # calls that gave a result

    async def offer(self, tool: HostedTool, executor: HostedExecutor, taken: set[str]) -> None:
        self._tools.append(tool)
        declared = await executor.declare(tool, self._context)
        if tool.kind == "mcp":
            self._list(tool, declared)
        if declared.error:
            why = f"its functions could not be listed: {declared.problem or declared.error}"
            self._report("dropped", tool, why, f"hosted.{tool.kind}.dropped")
            return
        self._report("emulated", tool, "the upstream has none: the gateway runs it", "hosted.emulated")
        for function in declared.functions:
            asks = function.name in declared.approval
            if asks and not self._codec.encode_approval:
                why = f"{function.name} needs an approval, for which this protocol cannot ask: not offered"
                self._report("dropped", tool, why, f"hosted.{tool.kind}.dropped")
                continue
            name = function.name
            while name in taken or name in self._offered:
                name += "_hosted"
            shown = replace(function, name=name, where=tool.where)
            self._offered[name] = Offered(tool, executor, function.name, shown, asks)

    def _list(self, tool: HostedTool, declared: DeclaredFunctions) -> None:
        server = str(tool.settings.get("label") or "")
        if server not in self._listed:
            problem = declared.problem or declared.error or ""
            listing = HostedListing(self._new_id(), server, declared.functions, problem)
            self._leading += self._codec.encode_listing(listing)

    def _report(self, kind: str, tool: HostedTool, why: str, code: str) -> None:
        self.losses.append(Loss(kind, tool.where, why, code, severity_of(code)))  # type: ignore[arg-type]

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._stem}_{self._ids}"

    # What the joiner asks of the parts of a round

    def begin_round(self) -> None:
        """The same round may begin again: what its calls began is not waited for."""
        self._running.cancel()
        self._begun = {}

    def withholds(self, call: ToolCall) -> bool:
        return call.name in self._offered

    def begin_call(self, call: ToolCall) -> Sequence[AnyPart]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # a large event is read in a thread: the call starts at the end of the round
            return ()
        return self._begin(call)

    def cite(self, text: str) -> Sequence[Citation]:
        return find_citations(text, self._sources, self._codec.quotes)

    # Requests

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
        past = restore_calls(request.messages, self._client, self._approvals, self._name_of)
        return replace(
            request,
            tools=tuple(tools),
            tool_choice=self._choice(request.tool_choice),
            messages=(*past, *self._messages),
        )

    def _name_of(self, past: ShownCall) -> str:
        """The name under which the model sees the tool of an earlier call; empty: it does not."""
        for shown, offered in self._offered.items():
            same = past.kind != "mcp" or (offered.name, offered.server) == (past.name, past.server)
            if offered.tool.kind == past.kind and same:
                return shown
        return ""

    def _choice(self, choice: ToolChoice | None) -> ToolChoice | None:
        """A choice that forces a call holds for the first round: the next one is to answer. At a limit the
        model must answer, where its client does not know that a turn may pause."""
        if self._is_over and not self._codec.pauses:
            return ToolChoice("none")
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

    @property
    def _is_over(self) -> bool:
        return self._round >= self._limits.rounds or self._running.is_over_time

    # Rounds

    async def play(self, send: Send, add: Add, lead: Lead) -> RoundEnd:
        for item in self._leading:
            lead(self._part(item))
        try:
            for question in self._approvals.pending:
                await self._resume(question, lead)
            return await self._play(send, add)
        finally:
            await asyncio.gather(*self._running.cancel(), return_exceptions=True)

    async def _play(self, send: Send, add: Add) -> RoundEnd:
        while True:
            is_last = self._is_over
            end = await send(self.adapt)
            calls = [part for part in end.parts if isinstance(part, ToolCall)]
            ours = [call for call in calls if self.withholds(call) and call.complete]
            theirs = any(not self.withholds(call) for call in calls)
            if end.failure or not ours:
                cut = calls and not theirs and end.stop.reason == "tool_calls"  # nobody sees the call
                return replace(end, stop=Stop("length")) if cut else end
            self._round += 1
            questions = [self._question(call) for call in ours if self._offered[call.name].asks]
            await self._execute_round(end, ours, add, leaves=bool(questions) or theirs)
            for question in questions:
                await add(self._part(question))
            if questions or theirs:
                return replace(end, stop=Stop("tool_calls" if theirs else "end"))
            may_pause = self._is_over and self._codec.pauses
            if is_last or may_pause or not await self.may_go_on():
                return replace(end, stop=Stop("pause" if self._codec.pauses else "length"))

    async def _execute_round(self, end: RoundEnd, ours: Sequence[ToolCall], add: Add, leaves: bool) -> None:
        """Wait for the calls of a round, and show them. `leaves`: the reply ends here, and what the client
        does not see of the results travels through it."""
        for call in ours:
            if call.id not in self._begun:
                for part in self._begin(call):
                    await add(part)
        answers: list[tuple[HostedCall, ToolCall, ToolResult]] = []
        for call in ours:
            if hosted := self._begun.get(call.id):
                result = await self._running.result(hosted.id)
                self._note(hosted, result)
                for item in self._codec.encode_result(hosted, result):
                    await add(self._part(item))
                answer = ToolResult(hosted.id, call.name, result.content, result.error is not None)
                answers.append((hosted, replace(call, id=hosted.id), answer))
        self._running.end_round()
        said: list[AnyPart] = []
        for part in end.parts:
            if isinstance(part, ToolCall):
                if not part.complete:
                    continue
                hosted = self._begun.get(part.id)
                part = replace(part, id=hosted.id) if hosted else part
            said.append(part)
        self._messages.append(Message("assistant", tuple(said)))
        self._messages.append(Message("user", tuple(answer for _, _, answer in answers)))
        hidden = [(call, answer) for hosted, call, answer in answers if hosted.kind not in self._codec.holds]
        if leaves and hidden:
            await add(seal_results(hidden))

    async def _resume(self, question: ShownCall, lead: Lead) -> None:
        """Run a call that the client approved: its item is one of the first of the reply."""
        name = self._name_of(question)
        call = ToolCall(self._new_id(), name or question.name, question.arguments)
        server, asked = question.server, question.id
        hosted = HostedCall(call.id, question.kind, question.name, call.arguments, server, approval=asked)
        if name:
            work = self._work(call)
            bound = self._running.bound
            result = await self._approved.run(self._context.caller, asked, lambda: bound(work))
        else:
            result = failure("unavailable", f"{question.name} is not offered any more")
        self._note(hosted, result)
        for item in self._codec.encode_result(hosted, result):
            lead(self._part(item))
        answer = ToolResult(call.id, call.name, result.content, result.error is not None)
        self._messages += [Message("assistant", (call,)), Message("user", (answer,))]

    def _begin(self, call: ToolCall) -> Sequence[AnyPart]:
        """Start a call; the parts that show it. One that the client must approve does not start."""
        offered = self._offered[call.name]
        if offered.asks:
            return ()
        id, kind = self._new_id(), offered.tool.kind
        hosted = HostedCall(id, kind, offered.name, call.arguments, offered.server)
        self._begun[call.id] = hosted
        self._running.start(id, self._work(call))
        if self._codec.replaces_call and not self.streams:
            return ()
        return [self._part(item) for item in self._codec.encode_call(hosted)]

    def _work(self, call: ToolCall) -> Work:
        async def execute() -> HostedResult:
            offered = self._offered[call.name]
            if jsontext.decode_object(call.arguments or "{}") is None:
                return failure("invalid_input", "the arguments are no JSON object")
            place, most = self._tools.index(offered.tool), offered.tool.settings.get("max_uses")
            self._uses[place] += 1
            if type(most) is int and self._uses[place] > most:
                return failure("too_many_uses", f"this tool may be used {most} times in one reply")
            if self._most is not None and self._uses.total() > self._most:
                return failure("too_many_uses", _NO_MORE)
            named = replace(call, name=offered.name)
            return await offered.executor.execute(offered.tool, named, self._context)

        return execute

    def _question(self, call: ToolCall) -> Wire:
        offered, encode = self._offered[call.name], self._codec.encode_approval
        assert encode, "a tool that needs an approval is offered where the client can be asked"
        kind, arguments = offered.tool.kind, call.arguments or "{}"
        return encode(HostedCall(self._new_id(), kind, offered.name, arguments, offered.server))

    def _note(self, call: HostedCall, result: HostedResult) -> None:
        self._loaded |= {tool.name for tool in result.loaded}
        self._sources |= {source_key(source.url): source for source in result.sources if source.url}
        if result.error is None:
            self.counts[call.kind] += 1

    def _part(self, item: Wire) -> Foreign:
        return Foreign(self._protocol, item, self._codec.words(item))
