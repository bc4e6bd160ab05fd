"""The stage that puts a response into the client's terms: names, kinds, ids, state, stop, model.

States of a part:  announced → streaming → ended
                   held back → ended

A call is held back until it is whole where its id must carry state, where it is not a plain function, where
its declared types could need a repair, or where its arguments do not begin as an object; all others stream.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

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
    spelled,
)
from dragoman.core.model import AnyPart, Failure, Reasoning, Response, State, Text, ToolCall
from dragoman.transforms.arguments import is_begun_object, is_broken
from dragoman.transforms.ledger import Ledger
from dragoman.transforms.restoration import Declaration, Restoration


class Restorer(EventStage):
    """Upstream's events, part after part → the client's events.

    `reply_id` is for a reply without an id, `reply_created` for one without a time; `reply_model`, where
    given, is the model that it names.
    """

    def __init__(
        self, ledger: Ledger, reply_id: str = "", reply_model: str = "", reply_created: int = 0
    ) -> None:
        self._ledger, self._reply_id, self._reply_model = ledger, reply_id, reply_model
        self._reply_created = reply_created
        self._reply = Restoration(ledger)
        self._index = -1
        self._part: AnyPart | None = None
        self._held: list[str] | None = None
        self._flowing = -1  # the part whose deltas pass as they are
        self._is_call = False  # it is a call: its text is checked at its end
        self._announced = False  # the start of the call is already with the client
        self._text: list[str] = []
        self._state: State | None = None
        self._declared: Declaration = None

    def feed(self, event: Event, /) -> Iterable[Event]:
        if type(event) is PartDelta:
            if event.index == self._flowing and event.state is None:
                if self._is_call:
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

    def whole(self, response: Response) -> Response:
        parts: list[AnyPart] = []
        for part in response.parts:
            parts += self._whole_call(part) if type(part) is ToolCall else self._whole_part(part)
        stop = self._reply.settled(response.stop, response.usage)
        if type(stop) is Failure:
            raise UpstreamError(stop)
        return replace(
            response,
            id=response.id or self._reply_id,
            model=self._reply_model or response.model,
            created=response.created or self._reply_created,
            parts=tuple(parts),
            stop=stop,
            usage=response.usage or self._reply.estimate(),
        )

    # A part that came whole

    def _whole_part(self, part: AnyPart) -> Iterable[AnyPart]:
        if part.state is None:
            self._reply.said(part, "", None)
            mark = self._reply.mark(part)
            return (part,) if mark is None else (replace(part, state=mark),)
        state = self._reply.stamped(part.state)
        carried = self._reply.said(part, spelled(part), state)
        return (replace(part, state=None), carried) if carried else (replace(part, state=state),)

    def _whole_call(self, call: ToolCall) -> Iterable[ToolCall]:
        reply = self._reply
        complete = call.complete and not is_broken(call)
        call, declared = self._ledger.restored_name(call)
        held = reply.must_hold(call, declared)
        reply.cut |= not complete
        if not reply.offered(call):
            return ()
        if complete is not call.complete:
            call = replace(call, complete=complete)
        call = reply.restored(call, declared, complete and (held or not is_begun_object(call.arguments)))
        reply.complete_calls += complete
        state = call.state and reply.stamped(call.state)
        kept = self._ledger.client.call_state or not held
        id = reply.client_id(call.id, None if kept else state, call.where)
        return (replace(call, id=id, state=state or reply.mark(call) if kept else None),)

    # A part in pieces

    def _begun(self, event: ResponseStart) -> ResponseStart:
        return replace(
            event,
            id=event.id or self._reply_id,
            model=self._reply_model or event.model,
            created=event.created or self._reply_created,
            usage=event.usage or self._reply.estimate(),
        )

    def _start(self, part: AnyPart) -> Iterable[Event]:
        self._index += 1
        self._part, self._held, self._state, self._announced = part, None, part.state, False
        self._flowing, self._is_call = -1, False
        self._text.clear()
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

    def _delta(self, delta: PartDelta) -> Iterable[Event]:
        if delta.state:
            self._state = self._reply.stamped(delta.state)
            if self._held is not None or (type(self._part) is Text and not self._ledger.client.text_state):
                return ()
            delta = replace(delta, state=self._state)
        if self._held is not None:
            self._held.append(delta.text)
            return ()
        if self._is_call and not self._text and not is_begun_object(delta.text):
            if delta.text:
                self._held = [delta.text]  # an object encoded twice, or no object: repaired when it is whole
            return ()
        if delta.text:
            self._text.append(delta.text)
            if type(self._part) is not Reasoning and delta.index == self._index:
                self._flowing = delta.index
        return (delta,) if delta.index == self._index else (replace(delta, index=self._index),)

    def _end(self, complete: bool) -> Iterable[Event]:
        part, index = self._part, self._index
        if type(part) is ToolCall:
            if self._held is not None:
                return self._held_call(part, "".join(self._held), complete)
            complete = complete and not is_broken(part, "".join(self._text))
            self._reply.cut |= not complete
            self._reply.complete_calls += complete
            if not self._state and (mark := self._reply.mark(part)):
                return (PartDelta(index, state=mark), PartEnd(index, complete))
        elif part and (carried := self._reply.said(part, "".join(self._text), self._state)):
            self._index += 1
            return (
                PartEnd(index),
                PartStart(self._index, replace(carried, state=None)),
                PartDelta(self._index, state=carried.state),
                PartEnd(self._index),
            )
        elif part and not self._state and (mark := self._reply.mark(part)):
            return (PartDelta(index, state=mark), PartEnd(index, complete))
        return (PartEnd(index, complete),)

    def _held_call(self, call: ToolCall, text: str, complete: bool) -> Iterable[Event]:
        complete = complete and not is_broken(call, text)
        self._reply.cut |= not complete
        if not self._reply.offered(call):
            self._index -= 1
            return ()
        call = self._reply.restored(replace(call, arguments=text), self._declared, mends=complete)
        self._reply.complete_calls += complete
        kept = self._ledger.client.call_state
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
        stop = self._reply.settled(event.stop, event.usage)
        if type(stop) is Failure:
            return ResponseFailed(stop)
        return event if stop is event.stop else replace(event, stop=stop)
