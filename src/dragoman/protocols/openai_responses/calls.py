"""Call items and their outputs <-> tool calls and tool results.

Calls come in three forms (function, custom, local shell), each answered by an output item of its own kind.
`call_id` pairs a call with its output; `id` only names the item.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import CallKind, Foreign, Media, Text, ToolCall, ToolResult, Wire
from dragoman.protocols.openai_responses.hosted import encode_found, encode_search
from dragoman.protocols.openai_responses.parts import decode_content, encode_content
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, QUIET_ITEM, native, printed

CALLS: dict[str, CallKind] = {
    "function_call": "function",
    "custom_tool_call": "custom",
    "local_shell_call": "local_shell",
}
OUTPUTS: dict[str, CallKind] = {f"{item}_output": kind for item, kind in CALLS.items()}
ITEM_OF_CALL = {kind: item for item, kind in CALLS.items()}
_ITEM_OF_RESULT = {kind: item for item, kind in OUTPUTS.items()}


def decode_call(fields: Fields, kind: CallKind, losses: Losses) -> ToolCall:
    """`status: incomplete` becomes `complete=False`, from which the status is written again."""
    id = fields.need("call_id", str)
    name = "local_shell" if kind == "local_shell" else fields.need("name", str)
    arguments = _decode_arguments(fields, kind)
    complete = fields.rest.get("status") != "incomplete"
    if not complete:
        fields.rest["status"] = "completed"
    return ToolCall(
        id,
        name,
        arguments,
        kind,
        fields.nonempty("namespace"),
        complete,
        where=fields.where,
        extras=fields.extras(losses, quiet=_QUIET_CALL),
    )


def encode_call(call: ToolCall, losses: Losses) -> Wire:
    rest = own(call.extras, PROTOCOL_NAME)
    if rest.get("type") == "tool_search_call":
        return encode_search(call)
    wire: Wire = {"type": ITEM_OF_CALL[call.kind], "call_id": call.id}
    match call.kind:
        case "local_shell":
            wire["action"] = _encode_action(call, losses)
        case "custom":
            wire |= {"name": call.name, "input": call.arguments}
        case "function":
            wire |= {"name": call.name, **_encode_arguments(call)}
    if call.namespace:
        wire["namespace"] = call.namespace
    if rest and rest.get("type", wire["type"]) != wire["type"]:  # a transform changed the kind of the call
        rest = {}
    if not call.complete and ("status" in rest or not rest):
        return {**wire, **rest, "status": "incomplete"}
    return {**wire, **rest}


def _encode_arguments(call: ToolCall) -> Wire:
    """Peers parse the string, and an empty or blank one is no JSON (G64)."""
    if native(call):
        return {"arguments": call.arguments} if call.arguments else {}
    if call.arguments.strip():
        return {"arguments": call.arguments}
    return {"arguments": "{}" if call.complete else ""}


def _decode_arguments(fields: Fields, kind: CallKind) -> str:
    """Arguments are a string; a server that sends an object (G65) gets it back from the extras."""
    match kind:
        case "custom":
            return fields.need("input", str)
        case "local_shell":
            action = fields.rest.get("action")
            if not is_object(action):
                raise fields.wrong("action", "dict", action)
            named = {key: value for key, value in action.items() if key != "type"}
            return printed(named, fields.path("action"))
        case "function":
            arguments = fields.rest.get("arguments")
            if is_object(arguments) or is_array(arguments):
                return printed(arguments, fields.path("arguments"))
            return fields.nonempty("arguments")


def _encode_action(call: ToolCall, losses: Losses) -> Wire:
    arguments = jsontext.decode_object(call.arguments) if call.arguments else {}
    if arguments is None:
        losses.dropped(
            f"{call.where or call.name}.arguments",
            "a local shell takes an object: its command is lost",
            "call.arguments",
        )
        arguments = {}
    return {"type": "exec", "command": [], "env": {}, **arguments}


_QUIET_CALL = QUIET_ITEM | {"arguments"}


def decode_result(fields: Fields, kind: CallKind, losses: Losses) -> ToolResult:
    name = fields.rest.get("name")
    return ToolResult(
        _call_id(fields, kind),
        name if isinstance(name, str) else "",
        _decode_output(fields, losses),
        kind=kind,
        where=fields.where,
        extras=fields.extras(losses, quiet=_QUIET_RESULT),
    )


def encode_result(result: ToolResult, losses: Losses) -> Wire:
    rest = own(result.extras, PROTOCOL_NAME)
    if rest.get("type") == "tool_search_output":
        return encode_found(result)
    key = "id" if result.kind == "local_shell" and "id" not in rest else "call_id"
    wire: Wire = {"type": _ITEM_OF_RESULT[result.kind]}
    if result.call_id:
        wire[key] = result.call_id
    wire["output"] = _encode_output(result, losses)
    if rest and rest.get("type", wire["type"]) != wire["type"]:
        rest = {}
    return {**wire, **rest}


def _call_id(fields: Fields, kind: CallKind) -> str:
    """The output of a local shell names its call by `id`; results of async tools may name none."""
    if kind == "local_shell" and "call_id" not in fields.rest:
        return fields.need("id", str)
    return fields.text("call_id")


def _decode_output(fields: Fields, losses: Losses) -> tuple[Text | Media | Foreign, ...]:
    """An empty output stays in the extras, so that `""` and `[]` go back as they came."""
    output: Any = fields.rest.get("output")
    if output == "" or output == []:
        return ()
    if output is None:
        raise WireError(
            PROTOCOL_NAME, fields.path("output"), f"expected a string or an array, got {describe(output)}"
        )
    parts = decode_content(fields.any("output"), fields.path("output"), losses)
    return tuple([part if isinstance(part, Text | Media | Foreign) else Text(part.text) for part in parts])


def _encode_output(result: ToolResult, losses: Losses) -> str | list[Wire]:
    content = _marked(result, losses) if result.failed else result.content
    if result.kind == "local_shell":
        if not all(isinstance(part, Text) for part in content):
            losses.dropped(result.where, "the output of a local shell is text", "result.media")
        return "\n".join(part.text for part in content if isinstance(part, Text))
    return encode_content(content, "input_text", losses) or ""


def _marked(result: ToolResult, losses: Losses) -> tuple[Text | Media | Foreign, ...]:
    """Outputs have no flag for failure, so the text begins with `Error`."""
    first = result.content[0] if result.content else None
    if isinstance(first, Text) and first.text.lstrip(' {"').lower().startswith("error"):
        return result.content
    losses.changed(
        result.where,
        f"{PROTOCOL_NAME} has no flag for failed results: the text begins with Error",
        "result.error",
    )
    if isinstance(first, Text):
        return (replace(first, text=f"Error: {first.text}"), *result.content[1:])
    return (Text("Error: the tool failed"), *result.content)


_QUIET_RESULT = QUIET_ITEM | {"output", "namespace"}
