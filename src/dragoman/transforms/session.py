"""One exchange with an upstream that keeps the conversation: only what is new is sent.

Clients send everything each time, so a conversation is found again by what they repeat of it: all that was
said up to the upstream's last reply. An edited history, other tools or another system text begin a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec.structs import replace

from dragoman.core.codec import Session
from dragoman.core.events import Event, EventStage, KeepAlive, ResponseEnd, fold
from dragoman.core.fields import own
from dragoman.core.model import AnyPart, Message, Request, Response, ToolCall, ToolResult, Wire
from dragoman.transforms.fingerprint import fingerprint


class Conversation(EventStage):
    """`asked` is the client's request, `rendered` the same as the upstream takes it, and whole.

    `follows` is the digest under which this conversation was kept, empty where one must begin. The last
    stage of the reply is this too, because what the client is told is what it will repeat.
    """

    def __init__(self, session: Session, asked: Request, rendered: Request) -> None:
        self._session, self._asked, self._rendered = session, asked, rendered
        self._handle: Wire = {}
        self._events: list[Event] = []
        self._reply: Response | None = None
        seen = _seen(asked.messages)
        self.follows = self._digest(asked.messages[:seen]) if seen and self._goes_on(seen) else ""

    def begin(self) -> Request:
        """Everything, as a new conversation."""
        return self._sent(self._rendered, self._session.begin())

    def resume(self, handle: Wire) -> Request:
        """What came after the upstream's last reply, where `handle` says that it was given."""
        new = self._rendered.messages[_seen(self._rendered.messages) :]
        return self._sent(replace(self._rendered, system=(), messages=new), handle)

    def feed(self, event: Event, /) -> tuple[Event]:
        if type(event) is not KeepAlive:
            self._events.append(event)
        return (event,)

    def whole(self, response: Response) -> Response:
        self._reply = response
        return response

    def kept(self) -> tuple[str, Wire] | None:
        """The digest of the conversation with its reply, and where it goes on; None before the reply has
        ended well, or where it did not say under which name it is kept."""
        if self._events and type(self._events[-1]) is ResponseEnd:
            self._reply = fold(self._events)
        reply = self._reply
        if reply is None:
            return None
        handle = self._session.follow(self._handle, own(reply.extras, self._session.slot))
        said = Message("assistant", reply.parts)
        return (self._digest((*self._asked.messages, said)), handle) if handle else None

    def _sent(self, request: Request, handle: Wire) -> Request:
        self._handle = handle
        return replace(request, extras={**(request.extras or {}), self._session.slot: handle})

    def _digest(self, messages: tuple[Message, ...]) -> str:
        """The upstream is told of its tools in the system text, and only at the beginning."""
        request = self._rendered
        return fingerprint([request.model, *(part.text for part in request.system)], messages)

    def _goes_on(self, seen: int) -> bool:
        """Whether what is new can be told apart, and belongs after the last reply and not before it."""
        asked, rendered = self._asked.messages, self._rendered.messages
        begins = _begins(asked, seen)
        late = _called(asked[:begins]) - _called(asked[begins:seen]) - {""}  # some clients tell no ids
        results = {part.call_id for part in _parts(asked[seen:]) if isinstance(part, ToolResult)}
        return (
            late.isdisjoint(results)
            and _replies(asked) == _replies(rendered)
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
    """How often the assistant spoke."""
    spoken = groupby(messages, lambda message: message.role == "assistant")
    return sum(assistant for assistant, _ in spoken)
