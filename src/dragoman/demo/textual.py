"""The scripted model without native tool calling: it reads the prompt of any dialect and answers in kind.

A request that declares no tools but renders some in its system text is read back: the dialect by a phrase of
its instructions, the tools from their declarations, the results from the user's messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Message,
    Reasoning,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Wire,
)
from dragoman.dialects import dialect
from dragoman.dialects.engine.dialect import Dialect, EarlierCall
from dragoman.dialects.engine.values import DeclaredTools
from dragoman.dialects.gemma import QUOTE, GemmaPayload

# Dialect -> a phrase that only its instructions hold, and how it writes a result
_TOOL_RESPONSE = r"<tool_response>\n(.*?)\n</tool_response>"
_JSON_RESULT = r'"(?:output|error)": ("(?:[^"\\]|\\.)*")\}'
_DIALECTS: dict[str, tuple[str, str]] = {
    "roo-xml": (
        "Use tools by outputting XML-formatted",
        r"Tool (?:Result|Error) from \S+:\n(.*?)(?=\n\nTool |\Z)",
    ),
    "hermes": ('{"name": <function-name>, "arguments": <args-json-object>}', _TOOL_RESPONSE),
    "qwen3-coder": ("<function=example_function_name>", _TOOL_RESPONSE),
    "anthropic-xml": (
        '<invoke name="$FUNCTION_NAME">\n<parameter name',
        r"<(?:stdout|error)>(.*?)</(?:stdout|error)>",
    ),
    "llama3-json": ("Environment: ipython", _JSON_RESULT),
    "pythonic": ("[func_name1(param1=", _JSON_RESULT),
    "mistral": ("[AVAILABLE_TOOLS]", r"\[TOOL_RESULTS\](.*?)\[/TOOL_RESULTS\]"),
    "deepseek": (
        "<｜tool▁call▁begin｜>tool_name<｜tool▁sep｜>",
        r"<｜tool▁output▁begin｜>(.*?)<｜tool▁output▁end｜>",
    ),
    "glm": ("<arg_key>{arg-key-1}</arg_key>", _TOOL_RESPONSE),
    "kimi-k2": ("<|tool_calls_section_begin|>", r"## Return of \S+\n(.*?)(?=\n\n## Return of |\Z)"),
    "minimax-m2": ("<minimax:tool_call>", r"<response>(.*?)</response>"),
    "harmony": ("namespace functions {", r"<\|message\|>(.*?)<\|end\|>"),
    "gemma": ("<|tool>declaration:", r'response:[^{]+\{(?:value|error):<\|"\|>(.*?)<\|"\|>\}'),
    "granite": ("respond with <|tool_call|>", _TOOL_RESPONSE),
}
_MUST = re.compile(r"You must call the tool (\S+) in this reply\.")


class Rendered(Struct, frozen=True):
    """What a rendered prompt stands for, and the dialect that it is written in."""

    request: Request
    dialect: Dialect


def read(request: Request) -> Rendered | None:
    """None where the prompt renders no tools."""
    if request.tools:
        return None
    system = "\n".join(_system(request))
    name = next((name for name, (phrase, _) in _DIALECTS.items() if phrase in system), "")
    tools = tuple(_tools(name, system)) if name else ()
    if not tools:
        return None
    written = dialect(name)
    one = written.only_first or "Call at most one tool in a reply." in system
    messages = tuple(
        _message(message, _list_called(request.messages[:index], written, tools), _DIALECTS[name][1])
        for index, message in enumerate(request.messages)
    )
    request = replace(
        request, tools=tools, tool_choice=_choice(system), parallel=False if one else None, messages=messages
    )
    return Rendered(request, written)


def write(response: Response, rendered: Rendered) -> Response:
    """The same reply as text: the reasoning, the text and the calls in a row."""
    written = rendered.dialect
    declared = DeclaredTools(rendered.request.tools)
    reasoning = "".join(part.text for part in response.parts if isinstance(part, Reasoning))
    text = "\n".join(part.text for part in response.parts if isinstance(part, Text))
    calls = [part for part in response.parts if isinstance(part, ToolCall)]
    past = tuple(_past_call(call, number, declared) for number, call in enumerate(calls))
    pieces = [text] if text else []
    pieces += [written.write_calls(past)] if past else []
    whole = (written.write_reasoning(reasoning) if reasoning else "") + written.gap.join(pieces)
    return replace(response, parts=(Text(whole),), stop=Stop("end"))


def leak(response: Response) -> Response:
    """The calls as text (hermes) and everything else as it was, as weak models leak them."""
    hermes, declared = dialect("hermes"), DeclaredTools(())
    parts = tuple(
        Text(hermes.write_calls((_past_call(part, 0, declared),))) if isinstance(part, ToolCall) else part
        for part in response.parts
    )
    return replace(response, parts=parts, stop=Stop("end"))


def _past_call(call: ToolCall, number: int, declared: DeclaredTools) -> EarlierCall:
    arguments = jsontext.decode_object(call.arguments) or {}
    return EarlierCall(call.id, call.name, arguments, declared, number)


def _system(request: Request) -> Iterator[str]:
    """The system text, wherever a protocol puts it."""
    yield from (part.text for part in request.system)
    for message in request.messages:
        if message.role in ("system", "developer"):
            yield from (part.text for part in message.parts if isinstance(part, Text))


def _choice(system: str) -> ToolChoice | None:
    if "Do not call any tool in this reply." in system:
        return ToolChoice("none")
    if found := _MUST.search(system):
        return ToolChoice("required", (found[1],))
    return ToolChoice("required") if "You must call a tool in this reply." in system else None


def _list_called(
    before: tuple[Message, ...], written: Dialect, tools: tuple[ToolDeclaration, ...]
) -> list[str]:
    """The names that the last message of the model called, in order."""
    if not before or before[-1].role != "assistant":
        return []
    reply = Response("", "", before[-1].parts, Stop("end"))
    parsed = written.parser(tools, Losses()).whole(reply)
    return [part.name for part in parsed.parts if isinstance(part, ToolCall)]


def _message(message: Message, names: list[str], result: str) -> Message:
    """A user's message with its results taken out of the text."""
    if message.role != "user" or not names:
        return message
    parts: list[AnyPart] = []
    for part in message.parts:
        results = re.findall(result, part.text, re.DOTALL) if isinstance(part, Text) else []
        texts = [jsontext.decode(text) if result is _JSON_RESULT else text for text in results]
        named = zip([*names, *[""] * len(texts)], texts, strict=False)
        parts += [ToolResult("", name, (Text(text),)) for name, text in named] if texts else [part]
    return replace(message, parts=tuple(parts))


# Declarations

_ROO_TOOL = re.compile(r"^## (\S+)\nDescription: (.*?)\nParameters:(.*?)\n\nUsage:", re.DOTALL | re.MULTILINE)
_QWEN_TOOL = re.compile(
    r"<function>\n<name>(.*?)</name>\n<description>(.*?)</description>\n"
    r"<parameters>(.*?)</parameters>\n</function>",
    re.DOTALL,
)
_DEEPSEEK_TOOL = re.compile(r"### (\S+)\nDescription: (.*?)\n\nParameters: (\{[^\n]*\})", re.DOTALL)
_HARMONY_TOOL = re.compile(r"^type (\S+) = \((?:_: \{\n(.*?)\n\})?\) => any;", re.DOTALL | re.MULTILINE)


_GEMMA_TOOL = re.compile(r"<\|tool>declaration:([^{]+)(\{.*?\})<tool\|>", re.DOTALL)


def _tools(name: str, system: str) -> Iterator[ToolDeclaration]:
    if name not in _SPELLED:
        return _json_tools(system)
    pattern, read = _SPELLED[name]
    return map(read, pattern.finditer(system))


def _roo_tool(found: re.Match[str]) -> ToolDeclaration:
    fields = re.findall(r"^- (\S+): \((required|optional)\) ?(\w*)", found[3], re.MULTILINE)
    return _tool(found[1], found[2], [(field, kind, need == "required") for field, need, kind in fields])


def _qwen_tool(found: re.Match[str]) -> ToolDeclaration:
    required = re.search(r"<required>(.*?)</required>", found[3])
    needed: list[str] = jsontext.decode(required[1]) if required else []
    fields = re.findall(r"<parameter>\n<name>(.*?)</name>\n(?:<type>(\w+)</type>)?", found[3])
    return _tool(found[1], found[2], [(field, kind, field in needed) for field, kind in fields])


def _deepseek_tool(found: re.Match[str]) -> ToolDeclaration:
    return ToolDeclaration(found[1], found[2], jsontext.decode_object(found[3]))


def _harmony_tool(found: re.Match[str]) -> ToolDeclaration:
    fields = re.findall(r"^(\w+)(\??): (\w+)", found[2] or "", re.MULTILINE)
    return _tool(found[1], "", [(field, kind, not mark) for field, mark, kind in fields])


def _gemma_tool(found: re.Match[str]) -> ToolDeclaration:
    declared = GemmaPayload(found[2], QUOTE, found[1], DeclaredTools(())).whole()
    return ToolDeclaration(found[1], str(declared.get("description") or ""), declared.get("parameters"))


# How a dialect spells a declaration in the prompt; those that are missing here write JSON
_SPELLED: dict[str, tuple[re.Pattern[str], Callable[[re.Match[str]], ToolDeclaration]]] = {
    "roo-xml": (_ROO_TOOL, _roo_tool),
    "qwen3-coder": (_QWEN_TOOL, _qwen_tool),
    "deepseek": (_DEEPSEEK_TOOL, _deepseek_tool),
    "harmony": (_HARMONY_TOOL, _harmony_tool),
    "gemma": (_GEMMA_TOOL, _gemma_tool),
}


def _json_tools(system: str) -> Iterator[ToolDeclaration]:
    """Declarations as JSON, one or a list of them in a line."""
    for line in re.sub(r"</?(?:function|tool)>|\[/?AVAILABLE_TOOLS\]", "\n", system).splitlines():
        if line[:1] not in ("{", "[") or not jsontext.is_complete(line):
            continue
        value: Any = jsontext.decode(line)
        for item in value if is_array(value) else [value]:
            function: Any = item.get("function", item) if is_object(item) else {}
            if is_object(function) and "parameters" in function:
                description = str(function.get("description") or "")
                yield ToolDeclaration(str(function.get("name")), description, function["parameters"])


def _tool(name: str, description: str, fields: list[tuple[str, str, bool]]) -> ToolDeclaration:
    """A tool of plain parameters: (name, type, whether it is required)."""
    properties: Wire = {field: {"type": kind or "string"} for field, kind, _ in fields}
    required = [field for field, _, needed in fields if needed]
    return ToolDeclaration(
        name, description, {"type": "object", "properties": properties, "required": required}
    )
