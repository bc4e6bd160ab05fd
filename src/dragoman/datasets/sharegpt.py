"""Rows in the layout of ShareGPT <-> neutral requests.

A row has `conversations`, an array of {"from", "value"}, and may have `system` and `tools`, as JSON text.
A call and its result are turns of their own and have no ids: a result answers the calls before it, in order.
The words are those of LLaMA-Factory's documentation and of the datasets that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, GivenSettings, describe
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Foreign,
    HostedTool,
    Media,
    Message,
    Reasoning,
    Refusal,
    Request,
    Role,
    Settings,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
    Wire,
)

NAME = "sharegpt"
Speaker = Literal["system", "user", "assistant", "call", "result"]
SPEAKERS: dict[str, Speaker] = {  # the first word for a speaker is the one that we write
    "system": "system",
    "human": "user",
    "gpt": "assistant",
    "function_call": "call",
    "observation": "result",
    "user": "user",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",  # as the collections of shared conversations name other assistants
    "bard": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "tool_call": "call",
    "tool": "result",
    "tool_response": "result",
    "function_response": "result",
}
_WORDS = {speaker: word for word, speaker in reversed(SPEAKERS.items())}
_given = GivenSettings(*(name for name in Settings.__struct_fields__ if name not in ("extras", "where")))
_ROLES: dict[Speaker, Role] = {"system": "system", "user": "user", "assistant": "assistant"}


def decode_request(body: Wire, losses: Losses) -> Request:
    fields = Fields(body, "", NAME)
    turns = fields.list("conversations")
    if turns is None:
        raise WireError(NAME, "conversations", "expected an array, got nothing")
    system = fields.text("system")
    tools = tuple(_decode_tools(fields.any("tools"), losses))
    fields.extras(losses)
    return Request(
        "",
        tuple([_decode_turn(turn, f"conversations[{i}]", losses) for i, turn in enumerate(turns)]),
        (Text(text=system, where="system"),) if system else (),
        tools,
    )


def encode_request(request: Request, losses: Losses) -> Wire:
    """What ShareGPT cannot say is reported."""
    for name, _ in _given(request.settings):
        losses.dropped(name, "ShareGPT has no settings.", f"setting.{name}")
    row: Wire = {
        "conversations": [turn for each in request.messages for turn in _encode_message(each, losses)]
    }
    if request.system:
        row["system"] = "\n\n".join([part.text for part in request.system])
    if request.tools:
        row["tools"] = jsontext.dumps(list(_encode_tools(request, losses)))
    return row


def _decode_turn(turn: Any, where: str, losses: Losses) -> Message:
    fields = Fields(turn, where, NAME)
    speaker, value = fields.need("from", str), fields.text("value")
    word = speaker.lower().replace("-", "_")
    if word not in SPEAKERS:
        raise WireError(NAME, f"{where}.from", f"expected one of {', '.join(SPEAKERS)}, got {speaker!r}")
    fields.extras(losses)
    place = f"{where}.value"
    match known := SPEAKERS[word]:
        case "call":
            return Message("assistant", tuple(_decode_calls(value, place, losses)), where=where)
        case "result":
            return Message("user", (ToolResult("", content=(Text(text=value),), where=place),), where=where)
        case _:
            return Message(_ROLES[known], (Text(text=value, where=place),), where=where)


def _encode_message(message: Message, losses: Losses) -> Iterator[Wire]:
    """Calls that stand together are one turn, as an array where they are several."""
    calls: list[Wire] = []
    role = "system" if message.role == "developer" else message.role
    for part in message.parts:
        if isinstance(part, ToolCall):
            calls.append({"name": part.name, "arguments": _arguments(part)})
        elif isinstance(part, ToolResult):
            if part.failed:
                losses.dropped(part.where, "ShareGPT has no field for the failure of a tool.", "result.error")
            yield _turn("result", "\n".join(_texts(part.content, losses)))
        else:
            for text in _texts((part,), losses):
                yield _turn(role, text)
    if calls:
        yield _turn("call", jsontext.dumps(calls[0] if len(calls) == 1 else calls))


def _decode_calls(value: str, where: str, losses: Losses) -> Iterator[ToolCall]:
    """`value` is a call, or an array of them, as JSON text. Llama says `parameters` for the arguments."""
    given = _read(value, where)
    for call in given if is_array(given) else [given]:
        fields = Fields(call, where, NAME)
        arguments = fields.any("arguments" if "arguments" in call else "parameters")
        if not isinstance(arguments, str):
            arguments = jsontext.dumps({} if arguments is None else arguments)
        yield ToolCall("", fields.need("name", str), arguments, where=where)
        fields.extras(losses)


def _arguments(call: ToolCall) -> Any:
    given = jsontext.decode_object(call.arguments or "{}")
    return call.arguments if given is None else given


def _decode_tools(tools: Any, losses: Losses) -> Iterator[ToolDeclaration]:
    """Functions, alone or in the wrapping of Chat; the array may be JSON text."""
    given: Any = _read(tools, "tools") if isinstance(tools, str) and tools.strip() else tools or []
    if not is_array(given):
        raise WireError(NAME, "tools", f"expected an array, got {describe(given)}")
    for i, tool in enumerate(given):
        wrapped = is_object(tool) and is_object(tool.get("function"))
        where = f"tools[{i}].function" if wrapped else f"tools[{i}]"
        fields = Fields(tool["function"] if wrapped else tool, where, NAME)
        name, about = fields.need("name", str), fields.text("description")
        parameters = fields.object("parameters")
        fields.extras(losses)
        yield ToolDeclaration(name, about, parameters, where=where)


def _encode_tools(request: Request, losses: Losses) -> Iterator[Wire]:
    for i, tool in enumerate(request.tools):
        if isinstance(tool, HostedTool):
            losses.dropped(tool.where or f"tools[{i}]", "ShareGPT has functions only.", f"hosted.{tool.kind}")
        else:
            yield {"name": tool.name, "description": tool.description, "parameters": tool.parameters or {}}


def _texts(parts: tuple[AnyPart, ...], losses: Losses) -> Iterator[str]:
    for part in parts:
        match part:
            case Text() | Refusal():
                yield part.text
            case Foreign() if part.text:
                yield part.text
            case Reasoning():
                losses.dropped(part.where or "reasoning", "ShareGPT has no reasoning.", "reasoning.history")
            case Media():
                losses.dropped(part.where or part.kind, "ShareGPT holds text only.", f"media.{part.kind}")
            case _:
                losses.dropped(part.where or "part", "ShareGPT holds text only.", "part.unknown")


def _turn(speaker: Speaker, text: str) -> Wire:
    return {"from": _WORDS[speaker], "value": text}


def _read(text: str, where: str) -> Any:
    try:
        return jsontext.decode(text)
    except ValueError as error:
        raise WireError(NAME, where, str(error)) from None
