"""Call items and their outputs <-> tool calls and tool results.

Calls come in several forms (function, custom, and tools that the client runs: local shell, shell,
apply_patch), each answered by an output item of its own kind.
`call_id` pairs a call with its output; `id` only names the item.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own, rows
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import CallKind, Foreign, Media, Text, ToolCall, ToolResult, Wire
from dragoman.protocols.openai_responses.computer import actions_of, picture_of, screenshot_of
from dragoman.protocols.openai_responses.hosted import encode_found, encode_search
from dragoman.protocols.openai_responses.parts import decode_content, encode_content
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, QUIET_ITEM, is_native, printed

CALLS: dict[str, CallKind] = {
    "function_call": "function",
    "custom_tool_call": "custom",
    "local_shell_call": "local_shell",
    "shell_call": "shell",
    "apply_patch_call": "apply_patch",
    "computer_call": "computer",
}
OUTPUTS: dict[str, CallKind] = {f"{item}_output": kind for item, kind in CALLS.items()}
ITEM_OF_CALL = {kind: item for item, kind in CALLS.items()}
_ITEM_OF_RESULT = {kind: item for item, kind in OUTPUTS.items()}


def decode_call(fields: Fields, kind: CallKind, losses: Losses) -> ToolCall:
    """`status: incomplete` becomes `complete=False`, from which the status is written again."""
    id = fields.need("call_id", str)
    name = fields.need("name", str) if kind in ("function", "custom") else kind
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
        extras=fields.extras(losses, quiet=_quiet(fields, _QUIET_CALL)),
    )


def _quiet(fields: Fields, quiet: frozenset[str]) -> frozenset[str]:
    """`quiet` with what says nothing here: that the model itself called the tool, not a program that it
    wrote, and that there are no safety checks."""
    if not fields.rest.keys() & _SAYING:
        return quiet
    direct = fields.rest.get("caller") in (None, {"type": "direct"})
    return quiet | {key for key in _SAYING if (direct if key == "caller" else not fields.rest.get(key))}


_SAYING = frozenset({"caller", "pending_safety_checks", "acknowledged_safety_checks"})


def encode_call(call: ToolCall, losses: Losses) -> Wire:
    rest = own(call.extras, PROTOCOL_NAME)
    if rest.get("type") == "tool_search_call":
        return encode_search(call)
    wire: Wire = {"type": ITEM_OF_CALL[call.kind], "call_id": call.id}
    match call.kind:
        case "local_shell":
            wire["action"] = {"type": "exec", "command": [], "env": {}, **_encode_action(call, losses)}
        case "shell":
            wire["action"] = {"commands": [], **_encode_action(call, losses)}
        case "apply_patch":
            wire["operation"] = _encode_action(call, losses)
        case "computer":
            wire |= _encode_actions(call, losses)
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
    if is_native(call):
        return {"arguments": call.arguments} if call.arguments else {}
    if call.arguments.strip():
        return {"arguments": call.arguments}
    return {"arguments": "{}" if call.complete else ""}


def _decode_arguments(fields: Fields, kind: CallKind) -> str:
    """Arguments are a string; a server that sends an object (G65) gets it back from the extras."""
    match kind:
        case "custom":
            return fields.need("input", str)
        case "local_shell" | "shell" | "apply_patch":
            field = "operation" if kind == "apply_patch" else "action"
            action = fields.rest.get(field)
            if not is_object(action):
                raise fields.wrong(field, "dict", action)
            constant = "type" if kind == "local_shell" else ""
            return printed({key: action[key] for key in action if key != constant}, fields.path(field))
        case "computer":
            return printed(actions_of(fields.rest), fields.where)
        case "function":
            arguments = fields.rest.get("arguments")
            if is_object(arguments) or is_array(arguments):
                return printed(arguments, fields.path("arguments"))
            return fields.nonempty("arguments")


def _encode_action(call: ToolCall, losses: Losses) -> Wire:
    arguments = jsontext.decode_object(call.arguments) if call.arguments else {}
    if arguments is None:
        why = f"A call of {call.kind} takes an object, so its arguments were left out."
        losses.dropped(f"{call.where or call.name}.arguments", why, "call.arguments")
        arguments = {}
    return arguments


def _encode_actions(call: ToolCall, losses: Losses) -> Wire:
    arguments = _encode_action(call, losses)
    actions = actions_of(arguments)
    if arguments and not actions:
        why = "A call of a computer takes actions, so its arguments were left out."
        losses.dropped(f"{call.where or call.name}.arguments", why, "call.arguments")
    return {**(actions or {"actions": []}), "pending_safety_checks": []}


_QUIET_CALL = QUIET_ITEM | {"arguments", "environment", "actions"}


def decode_result(fields: Fields, kind: CallKind, losses: Losses) -> ToolResult:
    name = fields.rest.get("name")
    return ToolResult(
        _call_id(fields, kind),
        name if isinstance(name, str) else "",
        _decode_output(fields, losses),
        kind == "apply_patch" and fields.rest.get("status") == "failed",
        kind,
        where=fields.where,
        extras=fields.extras(losses, quiet=_quiet(fields, _QUIET_RESULT)),
    )


def encode_result(result: ToolResult, losses: Losses) -> Wire:
    rest = own(result.extras, PROTOCOL_NAME)
    if rest.get("type") == "tool_search_output":
        return encode_found(result)
    key = "id" if result.kind == "local_shell" and "id" not in rest else "call_id"
    wire: Wire = {"type": _ITEM_OF_RESULT[result.kind]}
    if result.call_id:
        wire[key] = result.call_id
    if result.kind == "apply_patch":
        wire["status"] = "failed" if result.failed else "completed"
    if result.content or result.kind != "apply_patch":
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
    if output is None and fields.rest.get("type") == "apply_patch_call_output":
        return ()  # its status is all that it says
    if output is None:
        problem = f"expected a string or an array, got {describe(output)}"
        raise WireError(PROTOCOL_NAME, fields.path("output"), problem)
    if fields.rest.get("type") == "computer_call_output":  # what was decoded stays in the extras too
        parts = decode_content(picture_of(output), fields.path("output"), losses)
        return tuple([part for part in parts if isinstance(part, Media | Foreign)])
    if fields.rest.get("type") == "shell_call_output":
        return (Text(_shell_text(output), where=fields.path("output")),)
    parts = decode_content(fields.any("output"), fields.path("output"), losses)
    return tuple([part if isinstance(part, Text | Media | Foreign) else Text(part.text) for part in parts])


def _shell_text(output: Any) -> str:
    """What the commands of a shell call printed, with exit codes other than 0."""
    texts: list[str] = []
    for entry in rows(output):
        outcome = entry.get("outcome")
        code = outcome.get("exit_code") if is_object(outcome) else None
        ended = f"[exit code {code}]" if code else "[timeout]" if is_object(outcome) and code is None else ""
        texts += [str(text) for text in (entry.get("stdout"), entry.get("stderr"), ended) if text]
    return "\n".join(texts)


def _encode_output(result: ToolResult, losses: Losses) -> str | list[Wire] | Wire:
    content = _marked(result, losses) if result.failed and not is_native(result) else result.content
    if result.kind in ("local_shell", "shell", "apply_patch"):
        if not all(isinstance(part, Text) for part in content):
            losses.dropped(result.where, f"The output of {result.kind} is text.", "result.media")
        text = "\n".join(part.text for part in content if isinstance(part, Text))
        if result.kind != "shell":
            return text
        return [{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": int(result.failed)}}]
    written = encode_content(content, "input_text", losses) or ""
    return screenshot_of(written) if result.kind == "computer" else written


def _marked(result: ToolResult, losses: Losses) -> tuple[Text | Media | Foreign, ...]:
    """Outputs have no flag for failure, so the text begins with `Error`."""
    first = result.content[0] if result.content else None
    if isinstance(first, Text) and first.text.lstrip(' {"').lower().startswith("error"):
        return result.content
    why = f"{PROTOCOL_NAME} has no field for the failure of a tool. The text says it."
    losses.changed(result.where, why, "result.error")
    if isinstance(first, Text):
        return (replace(first, text=f"Error: {first.text}"), *result.content[1:])
    return (Text("Error: the tool failed"), *result.content)


_QUIET_RESULT = QUIET_ITEM | {"output", "namespace", "max_output_length"}
