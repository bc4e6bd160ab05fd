"""The stage that gives a response back in the client's own terms: names, kinds, ids, state, stop.

A call is held back until it is whole where its id must carry state, where it is not a plain function,
or where its declared types could need a repair; all others stream on.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.core.events import (
    Event,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
)
from dragoman.core.model import (
    AnyPart,
    Failure,
    HostedTool,
    Reasoning,
    State,
    Text,
    Tool,
    ToolCall,
    Usage,
)
from dragoman.transforms import arguments, call_ids
from dragoman.transforms.flatten import functional, unflatten
from dragoman.transforms.ledger import Ledger
from dragoman.transforms.states import carrier


class Restorer:
    """Upstream's events, part after part -> the client's events. `reply_id` is for a reply without an id."""

    def __init__(self, ledger: Ledger, reply_id: str = "") -> None:
        self._ledger, self._reply_id = ledger, reply_id
        self._index = -1
        self._part: AnyPart | None = None
        self._held: list[str] | None = None
        self._flowing = -1  # the part whose deltas pass as they are: nothing of it need be remembered
        self._announced = False  # the start of the call is already with the client
        self._text: list[str] = []
        self._state: State | None = None
        self._declared: Tool | HostedTool | None = None
        self._reasoning: list[Reasoning] = []  # what the next call's id must carry
        self._opening: list[Reasoning] = []  # the same, from before the text that the call will follow
        self._complete_calls = 0
        self._cut = False  # a call was left incomplete

    def feed(self, event: Event, /) -> Iterable[Event]:
        if type(event) is PartDelta:
            flows = event.index == self._flowing and event.state is None
            return (event,) if flows else self._delta(event)
        if type(event) is PartStart:
            return self._start(event.part)
        if type(event) is PartEnd:
            return self._end(event.complete)
        if type(event) is ResponseStart:
            return (self._begun(event),)
        if type(event) is ResponseEnd:
            return (self._settled(event),)
        return (event,)

    def close(self) -> Iterable[Event]:
        return ()

    def _begun(self, event: ResponseStart) -> ResponseStart:
        if not event.id:
            event = replace(event, id=self._reply_id)
        known = event.usage or not self._ledger.prepared
        return event if known else replace(event, usage=Usage(self._ledger.estimate()))

    def _start(self, part: AnyPart) -> Iterable[Event]:
        self._index += 1
        self._part, self._held, self._state, self._announced = part, None, part.state, False
        self._flowing = -1
        self._text.clear()
        if not isinstance(part, ToolCall):
            return (PartStart(self._index, part),)
        call, self._declared = self._ledger.restored_name(part)
        if self._must_hold(call):
            self._part, self._held = call, []
            return ()
        call = unflatten(call, self._declared)
        self._part, self._announced = (call if self._native(call) else functional(call)), True
        return (PartStart(self._index, replace(self._part, id=self._client_id(call.id, None, call.where))),)

    def _delta(self, delta: PartDelta) -> Iterable[Event]:
        if delta.state:
            self._state = self._stamped(delta.state)
            if self._held is not None or (type(self._part) is Text and not self._ledger.client.text_state):
                return ()
            delta = replace(delta, state=self._state)
        if self._held is not None:
            self._held.append(delta.text)
            return ()
        if delta.text.startswith('"') and not self._text and type(self._part) is ToolCall:
            self._held = [delta.text]  # an object encoded twice: mended when it is complete
            return ()
        if delta.text:
            self._text.append(delta.text)
            if type(self._part) is not Reasoning and delta.index == self._index:
                self._flowing = delta.index
        return (delta,) if delta.index == self._index else (replace(delta, index=self._index),)

    def _end(self, complete: bool) -> Iterable[Event]:
        part, index = self._part, self._index
        self._cut |= not complete
        match part:
            case ToolCall() if self._held is not None:
                return self._whole_call(part, "".join(self._held), complete)
            case ToolCall():
                self._complete_calls += complete
            case Text():
                self._opening += self._reasoning
                self._reasoning = []
                if self._state and not self._ledger.client.text_state:
                    return (PartEnd(index), *self._carried(self._state))
            case Reasoning() if self._state:
                self._remember(replace(part, text="".join(self._text), state=self._state, extras=None))
            case _:
                pass
        return (PartEnd(index, complete),)

    def _carried(self, state: State) -> Iterable[Event]:
        """The state of the text that just ended, in a part of its own."""
        hidden = carrier(state, alone=not self._text)
        self._remember(hidden)
        self._index += 1
        return (
            PartStart(self._index, replace(hidden, state=None)),
            PartDelta(self._index, state=hidden.state),
            PartEnd(self._index),
        )

    def _remember(self, thought: Reasoning) -> None:
        """Where clients do not echo the slot of a thought, the id of the next call carries it too."""
        if not self._ledger.client.reasoning_state:
            self._reasoning.append(thought)

    def _must_hold(self, call: ToolCall) -> bool:
        """Gemini tells the signature of a call after its name; schemas with numbers may need a repair."""
        declared = self._declared
        if not call.name:  # it is never offered
            return True
        if self._ledger.upstream.call_state and not self._ledger.client.call_state:
            return True
        if call.kind != "function" or not isinstance(declared, Tool):
            return call.kind != "function" or isinstance(declared, HostedTool)
        return declared.kind != "function" or arguments.watch(
            declared.parameters, strict=bool(declared.strict)
        )

    def _whole_call(self, call: ToolCall, text: str, complete: bool) -> Iterable[Event]:
        if not call.name:
            self._ledger.losses.dropped(call.where or "tool call", "a call without a name cannot run")
            self._index -= 1
            return ()
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
        events: list[Event] = []
        if not self._announced:
            id = self._client_id(call.id, None if kept else self._state, call.where)
            events.append(PartStart(self._index, replace(call, id=id, arguments="", state=None)))
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

    def _client_id(self, id: str, state: State | None, where: str) -> str:
        """The id the client will echo; it carries what the client has no other slot for."""
        ledger = self._ledger
        if not id:
            ledger.calls += 1
            id = call_ids.invent(ledger.calls)
            ledger.losses.invented("tool call id", f"{ledger.own} sent none")
        thoughts = (*self._opening, *self._reasoning)
        full = call_ids.CallId(id, state, tuple(self._reasoning), tuple(self._opening))
        self._reasoning, self._opening = [], []
        wrapped = call_ids.wrap(full, ledger.client)
        if thoughts and len(wrapped) > call_ids.LONGEST:
            for thought in thoughts:
                ledger.losses.dropped(thought.where or "reasoning", _TOO_LONG)
            wrapped = call_ids.wrap(call_ids.CallId(id, state), ledger.client)
        if len(wrapped) > call_ids.LONGEST:
            ledger.losses.dropped(where or "tool call", _TOO_LONG)
            wrapped = call_ids.wrap(call_ids.CallId(id), ledger.client)
        return wrapped

    def _stamped(self, state: State) -> State:
        ledger = self._ledger
        return state if state.origin != ledger.own else State(ledger.origin, state.data, state.id)

    def _settled(self, event: ResponseEnd) -> Event:
        """The stop reason from the content: a complete call means tool calls, an incomplete one a cut."""
        self._ledger.usage, self._ledger.called = event.usage, self._complete_calls
        reason = event.stop.reason
        if self._cut and reason in _SAYS_WHOLE:
            return replace(event, stop=replace(event.stop, reason="length"))
        if self._complete_calls and reason in _MAY_BE_CALLS:
            return replace(event, stop=replace(event.stop, reason="tool_calls"))
        if self._complete_calls == 0 and reason == "tool_calls":
            return replace(event, stop=replace(event.stop, reason="end"))
        if self._complete_calls == 0 and reason == "malformed_call":
            raw = event.stop.raw
            return ResponseFailed(
                Failure("server", f"the model could not form a tool call ({raw})", 502, raw)
            )
        if reason == "end" and self._ledger.demands_call():
            self._ledger.losses.changed(
                "tool_choice", "the model answered without the call that was required"
            )
        return event


_TOO_LONG = "its state is too long to travel in a call id"
_SAYS_WHOLE = frozenset({"end", "stop_sequence", "tool_calls", "other"})
_MAY_BE_CALLS = frozenset({"end", "stop_sequence", "other", "malformed_call"})
