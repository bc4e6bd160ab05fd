"""What a prompt asks for, and which of the declared tools does it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dragoman.core.model import Request, Tool

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
PATH = re.compile(r"(?<![\w/.])(/[\w./-]*\w|[\w-]+(?:/[\w.-]*\w)+|[\w-]+\.[a-z]{1,5})\b")
PLACE = re.compile(r"\b(?:in|for|of|at)\s+([A-Z]\w*(?:\s[A-Z]\w*)?)")
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SAY_NOTHING = frozenset({"get", "set", "do", "the", "tool", "tools", "mcp", "function", "use"})
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>|\[\[fault:[^\]]*\]\]", re.DOTALL)
_LONGEST = 1000  # characters; of a longer prompt only the last paragraph is an order
MOST = 4  # calls in one reply


def order_of(prompt: str) -> str:
    """The part of a prompt that is an order: agents wrap theirs in reminders and context."""
    text = _REMINDER.sub("", prompt).strip()
    return text if len(text) <= _LONGEST else text.rpartition("\n\n")[2][-_LONGEST:]


def fitting(prompt: str, request: Request) -> tuple[tuple[Tool, str], ...]:
    """The tool for each thing asked for, with the words that ask for it; none where nothing fits."""
    choice = request.tool_choice
    tools = [tool for tool in request.tools if isinstance(tool, Tool) and not tool.deferred]
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


def _tool_for(wish: str, tools: Sequence[Tool]) -> Tool | None:
    named = {tool.name: _words(tool.name) for tool in tools}
    for pattern, words in _WISHES:
        if not re.search(pattern, wish, re.IGNORECASE):
            continue
        for word in words:
            able = [tool for tool in tools if word in named[tool.name]]
            if able:
                return min(able, key=lambda tool: len(named[tool.name]))  # Write rather than TodoWrite
    said = set(_words(wish))
    meant = [tool for tool in tools if tool.name in wish or _says(named[tool.name], said)]
    return meant[0] if meant else None


def _words(name: str) -> list[str]:
    """`run_shell_command`, `TodoWrite` and `mcp__x__y` in lower-case words."""
    return [word.lower() for word in _NAME_WORDS.findall(name)]


def _says(words: list[str], said: set[str]) -> bool:
    meaning = [word for word in words if word not in _SAY_NOTHING]
    return bool(meaning) and said.issuperset(meaning)
