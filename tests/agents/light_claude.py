"""Claude Code as a model of 8,000 tokens can bear it: one tool, a short system prompt, one step."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

INSTALLED = Path.home() / ".cache" / "gw-clients"  # where the drivers of `make test-agents` install it
NODE = INSTALLED / "node22/node_modules/node/bin"
OPTIONS = (
    *("--system-prompt", "You are terse."),
    *("--tools", "Bash"),
    *("--output-format", "stream-json", "--verbose"),
    "--dangerously-skip-permissions",
)
LONGEST = 900


def claude() -> str | None:
    beside = INSTALLED / "claude-code/node_modules/.bin/claude"
    return str(beside) if beside.exists() else shutil.which("claude")


def converse(program: str, url: str, model: str) -> tuple[str, str]:
    """What was missing, and what happened: a call, its real result, an answer."""
    with TemporaryDirectory() as home:
        settings = {
            "HOME": home, "PATH": f"{NODE}:{os.environ['PATH']}", "IS_SANDBOX": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "60",
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "any", "ANTHROPIC_MODEL": model,
            "API_TIMEOUT_MS": str(LONGEST * 1000),
        }  # fmt: skip
        command = [program, "-p", "Where are we? Use the tool.", *OPTIONS]
        try:
            done = subprocess.run(
                command, env=settings, cwd=home, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=LONGEST, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no end after {LONGEST} s", ""
    lines: list[Any] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
    blocks = [block for line in lines for block in _blocks(line)]
    call = next((block for block in blocks if block["type"] == "tool_use"), None)
    result = next((block for block in blocks if block["type"] == "tool_result"), None)
    answer = next((line for line in lines if line["type"] == "result"), None)
    if not (call and result and answer) or result.get("is_error") or answer.get("is_error"):
        return f"call {call}, result {result}, answer {answer}; {done.stderr.decode()[-300:]}", ""
    return "", f"{call['name']}({call['input']}) = {result['content']!r} / {str(answer.get('result'))[:50]!r}"


def _blocks(line: Any) -> list[Any]:
    content = line.get("message", {}).get("content", []) if line["type"] in ("assistant", "user") else []
    return content if isinstance(content, list) else []
