"""Makes the pictures of the inspector in README and docs: `make screenshots`.

Needs playwright, a Chromium and tests/ on the path. A scripted model answers; the
conversation is the same every time.
"""

from __future__ import annotations

import json
import shutil
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from dragoman.demo import DemoApp
from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.recorder import Recorder
from dragoman.gateway.process.serve import private_gateway
from dragoman.inspector.server import mount_inspector
from gateway.running import running

CONFIG = """
[providers.google]
protocol = "gemini"
base_url = "{url}"
[models]
"claude-*" = "google:gemini-3-pro"
"""
TOOLS = [
    {
        "name": name,
        "description": about,
        "strict": name == "Bash",
        "input_schema": {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]},
    }
    for name, about, field in (
        ("Bash", "Run a shell command and return its output. " * 6, "command"),
        ("Read", "Read a file. " * 4, "file_path"),
        ("WebFetch", "Fetch a page and summarise it. " * 5, "url"),
    )
]


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder()
    with (
        running(DemoApp()) as url,  # the scripted model, over every protocol
        private_gateway(
            load(CONFIG.format(url=url), {}), AccessLog(lambda line: None), recorder, mount_inspector
        ) as gateway,
    ):
        last = converse(gateway.url, gateway.key)
        recorder.flush()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 720}, device_scale_factor=1)
            page.goto(f"{gateway.url}/inspect#key={gateway.key}")
            page.wait_for_selector(".row.done")
            page.screenshot(path=folder / "inspector-list.png")
            for tab in ("Losses", "Wires", "Stream", "Window"):
                show(page, f"{gateway.url}/inspect#/e/{last}/{tab}")
                page.screenshot(path=folder / f"inspector-{tab.lower()}.png")
            browser.close()


def show(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_selector(".panel > *")
    if url.endswith("Wires"):
        for path in ("tools", "tools[0]", "messages", "messages[0]"):
            for line in page.locator(f'.wires details[data-path="{path}"]').all():
                line.evaluate("it => it.open = true")
    page.wait_for_timeout(200)


def converse(url: str, key: str) -> str:
    """Three turns of an agent that speaks Anthropic with a model that speaks Gemini; returns the last id."""
    system = [
        {"type": "text", "text": "You are a coding agent. " * 60, "cache_control": {"type": "ephemeral"}}
    ]
    messages: list[object] = [{"role": "user", "content": "What is in this folder?"}]
    id = ""
    for turn in range(3):
        body = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 2000,
            "top_k": 40,
            "stream": turn == 2,
            "service_tier": "auto",
            "metadata": {"user_id": "ada"},
            "system": system,
            "tools": TOOLS,
            "messages": messages,
        }
        reply, id = ask(url, key, body)
        if turn == 2:
            break
        messages.append({"role": "assistant", "content": reply["content"]})
        calls = [block for block in reply["content"] if block["type"] == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "README.md\nsrc\ntests\n" * 80}
            for call in calls
        ]
        messages.append({"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]})
    return id


def ask(url: str, key: str, body: Mapping[str, object]) -> tuple[dict[str, list[dict[str, str]]], str]:
    headers = {
        "content-type": "application/json",
        "x-api-key": key,
        "anthropic-version": "2023-06-01",
        "user-agent": "claude-cli/2.1.325 (external, cli)",
        "x-claude-code-session-id": "a3f1c9",
    }
    request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as reply:
        data = reply.read()
        return (json.loads(data) if not body["stream"] else {}), reply.headers["x-request-id"]


if __name__ == "__main__":
    main()
