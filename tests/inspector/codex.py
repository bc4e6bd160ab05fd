"""Codex's traffic, in the shape of codex-cli 0.169: developer messages instead of instructions; function,
namespace and hosted tools beside a freeform one; encrypted reasoning; ids in headers and body."""

from __future__ import annotations

from typing import Any

# They say how Responses answers, or what the client notes for itself: no loss (decision 19)
ABOUT_THE_PROTOCOL = {"reasoning", "store", "include", "client_metadata"}
PATCH = (
    "*** Begin Patch\n*** Update File: relay.py\n@@\n-print(name)\n+print(json.dumps(name))\n*** End Patch"
)


def function(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "additionalProperties": False}
    return {
        "type": "function",
        "name": name,
        "description": f"{name}. " * 8,
        "strict": False,
        "parameters": parameters,
    }


TOOLS: list[dict[str, Any]] = [
    function(
        "exec_command", cmd={"type": "string"}, yield_time_ms={"type": "number"}, tty={"type": "boolean"}
    ),
    function("write_stdin", session_id={"type": "number"}, chars={"type": "string"}),
    {
        "type": "custom",
        "name": "apply_patch",
        "description": "Edits files.",
        "format": {
            "type": "grammar",
            "syntax": "lark",
            "definition": 'start: "*** Begin Patch" /(.|\\n)*/',
        },
    },
    {
        "type": "namespace",
        "name": "multi_agent_v1",
        "description": "Sub-agents.",
        "tools": [function("close_agent", id={"type": "string"})],
    },
    {"type": "web_search", "external_web_access": True},
]


def message(role: str, text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "id": f"msg_{role}_{len(text)}", "role": role, "content": content}


OPENING = [
    message("developer", "You are a coding agent running in a terminal. " * 40),
    message("developer", "<skills_instructions>\n## Skills\nNone.\n</skills_instructions>"),
    message(
        "user", "<environment_context>\n  <cwd>/relay</cwd>\n  <shell>bash</shell>\n</environment_context>"
    ),
    message("user", "Add a --json flag to relay.py."),
]
# A turn that the agent has had before: reasoning that OpenAI encrypted, a freeform call, and its result
PATCHED = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo" + "x" * 200},
    {"type": "custom_tool_call", "call_id": "call_p", "name": "apply_patch", "input": PATCH},
    {"type": "custom_tool_call_output", "call_id": "call_p", "output": "Success. Updated relay.py"},
]


def headers(session: str) -> dict[str, str]:
    return {
        "user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown (codex_exec; 0.169.0)",
        "originator": "codex_exec",
        "session-id": session,
        "thread-id": session,
    }


def body(items: list[Any], session: str) -> dict[str, Any]:
    return {
        "model": "gpt-5.3-codex",
        "input": items,
        "tools": TOOLS,
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": session,
        "client_metadata": {"session_id": session, "thread_id": session},
    }
