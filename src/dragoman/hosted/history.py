"""Calls that we executed, in later requests of their conversation: calls with results again, for any model.

in the client's own parts (`HostedCodec.decode`)   a call with its result, where its tool is offered now
hidden, or under a call of the client (`returning`) the same, where the protocol has no such parts
a question and its answer                          a call that was denied, or one that may run now
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.codec import ProtocolLimits
from dragoman.core.model import AnyPart, ExecutedCall, Foreign, Message, Role, Text, ToolCall, ToolResult
from dragoman.hosted.approvals import Approvals, past_calls
from dragoman.hosted.offers import NOT_THEIRS, Offers
from dragoman.hosted.returning import Answer, Marked, is_sealed, unseal_results


class Past(Struct, frozen=True):
    """What is known of earlier calls. `marked`: calls of the client with ids that carry a mark, `returned`:
    what was executed beside them and did not come back through the client."""

    approvals: Approvals
    offers: Offers
    marked: Mapping[str, Marked] = {}
    returned: Mapping[str, Sequence[Answer]] = {}


def restore_calls(messages: tuple[Message, ...], client: ProtocolLimits, past: Past) -> tuple[Message, ...]:
    """The conversation with our calls as calls, and their results behind them."""
    concerned = any(is_sealed(part) for message in messages for part in message.parts)
    if not concerned and not past.marked and not any(past_calls(messages, client)):
        return messages
    reader, out = _PartReader(client, past), _MessageWriter(client)
    for message in messages:
        for part in message.parts:
            for each, ours in reader.read(part):
                out.put(message, each, ours)
    return out.end()


class _PartReader:
    """Parts of the conversation as the model reads them, each with whether it is ours."""

    def __init__(self, client: ProtocolLimits, past: Past) -> None:
        self._client, self._past = client, past
        self._names: dict[str, str] = {}  # of the calls so far, by id

    def read(self, part: AnyPart) -> Iterable[tuple[AnyPart, bool]]:
        if is_sealed(part):
            return self._as_calls(unseal_results(part))
        if type(part) is ToolCall:
            marked = self._past.marked.get(part.id)
            beside = self._as_calls(self._past.returned.get(part.id, ()))
            return [*beside, (replace(part, id=marked.id) if marked else part, False)]
        if type(part) is ToolResult:
            marked = self._past.marked.get(part.call_id)
            return ((replace(part, call_id=marked.id) if marked else part, False),)
        shown = self._read_shown(part)
        return ((part, False),) if shown is None else [(each, True) for each in shown]

    def _as_calls(self, answers: Iterable[Answer]) -> list[tuple[AnyPart, bool]]:
        pairs = [self._rename(*answer) for answer in answers]
        return [*((call, True) for call, _ in pairs), *((result, True) for _, result in pairs)]

    def _rename(self, call: ToolCall, result: ToolResult) -> Answer:
        """A function that is not offered now must not be taken for a tool of the upstream."""
        if self._past.offers.find(call) or call.name.endswith(NOT_THEIRS):
            return call, result
        name = call.name + NOT_THEIRS
        return replace(call, name=name), replace(result, name=name)

    def _read_shown(self, part: AnyPart) -> Sequence[AnyPart] | None:
        if not isinstance(part, Foreign) or part.origin != self._client.protocol:
            return None
        past = self._client.hosted.decode(part.body)
        return None if past is None else self._read_past(past, part)

    def _read_past(self, past: ExecutedCall, part: Foreign) -> Sequence[AnyPart] | None:
        name = self._names.get(past.id) or self._past.offers.name_of(past)
        match past.step:
            case "listing" | "answer":
                return ()
            case "told":
                return (Text(part.text, where=part.where),) if part.text else ()
            case "question":
                denial = self._past.approvals.denial(past)
                if not name or not denial:
                    return ()
                denied = ToolResult(past.id, name, (Text(denial),), failed=True)
                return (ToolCall(past.id, name, past.arguments), denied)
            case _ if not name:
                return None
            case "call":
                self._names[past.id] = name
                return (ToolCall(past.id, name, past.arguments),)
            case "result" | "both":
                result = ToolResult(past.id, name, (Text(past.text),), past.failed)
                return (
                    (result,) if past.step == "result" else (ToolCall(past.id, name, past.arguments), result)
                )


class _MessageWriter:
    """Messages with each result in a user message behind its call: before the next thing that the model said.
    A call of the client is of the same round, unless the client's parts show when a result came."""

    def __init__(self, client: ProtocolLimits) -> None:
        self._shows_when = not client.hosted.forgets
        self._out: list[Message] = []
        self._waiting: list[ToolResult] = []
        self._message: Message | None = None  # whose fields the open one takes
        self._role: Role | None = None
        self._parts: list[AnyPart] = []

    def put(self, message: Message, part: AnyPart, ours: bool) -> None:
        if ours and isinstance(part, ToolResult):
            self._waiting.append(part)
            return
        role: Role = "assistant" if ours else message.role
        if self._waiting and (ours or self._shows_when or not isinstance(part, ToolCall)):
            self._begin("user", None)
            self._parts, self._waiting = [*self._waiting], []
        if role != self._role or self._is_apart(message, part):
            self._begin(role, message)
        self._message = message
        self._parts.append(part)

    def _is_apart(self, message: Message, part: AnyPart) -> bool:
        """What a protocol keeps of a message is true of its own parts: only results join those of ours."""
        if self._message is None:
            return bool(self._parts) and self._role == "user" and not isinstance(part, ToolResult)
        return self._message is not message

    def _begin(self, role: Role, message: Message | None) -> None:
        if self._parts and self._role:
            parts = tuple(self._parts)
            made = replace(self._message, parts=parts) if self._message else Message(self._role, parts)
            self._out.append(made if made.role == self._role else Message(self._role, parts))
        self._role, self._message, self._parts = role, message, []

    def end(self) -> tuple[Message, ...]:
        if self._waiting:
            self._begin("user", None)
            self._parts = [*self._waiting]
        self._begin("user", None)
        return tuple(self._out)
