"""Requests <-> neutral requests.

`system` stands beside the conversation, and the parallel switch is inside `tool_choice`. A request that came
from Anthropic's wire goes back as it came, settings included.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.fields import Fields, own
from dragoman.core.fold import EncodedMessages, Fold, RequestShape
from dragoman.core.losses import Losses
from dragoman.core.model import HostedTool, Request, Text, ToolDeclaration, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.anthropic.context_management import decode_compaction, decode_edits
from dragoman.protocols.anthropic.hosted import decode_servers, encode_servers
from dragoman.protocols.anthropic.messages import (
    DecodedMessages,
    DecodeMessages,
    EncodeForeign,
    EncodeNative,
    ForeignFacts,
    decode_system,
    is_blank,
)
from dragoman.protocols.anthropic.parts import encode_content
from dragoman.protocols.anthropic.settings import (
    JSON_INSTRUCTION,
    decode_settings,
    encode_max_tokens,
    encode_settings,
)
from dragoman.protocols.anthropic.tools import (
    allowed,
    declare_used,
    decode_choice,
    decode_inline_tool,
    decode_tools,
    deferred,
    encode_choice,
    encode_tools,
    load,
)
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME, QUIET_REQUEST, is_native

_WITHHELD = "system"  # key of the extras: system blocks that only Anthropic gets


def finish_head(head: Request, messages: DecodedMessages, losses: Losses) -> Request:
    """With the tools that messages define or load."""
    tools, edits = head.tools, head.edits
    if inline := messages.inline():
        tools = (*tools, *(decode_inline_tool(wire, where, losses) for wire, where in inline))
    if names := deferred(tools, losses):
        tools = load(tools, losses, messages.loaded(names))
    if edits is None and messages.is_compacted:
        edits = ()  # a compaction block at the beginning counts as an edit
    if tools is head.tools and edits is head.edits:
        return head
    return replace(head, tools=tools, edits=edits)


def decode_head(body: Wire, losses: Losses) -> Request:
    """Everything but the messages. Settings are read, and also kept in the extras: they go back unchanged."""
    fields = Fields(body, "", PROTOCOL_NAME)
    fields.rest.pop("messages", None)
    model, stream = fields.nonempty("model"), fields.flag("stream")
    system, withheld = decode_system(fields, losses)
    declared = fields.list("tools") if fields.rest.get("tools") != [] else None
    tools = decode_tools(declared or [], losses)
    choice, parallel = decode_choice(fields, losses)
    extras = fields.rest.copy()
    if withheld:
        extras[_WITHHELD] = withheld
    if "mcp_servers" in body:
        tools = decode_servers(fields, tools, losses)
    settings = decode_settings(fields, losses)
    edits = decode_edits(fields, losses) if "context_management" in body else None
    compaction = decode_compaction(body) if "compaction" in body else None
    fields.extras(losses, quiet=QUIET_REQUEST)
    return Request(
        model,
        (),
        system,
        tools,
        choice,
        parallel,
        settings,
        stream,
        compaction,
        edits,
        extras={PROTOCOL_NAME: extras},
    )


def encode_messages(request: Request, profile: ModelProfile) -> tuple[Fold, ...]:
    if is_native(request):
        return (EncodeNative(),)
    declares = ToolDeclaration in map(type, request.tools)
    finds_calls = not declares or bool(allowed(request.tool_choice))
    thinks = request.settings.effort is not None or request.settings.budget is not None
    return (
        EncodeForeign(
            profile.system_messages,
            profile.prefill,
            profile.automatic_cache,
            finds_calls,
            thinks,
            not profile.transcript,
        ),
    )


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    if messages.facts is None:
        return _encode_native(request, messages, losses, profile)
    facts: ForeignFacts = messages.facts
    is_record = profile.transcript  # nothing is added that a server would demand
    body: Wire = {"model": request.model} if request.model or not is_record else {}
    if not is_record or request.settings.max_tokens is not None:
        body["max_tokens"] = encode_max_tokens(request, profile, losses)
    body["messages"] = messages.entries
    messages.report(losses)
    if system := _foreign_system(request, facts):
        body["system"] = encode_content(system, losses)
    body |= _encode_head(request, losses, profile)
    tools = "tools" in body
    if not (tools or is_record):
        body |= declare_used(facts.calls, losses)
    marked = facts.has_marks or any(text.cache for text in request.system)
    if profile.automatic_cache and (tools or facts.several) and not marked:
        body["cache_control"] = {"type": "ephemeral"}  # agents of other protocols rely on automatic caches
    return body | encode_settings(request, body, facts.lacks_thinking, profile, losses)


def _encode_native(
    request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile
) -> Wire:
    """The body wins over the extras, where something was changed since decoding."""
    body: Wire = {"model": request.model} if request.model else {}
    body["messages"] = messages.entries
    messages.report(losses)
    if request.system:
        body["system"] = encode_content(request.system, losses)
    body |= _encode_head(request, losses, profile)
    extras = own(request.extras, PROTOCOL_NAME)
    if profile.hosted_tools is not None and "mcp" not in profile.hosted_tools:
        extras = {key: value for key, value in extras.items() if key != "mcp_servers"}
    return _as_it_came(body, extras)


def _foreign_system(request: Request, facts: ForeignFacts) -> list[Text]:
    system = [text for text in (*request.system, *facts.system) if not is_blank(text.text)]
    if request.settings.output and request.settings.output.kind == "json":
        system.append(Text(JSON_INSTRUCTION))
    return system


def _encode_head(request: Request, losses: Losses, profile: ModelProfile) -> Wire:
    """Tools and the switches beside them."""
    body: Wire = {}
    if tools := encode_tools(request.tools, losses, profile, allowed(request.tool_choice)):
        body["tools"] = tools
    body |= encode_choice(request, bool(tools), profile, losses)
    if HostedTool in map(type, request.tools):
        body |= encode_servers(request.tools, losses)
    if request.stream:
        body["stream"] = True
    return body


def _as_it_came(body: Wire, extras: Wire) -> Wire:
    if withheld := extras.get(_WITHHELD):
        system = body.get("system", [])
        body["system"] = system = [{"type": "text", "text": system}] if isinstance(system, str) else system
        for place, block in withheld:
            system.insert(place, block)
    return {**extras, **body}


CONVERSATION = RequestShape(
    protocol=PROTOCOL_NAME,
    field="messages",
    decode_head=decode_head,
    decode_messages=lambda head, whole: DecodeMessages(),
    finish_head=finish_head,
    encode_messages=encode_messages,
    encode_around=encode_around,
)
