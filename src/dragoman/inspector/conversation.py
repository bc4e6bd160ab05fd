"""A request and its reply as people read them: turns of messages, calls beside their results, and the life of
each id and each opaque state.

A turn is what came since the last reply, and the reply to it. The request of the last turn holds all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from dragoman.core import jsontext
from dragoman.core.model import (
    AnyPart,
    Base64,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Request,
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Wire,
)
from dragoman.inspector import analysis
from dragoman.recording.outline import describe_parts, main_argument
from dragoman.recording.streams import client_framing, reply_parts
from dragoman.recording.values import RecordedCall, Recording, RecordingSummary

_LONGEST_TEXT = 200_000  # characters of a part
_MOST_IMAGES = 3_000_000  # characters of base64 in one conversation; more are named, not shown


def conversation_view(
    recording: Recording,
    turns: Sequence[RecordingSummary],
    following: Recording | None,
    before: Recording | None = None,
) -> Wire:
    """`turns`: the exchanges of the conversation up to this one; `following` and `before`: beside it."""
    client = recording.summary.client
    request = analysis.decode_request(client, analysis.parse(recording.request.body.data))
    parts = reply_parts(client, recording.reply.body.data, client_framing(recording))
    view = _View(request)
    blocks = view.blocks(turns)
    reply = [view.part("assistant", part) for part in parts]
    return {
        "id": recording.summary.id,
        "system": view.system(),
        "turns": blocks,
        "reply": reply,
        "rounds": _rounds(recording, view, reply) if recording.hosted else [],
        "waited_ms": _between(before, recording) if before else None,
        "answers": _answers(recording, following),
        "lives": _lives(request, parts, blocks, recording),
    }


class _View:
    def __init__(self, request: Request | None) -> None:
        self._request = request
        parts = [part for message in request.messages for part in message.parts] if request else []
        self._calls = {part.id: part for part in parts if isinstance(part, ToolCall)}
        self._names = {id: call.name for id, call in self._calls.items()}
        self._images = 0

    def system(self) -> Wire:
        request = self._request
        parts = [self.part("system", part) for part in request.system] if request else []
        tools = [each for each in analysis.window(request) if each.kind == "tool"]
        return {"parts": parts, "tools": to_builtins(tools)}

    def blocks(self, turns: Sequence[RecordingSummary]) -> list[Wire]:
        """The turns of the request, oldest first: what came, and the reply; the last one has no reply yet."""
        known = {each.messages: each for each in turns[:-1]}
        blocks = self._split_into_turns()
        for number, block in enumerate(blocks, 1):
            parts, end = block.pop("gave"), block.pop("end")
            recorded = known.get(end) if block["reply"] else None
            block |= {"number": number, "gave": describe_parts(parts), "exchange": None, "spent": None}
            if recorded:
                spent = {name: getattr(recorded, name) for name in ("input", "output", "cost", "ms")}
                block |= {"exchange": recorded.id, "spent": spent}
        return blocks

    def _split_into_turns(self) -> list[Wire]:
        blocks: list[Wire] = []
        for message in self._request.messages if self._request else ():
            is_reply = message.role == "assistant"
            for part in message.parts:
                if not blocks or (not is_reply and blocks[-1]["reply"]):
                    blocks.append({"came": [], "reply": [], "end": 0, "gave": []})
                block = blocks[-1]
                if is_reply:
                    block["end"] = block["end"] or _entry(part.where or message.where)
                    block["gave"].append(part)
                block["reply" if is_reply else "came"].append(self.part(message.role, part))
        return blocks

    def part(self, role: str, part: AnyPart) -> Wire:
        segment = analysis.part_segment(role, part, self._names)
        shown: Wire = {"kind": segment.kind, "path": part.where, "tokens": segment.tokens, "role": role}
        if part.state:
            shown["state"] = {"origin": part.state.origin, "size": len(part.state.data)}
        match part:
            case Text() | Reasoning() | Refusal():
                shown |= {"kind": _KINDS[type(part)], "text": part.text[:_LONGEST_TEXT]}
            case ToolCall():
                shown |= {
                    "kind": "call",
                    "id": part.id,
                    "name": part.name,
                    "about": main_argument(part.arguments),
                    "arguments": jsontext.decode_object(part.arguments),
                    "raw": part.arguments[:_LONGEST_TEXT],
                    "complete": part.complete,
                }
            case ToolResult():
                call = self._calls.get(part.call_id)
                shown |= {
                    "id": part.call_id,
                    "name": part.name or self._names.get(part.call_id, ""),
                    "about": main_argument(call.arguments) if call else "",
                    "arguments": jsontext.decode_object(call.arguments) if call else None,
                    "failed": part.failed,
                    "content": [self.part(role, item) for item in part.content],
                }
            case Media():
                shown |= {"kind": "media", **self._media(part)}
            case Foreign():
                shown |= {"kind": "foreign", "text": part.text, "body": part.body, "origin": part.origin}
        return shown

    def _media(self, part: Media) -> Wire:
        shown: Wire = {"media": part.kind, "type": part.media_type, "name": part.name, "source": ""}
        match part.source:
            case Base64(data):
                shown["size"] = len(data) * 3 // 4
                if part.kind == "image" and self._images + len(data) <= _MOST_IMAGES:
                    self._images += len(data)
                    shown["source"] = f"data:{part.media_type or 'image/png'};base64,{data}"
            case Url(url):
                shown["url"] = url  # never loaded: that would tell somebody that the page is open
            case source:
                shown["url"] = str(getattr(source, "id", "") or getattr(source, "text", ""))[:2000]
        return shown


def _rounds(recording: Recording, view: _View, reply: Sequence[Wire]) -> list[Wire]:
    """What each round of the upstream said, with what the gateway executed. Calls that are left to the client
    are those of the reply, with its ids."""
    answered = [each for each in recording.attempts if each.reply.status < 400 and not each.error]
    starts = [each.started_ms for each in answered[1:]] + [float("inf")]
    waiting, rounds = list(recording.hosted), list[Wire]()
    for attempt, until in zip(answered, starts, strict=True):
        parts = [
            view.part("assistant", each)
            for each in reply_parts(attempt.protocol, attempt.reply.body.data)
            if not isinstance(each, ToolCall)
        ]
        while waiting and waiting[0].began * 1000 < until:
            parts.append(_show_executed(waiting.pop(0)))
        took = (attempt.ended_ms or attempt.started_ms) - attempt.started_ms
        rounds.append({"name": f"{attempt.provider}:{attempt.model}", "ms": took, "parts": parts})
    if rounds:
        rounds[-1]["parts"] += [each for each in reply if each["kind"] == "call"]
    return rounds


def _show_executed(call: RecordedCall) -> Wire:
    """A call with its result, as a part."""
    return {
        "kind": "call",
        "id": "",
        "name": f"{call.server} · {call.name}" if call.server else call.name,
        "about": main_argument(call.arguments),
        "arguments": jsontext.decode_object(call.arguments),
        "raw": call.arguments[:_LONGEST_TEXT],
        "complete": True,
        "answer": {
            "failed": bool(call.error),
            "ms": call.seconds * 1000,
            "content": [{"kind": "text", "text": (call.error or call.result)[:_LONGEST_TEXT]}],
        },
    }


_KINDS = {Text: "text", Reasoning: "reasoning", Refusal: "refusal"}


def _entry(where: str) -> int:
    """The number of the message: 3 of `messages[3].content[0]`."""
    number = where.partition("[")[2].partition("]")[0]
    return int(number) if number.isdigit() else -1


def _between(one: Recording, other: Recording) -> float:
    """Milliseconds from the end of a turn to the begin of the next: its tools did not take longer."""
    return round((other.summary.time - one.summary.time) * 1000 - (one.summary.ms or 0), 1)


def _answers(recording: Recording, following: Recording | None) -> Wire:
    """What became of the calls of this reply: the results that the next turn brought."""
    if following is None:
        return {}
    summary = following.summary
    request = analysis.decode_request(summary.client, analysis.parse(following.request.body.data))
    return {
        part.call_id: {
            "exchange": summary.id,
            "turn": summary.turn,
            "failed": part.failed,
            "size": sum([len(item.text) for item in part.content if isinstance(item, Text)]),
            "most_ms": _between(recording, following),
        }
        for message in (request.messages if request else ())
        for part in message.parts
        if isinstance(part, ToolResult)
    }


def _lives(
    request: Request | None,
    reply: Iterable[AnyPart],
    blocks: Sequence[Mapping[str, Any]],
    recording: Recording,
) -> list[Wire]:
    """Every call id and every opaque state: the turn whose reply it was born in, and that of its result."""
    calls: dict[str, Wire] = {}
    for block in blocks:
        for part in (*block["came"], *block["reply"]):
            if part["kind"] == "call":
                calls[part["id"]] = _life("call", part["name"], part["id"], block["number"], part["path"])
            elif part["kind"] == "result" and part["id"] in calls:
                calls[part["id"]]["answered"] = block["number"]
    for part in reply:
        if isinstance(part, ToolCall):
            calls.setdefault(part.id, _life("call", part.name, part.id, len(blocks), ""))
    return [*calls.values(), *_state_lives(request, reply, blocks, recording)]


def _state_lives(
    request: Request | None,
    reply: Iterable[AnyPart],
    blocks: Sequence[Mapping[str, Any]],
    recording: Recording,
) -> Iterable[Wire]:
    """`withheld`: the state was not passed on in this exchange."""
    lost = [loss.where for loss in recording.losses if loss.kind == "dropped" and "reasoning" in loss.code]
    born = {part["path"]: block["number"] for block in blocks for part in block["reply"]}
    found: dict[str, Wire] = {}
    for part in [part for message in (request.messages if request else ()) for part in message.parts]:
        if part.state:
            life = _state_life(part, part.state, born.get(part.where, 0), part.where)
            life["withheld"] = any(part.where.startswith(where) for where in lost)
            found.setdefault(life["id"], life)
    for part in reply:
        if part.state:
            life = _state_life(part, part.state, len(blocks), "")
            found.setdefault(life["id"], life)
    return found.values()


def _state_life(part: AnyPart, state: State, born: int, path: str) -> Wire:
    id = state.data if len(state.data) <= 24 else f"{state.data[:12]}…{state.data[-8:]}"
    life = _life("state", type(part).__name__.lower(), id, born, path)
    return life | {"origin": state.origin, "size": len(state.data)}


def _life(kind: str, label: str, id: str, born: int, path: str) -> Wire:
    return {"kind": kind, "label": label, "id": id, "born": born, "path": path, "answered": None}
