"""Blocks that only Anthropic understands, and the words that others may say instead.

In the history of a conversation they tell what Anthropic's own tools did, which another model can
read; in a reply they are bookkeeping beside the text that the model made of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Foreign, Message, ToolCall, ToolResult, Wire
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME


def decode_foreign(block: Wire, where: str, losses: Losses, history: bool) -> Foreign:
    kind = block.get("type")
    words = told(block, where) if history else ""
    if words:
        losses.changed(
            where, f"a block of type {kind} is only understood by {PROTOCOL_NAME}: it is told in words"
        )
    elif _is_search(block) and history:
        losses.changed(where, "a search for tools is known by the tools that it found: they are declared")
    else:
        losses.dropped(where, f"a block of type {kind} is only understood by {PROTOCOL_NAME}")
    return Foreign(PROTOCOL_NAME, block, words, where=where)


def told(block: Wire, where: str) -> str:
    """What `block` says, in words; nothing where nobody else could use it."""
    content = block.get("content")
    match block.get("type"):
        case "tool_reference":
            return "".join(f"Tool {name} is now available." for name in _referenced(block))
        case "search_result":
            return "\n".join([_source(block), *_texts(content)])
        case "document":
            return "\n".join([_text(block.get("title")), *_texts(_dig(block, "source", "content"))]).strip()
        case "server_tool_use" | "mcp_tool_use" if not _is_search(block):
            return f"[{_text(block.get('name'))}: {printed(block.get('input'), f'{where}.input')}]"
        case "compaction":
            return _text(content)
        case str(kind) if kind.endswith("_tool_result") and not _is_search(block):
            found = "\n".join(_findings(content)) or "nothing"
            return f"[{kind.removesuffix('_tool_result')} result: {found}]"
        case _:
            return ""


def _is_search(block: Wire) -> bool:
    """Whether it only made tools known, which their declaration does for others."""
    match block:
        case {"type": "server_tool_use", "name": str(name)}:
            return name.startswith("tool_search_tool")
        case {"type": "tool_search_tool_result" | "tool_addition"}:
            return True
        case _:
            return False


def printed(value: Any, where: str) -> str:
    """JSON text; a caller's dict may hold what JSON cannot say."""
    try:
        return jsontext.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(PROTOCOL_NAME, where, f"expected JSON, got {error}") from None


def loaded_tools(messages: Iterable[Message]) -> set[str]:
    """Deferred tools that the conversation has loaded: by a reference, or by calling them."""
    loaded: set[str] = set()
    for message in messages:
        for part in message.parts:
            match part:
                case ToolCall():
                    loaded.add(part.name)
                case ToolResult():
                    bodies = [item.body for item in part.content if isinstance(item, Foreign)]
                    loaded.update(name for body in bodies for name in _referenced(body))
                case Foreign() if part.body.get("type") != "tool_removal":
                    loaded.update(_referenced(part.body))
                case _:
                    pass
    return loaded


def _referenced(block: Wire) -> list[str]:
    """The names in a `tool_reference`, in the result of a tool search, in an added or removed tool."""
    match block:
        case {"type": "tool_reference", "tool_name": str(name)}:
            return [name]
        case {"type": "tool_addition" | "tool_removal", "tool": {"name": str(name)}}:
            return [name]
        case {"type": "tool_search_tool_result", "content": {"tool_references": found}} if is_array(found):
            return [name for item in found if is_object(item) for name in _referenced(item)]
        case _:
            return []


def _findings(content: Any) -> list[str]:
    """What Anthropic's own tools found: sources by title and address, output as it was printed."""
    if isinstance(content, str):
        return [content]
    if is_array(content):
        return [line for item in content for line in _findings(item)]
    match content:
        case {"type": "text", "text": str(text)}:
            return [text]
        case {"error_code": str(code)}:
            return [f"failed with {code}"]
        case {"url": str()}:
            return [_source(content)]
        case {"stdout": str(out)}:
            return [text for text in (out, _text(content.get("stderr"))) if text]
        case {"content": str(text)}:
            return [text]
        case _:
            return []


def _source(item: Wire) -> str:
    title = _text(item.get("title")) or _text(_dig(item, "content", "title"))
    address = _text(item.get("url")) or _text(item.get("source"))
    return f"{title} ({address})" if title and address else title or address


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    blocks = content if is_array(content) else []
    return [block["text"] for block in blocks if is_object(block) and isinstance(block.get("text"), str)]


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if is_object(value) else None
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
