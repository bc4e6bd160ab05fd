"""Takes pictures of the inspector, light and dark, into build/screenshots, and replaces those in docs/images:
`make screenshots`.

Needs playwright, a Chromium, Claude Code, Codex and tests/ on the path. Both agents really run, with their
own prompts and tools, in a small project whose tests fail. A scripted model tells them what to do. Groq
answers until it is limited, then Google does. Beside them an SDK runs a loop of calls, some fail, and
one is still running.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, sync_playwright

from dragoman.core.model import AnyPart, Reasoning, Text
from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import private_gateway
from dragoman.inspector.server import mount_inspector
from dragoman.recording.recorder import Recorder
from gateway.running import running
from inspector.scripted_model import ScriptedModel, call

CONFIG = """
[providers.groq]
base_url = "{groq}/v1"
api_key = "gsk-scripted"
[providers.google-ai-studio]
base_url = "{google}"
api_key = "google-scripted"
[providers.anthropic]
base_url = "{anthropic}"
api_key = "sk-scripted"
[providers.mistral]
base_url = "{slow}/v1"
api_key = "scripted"
[models]
"gpt-5.3-codex" = "anthropic:claude-sonnet-4-5"
"claude-*" = ["groq:openai/gpt-oss-120b", "google-ai-studio:gemini-3-pro-preview"]
"gpt-*" = "google-ai-studio:gemini-3-pro-preview"
"""
QUESTION = {"role": "user", "content": "Summarise this changelog in two sentences."}
PROMPT = "tests/test_backoff.py fails since this morning. Find the cause, fix it, and run the tests."
CODEX_PROMPT = "Add a --json flag to relay.py that prints one JSON object per line."
RELAY = '''"""Prints the state of each relay."""

RELAYS = {"north": "open", "south": "closed"}


def main() -> None:
    for name, state in RELAYS.items():
        print(name, state)


if __name__ == "__main__":
    main()
'''
PATCH = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: relay.py
@@
-def main() -> None:
+def main(as_json: bool = "--json" in sys.argv) -> None:
     for name, state in RELAYS.items():
-        print(name, state)
+        print(json.dumps({"name": name, "state": state}) if as_json else f"{name} {state}")
*** End Patch
EOF"""
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
        if "[[limit]]" in texts:
            return 429
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


def converse_codex(program: str, project: Path, url: str, key: str) -> None:
    """Codex, without a terminal. It speaks Responses over HTTP."""
    settings = {
        "model_provider": "gateway", "model_providers.gateway.name": "gateway",
        "model_providers.gateway.base_url": f"{url}/v1", "model_providers.gateway.env_key": "GATEWAY_KEY",
        "model_providers.gateway.wire_api": "responses",
    }  # fmt: skip
    variables = {"HOME": str(project.parent), "PATH": os.environ["PATH"], "GATEWAY_KEY": key}
    chosen = [word for name, value in settings.items() for word in ("-c", f"{name}={json.dumps(value)}")]
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.3-codex"]
    done = subprocess.run(
        [program, "exec", *flags, *chosen, CODEX_PROMPT],
        env=variables, cwd=project, stdin=subprocess.DEVNULL, capture_output=True, timeout=180,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"Codex failed: {done.stdout.decode()[-500:]} {done.stderr.decode()[-500:]}")


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
    except (urllib.error.HTTPError, HTTPException, ValueError):
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
    post(url, key, path, {"model": "gpt-5-mini", "top_k": 4, "messages": [QUESTION]}, "curl/8.14")
    limited = [{"role": "user", "content": "Classify these tickets: [[limit]]"}]
    for _ in range(2):
        post(url, key, path, {"model": "groq:openai/gpt-oss-120b", "messages": limited}, "curl/8.14")


def codex_steps(results: int, texts: str) -> Sequence[AnyPart] | int:
    """What the model says to Codex, and to a prompt that takes long."""
    if CODEX_PROMPT not in texts:
        return [Text("A changelog tells what changed and why it matters to whoever upgrades. " * 40)]
    match results:
        case 0:
            return [
                Reasoning("Look at the file first: the flag belongs where the rows are printed."),
                call("call_cat", "exec_command", cmd="sed -n 1,120p relay.py"),
            ]
        case 1:
            return [
                Text("`main` prints each relay in one place, so the flag goes there."),
                call("call_patch", "exec_command", cmd=PATCH),
            ]
        case 2:
            return [call("call_check", "exec_command", cmd="python3 relay.py --json")]
        case 3:
            return [
                Text("The two imports are missing. I add them."),
                call(
                    "call_fix", "exec_command",
                    cmd="sed -i '2a import json\\nimport sys\\n' relay.py && python3 relay.py --json",
                ),
            ]  # fmt: skip
        case _:
            return [Text('`relay.py --json` prints one object per line:\n\n```\n{"name": "north", …}\n```')]


@contextmanager
def session(claude: str, codex: str, pace: float = 1.0) -> Iterator[tuple[Any, str]]:
    """A gateway with everything recorded, and the id of the turn that shows most."""
    recorder = Recorder()
    with TemporaryDirectory() as home:
        project = Path(home) / "relay"
        (project / "tests").mkdir(parents=True)
        (project / "backoff.py").write_text(BACKOFF)
        (project / "tests" / "test_backoff.py").write_text(TESTS)
        (project / "conftest.py").write_text("")
        (project / "relay.py").write_text(RELAY)
        with (
            running(ScriptedModel(script(project, 6), pace)) as groq,
            running(ScriptedModel(script(project, 99), pace * 2)) as google,
            running(ScriptedModel(codex_steps, pace)) as anthropic,
            running(ScriptedModel(codex_steps, 100)) as slow,
            private_gateway(
                load(CONFIG.format(groq=groq, google=google, anthropic=anthropic, slow=slow), {}),
                AccessLog(lambda line: None), recorder, mount_inspector,
            ) as gateway,
        ):  # fmt: skip
            others(gateway.url, gateway.key)
            asking = {"model": "mistral:mistral-large", "messages": [QUESTION], "stream": True}
            slowly = (gateway.url, gateway.key, "/v1/chat/completions", asking, "curl/8.14")
            threading.Thread(target=post, args=slowly, daemon=True).start()
            converse_codex(codex, project, gateway.url, gateway.key)
            converse(claude, project, gateway.url, gateway.key)
            recorder.flush()
            turns = [
                each
                for each in recorder.store.summaries()
                if each.agent == "Claude Code" and each.session and each.messages > 4
            ]
            shows_most = [each for each in turns if "failed → Edit" in each.preview]
            yield gateway, (shows_most or turns)[-1].id


def main() -> None:
    claude, codex = shutil.which("claude"), shutil.which("codex")
    if claude is None or codex is None:
        raise SystemExit(
            "Claude Code or Codex is missing: npm install -g @anthropic-ai/claude-code @openai/codex"
        )
    folder = Path("build/screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    with session(claude, codex) as (gateway, last), sync_playwright() as playwright:
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
    for shown in Path("docs/images").glob("inspector-*.png"):
        shutil.copy(folder / shown.name, shown)


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
    """At most 256 colours, which makes the file a third; all are those of the page, and text stays sharp."""
    page.wait_for_timeout(250)
    page.screenshot(path=path)
    try:
        from PIL import Image
    except ImportError:
        return
    image = (
        Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    image.save(path, optimize=True)


if __name__ == "__main__":
    main()
