"""What a reply becomes in its client's own terms: one rule for each thing, came it whole or in pieces."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.model import (
    AnyPart,
    Failure,
    HostedTool,
    Reasoning,
    State,
    Stop,
    Text,
    Tool,
    ToolCall,
    Usage,
)
from dragoman.transforms import arguments, call_ids
from dragoman.transforms.flatten import functional, unflatten
from dragoman.transforms.ledger import Ledger
from dragoman.transforms.states import carrier

Declaration = Tool | HostedTool | None


class Restoration:
    """One reply, part after part: what was said so far decides what an id must carry and why it stopped."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._reasoning: list[Reasoning] = []  # what the next call's id must carry
        self._opening: list[Reasoning] = []  # the same, from before the text that the call will follow
        self.complete_calls = 0
        self.cut = False  # a part was left incomplete

    def estimate(self) -> Usage | None:
        """What is known of the tokens where the upstream does not say."""
        return Usage(self._ledger.estimate()) if self._ledger.prepared else None

    def stamped(self, state: State) -> State:
        ledger = self._ledger
        return state if state.origin != ledger.own else State(ledger.origin, state.data, state.id)

    def mark(self, part: AnyPart) -> State | None:
        """What signs a part for a client whose protocol signs such parts, where the upstream did not.

        Without it Genkit throws, and an upstream of the client's protocol would refuse the part later on.
        """
        ledger = self._ledger
        if not ledger.is_foreign:
            return None
        signed = ledger.client.signs
        if (type(part) is Reasoning and not part.hidden and signed == "reasoning") or (
            type(part) is ToolCall and part.kind == "function" and signed == "call"
        ):
            return State(ledger.origin, "")
        return None

    # Calls

    def must_hold(self, call: ToolCall, declared: Declaration) -> bool:
        """Gemini tells the signature of a call after its name; schemas with numbers may need a repair."""
        if not call.name:  # it is never offered
            return True
        if self._ledger.upstream.call_state and not self._ledger.client.call_state:
            return True
        if call.kind != "function" or not isinstance(declared, Tool):
            return call.kind != "function" or isinstance(declared, HostedTool)
        return declared.kind != "function" or arguments.watch(
            declared.parameters, strict=bool(declared.strict)
        )

    def restored(self, call: ToolCall, declared: Declaration, mends: bool) -> ToolCall:
        """`call` as its client declared the tool; `mends`: the arguments are whole and may need a repair."""
        call = unflatten(call, declared)
        if mends and call.kind == "function" and not isinstance(declared, HostedTool):
            parameters = declared.parameters if declared else None
            repaired, reason = arguments.repair(call.arguments, parameters)
            if reason:
                self._ledger.losses.changed(f"{call.where or call.name}.arguments", reason, "call.repaired")
                call = replace(call, arguments=repaired)
        return call if self._native(call) else functional(call)

    def offered(self, call: ToolCall) -> bool:
        """Whether the client is told of a call."""
        if not call.name:
            self._ledger.losses.dropped(
                call.where or "tool call", "a call without a name cannot run", "call.name"
            )
        return bool(call.name)

    def _native(self, call: ToolCall) -> bool:
        """Whether the client's protocol has calls of this kind."""
        client = self._ledger.client
        if call.namespace and not client.namespaces:
            return False
        return call.kind == "function" or (
            client.custom_tools if call.kind == "custom" else call.kind in client.hosted_tools
        )

    def client_id(self, id: str, state: State | None, where: str) -> str:
        """The id the client will echo; it carries what the client has no other slot for."""
        ledger = self._ledger
        if not id:
            ledger.calls += 1
            id = call_ids.invent(ledger.calls)
            ledger.losses.invented("tool call id", f"{ledger.own} sent none", "call.id")
        full = call_ids.CallId(id, state, tuple(self._reasoning), tuple(self._opening))
        self._reasoning, self._opening = [], []
        return call_ids.unique(self._wrapped(full, where), ledger.client_ids)

    def _wrapped(self, full: call_ids.CallId, where: str) -> str:
        """What does not fit into an id is withheld and reported."""
        ledger, id, state = self._ledger, full.id, full.state
        wrapped = call_ids.wrap(full, ledger.client)
        if len(wrapped) > call_ids.LONGEST and (full.opening or full.reasoning):
            for thought in (*full.opening, *full.reasoning):
                ledger.losses.dropped(thought.where or "reasoning", _TOO_LONG, "reasoning.signature")
            wrapped = call_ids.wrap(call_ids.CallId(id, state), ledger.client)
        if len(wrapped) > call_ids.LONGEST:
            ledger.losses.dropped(where or "tool call", _TOO_LONG, "reasoning.signature")
            wrapped = call_ids.wrap(call_ids.CallId(id), ledger.client)
        return wrapped

    # What else was said

    def said(self, part: AnyPart, text: str, state: State | None) -> Reasoning | None:
        """`part` has ended, with its text and state. Given is the part that must follow it: the state of a
        text has no other slot.

        Where clients do not echo the slot of a thought, the id of the next call carries it too.
        """
        thought = carried = None
        if type(part) is Text:
            self._opening += self._reasoning
            self._reasoning = []
            if state and not self._ledger.client.text_state:
                thought = carried = carrier(state, alone=not text)
        elif type(part) is Reasoning and state:
            thought = replace(part, text=text, state=state, extras=None)
        if thought and not self._ledger.client.reasoning_state:
            self._reasoning.append(thought)
        return carried

    # The end

    def settled(self, stop: Stop, usage: Usage | None) -> Stop | Failure:
        """The stop reason from the content: a complete call means tool calls, an incomplete one a cut."""
        self._ledger.usage, self._ledger.called = usage, self.complete_calls
        reason = stop.reason
        if self.cut and reason in _SAYS_WHOLE:
            return replace(stop, reason="length")
        if self.complete_calls and reason in _MAY_BE_CALLS:
            return replace(stop, reason="tool_calls")
        if self.complete_calls == 0 and reason == "tool_calls":
            return replace(stop, reason="end")
        if self.complete_calls == 0 and reason == "malformed_call":
            return Failure("server", f"the model could not form a tool call ({stop.raw})", 502, stop.raw)
        if reason == "end" and self._ledger.demands_call():
            why = "the model answered without the call that was required"
            self._ledger.losses.changed("tool_choice", why, "tool.choice")
        return stop


_TOO_LONG = "its state is too long to travel in a call id"
_SAYS_WHOLE = frozenset({"end", "stop_sequence", "tool_calls", "other"})
_MAY_BE_CALLS = frozenset({"end", "stop_sequence", "other", "malformed_call"})
