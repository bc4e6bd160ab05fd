"""Requests <-> neutral requests.

`system` stands beside the conversation, and the parallel switch is inside `tool_choice`. A request that came
from Anthropic's wire goes back as it came, settings included.
"""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.core.fields import Fields, own
from dragoman.core.history import decode_head, decode_turns, encode_head, known_head, some, turns_of
from dragoman.core.losses import Losses
from dragoman.core.model import Foreign, Message, Request, Text, ToolResult, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.protocols.anthropic.context_management import decode_compaction, decode_edits
from dragoman.protocols.anthropic.hosted import (
    decode_servers,
    encode_servers,
    inline_definitions,
    loaded_tools,
)
from dragoman.protocols.anthropic.messages import (
    decode_message,
    decode_system,
    encode_foreign,
    encode_native,
    is_system,
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


def decode_request(body: Wire, losses: Losses) -> Request:
    """Settings are decoded, and also kept in the extras: they go back to Anthropic unchanged."""
    wires = turns_of(body, "messages", PROTOCOL_NAME)
    messages, past = decode_turns(wires, "messages", decode_message, losses)
    request, names = decode_head(body, head := known_head(wires), _decode_head, losses)
    tools, edits = request.tools, request.edits
    if some(messages, past, is_system) and (inline := inline_definitions(messages)):
        tools = (*tools, *(decode_inline_tool(wire, where, losses) for wire, where in inline))
        names = deferred(tools, losses)
    if names:
        tools = load(tools, losses, names & loaded_tools(messages))
    if edits is None and messages and messages[0].parts and type(messages[0].parts[0]) is Foreign:
        edits = ()  # a compaction block at the beginning counts as an edit
    return replace(request, messages=messages, tools=tools, edits=edits, past=past, head=head)


def _decode_head(body: Wire, losses: Losses) -> tuple[Request, frozenset[str]]:
    """Everything but the messages, and the names of the tools that these must load."""
    fields = Fields(body, "", PROTOCOL_NAME)
    del fields.rest["messages"]
    model, stream = fields.nonempty("model"), fields.flag("stream")
    system, withheld = decode_system(fields, losses)
    declared = fields.list("tools") if fields.rest.get("tools") != [] else None
    tools = decode_tools(declared or [], losses)
    choice, parallel = decode_choice(fields, losses)
    extras = fields.rest.copy()
    if withheld:
        extras[_WITHHELD] = withheld
    tools = decode_servers(fields, tools, losses)
    settings = decode_settings(fields, losses)
    edits = decode_edits(fields, losses) if "context_management" in body else None
    compaction = decode_compaction(body) if "compaction" in body else None
    fields.extras(losses, quiet=QUIET_REQUEST)
    request = Request(
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
    return request, deferred(tools, losses)


def encode_request(request: Request, losses: Losses, profile: ModelProfile = UNKNOWN) -> Wire:
    """The body wins over the extras, where something was changed since decoding."""
    native = is_native(request)
    body: Wire = {"model": request.model} if request.model or not native else {}
    if not native:
        body["max_tokens"] = encode_max_tokens(request, profile, losses)
    system, body["messages"] = (
        encode_native(request, losses) if native else encode_foreign(request, profile, losses)
    )
    if not native and request.settings.output and request.settings.output.kind == "json":
        system = [*system, Text(JSON_INSTRUCTION)]
    if system:
        body["system"] = encode_content(system, losses)
    body |= encode_head(request, losses, profile, _encode_head)
    if native:
        extras = own(request.extras, PROTOCOL_NAME)
        if profile.hosted_tools is not None and "mcp" not in profile.hosted_tools:
            extras = {key: value for key, value in extras.items() if key != "mcp_servers"}
        return _as_it_came(body, extras)
    tools = "tools" in body
    if not tools:
        body |= declare_used(request.messages, losses)
    if profile.automatic_cache and (tools or len(body["messages"]) > 1) and not _has_marks(request):
        body["cache_control"] = {"type": "ephemeral"}  # agents of other protocols rely on automatic caches
    return body | encode_settings(request, body, profile, losses)


def _encode_head(request: Request, losses: Losses, profile: ModelProfile) -> Wire:
    """Tools and the switches beside them."""
    body: Wire = {}
    if tools := encode_tools(request.tools, losses, profile, allowed(request.tool_choice)):
        body["tools"] = tools
    body |= encode_choice(request, bool(tools), profile, losses)
    body |= encode_servers(request.tools, losses)
    if request.stream:
        body["stream"] = True
    return body


def _has_marks(request: Request) -> bool:
    """Whether the client sets cache breakpoints itself."""
    in_messages = some(request.messages, request.past, _is_marked)
    return in_messages or any(text.cache for text in request.system)


def _is_marked(message: Message) -> bool:
    for part in message.parts:
        if part.cache or (type(part) is ToolResult and part.content and part.content[-1].cache):
            return True
    return False


def _as_it_came(body: Wire, extras: Wire) -> Wire:
    if withheld := extras.get(_WITHHELD):
        system = body.get("system", [])
        body["system"] = system = [{"type": "text", "text": system}] if isinstance(system, str) else system
        for place, block in withheld:
            system.insert(place, block)
    return {**extras, **body}
