"""Calls that we executed, in later requests of their conversation: calls with results again, for any model.

in the client's own parts (`HostedCodec.decode`)   a call with its result, where its tool is offered now
in hidden reasoning (`seal_results`)               the same, where the protocol has no such parts
a question and its answer                          a call that was denied, or one that may run now
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.errors import DragomanError
from dragoman.core.hosted import ShownCall
from dragoman.core.jsontext import is_array
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Message,
    Reasoning,
    Role,
    State,
    Text,
    ToolCall,
    ToolResult,
)

_ORIGIN = "dragoman-hosted"  # of the state in which results travel through a client
_DENIED = "The user did not allow this call."
NameOf = Callable[[ShownCall], str]  # the name under which the model sees the tool now; empty: it does not


class ApprovalError(DragomanError):
    """The answers of a request to questions of approval do not fit them."""


class Approvals:
    """Questions whether a call may run, and the client's answers. `pending`: allowed, and not run yet."""

    def __init__(self, messages: Sequence[Message], client: ProtocolLimits) -> None:
        self.questions: dict[str, ShownCall] = {}
        self.answers: dict[str, ShownCall] = {}
        self.done: set[str] = set()
        for past in past_calls(messages, client):
            if past.approval:
                self.done.add(past.approval)
            if past.step == "question":
                if past.id in self.questions:
                    raise ApprovalError(f"The approval request {past.id} stands twice in the conversation.")
                self.questions[past.id] = past
            elif past.step == "answer":
                self._answer(past)

    def _answer(self, past: ShownCall) -> None:
        if past.id in self.answers:
            raise ApprovalError(f"The approval request {past.id} was answered twice.")
        if past.id not in self.questions:
            raise ApprovalError(
                f"There is no approval request {past.id} in the conversation. Send its item back before the "
                "answer, or continue the stored response that asked."
            )
        self.answers[past.id] = past

    @property
    def pending(self) -> list[ShownCall]:
        return [
            self.questions[id]
            for id, answer in self.answers.items()
            if not answer.failed and id not in self.done
        ]

    def denial(self, question: ShownCall) -> str:
        """What the model reads of a call that was denied; empty where it was not."""
        answer = self.answers.get(question.id)
        if answer is None or not answer.failed:
            return ""
        return f"{_DENIED} {answer.text}".rstrip()


def past_calls(messages: Sequence[Message], client: ProtocolLimits) -> Iterable[ShownCall]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, Foreign) and part.origin == client.protocol:
                past = client.hosted.decode(part.body)
                if past:
                    yield past


def restore_calls(
    messages: tuple[Message, ...], client: ProtocolLimits, approvals: Approvals, name_of: NameOf
) -> tuple[Message, ...]:
    """The conversation with our calls as calls, and their results behind them."""
    concerned = any(is_sealed(part) for message in messages for part in message.parts)
    if not concerned and not any(past_calls(messages, client)):
        return messages
    reader = _PartReader(client, approvals, name_of)
    out = _MessageWriter()
    for message in messages:
        for part in message.parts:
            made = reader.read(part)
            for each in (part,) if made is None else made:
                out.put(message, each, ours=made is not None)
    return out.end()


class _PartReader:
    """Parts of the conversation as the model reads them; None: as they are."""

    def __init__(self, client: ProtocolLimits, approvals: Approvals, name_of: NameOf) -> None:
        self._client, self._approvals, self._name_of = client, approvals, name_of
        self._names: dict[str, str] = {}  # of the calls so far, by id

    def read(self, part: AnyPart) -> Sequence[AnyPart] | None:
        if is_sealed(part):
            rows = _rows(part)
            calls = [ToolCall(*row[:3]) for row in rows]
            return [*calls, *(ToolResult(row[0], row[1], (Text(row[3]),), row[4]) for row in rows)]
        if not isinstance(part, Foreign) or part.origin != self._client.protocol:
            return None
        past = self._client.hosted.decode(part.body)
        return None if past is None else self._read_past(past, part)

    def _read_past(self, past: ShownCall, part: Foreign) -> Sequence[AnyPart] | None:
        name = self._names.get(past.id) or self._name_of(past)
        match past.step:
            case "listing" | "answer":
                return ()
            case "told":
                return (Text(part.text),) if part.text else ()
            case "question":
                denial = self._approvals.denial(past)
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
    """Messages with each result in a user message behind its call: before the next thing that the model said,
    but for calls of the client, whose results follow in the same message."""

    def __init__(self) -> None:
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
        if self._waiting and (ours or not isinstance(part, ToolCall)):
            self._begin("user", None)
            self._parts, self._waiting = [*self._waiting], []
        if role != self._role or (self._message is not None and self._message is not message):
            self._begin(role, message)
        self._message = message
        self._parts.append(part)

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


# Results on their way through a client, beside its own calls


def seal_results(answers: Sequence[tuple[ToolCall, ToolResult]]) -> Reasoning:
    """Hidden reasoning is what clients of every protocol echo unread."""
    rows = [[call.id, call.name, call.arguments, _text_of(answer), answer.failed] for call, answer in answers]
    return Reasoning(hidden=True, state=State(_ORIGIN, jsontext.dumps(rows)))


def is_sealed(part: AnyPart) -> bool:
    return isinstance(part, Reasoning) and part.state is not None and part.state.origin == _ORIGIN


def _rows(part: AnyPart) -> list[tuple[str, str, str, str, bool]]:
    state = part.state
    try:
        rows = jsontext.decode(state.data) if state else ()
    except ValueError:
        return []
    match = [row for row in rows if is_array(row) and len(row) == 5] if is_array(rows) else []
    return [(str(a), str(b), str(c), str(d), bool(e)) for a, b, c, d, e in match]


def _text_of(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, Text))
