"""The conversation <-> neutral messages.

System text is a message like any other. An assistant message has one field for each kind of content
(reasoning, one string of text, refusal, calls), so texts are joined and text after a call moves before it.
A tool result is a message of its own that holds text only, so the media of results is sent in a user message
after the last result of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.fold import DecodeRun, Fold, FoldRun
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses, report_citations
from dragoman.core.model import (
    AnyPart,
    Foreign,
    Media,
    Message,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.openai import lifetime
from dragoman.protocols.openai_chat.calls import (
    decode_calls,
    decode_result,
    encode_calls,
    encode_legacy,
    encode_result,
)
from dragoman.protocols.openai_chat.parts import (
    UNKNOWN_REASONING,
    decode_citation,
    decode_content,
    decode_echoed,
    decode_images,
    decode_reasoning,
    encode_annotations,
    encode_part,
    encode_past_reasoning,
    encode_reasoning,
    is_nothing,
)
from dragoman.protocols.openai_chat.wire import (
    NO_EXTRAS,
    PROTOCOL_NAME,
    QUIET_MESSAGE,
    REQUIRED_MESSAGE,
    is_native,
    leftovers,
    text_part,
)


def decode_message(message: Any, where: str, losses: Losses) -> Message:
    """Fast path: most messages of users, tools and the system are one text and nothing else."""
    text = message.get("content") if is_object(message) else None
    if type(text) is str and text:
        role = message.get("role")
        if len(message) == 2 and role in ("user", "system", "developer"):
            return Message(role, (Text(text, where=f"{where}.content"),), where=where, extras=NO_EXTRAS)
        if len(message) == 3 and role == "tool" and type(id := message.get("tool_call_id")) is str:
            content = (Text(text, where=f"{where}.content"),)
            result = ToolResult(id, content=content, where=where, extras=NO_EXTRAS)
            return Message("user", (result,), where=where)
    return _decode_other(message, where, losses)


def _decode_other(message: Any, where: str, losses: Losses) -> Message:
    fields = Fields(message, where, PROTOCOL_NAME)
    match role := fields.need("role", str):
        case "user" | "system" | "developer":
            parts = tuple(decode_content(fields, losses))
        case "assistant":
            parts = tuple(decode_assistant(fields, losses, echoed=True))
        case "tool" | "function":
            return Message("user", (decode_result(fields, role, losses),), where=where)
        case _:
            expected = "developer, system, user, assistant, tool or function"
            raise WireError(PROTOCOL_NAME, f"{where}.role", f"expected {expected}, got {role!r}")
    parts = _marked(parts, lifetime(fields.rest.get("cache_control")), where)
    return Message(role, parts, where=where, extras=leftovers(fields, losses, QUIET_MESSAGE))


def _marked(parts: tuple[AnyPart, ...], cache: str, where: str) -> tuple[AnyPart, ...]:
    """LiteLLM's `cache_control` of a message marks its last part, which takes the place of the message."""
    if not (cache and parts):
        return parts
    return (*parts[:-1], replace(parts[-1], cache=cache, where=where))


def _unmarked(message: Message) -> Message:
    """Back to its own protocol: the mark stands at the message, not at a part."""
    parts = [
        replace(part, cache="", content=tuple([replace(each, cache="") for each in part.content]))
        if isinstance(part, ToolResult)
        else replace(part, cache="")
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


def _is_marked_whole(message: Message) -> bool:
    of = message.parts[0] if len(message.parts) == 1 and type(message.parts[0]) is ToolResult else message
    return of.extras is not None and "cache_control" in of.extras.get(PROTOCOL_NAME, ())


class DecodeChatMessages(Fold, frozen=True):
    def begin(self, state: Any = None) -> DecodeRun:
        return DecodeRun(decode_message, "messages", state or 0)


class EncodeMessages(Fold, frozen=True):
    """`thinks`: the request asks for reasoning."""

    profile: ModelProfile
    thinks: bool

    def begin(self, state: _WriterState | None = None) -> _ChatWriter:
        state = state or _NOTHING
        marks = self.profile.cache_breakpoints == "cache_control"
        return _ChatWriter(self, marks, state.front, state.is_leading, state.shown, state.last, [])


class _WriterState(Struct, frozen=True, gc=False):
    front: tuple[AnyPart, ...] = ()
    is_leading: bool = True
    shown: tuple[Wire, ...] = ()
    last: str = ""


_NOTHING = _WriterState()


class _ChatWriter(FoldRun):
    """Messages → entries. `front` is system text that leads the conversation: it is joined to that of the
    request. `shown` is media of tool results that waits for the last result, `last` the role that was written
    last."""

    fold: EncodeMessages
    marks: bool
    front: tuple[AnyPart, ...]
    is_leading: bool
    shown: Sequence[Wire]
    last: str
    entries: list[Wire]

    def state(self) -> _WriterState:
        return _WriterState(self.front, self.is_leading, tuple(self.shown), self.last)

    def facts(self) -> tuple[AnyPart, ...]:
        return self.front

    def feed(self, items: Sequence[Message], /) -> list[Wire]:
        entries: list[Wire] = []
        self.entries = entries
        for message in items:
            extras = message.extras
            if (extras is None or PROTOCOL_NAME in extras) and _is_marked_whole(message):
                message = _unmarked(message)
            if self.is_leading:
                if message.role in _SYSTEM and _is_foreign_text(message):
                    self.front += message.parts
                    continue
                self.is_leading = False
            if message.role == "user":
                self._add_user(message)
            else:
                self._add(message)
        return entries

    def close(self) -> Sequence[Wire]:
        if not self.shown:
            return ()
        self.entries = []
        self._flush()
        return self.entries

    def _write(self, wire: Wire) -> None:
        self.entries.append(with_cache_control(wire) if self.marks else wire)
        self.last = wire["role"]

    def _add(self, message: Message) -> None:
        if self.shown:
            self._flush()
        if message.role == "assistant":
            for wire in encode_assistant(message, self.fold.profile, self.fold.thinks, self.losses):
                self._write(wire)
        else:
            self._add_system(message)

    def _add_system(self, message: Message) -> None:
        native, extras = is_native(message), own(message.extras, PROTOCOL_NAME)
        content = encode_texts(message.parts, self.fold.profile, self.losses)
        if content or native:
            filled = {"content": content} if content else {}
            self._write({"role": message.role if native else "system", **extras, **filled})

    def _add_user(self, message: Message) -> None:
        """Results first, each a message of its own, then everything else: a lone text as a string."""
        rest: Sequence[AnyPart] = message.parts
        if ToolResult in map(type, rest):
            rest = self._add_results(rest)
            if not rest:
                return
        content: str | list[Wire] = ""
        only = rest[0] if len(rest) == 1 else None
        if type(only) is Text and not (only.cache or is_native(only)):
            content = only.text
        elif rest:
            content = [encode_part(part, self.losses) for part in rest if not is_nothing(part)]
        if self.shown:
            content = [*self.shown, *([text_part(content)] if isinstance(content, str) else content)]
            self.shown = ()
        wire = {"role": "user", **own(message.extras, PROTOCOL_NAME)}
        if content:
            wire["content"] = content
        if not is_native(message):
            if not content:
                return
            if self.last == "tool":
                self._answer_tools()
        self._write(wire)

    def _add_results(self, parts: Sequence[AnyPart]) -> list[AnyPart]:
        """The parts that are no results."""
        rest: list[AnyPart] = []
        for part in parts:
            if isinstance(part, ToolResult):
                wire, shown = encode_result(part, self.fold.profile, self.losses)
                self._write(wire)
                if shown:
                    self.shown = [*self.shown, *shown]
            else:
                rest.append(part)
        return rest

    def _flush(self) -> None:
        if self.last == "tool":
            self._answer_tools()
        self._write({"role": "user", "content": [*self.shown]})
        self.shown = ()

    def _answer_tools(self) -> None:
        """Mistral answers 400 to it: "Unexpected role 'user' after role 'tool'"."""
        if self.fold.profile.assistant_after_tool:
            self.losses.invented(
                "assistant message",
                "This upstream demands one between a result and the user.",
                "message.filler",
            )
            self._write({"role": "assistant", "content": "OK"})


def with_cache_control(message: Wire) -> Wire:
    """OpenRouter takes cache breakpoints under Anthropic's name."""
    content = message.get("content")
    if not is_array(content):
        return message
    parts: list[Any] = []
    for part in content:
        if mark := part.get("prompt_cache_breakpoint"):
            ttl = {"ttl": "1h"} if lifetime(mark) == "1h" else {}
            rest = {key: value for key, value in part.items() if key != "prompt_cache_breakpoint"}
            part = {**rest, "cache_control": {"type": "ephemeral", **ttl}}
        parts.append(part)
    return {**message, "content": parts}


_SYSTEM = ("system", "developer")


def _is_foreign_text(message: Message) -> bool:
    """Leading system text of another protocol is joined: many chat templates take one system message."""
    return not is_native(message) and all(isinstance(part, Text) for part in message.parts)


_ORDINARY = frozenset({"role", "content", "tool_calls"})


def decode_assistant(fields: Fields, losses: Losses, echoed: bool) -> list[AnyPart]:
    """`echoed`: the message is part of a client's history, where sealed state comes back."""
    if fields.rest.keys() <= _ORDINARY:
        return [*decode_content(fields, losses), *decode_calls(fields, losses, echoed)]
    before, after = decode_echoed(fields, losses) if echoed else (decode_reasoning(fields, losses), [])
    parts: list[AnyPart] = [*before, *_cited(decode_content(fields, losses), fields, losses), *after]
    if refusal := fields.nonempty("refusal"):
        parts.append(Refusal(refusal, where=fields.path("refusal")))
    if is_array(fields.rest.get("images")) and fields.rest["images"]:
        parts += decode_images(fields.any("images"), fields.path("images"), losses)
    parts += decode_calls(fields, losses, echoed)
    audio = fields.rest.get("audio")
    if is_object(audio) and any(audio.values()):
        losses.dropped(
            fields.path("audio"), f"Only {PROTOCOL_NAME} understands spoken replies.", "media.audio"
        )
        said = audio.get("transcript")
        body = {"audio": fields.any("audio")}
        text = said if isinstance(said, str) else ""
        parts.append(Foreign(PROTOCOL_NAME, body, text, where=fields.path("audio")))
    return parts


def _cited(content: list[AnyPart], fields: Fields, losses: Losses) -> list[AnyPart]:
    """`content` with the annotations of the message on its first text."""
    annotations, where = fields.rest.get("annotations"), fields.path("annotations")
    first = next((i for i, part in enumerate(content) if isinstance(part, Text)), None)
    if first is None or not is_array(annotations) or not annotations:
        return content
    del fields.rest["annotations"]
    citations = [decode_citation(item, f"{where}[{i}]", losses) for i, item in enumerate(annotations)]
    text: Any = replace(content[first], citations=tuple(citations))
    return [*content[:first], text, *content[first + 1 :]]


def encode_assistant(message: Message, profile: ModelProfile, thinks: bool, losses: Losses) -> list[Wire]:
    """A message of the history; an empty one is left out. `thinks`: the request asks for reasoning."""
    parts, native = message.parts, is_native(message)
    wire: Wire = {"role": "assistant"}
    if native:
        wire |= own(message.extras, PROTOCOL_NAME)
    # elsewhere a refusal is part of the content
    texts, calls = _divide(parts, refusals=not (native or profile.refusals))
    if texts and (content := encode_texts(texts, profile, losses)):
        wire["content"] = content
    if len(texts) + len(calls) < len(parts):
        wire |= _encode_refusals(parts, texts) | encode_past_reasoning(parts, profile, losses)
        wire |= _encode_media(parts, native, losses)
    if texts:
        wire |= _encode_sources(texts, native, losses)
    if calls:
        wire |= encode_calls(calls, echoed=True)
        if parts[-len(calls)] is not calls[0]:  # they are not the last parts
            _report_order(parts, losses)
    if len(wire) > 1 and not native:
        wire = _completed(wire, message, profile, thinks, losses)
    return [wire] if len(wire) > 1 or native else []


def _divide(
    parts: Sequence[AnyPart], refusals: bool = False, cited: bool = False
) -> tuple[list[AnyPart], list[ToolCall]]:
    """The content of a message and its calls. `refusals` and empty texts that are `cited` may be content."""
    content: list[AnyPart] = []
    calls: list[ToolCall] = []
    for part in parts:
        if type(part) is ToolCall:
            calls.append(part)
        elif (refusals and type(part) is Refusal) or _is_content(part, cited):
            content.append(part)
    return content, calls


def _completed(wire: Wire, message: Message, profile: ModelProfile, thinks: bool, losses: Losses) -> Wire:
    """Add what servers demand of a turn.

    `content` is always there, null beside calls (G52: vercel/ai#13744, vllm#30648). DeepSeek, Kimi and MiMo
    refuse a turn without `reasoning_content` while they think (G102: kimi-cli#2141, litellm#23580).
    """
    if "content" not in wire:
        wire["content"] = None if wire.keys() & {"tool_calls", "function_call", "refusal"} else ""
    if thinks and profile.reasoning_history == "required" and "reasoning_content" not in wire:
        wire["reasoning_content"] = UNKNOWN_REASONING
        losses.invented(
            message.where or "reasoning",
            "This upstream demands reasoning on each of its messages.",
            "reasoning.history",
        )
    return wire


def encode_reply(parts: Sequence[AnyPart], rest: Wire | None, losses: Losses, legacy: bool = False) -> Wire:
    """The message of a reply. `rest`: its other fields, where it came from Chat.

    `legacy`: the client declared `functions` and expects a `function_call`.
    """
    wire: Wire = {**REQUIRED_MESSAGE, "annotations": []} if rest is None else dict(rest)
    texts, calls = _divide(parts, cited=True)
    if texts:
        wire |= _encode_said(texts, losses)
    if texts and calls:
        _report_order(parts, losses)
    if len(texts) + len(calls) < len(parts):
        wire |= _encode_refusals(parts, texts) | encode_reasoning(parts) | _encode_media(parts, True, losses)
    if calls:
        wire |= _encode_one(calls, losses) if legacy else encode_calls(calls)
    return wire


def _encode_said(texts: Sequence[AnyPart], losses: Losses) -> Wire:
    """`content` of a reply, and what it cites."""
    first = texts[0]
    if len(texts) == 1 and type(first) is Text and not first.citations and not is_native(first):
        return {"content": first.text}
    native = any(is_native(part) or isinstance(part, Foreign) for part in texts)
    content = [encode_part(part, losses) for part in texts] if native else _joined(texts, losses)
    annotations = encode_annotations([part for part in texts if type(part) is Text])
    return {"content": content, "annotations": annotations} if annotations else {"content": content}


def _encode_one(calls: Sequence[ToolCall], losses: Losses) -> Wire:
    """Clients that declare `functions` take one call at a time."""
    for call in calls[1:]:
        losses.dropped(
            call.where or call.name,
            "A client that declares functions takes one call at a time.",
            "call.parallel",
        )
    return encode_legacy(calls[0])


def encode_texts(parts: Sequence[AnyPart], profile: ModelProfile, losses: Losses) -> str | list[Wire]:
    """The content of a system or assistant message: a string, or an array where it came as parts."""
    if len(parts) == 1 and type(parts[0]) is Text and not (is_native(parts[0]) or parts[0].cache):
        return parts[0].text
    texts: list[Text | Refusal] = []
    for part in parts:
        if not isinstance(part, Text | Refusal) or is_native(part) or part.cache:
            return [encode_part(part, losses) for part in parts]
        if part.text:
            texts.append(part)
    if len(texts) < 2:
        return texts[0].text if texts else ""
    if profile.text_parts:
        return [text_part(part.text) for part in texts]
    for part in texts[1:]:
        losses.changed(part.where, "It was joined to the text before it.", "text.join")
    return "\n\n".join([part.text for part in texts])


def _is_content(part: AnyPart, cited: bool = False) -> bool:
    """Whether the part belongs in `content`: texts, even empty ones if `cited`, and parts that came in its
    array."""
    if type(part) is Text:
        return part.text != "" or is_native(part) or (cited and part.citations != ())
    if isinstance(part, ToolCall | Media | ToolResult):
        return False
    if isinstance(part, Foreign):
        return part.origin == PROTOCOL_NAME and "type" in part.body
    return is_native(part) if isinstance(part, Refusal) else "type" in own(part.extras, PROTOCOL_NAME)


def _encode_refusals(parts: Sequence[AnyPart], content: Sequence[AnyPart]) -> Wire:
    """`refusal`: those that are not part of the content."""
    refusals = [part.text for part in parts if isinstance(part, Refusal) and part not in content]
    return {"refusal": "".join(refusals)} if refusals else {}


def _encode_sources(content: Sequence[AnyPart], native: bool, losses: Losses) -> Wire:
    """`annotations` go back to the server that sent them; other servers take none in a history."""
    texts = [part for part in content if isinstance(part, Text) and part.citations]
    if texts and native:
        return {"annotations": encode_annotations(texts)}
    for text in texts:
        report_citations(losses, text, "Chat takes no sources in a history.")
    return {}


def _encode_media(parts: Sequence[AnyPart], images: bool, losses: Losses) -> Wire:
    """`images` and `audio`, the fields for media beside the content."""
    wire: Wire = {}
    for part in parts:
        match part:
            case Media(kind="image") if images:
                wire.setdefault("images", []).append(encode_part(part, losses))
            case Media():
                losses.dropped(
                    part.where or part.kind,
                    f"Chat has no {part.kind} in a message of the assistant.",
                    f"media.{part.kind}",
                )
            case ToolResult():
                losses.dropped(
                    part.where or "tool result",
                    "Chat has no results in a message of the assistant.",
                    "result.place",
                )
            case Foreign() if part.origin == PROTOCOL_NAME and "type" not in part.body:
                wire |= part.body
            case _:
                pass
    return wire


def _joined(texts: Sequence[AnyPart], losses: Losses) -> str:
    for part in texts[1:]:
        losses.changed(part.where or "text", "It was joined to the text before it.", "text.join")
    return "".join([part.text for part in texts if isinstance(part, Text)])


def _report_order(parts: Sequence[AnyPart], losses: Losses) -> None:
    called = False
    for part in parts:
        called |= isinstance(part, ToolCall)
        if called and isinstance(part, Text) and part.text:
            losses.changed(
                part.where or "text", "Chat puts the text of a message before its calls.", "message.order"
            )
