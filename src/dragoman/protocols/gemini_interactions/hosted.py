"""Hosted tools: declarations, and the steps that tell of their calls.

A declaration stays whole in the extras, with its settings in neutral words. Steps of hosted tools are kept
whole too. In a history they are also described in words, which another model can read; in a reply they are
metadata beside the text that the model made of them. A call of an MCP server and its result are two steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.core import jsontext
from dragoman.core.fields import NOTHING, Fields, own, rows, word_set
from dragoman.core.hosted import HostedCall, HostedCodec, HostedResult
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import ExecutedCall, Foreign, HostedKind, HostedTool, Text, Wire
from dragoman.core.seal import MAGIC, seal, unseal
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME, printed

KINDS: dict[str, HostedKind] = {
    "google_search": "web_search",
    "url_context": "web_fetch",
    "code_execution": "code_execution",
    "google_maps": "maps",
    "file_search": "file_search",
    "retrieval": "file_search",
    "computer_use": "computer",
    "mcp_server": "mcp",
}
_WRITTEN: dict[HostedKind, Wire] = {
    "web_search": {"type": "google_search"},
    "web_fetch": {"type": "url_context"},
    "code_execution": {"type": "code_execution"},
    "maps": {"type": "google_maps"},
    "computer": {"type": "computer_use", "environment": "browser"},
}
HOSTED = frozenset({*_WRITTEN, "mcp"})
_MCP_SETTINGS = word_set("label url headers allowed approval")
_MODE = frozenset({"mode"})  # nothing is said where the model may choose, or must not
# How clients spell neutral settings
_SPELLED = {"context_size": "search_context_size", "location": "user_location", "deferred": "defer_loading"}


# Declarations


def decode_hosted(fields: Fields, wire: str, losses: Losses) -> HostedTool:
    kind, whole = KINDS.get(wire, "other"), {PROTOCOL_NAME: fields.rest.copy()}
    settings = _decode_mcp(fields, losses) if kind == "mcp" else {}
    if kind != "other":
        fields.extras(losses, quiet=frozenset({"type", "environment"}), topic="hosted.setting")
    name = str(settings.get("label") or "") if kind == "mcp" else wire if kind == "other" else ""
    return HostedTool(kind, name, settings, where=fields.where, extras=whole)


def encode_hosted(tool: HostedTool, losses: Losses) -> Wire | None:
    if ours := own(tool.extras, PROTOCOL_NAME):
        return ours
    wire = _encode_mcp(tool) if tool.kind == "mcp" else _WRITTEN.get(tool.kind)
    if wire is None:
        why = f"{PROTOCOL_NAME} has no hosted {tool.name or tool.kind} tool that takes its place."
        losses.dropped(tool.where, why, f"hosted.{tool.kind}")
        return None
    for name, value in tool.settings.items():
        if value and not (tool.kind == "mcp" and name in _MCP_SETTINGS):
            where, why = _SPELLED.get(name, name), f"The {tool.kind} of {PROTOCOL_NAME} has no such setting."
            losses.dropped(f"{tool.where}.{where}", why, "hosted.setting")
    if tool.kind == "computer":
        losses.changed(tool.where, "Gemini's computer tool has actions of its own.", "hosted.computer")
    return wire.copy()


def _decode_mcp(fields: Fields, losses: Losses) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, key in (("label", "name"), ("url", "url"), ("headers", "headers")):
        if value := fields.any(key):
            settings[name] = value
    entries = fields.list("allowed_tools")
    if entries is not None and not entries:  # a restriction all the same, as in Responses
        settings["allowed"] = []
    for i, entry in enumerate(entries or ()):
        if isinstance(entry, str):  # as Google's cookbook writes them
            settings["allowed"] = [*settings.get("allowed", ()), entry]
            continue
        inner = Fields(entry, f"{fields.path('allowed_tools')}[{i}]", PROTOCOL_NAME)
        given, mode = inner.list("tools"), inner.rest.get("mode")
        names = [str(name) for name in given or ()]
        if mode == "none" and names:
            settings["denied"] = [*settings.get("denied", ()), *names]
        elif given is not None or mode == "none":
            settings["allowed"] = [*settings.get("allowed", ()), *names]
        inner.extras(losses, quiet=_MODE if mode in ("auto", "none") else NOTHING, topic="hosted.setting")
    if "allowed" in settings:
        denied = settings.pop("denied", ())
        settings["allowed"] = [name for name in settings["allowed"] if name not in denied]
    return settings


def _encode_mcp(tool: HostedTool) -> Wire | None:
    settings = tool.settings
    if not settings.get("url"):
        return None
    wire: Wire = {"type": "mcp_server", "name": settings.get("label") or tool.name or "mcp"}
    wire["url"] = settings["url"]
    if settings.get("headers"):
        wire["headers"] = settings["headers"]
    if settings.get("allowed"):
        wire["allowed_tools"] = [{"mode": "auto", "tools": settings["allowed"]}]
    return wire


# Steps


class StepsOfServers:
    """Steps that other protocols lack, of one conversation or reply, in their order. `history`: of a
    request, where another model can use what they say."""

    def __init__(self, history: bool = False, calls: Sequence[tuple[str, Wire]] = ()) -> None:
        self.history = history
        self._calls = dict(calls)  # of MCP servers, by id

    def waiting(self) -> tuple[tuple[str, Wire], ...]:
        """The calls whose results did not come yet."""
        return tuple(self._calls.items())

    def decode(self, step: Wire, kind: str, where: str, losses: Losses) -> Foreign:
        if kind == "mcp_server_tool_call":
            self._calls[str(step.get("id"))] = step
            return Foreign(PROTOCOL_NAME, step, where=where)  # its result tells of it
        if kind == "mcp_server_tool_result":
            return self._executed(step, where, losses)
        words = _in_words(step, kind, where) if self.history else ""
        if words:
            why = f"Only {PROTOCOL_NAME} understands a step of type {kind}. It was sent as text."
            losses.changed(where, why, "part.unknown")
        elif not (kind == "user_input" and not self.history):  # a timeline repeats what the client said
            why = f"Only {PROTOCOL_NAME} understands a step of type {kind}."
            losses.dropped(where, why, "part.unknown")
        return Foreign(PROTOCOL_NAME, step, words, where=where)

    def _executed(self, step: Wire, where: str, losses: Losses) -> Foreign:
        """A call that an MCP server answered: the client must not run it."""
        id, call = _text(step, "call_id"), self._calls.pop(str(step.get("call_id")), {})
        name, arguments = _text(call, "name") or _text(step, "name"), call.get("arguments")
        written = printed(arguments, where) if is_object(arguments) else "{}"
        result = step.get("result")
        output = result if isinstance(result, str) else _texts(result) or printed(result, where)
        server = _text(step, "server_name") or _text(call, "server_name")
        failed = step.get("is_error") is True
        ran = ExecutedCall(id, "both", "mcp", name, written, server, output, failed)
        if self.history:
            losses.changed(where, "A server ran this call. It was sent as text.", "part.unknown")
        return Foreign(PROTOCOL_NAME, step, f"[{name}: {written}]\n{output}\n", ran, where=where)


def encode_executed(call: ExecutedCall) -> tuple[Wire, ...]:
    """The steps that tell of a call which another upstream ran."""
    arguments = jsontext.decode_object(call.arguments or "{}") or {}
    asked = _mcp_call(call.id, call.name, call.server, arguments)
    return (asked, _mcp_result(call.id, call.name, call.server, call.text, call.failed))


# Calls that the gateway executed. Their ids hold the magic word of seals, so that a body with them is never
# forwarded unread; the signature of a result holds what the model read.


def encode_call(call: HostedCall) -> Sequence[Wire]:
    arguments, id = jsontext.decode_object(call.arguments or "{}") or {}, f"{_EXECUTED}{call.id}"
    if call.kind in _STEPS:
        kind, asked, given = _STEPS[call.kind]
        return ({"type": f"{kind}_call", "id": id, "arguments": {asked: [_text(arguments, given)]}},)
    return (_mcp_call(id, call.name, call.server or _OURS, arguments),)


def encode_result(call: HostedCall, result: HostedResult) -> Sequence[Wire]:
    failed, id = result.error is not None, f"{_EXECUTED}{call.id}"
    if call.kind not in _STEPS:
        return (_mcp_result(id, call.name, call.server or _OURS, result.text, failed),)
    kind, _, given = _STEPS[call.kind]
    told: Wire = {"search_suggestions": ""}
    if call.kind == "web_fetch":
        url = _text(jsontext.decode_object(call.arguments or "{}") or {}, given)
        told = {"url": url, "status": "error" if failed else "success"}
    step: Wire = {"type": f"{kind}_result", "call_id": id, "result": [told], "is_error": failed}
    return ({**step, "signature": seal("executed", result.text)},)


def decode_past(step: Wire) -> ExecutedCall | None:
    id, wire = _id(step), _text(step, "type")
    if not id.startswith(_EXECUTED):
        return None
    id, failed = id.removeprefix(_EXECUTED), step.get("is_error") is True
    name, server = _text(step, "name"), _text(step, "server_name")
    arguments = _arguments(step)
    for kind, (shown, asked, given) in _STEPS.items():
        if wire == f"{shown}_call":
            values = arguments.get(asked)
            first = str(values[0]) if is_array(values) and values else ""
            return ExecutedCall(id, "call", kind, kind, jsontext.dumps({given: first}))
        if wire == f"{shown}_result":
            return ExecutedCall(id, "result", kind, text=_found(step), failed=failed)
    kind = "tool_search" if server == _OURS else "mcp"
    if wire == "mcp_server_tool_call":
        return ExecutedCall(id, "call", kind, name, jsontext.dumps(arguments), server)
    return ExecutedCall(id, "result", kind, name, server=server, text=_text(step, "result"), failed=failed)


def text_made_here(part: Foreign, losses: Losses) -> Text | None:
    """A step of ours for Google, which would refuse it: its words."""
    why = "Google takes back only calls that it ran. It was sent as text."
    losses.changed(part.where, why, "part.unknown")
    return Text(part.text) if part.text else None


def is_made_here(step: Wire) -> bool:
    return _id(step).startswith(_EXECUTED)


def _id(step: Wire) -> str:
    return _text(step, "call_id") or _text(step, "id")


def _found(step: Wire) -> str:
    """What the model read of a call that we executed; Google tells nothing of its own."""
    match unseal(_text(step, "signature")):
        case ["executed", str(text)]:
            return text
        case _:
            return ""


_EXECUTED, _OURS = f"{MAGIC}_", "dragoman"  # `_OURS`: the server of tools that have no steps of their own
# kind -> its steps, the field of their arguments, and that of our own
_STEPS: dict[HostedKind, tuple[str, str, str]] = {
    "web_search": ("google_search", "queries", "query"),
    "web_fetch": ("url_context", "urls", "url"),
}
HOSTED_CODEC = HostedCodec(
    hints=(b'"google_search', b'"url_context', b'"mcp_server'),
    encode_call=encode_call,
    encode_result=encode_result,
    decode=decode_past,
    holds=frozenset({"web_search", "web_fetch", "tool_search", "mcp"}),
)


def _mcp_call(id: str, name: str, server: str, arguments: Wire) -> Wire:
    call = {"type": "mcp_server_tool_call", "id": id, "name": name, "server_name": server}
    return {**call, "arguments": arguments}


def _mcp_result(id: str, name: str, server: str, output: str, failed: bool) -> Wire:
    result = {"type": "mcp_server_tool_result", "call_id": id, "name": name, "server_name": server}
    return {**result, "result": output, "is_error": failed}


def _in_words(step: Wire, kind: str, where: str) -> str:
    """The meaning of `step` as text; empty where no other model could use it."""
    asked = _arguments(step)
    match kind:
        case "google_search_call" | "file_search_call" | "google_maps_call" | "retrieval_call":
            return f"[{kind.removesuffix('_call')}: {printed(asked, where)}]" if asked else ""
        case "url_context_call":
            return f"[url_context: {printed(asked.get('urls'), where)}]" if asked.get("urls") else ""
        case "code_execution_call":
            return f"```\n{asked['code']}\n```" if isinstance(asked.get("code"), str) else ""
        case "code_execution_result":
            result = step.get("result")
            output = result if isinstance(result, str) else _texts(result)
            return f"Output:\n```\n{output}\n```" if output else ""
        case "google_search_result" | "url_context_result":
            found = _found(step)
            return f"[{kind.removesuffix('_result')} result: {found}]" if found else ""
        case _:
            return ""


def _arguments(step: Wire) -> Wire:
    arguments = step.get("arguments")
    return arguments if is_object(arguments) else {}


def _texts(content: Any) -> str:
    return "".join([_text(block, "text") for block in rows(content)]) if is_array(content) else ""


def _text(wire: Wire, key: str) -> str:
    value = wire.get(key)
    return value if isinstance(value, str) else ""
