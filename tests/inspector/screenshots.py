"""Makes the pictures of the inspector in README and docs, light and dark: `make screenshots`.

Needs playwright, a Chromium, Claude Code and tests/ on the path. Claude Code really runs, with its own prompt
and tools, in a small project whose tests fail. A scripted model tells it what to do: groq answers until it is
limited, then google does. Beside it an SDK runs a loop of calls, and a few requests fail.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, sync_playwright

from dragoman.core.model import AnyPart, Reasoning, Text
from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.recorder import Recorder
from dragoman.gateway.process.serve import private_gateway
from dragoman.inspector.server import mount_inspector
from gateway.running import running
from inspector.scripted_model import ScriptedModel, call

CONFIG = """
[providers.groq]
base_url = "{groq}/v1"
api_key = "gsk-scripted"
[providers.google-ai-studio]
base_url = "{google}"
api_key = "google-scripted"
[models]
"claude-*" = ["groq:openai/gpt-oss-120b", "google-ai-studio:gemini-3-pro-preview"]
"gpt-*" = "google-ai-studio:gemini-3-pro-preview"
"""
PROMPT = "tests/test_backoff.py fails since this morning. Find the cause, fix it, and run the tests."
HEAD = """    def __init__(self, base: float = 0.5, cap: float = 8.0) -> None:
        self.base, self.cap = base, cap"""
NEW_HEAD = """    def __init__(self, base: float = 0.5, cap: float = 8.0, jitter: float = 2.0) -> None:
        self.base, self.cap, self.jitter = base, cap, jitter"""
BACKOFF = f'''"""Waits between tries."""

import random


class Backoff:
{HEAD}

    def delay(self, attempt: int) -> float:
        """Seconds to wait before the next try."""
        delay = self.base * 2**attempt
        return min(self.cap, delay) + random.uniform(0, 2)
'''
TESTS = """from backoff import Backoff


def test_it_grows():
    assert Backoff(jitter=0).delay(3) > Backoff(jitter=0).delay(1)


def test_the_cap_holds():
    assert all(Backoff(cap=8.0).delay(20) <= 8.0 for _ in range(50))


def test_many_attempts_do_not_overflow():
    assert Backoff(cap=8.0).delay(5000) <= 8.0
"""


def script(project: Path, limited_from: int) -> Any:
    """What the model says for each number of results; a status from `limited_from` results on."""
    code, tests = str(project / "backoff.py"), str(project / "tests" / "test_backoff.py")
    run = "python3 -m pytest -q --tb=line tests 2>&1 | tail -12; exit ${PIPESTATUS[0]}"

    def steps(results: int, texts: str) -> Sequence[AnyPart] | int:
        if "invoices" in texts and results < 2:
            return [
                call(f"call_vendor_{results}", "lookup_vendor", name=("Nordwind GmbH", "Kiefer AG")[results])
            ]
        if PROMPT not in texts:
            return [Text("Three invoices, two vendors: **Nordwind GmbH** twice, Kiefer AG once.")]
        if results >= limited_from:
            return 429
        match results:
            case 0:
                return [
                    Reasoning(
                        "Read the failing test and the code that it tests, before anything is changed."
                    ),
                    Text("I read the test and the code first."),
                    call("call_read_1", "Read", file_path=tests),
                    call("call_read_2", "Read", file_path=code),
                ]
            case 2:
                return [call("call_run_1", "Bash", command=run, description="Run the tests")]
            case 3:
                return [
                    Reasoning("The tests set a jitter, which the class does not know."),
                    Text("`Backoff` takes no `jitter`, and it adds it **after** the cap. I change both."),
                    call(
                        "call_edit_1", "Edit", file_path=code,
                        old_string=HEAD, new_string=NEW_HEAD,
                    ),
                    call(
                        "call_edit_2", "Edit", file_path=code,
                        old_string="        return min(self.cap, delay) + random.uniform(0, 2)",
                        new_string="        return min(self.cap, delay + random.uniform(0, self.jitter))",
                    ),
                ]  # fmt: skip
            case 5:
                return [call("call_run_2", "Bash", command=run, description="Run the tests again")]
            case 6:
                return [
                    Reasoning(
                        "My first edit capped only the sum. For attempt 5000, 2**attempt is an int of 1,500 "
                        "digits, and its product with a float overflows. Bound the exponent too."
                    ),
                    Text(
                        "My first edit capped only the sum, so `2**attempt` grows without bound. "
                        "I bound the exponent **and** keep the cap on the sum."
                    ),
                    call(
                        "call_edit_3", "Edit", file_path=code,
                        old_string="        delay = self.base * 2**attempt",
                        new_string="        delay = self.base * 2 ** min(attempt, 32)",
                    ),
                    call("call_run_3", "Bash", command=run, description="Run all tests"),
                ]  # fmt: skip
            case _:
                return [
                    Text(
                        "All three tests pass.\n\n| what was wrong | what I changed |\n|---|---|\n"
                        "| `jitter` could not be set | a parameter with its old value as default |\n"
                        "| the jitter was added after the cap | it is inside `min(…)` |\n"
                        "| `2**attempt` overflows a float | the exponent stops at 32 |\n\n"
                        "- `backoff.py` is the only file that changed.\n- No test was changed."
                    )
                ]

    return steps


def converse(program: str, project: Path, url: str, key: str) -> None:
    """Claude Code, without a terminal; it runs the tools of the script."""
    variables = {
        "HOME": str(project.parent), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key, "ANTHROPIC_MODEL": "claude-opus-4-8",
        "MAX_THINKING_TOKENS": "4000",
    }  # fmt: skip
    command = [program, "-p", PROMPT, "--dangerously-skip-permissions"]
    done = subprocess.run(
        command, env=variables, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, timeout=180
    )
    if done.returncode:
        raise SystemExit(f"Claude Code failed: {done.stdout.decode()[-500:]} {done.stderr.decode()[-500:]}")


def post(url: str, key: str, path: str, body: object, agent: str) -> dict[str, Any]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}", "user-agent": agent}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as reply:
            return json.loads(reply.read() or b"{}")
    except (urllib.error.HTTPError, ValueError):
        return {}


def others(url: str, key: str) -> None:
    """An SDK with a loop of calls and no session, and requests that fail."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "lookup_vendor", "parameters": schema}}
    messages: list[Any] = [{"role": "user", "content": "Which vendors are on these three invoices?"}]
    path, sdk = "/v1/chat/completions", "OpenAI/Python 3.49"
    for turn in range(3):
        post(url, key, path, {"model": "gpt-5-mini", "messages": messages, "tools": [tool]}, sdk)
        function = {"name": "lookup_vendor", "arguments": "{}"}
        messages += [
            {
                "role": "assistant",
                "tool_calls": [{"id": f"c{turn}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "found"},
        ]
    post(url, key, path, {"model": "mistral-large", "messages": messages[:1]}, "curl/8.14")
    question = {"role": "user", "content": "Summarise this changelog in two sentences."}
    post(url, key, path, {"model": "gpt-5-mini", "top_k": 4, "messages": [question]}, "curl/8.14")


@contextmanager
def session(program: str, pace: float = 1.0) -> Iterator[tuple[Any, str]]:
    """A gateway with everything recorded, and the id of the turn that shows most."""
    recorder = Recorder()
    with TemporaryDirectory() as home:
        project = Path(home) / "relay"
        (project / "tests").mkdir(parents=True)
        (project / "backoff.py").write_text(BACKOFF)
        (project / "tests" / "test_backoff.py").write_text(TESTS)
        (project / "conftest.py").write_text("")
        with (
            running(ScriptedModel(script(project, 6), pace)) as groq,
            running(ScriptedModel(script(project, 99), pace * 2)) as google,
            private_gateway(
                load(CONFIG.format(groq=groq, google=google), {}), AccessLog(lambda line: None), recorder,
                mount_inspector,
            ) as gateway,
        ):  # fmt: skip
            others(gateway.url, gateway.key)
            converse(program, project, gateway.url, gateway.key)
            recorder.flush()
            turns = [each for each in recorder.store.summaries() if each.session and each.messages > 4]
            shows_most = [each for each in turns if "failed → Edit" in each.preview]
            yield gateway, (shows_most or turns)[-1].id


def main() -> None:
    program = shutil.which("claude")
    if program is None:
        raise SystemExit("Claude Code is not installed: npm install -g @anthropic-ai/claude-code")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    folder.mkdir(parents=True, exist_ok=True)
    with session(program) as (gateway, last), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_context(
                viewport={"width": 1440, "height": 860}, color_scheme=scheme
            ).new_page()
            page.goto(f"{gateway.url}/inspect#key={gateway.key}")
            page.wait_for_selector(".row.done")
            take(page, folder / f"inspector-list-{scheme}.png")
            for tab in ("Conversation", "Wires", "Losses", "Stream", "Window", "Route", "Actions"):
                show(page, f"{gateway.url}/inspect#/exchanges/{last}?tab={tab}", tab)
                take(page, folder / f"inspector-{tab.lower()}-{scheme}.png")
            for view in ("overview", "setup"):
                page.goto(f"{gateway.url}/inspect#/{view}")
                page.wait_for_selector(".ocard")
                take(page, folder / f"inspector-{view}-{scheme}.png")
            page.set_viewport_size({"width": 420, "height": 860})
            show(page, f"{gateway.url}/inspect#/exchanges/{last}", "Conversation")
            take(page, folder / f"inspector-narrow-{scheme}.png")
        browser.close()


def show(page: Page, url: str, tab: str) -> None:
    page.goto(url)
    page.wait_for_selector(f".p-{tab.lower()} > *")
    if tab == "Wires":
        mark = page.locator(".wl.changed, .wl.dropped").first
        if mark.count():
            mark.hover()
            page.mouse.move(700, 600)
            mark.hover()


def take(page: Page, path: Path) -> None:
    """At most 256 colours, which halves the file; text stays sharp."""
    page.wait_for_timeout(250)
    page.screenshot(path=path)
    try:
        from PIL import Image
    except ImportError:
        return
    image = Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


if __name__ == "__main__":
    main()
