"""State as providers make it: the scripted model signs its reasoning or its calls, and refuses a history in
which a signature is missing, was changed, or was made by another provider."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import blake2s
from typing import NamedTuple

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.model import AnyPart, Message, Reasoning, Request, State, Text, ToolCall, ToolResult

_THOUGHT = "_t"  # ends the id of a call that stands behind reasoning, with the initials of its protocol
_OTHER_ALPHABET = re.compile(r"[A-Za-z0-9_=-]+")
_UNSIGNED = "skip_thought_signature_validator"  # what Gemini accepts for a call that it did not make


class _Provider(NamedTuple):
    """Which part of a reply a provider of a protocol signs, and whether its calls have ids."""

    signs: type[Reasoning] | type[ToolCall]
    ids: bool
    missing: str


_PROVIDERS = {
    "anthropic": _Provider(
        Reasoning,
        True,
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, "
        "a final `assistant` message must start with a thinking block",
    ),
    "openai-responses": _Provider(
        Reasoning, True, "Item of type 'function_call' was provided without its required 'reasoning' item"
    ),
    "gemini": _Provider(ToolCall, False, "Function call is missing a `thought_signature`"),
}
_OTHER = _Provider(Reasoning, True, "the signed reasoning of a call is missing")


def _provider(protocol: str) -> _Provider:
    return _PROVIDERS.get(protocol, _OTHER)


def sign(parts: tuple[AnyPart, ...], protocol: str, number: int) -> tuple[AnyPart, ...]:
    """The first part of the kind that is signed gets its state; calls get their ids, from `number` on."""
    provider = _provider(protocol)
    thought = any(isinstance(part, Reasoning) for part in parts)
    signed: list[AnyPart] = []
    done = False
    for part in parts:
        if isinstance(part, ToolCall) and provider.ids:
            part = replace(part, id=f"call_demo_{number}{_behind(protocol) if thought else ''}")
            number += 1
        if isinstance(part, provider.signs) and not done:
            done = True
            item = f"rs_demo_{number}" if protocol == "openai-responses" else ""
            part = replace(part, state=State(protocol, _signature(part, protocol), item))
        signed.append(part)
    return tuple(signed)


def objection(request: Request, protocol: str) -> str:
    """The error of a provider whose state is missing or changed in the history, or nothing."""
    for message in request.messages:
        for part in message.parts:
            if part.state and _plain(part.state.data) not in (_signature(part, protocol), _UNSIGNED):
                return f"Invalid signature at {part.where or message.where}: changed, or made by someone else"
    missing = any(_lacks_signature(message, protocol) for message in _current_turn(request.messages))
    return _provider(protocol).missing if missing else ""


def _plain(signature: str) -> str:
    """google-genai keeps signatures as bytes and spells them in the other alphabet of base64."""
    if signature == _UNSIGNED or not _OTHER_ALPHABET.fullmatch(signature):
        return signature
    return signature.replace("-", "+").replace("_", "/")


def _current_turn(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages since the last text of the user: providers demand their state only here."""
    for index in range(len(messages) - 1, -1, -1):
        kinds = {type(part) for part in messages[index].parts}
        if messages[index].role == "user" and Text in kinds and ToolResult not in kinds:
            return messages[index + 1 :]
    return messages


def _lacks_signature(message: Message, protocol: str) -> bool:
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    if message.role != "assistant" or not calls:
        return False
    if _provider(protocol).signs is ToolCall:
        return calls[0].state is None
    ours = any(call.id.startswith("call_demo_") and call.id.endswith(_behind(protocol)) for call in calls)
    return ours and not any(isinstance(part, Reasoning) and part.state for part in message.parts)


def _behind(protocol: str) -> str:
    return _THOUGHT + "".join([word[0] for word in protocol.split("-")])


def _signature(part: AnyPart, protocol: str) -> str:
    match part:
        case ToolCall():
            return _digest(
                f"{protocol} {part.name}{jsontext.dumps(jsontext.decode_object(part.arguments) or {})}"
            )
        case Reasoning() if protocol == "openai-chat":  # the field holds entries, not one text
            entry = {"type": "reasoning.text", "format": "demo-v1", "index": 0, "text": part.text}
            return jsontext.dumps([{**entry, "signature": _digest(f"{protocol} {part.text}")}])
        case Reasoning():
            return _digest(f"{protocol} {part.text}")
        case _:
            return _digest(f"{protocol} text")


def _digest(text: str) -> str:
    return b64encode(b"demo" + blake2s(text.encode(), digest_size=32).digest()).decode()
