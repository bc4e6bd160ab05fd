"""The stage that puts a response into the client's terms: names, kinds, ids, state, stop, model.

`Restoration` has one rule for each thing, whether it came whole or in pieces. `Restorer` applies them. States
of a part:

    announced → streaming → ended
    held back → ended

A call is held back until it is whole where its id must carry state, where it is not a plain function, where
its declared types could need a repair, or where its arguments do not begin as an object; all others stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import UpstreamError
from dragoman.core.events import (
    Event,
    EventStage,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
    emptied,
    spelled,
)
from dragoman.core.model import (
    AnyPart,
    ExecutedCall,
    Failure,
    Foreign,
    HostedTool,
    Media,
    Reasoning,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
    Usage,
)
from dragoman.core.seal import MAGIC, stamp
from dragoman.transforms import call_ids
from dragoman.transforms.arguments import (
    EMPTY_ARRAY,
    is_begun_object,
    is_broken,
    is_empty_array,
    may_need_repair,
    repair,
    report_raw,
)
from dragoman.transforms.ledger import Ledger
from dragoman.transforms.states import carrier
from dragoman.transforms.tools import fit_kind, unflatten

Declaration = ToolDeclaration | HostedTool | None
_SIGNED = {"reasoning": Reasoning, "call": ToolCall}  # which parts a client's protocol signs


class Restoration:
    """One reply, part after part: the parts so far decide what an id must carry and the stop reason."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.complete_calls = 0
        self.cut = False  # a part was left incomplete
        self.signs = ledger.client.signs if ledger.is_foreign else ""
        self.signed = _SIGNED.get(self.signs)
        self._reasoning: list[Reasoning] = []  # what the next call's id must carry
        self._opening: list[Reasoning] = []  # the same, from before the text that the call will follow
        self._carried = ""  # the id of the last call, where thoughts travel in it

    def counted(self, usage: Usage | None) -> Usage | None:
        """Reasoning that exceeds the output: some servers count it beside, others with another tokenizer."""
        if usage is None or usage.reasoning <= usage.output:
            return usage
        beside = usage.reasoning if self._ledger.upstream.reasoning_beside_output else 0
        output = usage.output + beside
        return replace(usage, output=output, reasoning=min(usage.reasoning, output))

    def stamped(self, state: State) -> State:
        """The state of a reply is its upstream's, even where it looks like ours."""
        return stamp(state, self._ledger.own, self._ledger.origin)

    def mark(self, part: AnyPart, empty: bool = False) -> State | None:
        """What signs a part for a client whose protocol signs such parts, where the upstream did not.

        Without it Genkit throws, and an upstream of the client's protocol would refuse the part later on.
        `empty`: it says nothing; then reasoning is nothing to sign, and is left out.
        """
        if type(part) is not self.signed:
            return None
        if type(part) is Reasoning and not part.hidden and not empty:
            return State(self._ledger.origin, "")
        if type(part) is ToolCall and part.kind == "function":
            return State(self._ledger.origin, "", self._carried)
        return None

    # Calls

    def must_hold(self, call: ToolCall, declared: Declaration) -> bool:
        """Gemini sends the signature of a call after its name, Interactions with it; schemas with numbers may
        need a repair."""
        if not call.name:  # it is dropped
            return True
        if (call.state or self._ledger.upstream.call_state) and not self._ledger.client.call_state:
            return True
        if call.kind != "function" or type(declared) is not ToolDeclaration:
            return call.kind != "function" or declared is not None
        return declared.kind != "function" or may_need_repair(
            self._ledger.checker(declared), strict=bool(declared.strict)
        )

    def restored(self, call: ToolCall, declared: Declaration, mends: bool) -> ToolCall:
        """`call` as its client declared the tool; `mends`: the arguments are whole and may need a repair."""
        call = unflatten(call, declared)
        if mends and call.kind == "function" and not isinstance(declared, HostedTool):
            checker = self._ledger.checker(declared) if declared else None
            repaired, reason = repair(call.arguments, checker)
            if is_empty_array(call.arguments):
                self._ledger.losses.changed(f"{call.where or call.name}.arguments", EMPTY_ARRAY, "call.empty")
                call = replace(call, arguments="{}")
            elif reason:
                self._ledger.losses.changed(f"{call.where or call.name}.arguments", reason, "call.repaired")
                call = replace(call, arguments=repaired)
        return fit_kind(call, self._ledger.client) if call.kind != "function" or call.namespace else call

    def drop_nameless(self, call: ToolCall) -> None:
        """A call without a name is not offered to the client."""
        self._ledger.losses.dropped(
            call.where or "tool call", "A call without a name cannot run.", "call.name"
        )

    def client_id(self, id: str, state: State | None, where: str) -> str:
        """The id the client will echo; it carries what the client has no other slot for."""
        ledger = self._ledger
        if not id:
            ledger.calls += 1
            id = call_ids.invent(ledger.calls)
            ledger.losses.invented("tool call id", f"{ledger.own} sent no id, so one was made.", "call.id")
        made = self._carried = ""
        if state is None and not self._reasoning and not self._opening:
            made = call_ids.wrap_plain(id, ledger.client)
        if not made:
            if state is None and MAGIC in id:  # another gateway made it: it goes back to that one as it is
                state = State(ledger.origin, "")
            full = call_ids.CallId(id, state, tuple(self._reasoning), tuple(self._opening))
            self._reasoning, self._opening = [], []
            made = self._wrapped(full, where)
        if made in ledger.client_ids:
            made = call_ids.unique(made, ledger.client_ids)
        ledger.client_ids.add(made)
        if len(made) > call_ids.SHORT:
            ledger.long_ids.append(made)
        return made

    def _wrapped(self, full: call_ids.CallId, where: str) -> str:
        """What does not fit into an id is withheld and reported."""
        ledger, id, state = self._ledger, full.id, full.state
        wrapped = call_ids.wrap(full, ledger.client)
        if full.reasoning or full.opening:
            self._carried = wrapped  # OpenCode echoes the signature of a call, and neither id nor thoughts
        if len(wrapped) > call_ids.LONGEST and (full.opening or full.reasoning):
            for thought in () if self.signs == "call" else (*full.opening, *full.reasoning):
                ledger.losses.dropped(thought.where or "reasoning", _TOO_LONG, "reasoning.signature")
            wrapped = call_ids.wrap(call_ids.CallId(id, state), ledger.client)
        if len(wrapped) > call_ids.LONGEST:
            ledger.losses.dropped(where or "tool call", _TOO_LONG, "reasoning.signature")
            wrapped = call_ids.wrap(call_ids.CallId(id), ledger.client)
        return wrapped

    # Other parts

    def ended(self, part: AnyPart, text: str, state: State | None) -> Reasoning | None:
        """`part` has ended, with its text and state. Given is the part that must follow it: the state of a
        text has no other slot.

        Where clients do not echo the slot of a thought, the id of the next call carries it too.
        """
        thought = carried = None
        if type(part) is Text:
            if self._reasoning:
                self._opening += self._reasoning
                self._reasoning = []
            if state and not self._ledger.client.text_state:
                thought = carried = carrier(state, alone=not text)
        elif type(part) is Reasoning and state:
            thought = replace(part, text=text, state=state, extras=None)
        elif type(part) is Media and state and self._ledger.is_foreign:
            self._ledger.losses.dropped(part.where or part.kind, _UNSIGNED_MEDIA, "reasoning.signature")
        if thought and not self._ledger.client.reasoning_state:
            self._reasoning.append(thought)
        return carried

    def told(self, part: Foreign, call: ExecutedCall | None) -> list[AnyPart]:
        """A part of the upstream alone, in the words of the client: its text (a transcript of speech), or
        a call that the upstream ran, which no client must run again."""
        ledger = self._ledger
        if call is None:
            return [Text(part.text, where=part.where)]
        ledger.calls += 1
        tools = ledger.prepared.tools if ledger.prepared else ()
        labels = [str(tool.settings.get("label") or "") for tool in tools if is_mcp(tool)]
        server = next((each for each in labels if each and call.name.startswith(f"{each}_")), "")
        name = call.name.removeprefix(f"{server}_") if server else call.name
        id = call.id or call_ids.invent(ledger.calls)
        call = replace(call, id=id, name=name, server=server or next(filter(None, labels), "mcp"))
        encode = ledger.client.executed
        if encode is None:
            losses, why = (
                ledger.losses,
                f"{ledger.own} ran this call. The client has no word for that, so it was sent as text.",
            )
            losses.changed(part.where, why, "part.unknown")
            return [Text(part.text, where=part.where)]
        return [Foreign(ledger.client.protocol, body, where=part.where) for body in encode(call)]

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
            why = "A call was required, and the model answered without one."
            self._ledger.losses.changed("tool_choice", why, "tool.choice")
        return stop


def is_mcp(tool: object) -> TypeGuard[HostedTool]:
    return isinstance(tool, HostedTool) and tool.kind == "mcp"


def _begun_whole(index: int, part: AnyPart) -> Iterable[Event]:
    """The start of a part, and what it says."""
    yield PartStart(index, emptied(part))
    if text := spelled(part):
        yield PartDelta(index, text)


_UNSIGNED_MEDIA = "No other protocol has a place for the signature of media."
_TOO_LONG = "Its state is too long to travel in a call id."
_SAYS_WHOLE = frozenset({"end", "stop_sequence", "tool_calls", "other"})
_MAY_BE_CALLS = frozenset({"end", "stop_sequence", "other", "malformed_call"})


class Restorer(EventStage):
    """Upstream's events, part after part → the client's events.

    `reply_id` is for a reply without an id, `reply_created` for one without a time; `reply_model`, where
    given, is the model that it names.
    """

    _index = -1
    _part: AnyPart | None = None
    _held: list[str] | None = None
    _flowing = -1  # the part whose deltas pass as they are
    _is_call = False
    _collects = False  # the text of the part is needed at its end
    _announced = False  # the start of the call is already with the client
    _state: State | None = None
    _owes_state = False  # it came before the text of the call, and is for its end
    _declared: Declaration = None

    def __init__(
        self, ledger: Ledger, reply_id: str = "", reply_model: str = "", reply_created: int = 0
    ) -> None:
        self._ledger, self._reply_id, self._reply_model = ledger, reply_id, reply_model
        self._reply_created = reply_created
        self._reply = Restoration(ledger)
        self._text: list[str] = []

    def feed(self, event: Event, /) -> Iterable[Event]:
        if type(event) is PartDelta:
            if event.index == self._flowing and event.state is None:
                if self._collects:
                    self._text.append(event.text)
                return (event,)
            return self._delta(event)
        if type(event) is PartStart:
            return self._start(event.part)
        if type(event) is PartEnd:
            return self._end(event.complete)
        if type(event) is ResponseStart:
            return (self._begun(event),)
        if type(event) is ResponseEnd:
            return (self._settled(event),)
        return (event,)

    def flows(self) -> bool:
        return self._flowing >= 0 or bool(self._held)

    def whole(self, response: Response) -> Response:
        reply = self._reply
        parts: list[AnyPart] = []
        for part in response.parts:
            if type(part) is ToolCall:
                if (call := self._whole_call(part)) is not None:
                    parts.append(call)
            elif type(part) is Text and part.state is None:
                reply.ended(part, part.text, None)
                parts.append(part)
            else:
                parts += self._whole_part(part)
        usage = reply.counted(response.usage)
        stop = reply.settled(response.stop, usage)
        if type(stop) is Failure:
            raise UpstreamError(stop)
        return replace(
            response,
            id=response.id or self._reply_id,
            model=self._reply_model or response.model,
            created=response.created or self._reply_created,
            parts=tuple(parts),
            stop=stop,
            usage=usage or self._ledger.estimate(),
        )

    # A part that came whole

    def _whole_part(self, part: AnyPart) -> Iterable[AnyPart]:
        if type(part) is Foreign and part.text and self._ledger.is_foreign:
            return self._reply.told(part, part.executed)
        if part.state is None:
            self._reply.ended(part, "", None)
            mark = self._reply.mark(part, empty=not spelled(part))
            return (part,) if mark is None else (replace(part, state=mark),)
        state = self._reply.stamped(part.state)
        carried = self._reply.ended(part, spelled(part), state)
        return (replace(part, state=None), carried) if carried else (replace(part, state=state),)

    def _whole_call(self, call: ToolCall) -> ToolCall | None:
        reply, ledger = self._reply, self._ledger
        if reply.signs != "call" and ledger.is_usual(call):
            reply.complete_calls += 1
            id = reply.client_id(call.id, None, call.where)
            return call if id == call.id else replace(call, id=id)
        complete = call.complete and not is_broken(call)
        call, declared = ledger.restored_name(call)
        held = reply.must_hold(call, declared)
        reply.cut |= not complete
        if not call.name:
            reply.drop_nameless(call)
            return None
        if complete is not call.complete:
            call = replace(call, complete=complete)
        call = reply.restored(call, declared, complete and (held or not is_begun_object(call.arguments)))
        if complete:
            report_raw(call, call.arguments, ledger.losses)
        reply.complete_calls += complete
        state = call.state and reply.stamped(call.state)
        kept = ledger.client.call_state or not held
        id = reply.client_id(call.id, None if kept else state, call.where)
        state = state or reply.mark(call) if kept else None
        return call if id == call.id and state is call.state else replace(call, id=id, state=state)

    # A part in pieces

    def _begun(self, event: ResponseStart) -> ResponseStart:
        return replace(
            event,
            id=event.id or self._reply_id,
            model=self._reply_model or event.model,
            created=event.created or self._reply_created,
            usage=event.usage or self._ledger.estimate(),
        )

    def _start(self, part: AnyPart) -> Iterable[Event]:
        self._index += 1
        self._part, self._held, self._state, self._announced = part, None, part.state, False
        self._owes_state = False
        self._flowing, self._is_call, self._collects = -1, False, type(part) is not Text
        self._text.clear()
        if type(part) is Foreign and part.text and self._ledger.is_foreign:
            return self._start_told(part)
        if not isinstance(part, ToolCall):
            return (PartStart(self._index, part),)
        call, self._declared = self._ledger.restored_name(part)
        if self._reply.must_hold(call, self._declared):
            self._part, self._held = call, []
            return ()
        self._part, self._announced = self._reply.restored(call, self._declared, mends=False), True
        self._is_call = True
        id = self._reply.client_id(call.id, None, call.where)
        return (PartStart(self._index, replace(self._part, id=id)),)

    def _start_told(self, part: Foreign) -> Iterable[Event]:
        *whole, self._part = self._reply.told(part, part.executed)
        events: list[Event] = []
        for each in whole:
            events += (PartStart(self._index, each), PartEnd(self._index))
            self._index += 1
        return (*events, *_begun_whole(self._index, self._part))

    def _delta(self, delta: PartDelta) -> Iterable[Event]:
        if delta.state:
            self._state = self._reply.stamped(delta.state)
            if self._held is not None or (type(self._part) is Text and not self._ledger.client.text_state):
                return ()
            delta = replace(delta, state=self._state)
        if self._held is not None:
            self._held.append(delta.text)
            self.held += 1
            return ()
        if self._is_call and not self._text and not is_begun_object(delta.text):
            if delta.text:
                self.held += 1
                self._held = [delta.text]  # an object encoded twice, or no object: repaired when it is whole
            self._owes_state |= bool(delta.state)
            return ()
        if delta.text:
            self._text.append(delta.text)
            if delta.index == self._index:
                self._flowing = delta.index
        return (delta,) if delta.index == self._index else (replace(delta, index=self._index),)

    def _end(self, complete: bool) -> Iterable[Event]:
        part, index = self._part, self._index
        if type(part) is ToolCall:
            if self._held is not None:
                return self._held_call(part, "".join(self._held), complete)
            return self._begun_call(part, "".join(self._text), complete)
        if part and (carried := self._reply.ended(part, "".join(self._text), self._state)):
            self._index += 1
            return (
                PartEnd(index),
                PartStart(self._index, replace(carried, state=None)),
                PartDelta(self._index, state=carried.state),
                PartEnd(self._index),
            )
        if part and not self._state and type(part) is self._reply.signed:
            mark = self._reply.mark(part, empty=not self._text)
            if mark:
                return (PartDelta(index, state=mark), PartEnd(index, complete))
        return (PartEnd(index, complete),)

    def _begun_call(self, call: ToolCall, text: str, complete: bool) -> Iterable[Event]:
        if complete and not jsontext.is_complete(text):
            complete = not is_broken(call, text)
            if complete:
                report_raw(call, text, self._ledger.losses)
        self._reply.cut |= not complete
        self._reply.complete_calls += complete
        owed = self._state if self._owes_state else None
        if self._reply.signed is ToolCall and not self._state:
            owed = self._reply.mark(call)
        if owed:
            return (PartDelta(self._index, state=owed), PartEnd(self._index, complete))
        return (PartEnd(self._index, complete),)

    def _held_call(self, call: ToolCall, text: str, complete: bool) -> Iterable[Event]:
        complete = complete and not is_broken(call, text)
        self._reply.cut |= not complete
        if not call.name:
            self._reply.drop_nameless(call)
            self._index -= 1
            return ()
        call = self._reply.restored(replace(call, arguments=text), self._declared, mends=complete)
        if complete:
            report_raw(call, call.arguments, self._ledger.losses)
        self._reply.complete_calls += complete
        kept = self._ledger.client.call_state or self._announced
        events: list[Event] = []
        if not self._announced:
            id = self._reply.client_id(call.id, None if kept else self._state, call.where)
            events.append(PartStart(self._index, replace(call, id=id, arguments="", state=None)))
        if call.arguments:
            events.append(PartDelta(self._index, call.arguments))
        state = self._state or self._reply.mark(call)
        if kept and state:
            events.append(PartDelta(self._index, state=state))
        return (*events, PartEnd(self._index, complete))

    def _settled(self, event: ResponseEnd) -> Event:
        usage = self._reply.counted(event.usage) if event.usage else None
        stop = self._reply.settled(event.stop, usage)
        if type(stop) is Failure:
            return ResponseFailed(stop)
        same = stop is event.stop and usage is event.usage
        return event if same else replace(event, stop=stop, usage=usage)
