"""What a list shows of an exchange's content: its prompt, what came back and what was called, and which
conversation it belongs to.

A request of an agent is long and mostly repeats the one before it. Only the first message, the last ones and
the reply are read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Text, ToolCall, ToolResult
from dragoman.protocols import protocol
from dragoman.recording.streams import reply_parts

_TAIL = 24  # messages at the end that are read: the last calls and their results
_LARGEST_REPLY = 1_000_000  # bytes
_LONGEST = 160  # characters of a preview
# An entry of the model's own. Inside of texts quotes are escaped, so that these do not match
_REPLY = re.compile(rb'"role"\s*:\s*"(?:assistant|model)"|"type"\s*:\s*"(?:reasoning|[a-z_]*_call)"')
# A mark for a prompt cache moves from turn to turn; the message is the same
_CACHE_MARK = re.compile(rb',?\s*"(?:cache_control|prompt_cache_breakpoint)"\s*:\s*(?:\{[^{}]*\}|true|null)')
# What agents add to a prompt: <system-reminder>…</system-reminder>, <environment_context>…
_ADDED = re.compile(r"\s*<([a-z][\w-]*)(?: [^>]*)?>.*</\1>\s*", re.DOTALL)
_ADDED_INSIDE = re.compile(r"<(system-reminder|environment_context|user_instructions)>.*?</\1>", re.DOTALL)
# The argument that says most about a call, by name; else the first text
_MAIN = ("command", "cmd", "file_path", "path", "filename", "pattern", "query", "url", "input", "prompt")
_PATHS = frozenset({"file_path", "path", "filename", "notebook_path"})


class Outline(Struct, frozen=True):
    """`start` is a digest of the messages before the first reply, `run` one with that reply: a loop of calls
    repeats both. `run` is empty in the first turn. `messages`: how many the request has; `turn`: how many
    replies they hold, and one."""

    prompt: str = ""
    preview: str = ""
    messages: int = 0
    turn: int = 0
    start: str = ""
    run: str = ""


def outline(client: str, body: bytes, reply: bytes) -> Outline:
    """Of a request in the protocol `client` and its reply, as far as they can be read."""
    entries = _entries(client, body)
    if not entries:
        return Outline()
    replies = [_REPLY.search(entry) is not None for entry in entries]
    first = next((place for place, is_reply in enumerate(replies) if is_reply), len(entries))
    opening = _decode(client, entries[:first])
    prompt = _last_text(opening)
    gave = describe_parts(reply_parts(client, reply)) if len(reply) <= _LARGEST_REPLY else ""
    preview = prompt
    if first < len(entries):
        came = _what_came(_decode(client, entries[-_TAIL:]))
        preview = " → ".join(filter(None, (came, gave)))
    digests = _digests(entries[: first + 1])
    return Outline(
        shorten(prompt, _LONGEST),
        shorten(preview, _LONGEST),
        len(entries),
        1 + sum(is_reply and not before for before, is_reply in pairwise([False, *replies])),
        digests[first - 1] if first else "",
        digests[first] if first < len(entries) else "",
    )


def describe_parts(parts: Iterable[AnyPart]) -> str:
    """A reply in a line: its calls, or else the first paragraph of its text."""
    found = list(parts)
    calls = [
        f"{part.name} {main_argument(part.arguments)}".strip() for part in found if isinstance(part, ToolCall)
    ]
    if calls:
        return ", ".join(calls[:3]) + (f" and {len(calls) - 3} more" if len(calls) > 3 else "")
    return next(
        (
            shorten(part.text.strip().partition("\n\n")[0], _LONGEST)
            for part in found
            if isinstance(part, Text) and part.text.strip()
        ),
        "",
    )


def main_argument(arguments: str) -> str:
    """What a call is about, in a few words: its command, the name of its file, its query."""
    value = jsontext.decode_object(arguments)
    if value is None:
        return shorten(arguments, 60)
    name = next((each for each in _MAIN if value.get(each)), "")
    name = name or next((each for each, held in value.items() if isinstance(held, str)), "")
    held = value.get(name)
    if held is None:
        held = ""
    text = " ".join(map(str, held)) if is_array(held) else str(held)
    return text.rstrip("/").rpartition("/")[2] if name in _PATHS else shorten(text, 60)


def shorten(text: str, most: int) -> str:
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def prompt_text(text: str) -> str:
    """What a person wrote: without what agents add around it."""
    return "" if _ADDED.fullmatch(text) else _ADDED_INSIDE.sub("", text).strip()


def _entries(client: str, body: bytes) -> list[bytes]:
    try:
        field = jsontext.split_object(body).get(protocol(client).codec.turns)
        raw = bytes(field) if field is not None else b""
        if raw[:1] == b'"':
            return [b'{"role":"user","content":%b}' % raw]
        return [bytes(each) for each in jsontext.split_array(raw)] if raw[:1] == b"[" else []
    except (*jsontext.MALFORMED, DragomanError, KeyError):
        return []


def _object(entry: bytes) -> dict[str, Any]:
    try:
        value = jsontext.decode(entry)
    except (ValueError, RecursionError):
        return {}
    return value if is_object(value) else {}


def _decode(client: str, entries: Sequence[bytes]) -> Sequence[Message]:
    codec = protocol(client).codec
    try:
        wire = {"model": "", codec.turns: [_object(entry) for entry in entries]}
        return codec.decode_request(wire, Losses()).messages
    except (DragomanError, RecursionError, ValueError):
        return ()


def _last_text(messages: Sequence[Message]) -> str:
    texts = [
        prompt_text(part.text)
        for message in messages
        if message.role == "user"
        for part in message.parts
        if isinstance(part, Text)
    ]
    return next((text for text in reversed(texts) if text), "")


def _what_came(messages: Sequence[Message]) -> str:
    """What is new since the last reply: a prompt, or results."""
    names: dict[str, str] = {}
    new: list[AnyPart] = []
    for message in messages:
        if message.role == "assistant":
            new = []
            names |= {part.id: part.name for part in message.parts if isinstance(part, ToolCall)}
        elif message.role == "user":
            new += message.parts
    texts = [prompt_text(part.text) for part in new if isinstance(part, Text)]
    if text := next((text for text in reversed(texts) if text), ""):
        return shorten(text, 80)
    counts: dict[str, int] = {}
    for part in new:
        if isinstance(part, ToolResult):
            label = (part.name or names.get(part.call_id) or "result") + (" failed" if part.failed else "")
            counts[label] = counts.get(label, 0) + 1
    return ", ".join([label if count == 1 else f"{label} ×{count}" for label, count in counts.items()])


def _digests(entries: Sequence[bytes]) -> list[str]:
    """One for each beginning of the conversation."""
    digest, found = hashlib.blake2b(digest_size=8), list[str]()
    for entry in entries:
        digest.update(_CACHE_MARK.sub(b"", entry))
        found.append(digest.copy().hexdigest())
    return found
