"""The loop over rounds: hosted tools that the upstream lacks, declared as functions and executed by us.

    hosted = HostedTools(executors, limits)
    run = await hosted.declare(request, native, context)     None: nothing to execute or to bring back
    joiner = RoundJoiner(run)
    end = await run.play(send, add, lead)                    until the model answers or calls a client's tool

    start  --the client has approved calls--------> executed; they are the first parts of the reply
    start  --results did not come back------------> they are in the store, or the calls are executed again
    round  --a call of ours is complete-----------> it starts, while the rest of the round streams on
    round  --no calls of ours---------------------> done: the end of the round
    round  --calls of ours alone------------------> results appended, next round
    round  --calls of ours and of the client------> executed; the client gets its calls, and the results
                                                    travel through it until its next request (`returning`)
    round  --one needs the client's approval------> done: the client is asked
    round  --a limit is reached-------------------> the model must answer, or the turn pauses

It knows no protocol and no server: `send` sends the request of a round and plays the reply to the client,
`add` gives the client a part, `lead` one in front of all others. A gateway and the client library pass their
own.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from secrets import token_hex

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.hosted import FoundSource, HostedCall, HostedCallRecord, HostedResult
from dragoman.core.loss_codes import severity_of
from dragoman.core.losses import Loss
from dragoman.core.model import (
    AnyPart,
    Citation,
    ExecutedCall,
    Foreign,
    HostedKind,
    HostedTool,
    Media,
    Message,
    Request,
    Stop,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Wire,
)
from dragoman.hosted import returning
from dragoman.hosted.approvals import Approvals, ApprovedCalls, past_calls
from dragoman.hosted.calls import RunningCalls, Work
from dragoman.hosted.citations import find_citations, source_key
from dragoman.hosted.executor import CallLimits, DeclaredFunctions, HostedContext, HostedExecutor, failure
from dragoman.hosted.history import Past, restore_calls
from dragoman.hosted.offers import Offered, Offers, listing_of
from dragoman.hosted.result_store import ResultsInMemory, ResultStore
from dragoman.hosted.search_session import SearchSessions
from dragoman.transforms.rounds import RoundEnd, RoundHooks

Send = Callable[[Callable[[Request], Request]], Awaitable[RoundEnd]]
Add = Callable[[AnyPart], Awaitable[None]]
Lead = Callable[[AnyPart], None]

_NO_MORE = "the reply may use no more tools: answer with what you have"
_AGAIN = "Its result did not come back with the conversation, so it was called again."
_NO_MEDIA = "The model reads its media in this reply. Later requests have its text alone."
_GONE = "Its result did not come back with the conversation, and it cannot be called again."


class HostedTools:
    """What all requests share. `executors` by the kind of tool that each runs; `store` keeps results for
    clients that do not bring them back, and says which approved calls have run."""

    def __init__(
        self,
        executors: Iterable[HostedExecutor],
        limits: CallLimits | None = None,
        store: ResultStore | None = None,
    ) -> None:
        self._executors: Mapping[HostedKind, HostedExecutor] = {each.kind: each for each in executors}
        self._limits = limits or CallLimits()
        store = store or ResultsInMemory()
        self._approved = ApprovedCalls(store, self._limits)
        # for clients that search by themselves; None: there is no search
        searches = "web_search" in self._executors
        self.searches = SearchSessions(self._executors, self._limits, store) if searches else None

    def keep_in(self, store: ResultStore) -> None:
        self._approved.store = store
        if self.searches:
            self.searches.store = store

    async def declare(
        self,
        request: Request,
        native: frozenset[str],
        client: ProtocolLimits,
        caller: str = "",
    ) -> HostedRun | None:
        """The run of `request`, for an upstream that has hosted tools of the kinds in `native` itself.
        `client` says how its protocol shows an executed call. Raises ApprovalError."""
        hosted = [tool for tool in request.tools if isinstance(tool, HostedTool)]
        found = [tool for tool in hosted if tool.kind in self._executors and tool.kind not in native]
        if not found and not returning.are_in(request.messages, client):
            return None
        functions = [tool for tool in request.tools if isinstance(tool, ToolDeclaration)]
        deferred = tuple([tool for tool in functions if tool.deferred])
        context = HostedContext(caller, request.messages, deferred, self._limits)
        offers = Offers(client, [tool.name for tool in functions])
        run = HostedRun(client, context, offers, self._approved, client.hosted.most_calls(request))
        declared = await asyncio.gather(*(self._declare(tool, context) for tool in found))
        for tool, offered in zip(found, declared, strict=True):
            run.offer(tool, self._executors[tool.kind], offered)
        offers.load_again(functions, past_calls(request.messages, client))
        await run.bring_back()
        return run

    async def _declare(self, tool: HostedTool, context: HostedContext) -> DeclaredFunctions:
        """A server that does not answer holds the request no longer than one call may take."""
        try:
            async with asyncio.timeout(context.limits.seconds):
                return await self._executors[tool.kind].declare(tool, context)
        except TimeoutError:
            problem = f"no answer within {context.limits.seconds:g} s"
            return DeclaredFunctions(error="timeout", problem=problem)

    async def close(self) -> None:
        await self._approved.close()
        for executor in self._executors.values():
            await executor.close()


async def _always() -> bool:
    return True


class _BegunCall(Struct, frozen=True):
    """`arguments`: as a later request brings them back, so that the upstream's cache finds the call again."""

    shown: HostedCall
    round: int
    began: float  # on the monotonic clock
    arguments: str = ""


class HostedRun(RoundHooks):
    """The rounds of one request."""

    def __init__(
        self,
        client: ProtocolLimits,
        context: HostedContext,
        offers: Offers,
        approved: ApprovedCalls,
        most: int | None = None,
    ) -> None:
        self._codec, self._context, self._offers = client.hosted, context, offers
        self._client, self._limits, self._approved, self._most = client, context.limits, approved, most
        self._conversation = context.messages
        marked = returning.find_marked(context.messages, client)
        self._past = Past(Approvals(context.messages, client), offers, marked)
        self._leading: list[Wire] = []  # items that come before the reply
        self._messages: list[Message] = []  # of the rounds so far
        self._hidden: list[returning.Answer] = []  # of all rounds: what the client does not see
        self._sources: dict[str, FoundSource] = {}  # what a text may cite
        self._uses = Counter[int]()  # by the place of a tool in `offers.tools`
        self._running = RunningCalls(self._limits)
        self._begun: dict[str, _BegunCall] = {}  # calls of this round, by their ids in it
        self._stem, self._ids = token_hex(8), 0
        self._round = 0
        self.may_go_on: Callable[[], Awaitable[bool]] = _always  # whether another round is allowed
        self.separator = "\n\n" if self._codec.joins_texts else ""
        self.streams = False  # the client gets a stream, which shows calls while they run
        self.losses = offers.losses
        self.counts = Counter[HostedKind]()  # calls that gave a result
        self.failed = Counter[str]()  # "kind: error"
        self.note: Callable[[HostedCallRecord], object] | None = None  # gets each call that ended

    def offer(self, tool: HostedTool, executor: HostedExecutor, declared: DeclaredFunctions) -> None:
        self._offers.add(tool, executor, declared)
        if tool.kind != "mcp":
            return
        listing = listing_of(self._new_id(), tool, declared)
        earlier = past_calls(self._context.messages, self._client)
        if not any(past.step == "listing" and past.server == listing.server for past in earlier):
            self._leading += self._codec.encode_listing(listing)

    async def bring_back(self) -> None:
        """The results that the client did not bring back with its calls: from the store, or once more."""
        marked = self._past.marked
        store, caller = self._approved.store, self._context.caller
        returned = await returning.recall(store, caller, marked.values())
        lost = [each for id, each in marked.items() if not each.echoed and id not in returned]
        calls = [(each.marked_id, call) for each in lost for call in each.calls]
        # a client writes these ids: they run no more calls than its request may make itself
        most = self._limits.rounds * self._limits.calls_at_once
        old, new = calls[: max(len(calls) - most, 0)], calls[-most:]
        answers = [self._give_up(call) for _, call in old]
        answers += await asyncio.gather(*(self._repeat(call) for _, call in new))
        for (id, _), answer in zip(calls, answers, strict=True):
            returned.setdefault(id, []).append(answer)
        self._past = Past(self._past.approvals, self._offers, marked, returned)
        self._conversation = restore_calls(self._context.messages, self._client, self._past)

    async def _repeat(self, call: ToolCall) -> returning.Answer:
        offered = self._offers.find(call)
        if offered is None or not call.complete or offered.tool.kind == "mcp":  # which must not act twice
            return self._give_up(call)
        result = await self._running.bound(self._work(call))
        self._report_lost("changed", call, _AGAIN)
        return call, ToolResult(call.id, call.name, result.content, result.error is not None)

    def _give_up(self, call: ToolCall) -> returning.Answer:
        result = failure("unavailable", _GONE)
        self._report_lost("dropped", call, _GONE)
        return call, ToolResult(call.id, call.name, result.content, failed=True)

    def _report_lost(self, kind: str, call: ToolCall, why: str) -> None:
        code = f"hosted.result.{kind}"
        self.losses.append(Loss(kind, f"call of {call.name}", why, code, severity_of(code)))  # type: ignore[arg-type]

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._stem}_{self._ids}"

    # What the joiner asks of the parts of a round

    def begin_round(self) -> None:
        """The same round may begin again: what its calls began is not waited for."""
        self._running.cancel()
        self._begun = {}

    def withholds(self, call: ToolCall) -> bool:
        """Where the ids of the client's calls must say what was executed beside them, these wait, too."""
        return self._codec.forgets or self._offers.find(call) is not None

    def begin_call(self, call: ToolCall) -> Sequence[AnyPart]:
        offered = self._offers.find(call)
        if offered is None:
            return ()
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # a large event is read in a thread: the call starts at the end of the round
            return ()
        return self._begin(call, offered)

    def cite(self, text: str) -> Sequence[Citation]:
        return find_citations(text, self._sources, self._codec.quotes)

    # Requests

    def adapt(self, request: Request) -> Request:
        """The request of the next round."""
        past = restore_calls(request.messages, self._client, self._past)
        request = replace(request, messages=(*past, *self._messages))
        if not self._offers.tools:  # only earlier calls concern us
            return request
        return replace(
            request,
            tools=self._offers.declare(request.tools),
            tool_choice=self._choice(request.tool_choice),
        )

    def _choice(self, choice: ToolChoice | None) -> ToolChoice | None:
        """A choice that forces a call holds for the first round: the next one is to answer. At a limit the
        model must answer, where its client does not know that a turn may pause."""
        if self._is_over and not self._codec.pauses:
            return ToolChoice("none")
        if choice is None or choice.mode == "none":
            return choice
        if self._round and choice.mode == "required":
            return None
        return self._offers.choice(choice)

    @property
    def _is_over(self) -> bool:
        return self._round >= self._limits.rounds or self._running.is_over_time

    # Rounds

    async def play(self, send: Send, add: Add, lead: Lead) -> RoundEnd:
        for item in self._leading:
            lead(self._part(item))
        try:
            for question in self._past.approvals.pending:
                await self._resume(question, lead)
            end: RoundEnd | None = None
            while end is None:
                is_last = self._is_over
                end = await self._end_round(await send(self.adapt), add, is_last)
            return end
        finally:
            await asyncio.gather(*self._running.cancel(), return_exceptions=True)

    async def _end_round(self, end: RoundEnd, add: Add, is_last: bool) -> RoundEnd | None:
        """The end of the reply; None where another round follows."""
        if end.failure:
            return end
        ours, theirs = self._split_calls(end.parts)
        if not any(call.complete for call in ours):
            if theirs:
                await self._leave(theirs, add)
            is_cut = ours and not theirs and end.stop.reason == "tool_calls"  # nobody sees the call
            return replace(end, stop=Stop("length")) if is_cut else end
        ours = [call for call in ours if call.complete]
        self._round += 1
        await self._execute_round(end, ours, add)
        asked = [call for call in ours if self._asks(call)]
        if asked or theirs:
            await self._leave(theirs, add)
            for call in asked:
                await add(self._part(self._question(call)))
            return replace(end, stop=Stop("tool_calls" if theirs else "end"))
        if await self._may_go_on(is_last):
            return None
        return replace(end, stop=Stop("pause" if self._codec.pauses else "length"))

    def _split_calls(self, parts: Iterable[AnyPart]) -> tuple[list[ToolCall], list[ToolCall]]:
        """Calls of hosted tools, and those of the client."""
        calls = [part for part in parts if isinstance(part, ToolCall)]
        ours = [call for call in calls if self._offers.find(call)]
        return ours, [call for call in calls if call not in ours]

    async def _may_go_on(self, was_last: bool) -> bool:
        """Whether another round follows the one that `was_last` where a limit was reached before it."""
        if was_last or (self._is_over and self._codec.pauses):
            return False
        return await self.may_go_on()

    async def _execute_round(self, end: RoundEnd, ours: Sequence[ToolCall], add: Add) -> None:
        """Wait for the calls of a round, and show them."""
        for call in ours:
            offered = self._offers.find(call)
            if offered and call.id not in self._begun:
                for part in self._begin(call, offered):
                    await add(part)
        results: list[ToolResult] = []
        for call in ours:
            if begun := self._begun.get(call.id):
                hosted = begun.shown
                result = await self._running.result(hosted.id)
                self._end_call(begun, result)
                for item in self._codec.encode_result(hosted, result):
                    await add(self._part(item))
                answer = ToolResult(hosted.id, call.name, result.content, result.error is not None)
                results.append(answer)
                if hosted.kind not in self._codec.holds:
                    self._hidden.append((replace(call, id=hosted.id), answer))
        self._running.end_round()
        said = tuple([self._as_said(part) for part in end.parts if _is_whole(part)])
        self._messages += [Message("assistant", said), Message("user", tuple(results))]

    def _as_said(self, part: AnyPart) -> AnyPart:
        begun = self._begun.get(part.id) if isinstance(part, ToolCall) else None
        if begun is None:
            return part
        return replace(part, id=begun.shown.id, arguments=begun.arguments)  # type: ignore[call-overload]

    async def _leave(self, theirs: Sequence[ToolCall], add: Add) -> None:
        """The reply ends here: what the client does not see of the results travels through it."""
        if self._hidden:
            await add(returning.seal_results(self._hidden))
        await self._give(theirs, add)

    async def _give(self, theirs: Sequence[ToolCall], add: Add) -> None:
        """The client's calls, where they were withheld. The first one says what was executed before them."""
        if not self._codec.forgets:
            return
        hidden = self._hidden
        for number, call in enumerate([call for call in theirs if call.complete]):
            if hidden and not number:
                call = returning.mark(call, [each for each, _ in hidden], self._client)
                await returning.keep(self._approved.store, self._context.caller, call, hidden)
            await add(call)

    async def _resume(self, question: ExecutedCall, lead: Lead) -> None:
        """Run a call that the client approved: its item is one of the first of the reply."""
        name = self._offers.name_of(question)
        call = ToolCall(self._new_id(), name or question.name, question.arguments)
        server, asked = question.server, question.id
        hosted = HostedCall(call.id, question.kind, question.name, call.arguments, server, approval=asked)
        begun = _BegunCall(hosted, self._round, time.perf_counter())
        if name:
            work, bound = self._work(call), self._running.bound
            result = await self._approved.run(self._context.caller, asked, lambda: bound(work))
        else:
            result = failure("unavailable", f"{question.name} is not offered any more")
        self._end_call(begun, result)
        for item in self._codec.encode_result(hosted, result):
            lead(self._part(item))
        answer = ToolResult(call.id, call.name, result.content, result.error is not None)
        self._messages += [Message("assistant", (call,)), Message("user", (answer,))]

    def _begin(self, call: ToolCall, offered: Offered) -> Sequence[AnyPart]:
        """Start a call; the parts that show it. One that the client must approve does not start."""
        if offered.asks:
            return ()
        id, kind = self._new_id(), offered.tool.kind
        hosted = HostedCall(id, kind, offered.known, call.arguments, offered.server)
        items, arguments = self._codec.encode_call(hosted), call.arguments
        for item in items:
            past = self._codec.decode(item)
            arguments = past.arguments if past and past.step in ("call", "both") else arguments
        self._begun[call.id] = _BegunCall(hosted, self._round, time.perf_counter(), arguments)
        self._running.start(id, self._work(call))
        if self._codec.replaces_call and not self.streams:
            return ()
        return [self._part(item) for item in items]

    def _work(self, call: ToolCall) -> Work:
        async def execute() -> HostedResult:
            offered = self._offers.find(call)
            assert offered, "only functions of ours are called here"
            if jsontext.decode_object(call.arguments or "{}") is None:
                return failure("invalid_input", "the arguments are no JSON object")
            place, most = self._offers.tools.index(offered.tool), offered.tool.settings.get("max_uses")
            self._uses[place] += 1
            if type(most) is int and self._uses[place] > most:
                return failure("too_many_uses", f"this tool may be used {most} times in one reply")
            if self._most is not None and self._uses.total() > self._most:
                return failure("too_many_uses", _NO_MORE)
            named = replace(call, name=offered.name)
            messages = (*self._conversation, *self._messages)
            deferred = (*self._context.deferred, *self._offers.deferred)
            context = replace(self._context, messages=messages, deferred=deferred)
            return await offered.executor.execute(offered.tool, named, context)

        return execute

    def _asks(self, call: ToolCall) -> bool:
        offered = self._offers.find(call)
        return offered is not None and offered.asks

    def _question(self, call: ToolCall) -> Wire:
        offered, encode = self._offers.find(call), self._codec.encode_approval
        assert offered, "a question is about a function of ours"
        assert encode, "a tool that needs an approval is offered where the client can be asked"
        kind, arguments = offered.tool.kind, call.arguments or "{}"
        return encode(HostedCall(self._new_id(), kind, offered.name, arguments, offered.server))

    def _end_call(self, call: _BegunCall, result: HostedResult) -> None:
        self._offers.load(result.loaded)
        self._sources |= {source_key(source.url): source for source in result.sources if source.url}
        if any(isinstance(part, Media) for part in result.content):
            where, code = f"result of {call.shown.name}", "result.media.dropped"
            self.losses.append(Loss("dropped", where, _NO_MEDIA, code, severity_of(code)))
        if result.error is None:
            self.counts[call.shown.kind] += 1
        else:
            self.failed[f"{call.shown.kind}: {result.error}"] += 1
        if self.note:
            seconds = time.perf_counter() - call.began
            self.note(HostedCallRecord(call.shown, call.round, result, call.began, seconds))

    def _part(self, item: Wire) -> Foreign:
        return Foreign(self._client.protocol, item, self._codec.words(item))


def _is_whole(part: AnyPart) -> bool:
    return not isinstance(part, ToolCall) or part.complete
