"""What the scripted model answers: it reads the declared tools and the prompt, really calls a fitting
tool with arguments that its schema allows, and answers from the results.

The same request always gets the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2s

from dragoman.core import jsontext
from dragoman.core.model import (
    AnyPart,
    Base64,
    Failure,
    Media,
    Reasoning,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
    Usage,
)
from dragoman.core.token_estimate import estimate_tokens
from dragoman.demo.arguments import COMMAND, PATH, PLACE, answer, arguments
from dragoman.demo.signatures import objection, sign


def reply(request: Request, protocol: str) -> Response | Failure:
    """The answer of a model that speaks `protocol`."""
    objected = objection(request, protocol)
    if objected:
        return Failure("bad_request", objected, 400)
    number = sum(isinstance(part, ToolCall) for message in request.messages for part in message.parts)
    parts = sign(_parts(request), protocol, number + 1)
    called = any(isinstance(part, ToolCall) for part in parts)
    usage = Usage(estimate_tokens(request), sum(_length(part) for part in parts) // 4 + 1)
    stop = Stop("tool_calls" if called else "end")
    return Response(f"demo-{_digest(request)}", request.model, parts, stop, usage)


def _parts(request: Request) -> tuple[AnyPart, ...]:
    replied = [index for index, message in enumerate(request.messages) if message.role == "assistant"]
    tail = request.messages[replied[-1] + 1 :] if replied else request.messages
    results = [part for message in tail for part in message.parts if isinstance(part, ToolResult)]
    if results:
        thought = _thought(request, f"{len(results)} result(s) to report.")
        # media beside the results: where a protocol has no room for them inside
        media = [part for message in tail for part in message.parts if isinstance(part, Media)]
        words = "\n".join([*_results_in_words(request, results), *map(_describe, media)])
        return (*thought, Text(_format(request, words, order_of(_prompt(request)))))
    prompt = _prompt(request)
    order = order_of(prompt)
    calls = tuple(
        ToolCall("", tool.name, arguments(tool, wish), tool.kind, tool.namespace)
        for tool, wish in fitting(order, request)
    )
    if not calls:
        words = f"You said: {order or 'nothing'}"
        return (*_thought(request, "No tool is needed."), Text(_format(request, words, order)))
    named = " and ".join(call.name for call in calls)
    return (*_thought(request, f"I need {named}."), Text(f"I will use {named}."), *calls)


def _format(request: Request, words: str, order: str) -> str:
    """The answer in the output format of the request."""
    output = request.settings.output
    if output and output.kind == "schema":
        return answer(output.schema or {}, order)
    return jsontext.dumps({"answer": words}) if output and output.kind == "json" else words


def _results_in_words(request: Request, results: list[ToolResult]) -> list[str]:
    names = {
        part.id: part.name
        for message in request.messages
        for part in message.parts
        if isinstance(part, ToolCall)
    }
    lines: list[str] = []
    for result in results:
        pieces = [item.text if isinstance(item, Text) else _describe(item) for item in result.content]
        text = " ".join(piece for piece in pieces if piece.strip()) or "(nothing)"
        name = result.name or names.get(result.call_id) or "The tool"
        lines.append(f"{name} {'failed' if result.failed else 'returned'}: {text}")
    return lines


def _describe(part: AnyPart) -> str:
    """What the model sees of an image: enough to tell whether it arrived as it was."""
    if not isinstance(part, Media):
        return "[something]"
    data = part.source.data.encode() if isinstance(part.source, Base64) else None
    digest = f" {blake2s(data, digest_size=8).hexdigest()}" if data is not None else ""
    return f"[{part.kind} {part.media_type}{digest}]"


def _thought(request: Request, text: str) -> tuple[Reasoning, ...]:
    """There is reasoning unless the request turns it off."""
    settings = request.settings
    return () if settings.effort in ("none", "minimal") or settings.budget == 0 else (Reasoning(text),)


def _prompt(request: Request) -> str:
    """The last text of the user that is as short as an order, else the last one. Agents put their context
    around it: into the same message, and into messages before and behind it."""
    last = ""
    for message in reversed(request.messages):
        if last and message.role == "assistant":
            break
        for part in reversed(message.parts) if message.role == "user" else ():
            if isinstance(part, Text) and (order := order_of(part.text)):
                if order == _without_reminders(part.text):
                    return part.text
                last = last or part.text
    return last


def _digest(request: Request) -> str:
    pieces = [_prompt(request), *(str(len(message.parts)) for message in request.messages)]
    return blake2s("|".join(pieces).encode(), digest_size=6).hexdigest()


def _length(part: AnyPart) -> int:
    match part:
        case Text() | Reasoning():
            return len(part.text)
        case ToolCall():
            return len(part.arguments) + len(part.name)
        case ToolResult():
            return sum(len(item.text) for item in part.content if isinstance(item, Text))
        case _:
            return 1000


# What a prompt says -> words in the name of a tool that does it, the best first
_WISHES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"\b(list|show)\b.*\b(files?|director|folder)|\bls\b|\brun\b|\bexecute\b|\bcommand\b|\bshell\b",
        ("shell", "bash", "exec", "command", "list", "ls", "glob"),
    ),
    (r"\b(read|open|what is in|what's in|show|cat)\b", ("read", "view", "open", "cat", "shell", "bash")),
    (r"\b(write|create|save)\b", ("write", "create", "patch", "edit", "shell", "bash")),
    (r"\b(replace|edit|change|fix)\b", ("replace", "edit", "patch", "write")),
    (r"\b(search|find|grep|look for)\b", ("grep", "search", "find", "glob")),
    (r"\bweather\b", ("weather",)),
    (r"\btime\b", ("time",)),
    (r"\b(picture|photo|image|screenshot|draw)\b", ("picture", "photo", "image", "screenshot", "draw")),
    (r"\b(fetch|url)\b|https?://", ("fetch", "url", "web")),
)
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_MEANINGLESS = frozenset({"get", "set", "do", "the", "tool", "tools", "mcp", "function", "use"})
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>|\[\[fault:[^\]]*\]\]", re.DOTALL)
_LONGEST = 1000  # characters; of a longer prompt only the last paragraph is an order
MOST = 4  # calls in one reply


def order_of(prompt: str) -> str:
    """The part of a prompt that is an order: agents wrap theirs in reminders and context. No command is taken
    out of a text that may be context."""
    text = _without_reminders(prompt)
    return text if len(text) <= _LONGEST else COMMAND.sub("", text.rpartition("\n\n")[2][-_LONGEST:])


def _without_reminders(text: str) -> str:
    return _REMINDER.sub("", text).strip()


def fitting(prompt: str, request: Request) -> tuple[tuple[ToolDeclaration, str], ...]:
    """The tool for each thing asked for, with the words that ask for it; none where nothing fits."""
    choice = request.tool_choice
    tools = [tool for tool in request.tools if isinstance(tool, ToolDeclaration) and not tool.deferred]
    if choice and choice.names:
        tools = [tool for tool in tools if tool.name in choice.names]
    if not tools or (choice and choice.mode == "none"):
        return ()
    wanted = [(tool, wish) for wish in _wishes(prompt) for tool in [_tool_for(wish, tools)] if tool]
    if not wanted and choice and choice.mode == "required":
        wanted = [(tools[0], prompt)]
    return tuple(wanted[: 1 if request.parallel is False else MOST])


def _wishes(prompt: str) -> Iterable[str]:
    """The things asked for; a name after "and" repeats the wish before it: "weather in Oslo and Rome"."""
    last = ""
    for piece in re.split(r"\band\b|[;,\n]", prompt):
        if any(re.search(pattern, piece, re.IGNORECASE) for pattern, _ in _WISHES):
            last = piece
            yield piece
        elif last and (subject := piece.strip(" ?.!,")) and len(subject.split()) <= 3:
            yield _about(last, subject)
    if not last:
        yield prompt


def _about(wish: str, subject: str) -> str:
    """The same wish about another subject."""
    path = PATH.search(subject)
    if path and PATH.search(wish):
        return PATH.sub(path[1], wish)
    return PLACE.sub(f"in {subject}", wish) if PLACE.search(wish) else f"{wish} {subject}"


def _tool_for(wish: str, tools: Sequence[ToolDeclaration]) -> ToolDeclaration | None:
    named = {tool.name: _words(tool.name) for tool in tools}
    for pattern, words in _WISHES:
        if not re.search(pattern, wish, re.IGNORECASE):
            continue
        for word in words:
            able = [tool for tool in tools if word in named[tool.name]]
            if able:
                return min(able, key=lambda tool: len(named[tool.name]))  # Write rather than TodoWrite
    words = set(_words(wish))
    for tool in tools:
        meaning = set(named[tool.name]) - _MEANINGLESS
        if tool.name in wish or (meaning and meaning <= words):
            return tool
    return None


def _words(name: str) -> list[str]:
    """`run_shell_command`, `TodoWrite` and `mcp__x__y` in lower-case words."""
    return [word.lower() for word in _NAME_WORDS.findall(name)]
