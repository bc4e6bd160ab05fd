"""What ties a request to its response: the names, kinds, ids and state of its tool calls.

`Ledger` prepares the request for the upstream; its `Restorer` is the stage that gives the response
back in the client's own terms. Everything it must remember beyond one exchange travels in ids.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.core.codec import Limits
from dragoman.core.events import (
    Event,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Failure,
    HostedTool,
    Message,
    Reasoning,
    Request,
    State,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)
from dragoman.transforms import arguments, call_ids
from dragoman.transforms.content import settle
from dragoman.transforms.flatten import Flattened, functional, unflatten
from dragoman.transforms.pairing import pair
from dragoman.transforms.schemas import fit
from dragoman.transforms.states import carrier, return_states
from dragoman.transforms.tool_names import Names, recognise


class Ledger:
    """One exchange between a client and an upstream with these limits.

    `origin` is who will have made the state of the response; `own` is the upstream's protocol.
    """

    def __init__(self, client: Limits, upstream: Limits, origin: str, own: str, losses: Losses) -> None:
        self.client, self.upstream, self.origin, self.own, self.losses = client, upstream, origin, own, losses
        self.declared: dict[str, Tool | HostedTool] = {}
        self.calls = 0
        self.estimate = 0
        self._names = Names((), upstream)

    def prepare(self, request: Request, summarise: bool) -> Request:
        """`request` as the upstream takes it: its names, ids, order, schemas, state and media."""
        losses = self.losses
        messages = [self._opened(message) for message in request.messages]
        self._count(messages)
        messages = [return_states(message, self.origin, self.own, losses) for message in messages]
        paired = pair(messages, lambda id: call_ids.legal(id, self.upstream), losses)
        flattened = Flattened(request.tools, self.upstream, losses)
        self.declared = flattened.declared
        messages = [settle(flattened.message(message), self.own, summarise, losses) for message in paired]
        self._names = Names(self._all_names(flattened.tools, messages, request.tool_choice), self.upstream)
        self.estimate = _estimate(request)
        return replace(
            request,
            messages=tuple([self._named(message) for message in messages]),
            tools=tuple([self._fitted(tool) for tool in flattened.tools]),
            tool_choice=self._choice(request.tool_choice, flattened),
        )

    def restorer(self) -> Restorer:
        return Restorer(self)

    def restored_name(self, call: ToolCall) -> tuple[ToolCall, Tool | HostedTool | None]:
        """`call` under its flat declared name, and the declaration behind it."""
        flat = self._names.decode(call.name)
        if flat not in self.declared:
            meant = recognise(flat, self.declared)
            if meant != flat:
                self.losses.changed(
                    call.where or "tool call", f"the model called {flat}; the declared tool is {meant}"
                )
                flat = meant
        return (call if flat == call.name else replace(call, name=flat)), self.declared.get(flat)

    def _opened(self, message: Message) -> Message:
        """Ids as the upstream gave them, with the state and reasoning that travelled inside."""
        if all(type(part) is not ToolCall and type(part) is not ToolResult for part in message.parts):
            return message
        parts: list[AnyPart] = []
        for part in message.parts:
            match part:
                case ToolCall():
                    parts += self._open_call(part, message.parts)
                case ToolResult():
                    id = call_ids.unwrap(part.call_id, self.client).id
                    parts.append(part if id == part.call_id else replace(part, call_id=id))
                case _:
                    parts.append(part)
        return replace(message, parts=tuple(parts))

    def _open_call(self, call: ToolCall, beside: tuple[AnyPart, ...]) -> list[AnyPart]:
        opened = call_ids.unwrap(call.id, self.client)
        known = any(isinstance(part, Reasoning) and part.state for part in beside)
        if opened.state or opened.id != call.id:
            call = replace(call, id=opened.id, state=opened.state or call.state)
        return [call] if known else [*opened.reasoning, call]

    def _count(self, messages: list[Message]) -> None:
        """Where numbering of new calls starts, so that an invented id never repeats one of the history."""
        ids = [part.id for message in messages for part in message.parts if type(part) is ToolCall]
        numbers = [call_ids.invented(id) or 0 for id in ids]
        self.calls = max([len(ids), *numbers])

    def _all_names(
        self, tools: list[Tool | HostedTool], messages: list[Message], choice: ToolChoice | None
    ) -> Iterable[str]:
        yield from (tool.name for tool in tools if isinstance(tool, Tool))
        yield from choice.names if choice else ()
        yield from (part.name for message in messages for part in message.parts if type(part) is ToolCall)

    def _named(self, message: Message) -> Message:
        if not self._names.changed:
            return message
        encode = self._names.encode
        return replace(
            message,
            parts=tuple(
                [
                    replace(part, name=encode(part.name)) if isinstance(part, ToolCall | ToolResult) else part
                    for part in message.parts
                ]
            ),
        )

    def _fitted(self, tool: Tool | HostedTool) -> Tool | HostedTool:
        if isinstance(tool, HostedTool):
            return tool
        name = self._names.encode(tool.name)
        if tool.kind == "custom":
            return tool if name == tool.name else replace(tool, name=name)
        parameters = fit(tool.parameters, self.upstream.schemas, f"{tool.where}.parameters", self.losses)
        if name == tool.name and parameters is tool.parameters:
            return tool
        return replace(tool, name=name, parameters=parameters)

    def _choice(self, choice: ToolChoice | None, flattened: Flattened) -> ToolChoice | None:
        """The names as the upstream knows them; a list of all the tools is no restriction."""
        if choice is None or not choice.names:
            return choice
        if len(choice.names) > 1 and {tool.name for tool in flattened.tools} <= set(choice.names):
            return ToolChoice(choice.mode)
        flat = {tool.name or "": name for name, tool in flattened.declared.items()}
        names = tuple(self._names.encode(flat.get(name, name)) for name in choice.names)
        return choice if names == choice.names else ToolChoice(choice.mode, names)


class Restorer:
    """Upstream's events, part after part -> the client's events.

    A call is held back until it is whole where its id must carry state, where it is not a plain
    function, or where its declared types could need a repair; all others stream on.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._index = -1
        self._part: AnyPart | None = None
        self._held: list[str] | None = None
        self._text: list[str] = []
        self._state: State | None = None
        self._declared: Tool | HostedTool | None = None
        self._reasoning: list[Reasoning] = []
        self._complete_calls = 0
        self._response = ""

    def feed(self, event: Event, /) -> Iterable[Event]:
        match event:
            case PartDelta():
                return self._delta(event)
            case PartStart():
                return self._start(event.part)
            case PartEnd():
                return self._end(event.complete)
            case ResponseStart():
                self._response = event.id
                usage = event.usage or (Usage(self._ledger.estimate) if self._ledger.estimate else None)
                return (replace(event, usage=usage),)
            case ResponseEnd():
                return (self._settled(event),)
            case _:
                return (event,)

    def close(self) -> Iterable[Event]:
        return ()

    def _start(self, part: AnyPart) -> Iterable[Event]:
        self._index += 1
        self._part, self._held, self._state = part, None, part.state
        self._text.clear()
        if not isinstance(part, ToolCall):
            return (PartStart(self._index, part),)
        call, self._declared = self._ledger.restored_name(part)
        if self._must_hold(call):
            self._part, self._held = call, []
            return ()
        call = unflatten(call, self._declared)
        self._part = call if self._native(call) else functional(call)
        return (PartStart(self._index, replace(self._part, id=self._client_id(call.id, None))),)

    def _delta(self, delta: PartDelta) -> Iterable[Event]:
        if delta.state:
            self._state = self._stamped(delta.state)
            if self._held is not None or (type(self._part) is Text and not self._ledger.client.text_state):
                return ()
            delta = replace(delta, state=self._state)
        if self._held is not None:
            self._held.append(delta.text)
            return ()
        if delta.text and self._remembers():
            self._text.append(delta.text)
        return (delta,) if delta.index == self._index else (replace(delta, index=self._index),)

    def _remembers(self) -> bool:
        """Reasoning that must travel in an id; of a text only whether it said anything."""
        kind = type(self._part)
        return (kind is Reasoning and not self._ledger.client.reasoning_state) or (
            kind is Text and not self._text
        )

    def _end(self, complete: bool) -> Iterable[Event]:
        part, index = self._part, self._index
        match part:
            case ToolCall() if self._held is not None:
                return self._whole_call(part, "".join(self._held), complete)
            case ToolCall():
                self._complete_calls += complete
            case Text() if self._state and not self._ledger.client.text_state:
                self._index += 1
                hidden = carrier(self._state, alone=not self._text)
                carried = hidden.state
                return (
                    PartEnd(index),
                    PartStart(self._index, replace(hidden, state=None)),
                    PartDelta(self._index, state=carried),
                    PartEnd(self._index),
                )
            case Reasoning() if self._state and not self._ledger.client.reasoning_state:
                self._reasoning.append(
                    replace(part, text="".join(self._text), state=self._state, extras=None)
                )
            case _:
                pass
        return (PartEnd(index, complete),)

    def _must_hold(self, call: ToolCall) -> bool:
        """Gemini tells the signature of a call after its name; schemas with numbers may need a repair."""
        declared = self._declared
        if self._ledger.upstream.call_state and not self._ledger.client.call_state:
            return True
        if call.kind != "function" or not isinstance(declared, Tool):
            return call.kind != "function" or isinstance(declared, HostedTool)
        return declared.kind != "function" or arguments.watch(declared.parameters)

    def _whole_call(self, call: ToolCall, text: str, complete: bool) -> Iterable[Event]:
        call = unflatten(replace(call, arguments=text), self._declared)
        if complete and call.kind == "function" and isinstance(self._declared, Tool):
            repaired, reason = arguments.repair(call.arguments, self._declared.parameters)
            if reason:
                self._ledger.losses.changed(f"{call.where or call.name}.arguments", reason)
                call = replace(call, arguments=repaired)
        if not self._native(call):
            call = functional(call)
        self._complete_calls += complete
        kept = self._ledger.client.call_state
        id = self._client_id(call.id, None if kept else self._state)
        events: list[Event] = [PartStart(self._index, replace(call, id=id, arguments="", state=None))]
        if call.arguments:
            events.append(PartDelta(self._index, call.arguments))
        if kept and self._state:
            events.append(PartDelta(self._index, state=self._state))
        return (*events, PartEnd(self._index, complete))

    def _native(self, call: ToolCall) -> bool:
        """Whether the client's protocol has calls of this kind."""
        client = self._ledger.client
        if call.namespace and not client.namespaces:
            return False
        return call.kind == "function" or (
            client.custom_tools if call.kind == "custom" else call.kind in client.hosted_tools
        )

    def _client_id(self, id: str, state: State | None) -> str:
        """The id the client will echo; it carries what the client has no other slot for."""
        ledger = self._ledger
        if not id:
            ledger.calls += 1
            id = call_ids.invent(ledger.calls)
            ledger.losses.invented("tool call id", f"{ledger.own} sent none")
        reasoning, self._reasoning = tuple(self._reasoning), []
        for carried in (reasoning, ()):
            wrapped = call_ids.wrap(call_ids.CallId(id, state, carried), ledger.client)
            if len(wrapped) <= call_ids.LONGEST:
                return wrapped
            ledger.losses.dropped("reasoning.state", "too long to travel in a call id")
        return call_ids.wrap(call_ids.CallId(id), ledger.client)

    def _stamped(self, state: State) -> State:
        ledger = self._ledger
        return state if state.origin != ledger.own else State(ledger.origin, state.data, state.id)

    def _settled(self, event: ResponseEnd) -> Event:
        """The stop reason from the content: a complete call present means tool calls."""
        reason = event.stop.reason
        if self._complete_calls and reason in _MAY_BE_CALLS:
            return replace(event, stop=replace(event.stop, reason="tool_calls"))
        if self._complete_calls == 0 and reason == "tool_calls":
            return replace(event, stop=replace(event.stop, reason="end"))
        if self._complete_calls == 0 and reason == "malformed_call":
            raw = event.stop.raw
            return ResponseFailed(
                Failure("server", f"the model could not form a tool call ({raw})", 502, raw)
            )
        return event


_MAY_BE_CALLS = frozenset({"end", "stop_sequence", "other", "malformed_call"})


def _estimate(request: Request) -> int:
    """Input tokens, roughly: clients show a meter before the upstream has counted."""
    size = sum(len(part.text) for part in request.system)
    for message in request.messages:
        for part in message.parts:
            match part:
                case Text() | Reasoning():
                    size += len(part.text)
                case ToolCall():
                    size += len(part.arguments)
                case ToolResult():
                    size += sum(len(item.text) for item in part.content if isinstance(item, Text))
                case _:
                    size += 4000
    size += sum(len(tool.description) + 300 for tool in request.tools if isinstance(tool, Tool))
    return size // 4
