"""One exchange with an upstream that stores the conversation: only the new messages are sent.

Clients send the whole history each time, so a stored conversation is found by a digest of what they repeat:
everything up to the upstream's last reply. An edited history, other tools or another system text have another
digest and so begin a new conversation.

The digest is the same however a client repeats a conversation: a reply counts without its white space, its
reasoning and its ids, with arguments by their value, because clients trim, drop and encode these anew. What
the client itself sent counts to the byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from dragoman.core import jsontext
from dragoman.core.codec import SessionCodec
from dragoman.core.events import Event, EventStage, KeepAlive, ResponseEnd, fold
from dragoman.core.fields import own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import AnyPart, Message, Refusal, Request, Response, Text, ToolCall, ToolResult, Wire


class SessionTurn(EventStage):
    """`request` is the client's, `rendered` the same as the upstream takes it; both hold the whole history.

    `key` is the digest under which the conversation was stored, empty where a new one must begin. This is
    also the last stage of the reply, because the client will repeat what that stage passes on.
    """

    def __init__(self, session: SessionCodec, request: Request, rendered: Request) -> None:
        self._session, self._request, self._rendered = session, request, rendered
        self._handle: Wire = {}
        self._events: list[Event] = []
        self._reply: Response | None = None
        seen = _seen(request.messages)
        self.key = self._digest(request.messages[:seen]) if seen and self._continues(seen) else ""

    def begin(self) -> Request:
        """The whole history, as a new conversation."""
        return self._with_handle(self._rendered, self._session.begin())

    def resume(self, handle: Wire) -> Request:
        """The messages after the upstream's last reply, which `handle` identifies."""
        new = self._rendered.messages[_seen(self._rendered.messages) :]
        return self._with_handle(replace(self._rendered, system=(), messages=new), handle)

    def feed(self, event: Event, /) -> tuple[Event]:
        if type(event) is not KeepAlive:
            self._events.append(event)
        return (event,)

    def whole(self, response: Response) -> Response:
        self._reply = response
        return response

    def next(self) -> tuple[str, Wire] | None:
        """The key of the conversation with its reply, and the handle that continues it; None before the reply
        has ended well, or where the upstream did not name it."""
        if self._events and type(self._events[-1]) is ResponseEnd:
            self._reply = fold(self._events)
        reply = self._reply
        if reply is None:
            return None
        handle = self._session.follow(self._handle, own(reply.extras, self._session.slot))
        turn = Message("assistant", reply.parts)
        return (self._digest((*self._request.messages, turn)), handle) if handle else None

    def _with_handle(self, request: Request, handle: Wire) -> Request:
        self._handle = handle
        return replace(request, extras={**(request.extras or {}), self._session.slot: handle})

    def _digest(self, messages: tuple[Message, ...]) -> str:
        """Tools are declared in the system text, which is sent only at the beginning."""
        request = self._rendered
        return fingerprint([request.model, *(part.text for part in request.system)], messages)

    def _continues(self, seen: int) -> bool:
        """Whether the new messages can be separated, and belong after the last reply and not before it."""
        history, rendered = self._request.messages, self._rendered.messages
        begins = _begins(history, seen)
        earlier = _called(history[:begins]) - _called(history[begins:seen]) - {""}  # some clients omit ids
        results = {part.call_id for part in _parts(history[seen:]) if isinstance(part, ToolResult)}
        return (
            earlier.isdisjoint(results)
            and _replies(history) == _replies(rendered)
            and 0 < _seen(rendered) < len(rendered)
        )


def _seen(messages: tuple[Message, ...]) -> int:
    """How many messages there are up to the last reply; 0 where nothing came after it."""
    last = max((index for index, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return last + 1 if last + 1 < len(messages) else 0


def _begins(messages: tuple[Message, ...], end: int) -> int:
    """Where the reply begins that ends before `end`; some clients make several messages of one."""
    while end and messages[end - 1].role == "assistant":
        end -= 1
    return end


def _parts(messages: tuple[Message, ...]) -> Iterator[AnyPart]:
    return (part for message in messages for part in message.parts)


def _called(messages: tuple[Message, ...]) -> set[str]:
    """The ids of the calls in `messages`."""
    return {part.id for part in _parts(messages) if isinstance(part, ToolCall)}


def _replies(messages: tuple[Message, ...]) -> int:
    """The number of the assistant's turns."""
    turns = groupby(messages, lambda message: message.role == "assistant")
    return sum(assistant for assistant, _ in turns)


# Digest


def fingerprint(beginning: Iterable[str], messages: Iterable[Message]) -> str:
    """Of `messages` behind a beginning that is given as texts."""
    return hashlib.sha256(jsontext.encode([list(beginning), *_turns(messages)])).hexdigest()


def _turns(messages: Iterable[Message]) -> Iterator[list[Any]]:
    """However many messages a client makes of it, a reply is one turn; calls are numbered in their order."""
    numbers: dict[str, int] = {}
    count = 0
    for is_reply, group in groupby(messages, lambda message: message.role == "assistant"):
        if not is_reply:
            yield [[message.role, _content(part, numbers)] for message in group for part in message.parts]
            continue
        parts = [part for message in group for part in message.parts]
        calls = [part for part in parts if isinstance(part, ToolCall) and part.complete]
        numbers |= {call.id: number for number, call in enumerate(calls, count)}
        count += len(calls)
        text = "".join([part.text for part in parts if isinstance(part, Text | Refusal)])
        written = [[call.name, call.namespace, _value(call.arguments)] for call in calls]
        yield ["".join(text.split()), *written]


def _content(part: AnyPart, numbers: dict[str, int]) -> Any:
    match part:
        case Text():
            return part.text
        case ToolResult():
            content = [_content(item, numbers) for item in part.content]
            return [numbers.get(part.call_id, part.name), part.failed, content]
        case _:
            return _plain(part)


def _plain(value: Any) -> Any:
    """The fields of a part; its place and what only its protocol understands do not count."""
    if isinstance(value, Struct):
        fields = {name: _plain(item) for name, item in asdict(value).items()}
        return {name: item for name, item in fields.items() if name not in ("where", "extras", "state")}
    return value


def _value(arguments: str) -> Any:
    """JavaScript prints 5.0 as 5, and clients reorder keys; no arguments are an empty object."""
    try:
        return _ordered(jsontext.decode(arguments or "{}"))
    except ValueError:
        return "".join(arguments.split())


def _ordered(value: Any) -> Any:
    if is_object(value):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if is_array(value):
        return [_ordered(item) for item in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(value)
    return value
