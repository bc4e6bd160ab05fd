"""The page in a real browser: live updates, filters, losses at their fields, replay, export."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.observability.recorder import Recorder
from dragoman.gateway.observability.recording import RecordingDraft
from dragoman.gateway.process.serve import private_gateway
from dragoman.gateway.request import ExchangeRecord
from dragoman.inspector.server import mount_inspector
from gateway.stands import UPSTREAM_KEY, demo

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine (apt-get install chromium)"
)

CONFIG = """
[providers.chat]
protocol = "openai-chat"
base_url = "UPSTREAM/v1"
api_key = "KEY"
[providers.gem]
protocol = "gemini"
base_url = "UPSTREAM"
api_key = "KEY"
[models]
"claude-*" = "chat:demo"
"""
TOOL = {
    "name": "Bash",
    "description": "Run a command.",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
}
HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


class Running:
    """A gateway with a recorder, and how to talk to it."""

    def __init__(self, url: str, key: str, recorder: Recorder) -> None:
        self.url, self.key, self.recorder = url, key, recorder

    def ask(self, text: str = "List the files.", session: str = "session-1", **more: Any) -> str:
        body = {
            "model": "claude-x",
            "max_tokens": 100,
            "top_k": 5,
            "tools": [TOOL],
            "messages": [{"role": "user", "content": text}],
            **more,
        }
        headers = {
            "content-type": "application/json",
            "x-api-key": self.key,
            "anthropic-version": "2023-06-01",
            "user-agent": "claude-cli/2.1",
            "x-claude-code-session-id": session,
        }
        request = urllib.request.Request(f"{self.url}/v1/messages", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as reply:
            reply.read()
            return reply.headers["x-request-id"]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    recorder = Recorder(secrets=(UPSTREAM_KEY,))
    with demo() as (_, upstream):
        config = load(CONFIG.replace("UPSTREAM", upstream).replace("KEY", UPSTREAM_KEY), {})
        with private_gateway(config, AccessLog(lambda line: None), recorder, mount_inspector) as gateway:
            yield Running(gateway.url, gateway.key, recorder)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, running: Running) -> Iterator[Any]:
    context = browser.new_context()
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(f"{running.url}/inspect#key={running.key}")
    page.wait_for_selector("exchange-list .lamp, .lamp.on")
    yield page
    context.close()
    assert [problem for problem in problems if "favicon" not in problem] == []


def test_an_exchange_appears_while_it_happens(page: Any, running: Running) -> None:
    id = running.ask()
    row = page.locator(f'.done[data-id="{id}"]')
    row.wait_for()
    text = row.inner_text()
    assert "Claude Code" in text
    assert "claude-x → chat:demo" in text
    assert "Bash" in text


def test_a_stream_is_listed_before_it_ends(page: Any, running: Running) -> None:
    asking = threading.Thread(
        target=running.ask, args=("[[fault:slow]] Say hello.",), kwargs={"stream": True}
    )
    asking.start()
    seen = False
    for _ in range(200):
        seen = seen or page.locator(".row.active").count() > 0
        if seen:
            break
        time.sleep(0.01)
    asking.join()
    running.recorder.flush()
    sync_api.expect(page.locator(".row.active")).to_have_count(0)


def test_filters_narrow_the_list(page: Any, running: Running) -> None:
    id = running.ask()
    page.locator(f'.done[data-id="{id}"]').wait_for()
    for text, found in (("tool:Bash status:200", True), ("status:>=400", False), ("-agent:claude", False)):
        page.fill("#filter", text)
        sync_api.expect(page.locator(f'[data-id="{id}"]')).to_have_count(int(found))
    page.fill("#filter", "")


def test_losses_stand_at_their_fields_on_both_wires(page: Any, running: Running) -> None:
    id = running.ask(session="session-2")
    running.recorder.flush()
    page.goto(f"{running.url}/inspect#/e/{id}")
    page.wait_for_selector("table.losses")
    assert "top_k" in page.inner_text("table.losses")
    page.click("button.path:has-text('top_k')")
    marked = page.locator('json-view .leaf[data-path="top_k"]')
    marked.wait_for()
    assert "dropped" in (marked.get_attribute("class") or "")
    sent, got = page.locator(".wires > .wire-panel").nth(0), page.locator(".wires > .wire-panel").nth(1)
    for wire in (sent, got):
        for path in ("messages", "messages[0]"):
            wire.locator(f'details[data-path="{path}"]').evaluate("it => it.open = true")
    sent.locator('.leaf[data-path="messages[0].content"]').hover()
    assert got.locator(".lit").get_attribute("data-path") == "messages[0].content"


def test_every_tab_opens(page: Any, running: Running) -> None:
    running.ask(stream=True)
    id = running.ask(stream=True)
    running.recorder.flush()
    page.goto(f"{running.url}/inspect#/e/{id}")
    page.wait_for_selector(".tabs")
    wanted = {
        "Route": "attempt 1",
        "Wires": "Client sends",
        "Stream": "The message so far",
        "Window": "tokens",
        "Do": "Replay",
    }
    for tab, text in wanted.items():
        page.click(f"#tab-{tab}")
        assert text in page.inner_text(".panel"), tab
    page.keyboard.press("Escape")
    sync_api.expect(page).to_have_url(f"{running.url}/inspect#/")


def test_a_request_is_replayed_to_another_provider(page: Any, running: Running) -> None:
    id = running.ask()
    running.recorder.flush()
    page.goto(f"{running.url}/inspect#/e/{id}/Do")
    page.wait_for_selector("#replay")
    page.fill("#replay-model", "gem:demo")
    page.click("#replay")
    page.wait_for_selector(".result a")
    again = page.inner_text(".result a")
    running.recorder.flush()
    made = running.recorder.store.get(again)
    assert made is not None
    assert made.summary.provider == "gem"
    page.click("#dry-run")
    page.wait_for_selector(".plan table")
    assert "gem" in page.inner_text(".plan table")


def test_an_export_opens_offline(browser: Any, running: Running, tmp_path: Path) -> None:
    id = running.ask(HOSTILE)
    running.recorder.flush()
    request = urllib.request.Request(
        f"{running.url}/inspect/api/exchanges/{id}/export.html", headers={"x-api-key": running.key}
    )
    with urllib.request.urlopen(request) as reply:
        html = reply.read()
    assert running.key.encode() not in html
    path = tmp_path / "exchange.html"
    path.write_bytes(html)
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("table.losses")
    assert "top_k" in page.inner_text("table.losses")
    assert page.evaluate("window.hacked") is None
    context.close()


def test_hostile_content_is_text(page: Any, running: Running) -> None:
    id = running.ask(HOSTILE)
    running.recorder.flush()
    page.goto(f"{running.url}/inspect#/e/{id}/Wires")
    page.wait_for_selector(".wires")
    assert page.evaluate("window.hacked") is None


def test_large_results_and_ten_thousand_exchanges_stay_smooth(page: Any, running: Running) -> None:
    big = {
        "model": "claude-x",
        "max_tokens": 10,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x" * 5_000_000}],
            }
        ],
    }
    put(running, "req_big", json.dumps(big).encode())
    for number in range(10_000):
        put(running, f"req_{number}", b'{"model":"claude-x","messages":[]}')
    page.goto(f"{running.url}/inspect#/")
    page.reload()
    page.wait_for_selector(".row.done")
    put(running, "req_big", json.dumps(big).encode())
    page.goto(f"{running.url}/inspect#/e/req_big/Wires")
    page.wait_for_selector(".wires json-view")


def put(running: Running, id: str, body: bytes) -> None:
    draft = RecordingDraft(id, time.time(), 0.0, "POST", "/v1/messages", "anthropic", {}, body=body)
    draft.observe(200, b"{}")
    record = ExchangeRecord(id, "anthropic", "generate")
    record.model, record.status = "m", 200
    running.recorder.finish(draft, record, "")
