"""Which tool fits a prompt, and arguments that its schema allows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.core import jsontext
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Request, Tool, Wire

# What a prompt says -> words in the name of a tool that does it, the best first
_WISHES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"\b(list|show)\b.*\b(files?|director|folder)|\bls\b|run |execute|command|shell",
        ("shell", "bash", "exec", "command", "list", "ls", "glob"),
    ),
    (r"\b(read|open|what is in|what's in|show|cat)\b", ("read", "view", "open", "cat", "shell", "bash")),
    (r"\b(write|create|save)\b", ("write", "create", "apply_patch", "edit", "shell", "bash")),
    (r"\b(replace|edit|change|fix)\b", ("replace", "edit", "apply_patch", "write")),
    (r"\b(search|find|grep|look for)\b", ("grep", "search", "find", "glob")),
    (r"\bweather\b", ("weather",)),
    (r"\btime\b", ("time",)),
    (r"\b(fetch|url|https?://)", ("fetch", "url", "web")),
)
_PATH = re.compile(r"(?<![\w/])(/[\w./-]+|[\w-]+(?:/[\w.-]+)+|[\w-]+\.[a-z]{1,5})\b")
_PLACE = re.compile(r"\b(?:in|for|of|at)\s+([A-Z][\w]*(?:\s[A-Z][\w]*)?)")


def fitting(prompt: str, tools: Sequence[Tool], request: Request) -> tuple[tuple[Tool, str], ...]:
    """The calls that a prompt asks for: one for each thing asked, in order; none where nothing fits."""
    choice = request.tool_choice
    if choice and choice.names:
        tools = [tool for tool in tools if tool.name in choice.names]
    wanted = [(tool, wish) for wish in _wishes(prompt) for tool in [_tool_for(wish, tools)] if tool]
    if not wanted and choice and choice.mode == "required" and tools:
        wanted = [(tools[0], prompt)]
    if request.parallel is False or not _several(prompt):
        wanted = wanted[:1]
    return tuple((tool, _arguments(tool, wish)) for tool, wish in wanted)


def _several(prompt: str) -> bool:
    return bool(re.search(r"\band\b|\bboth\b|[;\n]", prompt))


def _wishes(prompt: str) -> Iterable[str]:
    """The things asked for; a name after "and" repeats the wish before it: "weather in Oslo and Rome"."""
    pieces = [piece for piece in re.split(r"\band\b|[;\n]", prompt) if piece.strip()]
    last = ""
    for piece in pieces:
        if any(re.search(pattern, piece, re.IGNORECASE) for pattern, _ in _WISHES):
            last = piece
            yield piece
        elif last and (subject := piece.strip(" ?.!,")) and len(subject.split()) <= 3:
            yield re.sub(_PLACE, f"in {subject}", last) if _PLACE.search(last) else f"{last} {subject}"
    if not pieces or not last:
        yield prompt


def _tool_for(wish: str, tools: Sequence[Tool]) -> Tool | None:
    for pattern, words in _WISHES:
        if not re.search(pattern, wish, re.IGNORECASE):
            continue
        for word in words:
            for tool in tools:
                if word in tool.name.lower():
                    return tool
    named = [tool for tool in tools if tool.name.lower() in wish.lower()]
    return named[0] if named else None


def _arguments(tool: Tool, wish: str) -> str:
    if tool.kind == "custom":
        return wish.strip()
    value = _value("", tool.parameters or {}, wish, tool.parameters or {})
    return jsontext.dumps(value if is_object(value) else {})


def _value(name: str, schema: Any, wish: str, root: Wire) -> Any:
    """A value that `schema` allows, taken from the wish where the name of the property says how."""
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if is_array(options := schema.get("enum")) and options:
        return next((option for option in options if str(option).lower() in wish.lower()), options[0])
    for key in ("anyOf", "oneOf", "allOf"):
        if is_array(branches := schema.get(key)) and branches:
            return _value(name, branches[0], wish, root)
    kind = schema.get("type")
    kind = next((item for item in kind if item != "null"), "null") if is_array(kind) else kind
    match str(kind or ("object" if "properties" in schema else "string")).lower():
        case "object":
            required = schema.get("required")
            properties = schema.get("properties") if is_object(schema.get("properties")) else {}
            wanted = required if is_array(required) else []
            return {str(key): _value(str(key), (properties or {}).get(key, {}), wish, root) for key in wanted}
        case "array":
            items = [_value(name, schema.get("items") or {}, wish, root)]
            return (
                _words(wish)
                if name in ("command", "cmd", "args")
                else items * max(1, _least(schema, "minItems"))
            )
        case "integer" | "number":
            return _least(schema, "minimum") or 1
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return _text(name.lower(), schema, wish)


def _text(name: str, schema: Wire, wish: str) -> str:
    path = _PATH.search(wish)
    place = _PLACE.search(wish)
    if any(word in name for word in ("command", "cmd", "script")):
        return _command(wish)
    if any(word in name for word in ("path", "file", "dir")):
        text = path[1] if path else "README.md"
    elif any(word in name for word in ("city", "location", "place", "country", "tz", "zone")):
        text = place[1] if place else "Paris"
    else:
        text = wish.strip(" ?.!\n") or "demo"
    return text.ljust(_least(schema, "minLength"), "x")


def _command(wish: str) -> str:
    """Harmless, and what was asked: a command in backticks or after a colon, else a listing."""
    quoted = re.search(r"`([^`]+)`", wish) or re.search(
        r"\b(?:run|execute)\b[^:]*:\s*(.+)", wish, re.IGNORECASE
    )
    return quoted[1].strip() if quoted else "ls"


def _words(wish: str) -> list[str]:
    return ["bash", "-lc", _command(wish)]


def _least(schema: Wire, key: str) -> int:
    value = schema.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _resolved(schema: Any, root: Wire) -> Wire:
    """Local references, followed a few steps; what cannot be found allows anything."""
    for _ in range(8):
        if not is_object(schema):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: Any = root
        for step in reference[2:].split("/"):
            found = found.get(step) if is_object(found) else None
        schema = found
    return {}
