"""What is translated: a coding agent some way into its work, made up but of true shape, always the same."""

import random
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

TOOL_NAMES = (
    *("bash", "read_file", "read_many_files", "write_file", "replace", "glob", "search_file_content"),
    *("list_directory", "web_fetch", "web_search", "todo_write", "task", "notebook_edit", "kill_shell"),
    *("mcp__github__create_issue", "mcp__github__list_pulls", "mcp__db__query", "mcp__browser__click"),
    *("mcp__browser__screenshot", "mcp__jira__search"),
)
WORDS = (
    "the", "request", "stream", "buffer", "returns", "index", "état", "“quoted”", "path", "when", "file",
    "test", "value", "decoder", "→", "line", "config", "must", "not", "client", "server", "retry",
    "error", "schema",
)  # fmt: skip
CODE = (
    "def handle(self, request: Request) -> Response:",
    '    path = os.path.join(self.root, "src", f"{name}.py")',
    "    if not path.exists():\n        raise FileNotFoundError(path)",
    "    return {key: value for key, value in pairs if value is not None}",
    '    logger.debug("read %d bytes\\tfrom %s", len(body), path)',
    "\tfor (const entry of entries) { total += entry.size ?? 0; }",
)


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: Json


@dataclass(frozen=True, slots=True)
class Round:
    """The assistant says something and calls a tool, and the tool answers. `is_interrupted`: the user does,
    with `result`, and the call stays without one."""

    text: str
    call_id: str
    tool: str
    arguments: Json
    result: str
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    system: str
    tools: tuple[Tool, ...]
    prompt: str
    rounds: tuple[Round, ...]


def make_conversation(rounds: int = 29, times: int = 1, lines: int = 28) -> Conversation:
    """29 rounds make 60 messages in Chat: the system's, the user's, and two for each round."""
    rng = random.Random(7)
    names = [f"{name}{suffix or ''}" for suffix in range(times) for name in TOOL_NAMES]
    return Conversation(
        system=prose(rng, 900 * times),
        tools=tuple(make_tool(rng, name) for name in names),
        prompt=prose(rng, 60 * times),
        rounds=tuple(make_round(rng, number, lines) for number in range(rounds * times)),
    )


def make_tool(rng: random.Random, name: str) -> Tool:
    parameters: Json = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": prose(rng, 20)},
            "pattern": {"type": "string", "description": prose(rng, 25)},
            "limit": {"type": "integer", "description": prose(rng, 12), "minimum": 0},
            "mode": {"type": "string", "enum": ["content", "files", "count"], "description": prose(rng, 9)},
            "edits": {
                "type": "array",
                "description": prose(rng, 14),
                "items": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                    "required": ["old", "new"],
                },
            },
        },
        "required": ["path"],
    }
    return Tool(name, prose(rng, 90), parameters)


def make_round(rng: random.Random, number: int, lines: int) -> Round:
    return Round(
        text=prose(rng, 30),
        call_id=f"toolu_{number:020d}",
        tool=TOOL_NAMES[number % 7],
        arguments={"path": f"src/module_{number}.py", "pattern": prose(rng, 10), "limit": number},
        result="\n".join(f"{line:5d}\t{rng.choice(CODE)}" for line in range(lines)),
    )


def prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))
