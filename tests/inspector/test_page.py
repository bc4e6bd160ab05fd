"""The page in a real browser: the list, each view of an exchange, live updates, replay, hostile content."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import private_gateway
from dragoman.gateway.request import ExchangeRecord
from dragoman.inspector.export import compress_page
from dragoman.inspector.server import mount_inspector
from dragoman.recording.recorder import Recorder
from dragoman.recording.values import RecordingDraft
from gateway.hosted_stand import SEARCHED, calls_of, path_and_body, text_of
from gateway.plain import send
from gateway.running import running as serving
from gateway.stands import UPSTREAM_KEY, demo
from gateway.test_hosted_ways import searching
from inspector import codex
from waiting import wait_until

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)
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
[providers.anth]
protocol = "anthropic"
base_url = "UPSTREAM"
api_key = "KEY"
[providers.gated]
protocol = "openai-chat"
base_url = "GATED/v1"
api_key = "KEY"
[models]
"claude-*" = "chat:demo"
"gem-*" = "gem:demo"
"gpt-*" = "anth:demo"
"slow-*" = "gated:demo"
"""
TOOLS = [
    {
        "name": name,
        "description": f"{name} something. " * 20,
        "input_schema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"command": {"type": "string", "minLength": 1}},
            "required": ["command"],
        },
    }
    for name in ("Bash", "Read", "mcp__github__search", "mcp__github__comment")
]
HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> "
    "**[bold](javascript:window.hacked=1)** ![x](http://127.0.0.1:9/x.png) "
    "<iframe src='javascript:parent.hacked=1'></iframe> `<svg onload=hacked=1>`"
)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TABS = ("Conversation", "Wires", "Losses", "Stream", "Window", "Route", "Actions")


class Gate:
    """A Chat upstream that sends a beginning and then waits until somebody opens it."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for text, end in (("A slow beginning. ", None), ("The end of it.", "stop")):
            choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": end}
            frame = {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "m",
                "choices": [choice],
            }
            data = b"data: " + json.dumps(frame).encode() + b"\n\n"
            await send({"type": "http.response.body", "body": data, "more_body": True})
            if end is None:
                await asyncio.to_thread(self.opened.wait, 60)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


class Running:
    """A gateway with a recorder, and how to talk to it."""

    def __init__(self, url: str, key: str, recorder: Recorder, gate: Gate) -> None:
        self.url, self.key, self.recorder, self.gate = url, key, recorder, gate

    def post(self, path: str, body: object, **headers: str) -> tuple[dict[str, Any], str]:
        sent = {
            "content-type": "application/json",
            "x-api-key": self.key,
            "authorization": f"Bearer {self.key}",
        }
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {**sent, **headers})
        with urllib.request.urlopen(request) as reply:
            data, id = reply.read(), reply.headers["x-request-id"]
        wait_until(lambda: self.recorder.flush() or self.recorder.store.get(id))  # behind the answer
        return (json.loads(data) if data[:1] == b"{" else {}), id

    def ask(self, text: str = "List the files.", session: str = "session-1", **more: Any) -> str:
        return self.turn([{"role": "user", "content": text}], session, **more)[1]

    def turn(self, messages: list[Any], session: str, **more: Any) -> tuple[dict[str, Any], str]:
        """A request in the shape of Claude Code's."""
        body = {
            "model": "claude-x",
            "max_tokens": 100,
            "top_k": 5,
            "system": [
                {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}}
            ],
            "tools": TOOLS,
            "messages": messages,
            **more,
        }
        agent = {"user-agent": "claude-cli/2.1", "x-claude-code-session-id": session}
        return self.post("/v1/messages", body, **{"anthropic-version": "2023-06-01"}, **agent)

    def session(self, name: str, model: str = "gem-x", turns: int = 3) -> list[str]:
        """Turns of an agent that runs the tools; the last one is streamed."""
        messages: list[Any] = [{"role": "user", "content": "What is in **this** folder?"}]
        ids: list[str] = []
        for number in range(turns):
            reply, id = self.turn(messages, name, model=model, stream=number == turns - 1)
            ids.append(id)
            if number == turns - 1:
                break
            messages.append({"role": "assistant", "content": reply["content"]})
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            picture = {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
            }
            results: list[Any] = [
                {
                    "type": "tool_result",
                    "tool_use_id": call["id"],
                    "content": [{"type": "text", "text": "README.md\nsrc\n" * 60}, picture],
                    "is_error": number == 1,
                }
                for call in calls
            ]
            messages.append(
                {"role": "user", "content": [*results, {"type": "text", "text": "List the files."}]}
            )
        self.recorder.flush()
        return ids

    def codex(self, name: str, turns: int = 3) -> list[str]:
        """Turns of Codex, which patched a file before and now runs commands."""
        items: list[Any] = [*codex.OPENING, *codex.PATCHED]
        ids: list[str] = []
        for number in range(turns):
            items.append(codex.message("user", f"List the files, {number}."))
            reply, id = self.post("/v1/responses", codex.body(items, name), **codex.headers(name))
            ids.append(id)
            items += reply["output"]
            items += [
                {
                    "type": "function_call_output",
                    "call_id": item["call_id"],
                    "output": "Exit code: 0\nrelay.py",
                }
                for item in reply["output"]
                if item["type"] == "function_call"
            ]
        self.recorder.flush()
        return ids


AGENTS = {"Claude Code": Running.session, "Codex": Running.codex}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    recorder = Recorder(secrets=(UPSTREAM_KEY,))
    gate = Gate()
    with demo() as (_, upstream), serving(gate) as gated:
        text = CONFIG.replace("UPSTREAM", upstream).replace("KEY", UPSTREAM_KEY).replace("GATED", gated)
        with private_gateway(
            load(text, {}), AccessLog(lambda line: None), recorder, mount_inspector
        ) as gateway:
            yield Running(gateway.url, gateway.key, recorder, gate)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Any, running: Running, problems: list[str], **options: Any) -> Any:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, **options)
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(f"{running.url}/inspect#key={running.key}")
    page.wait_for_selector(".lamp.on")
    return page


@pytest.fixture
def page(browser: Any, running: Running) -> Iterator[Any]:
    problems: list[str] = []
    page = opened(browser, running, problems)
    yield page
    page.context.close()
    assert problems == []


def show(page: Any, running: Running, id: str, tab: str = "Conversation") -> None:
    page.goto(f"{running.url}/inspect#/exchanges/{id}?tab={tab}")
    page.wait_for_selector(f'.p-{tab.lower()} > *, .detail .alert[role="alert"]')


def test_the_page_is_small() -> None:
    assert len(compress_page()) <= 45_000


def test_an_empty_page_sends_a_sample_call(browser: Any) -> None:
    """With the scripted model, whatever is configured. The turn with the result is then shown."""
    gateway = private_gateway(load("", {}), AccessLog(lambda line: None), Recorder(), mount_inspector)
    with gateway as served, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{served.url}/inspect#key={served.key}")
        page.click("text=Send a sample tool call")
        sync_api.expect(page.locator(".row.done")).to_have_count(2)
        reply = send(served.url, "GET", "/inspect/api/exchanges", key=served.key)
        for row in json.loads(reply.body)["rows"]:  # it shows what the product does
            assert (row["client"], row["upstream"], row["stream"]) == ("openai-responses", "anthropic", True)
            assert row["losses"]
        sync_api.expect(page.locator(".sess")).to_contain_text("browser")
        sync_api.expect(page.locator(".p-conversation")).to_contain_text("get_weather")
        sync_api.expect(page.locator(".p-conversation")).to_contain_text("21 °C, sunny")


def test_the_page_is_one_answer(page: Any, running: Running) -> None:
    """Only data is fetched after it."""
    page.reload()
    page.wait_for_selector(".lamp.on")
    loaded = page.evaluate("performance.getEntriesByType('resource').map((it) => it.name)")
    assert [url for url in loaded if "/inspect/api/" not in url] == []


def test_an_exchange_appears_while_it_happens(page: Any, running: Running) -> None:
    id = running.ask("List the files in alpha.")
    row = page.locator(f'.row.done[data-id="{id}"]')
    row.wait_for()
    text = row.inner_text()
    assert "List the files in alpha." in text
    assert "claude-x → chat:demo" in text


def test_a_running_exchange_is_live_to_its_end(page: Any, running: Running) -> None:
    running.gate.opened.clear()
    asking = threading.Thread(
        target=running.ask, args=("Be slow.", "slow"), kwargs={"model": "slow-x", "stream": True}
    )
    asking.start()
    row = page.locator(".row.active")
    row.wait_for()
    sync_api.expect(row).to_contain_text("gated:demo")
    row.click()
    sync_api.expect(page.locator(".dhead h2")).to_contain_text("gated:demo")
    sync_api.expect(page.locator(".dhead .pill.run")).to_be_visible()
    sync_api.expect(page.locator(".msg.reply")).to_contain_text("A slow beginning.")
    page.click("#tab-Stream")
    sync_api.expect(page.locator(".grown")).to_contain_text("A slow beginning.")
    running.gate.opened.set()
    asking.join()
    sync_api.expect(page.locator(".dhead .pill.ok")).to_have_text("200")
    sync_api.expect(page.locator(".grown")).to_contain_text("The end of it.")
    sync_api.expect(page.locator(".row.active")).to_have_count(0)


def test_filters_narrow_complete_and_say_what_they_do_not_know(page: Any, running: Running) -> None:
    id = running.ask("Filter me.")
    row = page.locator(f'.row[data-id="{id}"]')
    row.wait_for()
    for text, found in (("status:200 filter", True), ("status:>=400", False), ("-agent:claude", False)):
        page.fill("#filter", text)
        sync_api.expect(row).to_have_count(int(found))
    page.fill("#filter", "prov")
    page.keyboard.press("Tab")
    sync_api.expect(page.locator("#completions [role=option]").first).to_contain_text("provider:")
    page.keyboard.type("cha")
    page.keyboard.press("Tab")
    sync_api.expect(page.locator("#filter")).to_have_value("provider:chat ")
    assert "q=provider:chat" in page.url
    page.reload()
    sync_api.expect(page.locator("#filter")).to_have_value("provider:chat")
    page.fill("#filter", "speed:fast")
    sync_api.expect(page.locator(".empty")).to_contain_text("There is no filter “speed:”")
    page.fill("#filter", "nothing-like-this")
    page.click("text=Clear the filter")
    row.wait_for()


def test_words_are_found_in_bodies(page: Any, running: Running) -> None:
    id = running.ask("Nothing to see.", system="The password of the day is xylophone.")
    other = running.ask("Nothing else.")
    running.recorder.flush()
    page.fill("#filter", "in:Xylophone")
    page.locator(f'.row[data-id="{id}"]').wait_for()
    sync_api.expect(page.locator(f'.row[data-id="{other}"]')).to_have_count(0)


def test_a_loop_without_a_session_is_one_group(page: Any, running: Running) -> None:
    tool = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}
    messages: list[Any] = [{"role": "user", "content": "Look up the three vendors of today."}]
    for number in range(3):
        body = {"model": "claude-x", "messages": messages, "tools": [tool]}
        running.post("/v1/chat/completions", body, **{"user-agent": "OpenAI/Python 3"})
        call = {"id": f"c{number}", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "x"},
        ]
    head = page.locator(".sess", has_text="Look up the three vendors of today.")
    sync_api.expect(head).to_contain_text("3 turns")
    sync_api.expect(head).to_contain_text("matched by common prefix")


def test_the_conversation_reads_as_one(page: Any, running: Running) -> None:
    ids = running.session("reads")
    show(page, running, ids[1])
    panel = page.locator("#panel")
    sync_api.expect(panel.locator(".rule.new")).to_contain_text("New in turn 2")
    assert panel.locator(".turn").first.inner_text().startswith("System")
    sync_api.expect(panel.locator(".card").first.locator("img"), "an image in a result").to_have_count(1)
    page.locator(".turn", has_text="Turn 1").locator("> summary").click()
    sync_api.expect(panel.locator(".turn .prompt b", has_text="this"), "Markdown").to_have_count(1)
    panel.locator(".msg.came > .body > .card .life > summary").first.click()
    sync_api.expect(panel.locator(".life[open] ol")).to_contain_text("its result came back in turn 2")
    show(page, running, ids[0])
    sync_api.expect(panel.locator(".foot2")).to_contain_text("answered in turn 2")
    page.keyboard.press("]")
    sync_api.expect(panel.locator(".rule.new")).to_contain_text("New in turn 2")
    page.go_back()
    sync_api.expect(panel.locator(".rule.new")).to_contain_text("New in turn 1")


@pytest.mark.parametrize("agent", AGENTS)
def test_every_loss_leads_to_a_visible_field(page: Any, running: Running, agent: str) -> None:
    """Also in a later turn, where most of the request is folded; and the mark stays under a resting mouse."""
    ids = AGENTS[agent](running, f"losses {agent}")
    show(page, running, ids[2], "Losses")
    groups = page.locator(".lrow")
    codes = [groups.nth(i).get_attribute("data-code") for i in range(groups.count())]
    assert (
        "tool.schema.annotation.dropped" if agent == "Claude Code" else "setting.cache_key.dropped"
    ) in codes
    seen = 0
    for code in codes:
        show(page, running, ids[2], "Losses")
        group = page.locator(f'.lrow[data-code="{code}"]')
        if not group.evaluate("it => it.open"):
            group.locator("> summary").click()
        group.locator(".place").first.wait_for()
        places = [it.get_attribute("data-where") for it in group.locator(".place").all()]
        for where in places[:3]:
            show(page, running, ids[2], "Losses")
            if not group.evaluate("it => it.open"):
                group.locator("> summary").click()
            group.locator(f'.place[data-where="{where}"]').first.click()
            pinned = page.locator(".wl.pin").first
            sync_api.expect(pinned, f"{code} at {where}").to_be_in_viewport()
            page.mouse.move(900, 500)
            page.mouse.move(905, 505)
            assert page.locator(".wl.pin").count() > 0, "the mouse does not wipe it"
            seen += 1
    assert seen >= 5


@pytest.mark.parametrize("agent", AGENTS)
def test_every_visible_field_lights_its_counterpart_or_says_that_it_was_lost(
    page: Any, running: Running, agent: str
) -> None:
    ids = AGENTS[agent](running, f"hover {agent}")
    show(page, running, ids[2], "Wires")
    lines = page.locator('.wl[data-side="0"]')
    silent: list[str] = []
    for number in range(lines.count()):
        line = lines.nth(number)
        line.focus()
        path = line.get_attribute("data-path") or ""
        lit = page.locator('.wl.lit[data-side="1"]').count()
        said = page.locator(".reason-bar .pill").inner_text()
        if path.partition(".")[0].partition("[")[0] in codex.ABOUT_THE_PROTOCOL and said == "own":
            continue
        if not path.endswith("#") and not lit and said != "dropped":
            silent.append(path)
    assert lines.count() > 15
    assert silent == [], "\n".join(silent)


def test_rounds_of_hosted_tools_are_shown(browser: Any) -> None:
    """Each round with the calls that the gateway ran, its wires, and its place among the attempts."""
    chat, rome = "openai-chat", ("web_search", '{"query": "rome weather"}')
    search = calls_of(chat, SEARCHED, stream=True), calls_of(chat, rome, stream=True)
    recorded = "\n[inspector]\nenabled = true\nkeep = 0\n"
    problems: list[str] = []
    with searching(*search, text_of(chat, "18 and 21 degrees.", True), config=recorded) as (stand, _, _):
        mount_inspector(stand.gateway)
        path, body = path_and_body("anthropic", True)
        send(stand.url, "POST", path, json.dumps(body).encode())
        served = stand.gateway.recorder
        assert served
        served.flush()
        running = Running(stand.url, "k", served, Gate())
        page = opened(browser, running, problems)
        show(page, running, served.store.ids()[0])
        expect = sync_api.expect
        expect(page.locator(".rule", has_text="Round")).to_have_count(3)
        expect(page.locator(".card", has_text="rome weather")).to_contain_text("run by the gateway")
        expect(page.locator(".p-conversation")).to_contain_text("18 and 21 degrees.")
        expect(page.locator(".dhead")).to_contain_text("3 rounds")
        page.keyboard.press("6")
        expect(page.locator(".gr", has_text="round 3")).to_have_count(1)
        expect(page.locator(".gr", has_text="web_search")).to_have_count(2)
        page.keyboard.press("4")
        expect(page.locator(".p-stream")).to_contain_text("18 and 21 degrees.")
        page.keyboard.press("2")
        expect(page.locator(".wpane").nth(1)).to_contain_text("messages: [5]")
        page.select_option("select[aria-label=attempt]", "1")
        expect(page.locator(".wpane").nth(1)).to_contain_text("messages: [1]")
        page.context.close()
    assert problems == []


def test_codex_reads_as_a_conversation(page: Any, running: Running) -> None:
    ids = running.codex("codex reads")
    page.goto(f"{running.url}/inspect#/exchanges")
    sync_api.expect(page.locator(".sess", has_text="Add a --json flag").first).to_contain_text("3 turns")
    for tab in TABS:
        show(page, running, ids[2], tab)
    show(page, running, ids[2])
    panel = page.locator("#panel")
    page.locator(".turn", has_text="Turn 1").locator("> summary").click()
    sync_api.expect(panel.locator(".diff .add")).to_have_text("+print(json.dumps(name))\n")
    sync_api.expect(panel.locator(".turn .prompt").last).to_contain_text("Add a --json flag to relay.py.")
    assert panel.locator(".card", has_text="exec_command").count() >= 1


def test_a_session_is_exported_and_opens_offline(browser: Any, running: Running, tmp_path: Path) -> None:
    """Its turns up to the one that it was asked of; one can go from turn to turn."""
    ids = running.codex("exported", 4)
    request = urllib.request.Request(
        f"{running.url}/inspect/api/exchanges/{ids[2]}/session.html", headers={"x-api-key": running.key}
    )
    with urllib.request.urlopen(request) as reply:
        assert f"{ids[2]}.session.html" in reply.headers["content-disposition"]
        html = reply.read()
    assert ids[0].encode() in html
    assert running.key.encode() not in html
    path = tmp_path / "session.html"
    path.write_bytes(html)
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.goto(path.as_uri())
        sync_api.expect(page.locator(".l1")).to_contain_text("turn 3 of 4")
        sync_api.expect(page.locator('[aria-label="next turn"]')).to_be_disabled()
        page.click('[aria-label="previous turn"]')
        sync_api.expect(page.locator(".l1")).to_contain_text("turn 2 of 4")
        sync_api.expect(page.locator(".rule.new")).to_contain_text("New in turn")


def test_a_field_opens_its_counterpart(page: Any, running: Running) -> None:
    ids = running.session("opens")
    show(page, running, ids[2], "Wires")
    page.locator('.wl[data-side="0"][data-path="tools"]').click()
    sync_api.expect(
        page.locator('.wl[data-side="1"][data-path="tools[0].functionDeclarations[3]"]')
    ).to_have_count(1)
    page.locator('.wl[data-side="0"][data-path="max_tokens"]').click()
    sync_api.expect(page.locator('.wl.lit[data-side="1"]')).to_have_attribute(
        "data-path", "generationConfig.maxOutputTokens"
    )
    page.fill(".wbar input", "github__comment")
    assert page.locator(".wl.hit").count() >= 2
    page.click("text=Only differences")
    assert page.locator('.wl[data-path="max_tokens"]').count() == 0
    page.click(".seg >> text=Reply")
    sync_api.expect(page.locator(".wcol h3").first).to_contain_text("put together from its frames")


def test_every_tab_opens_by_key_and_the_address_keeps_it(page: Any, running: Running) -> None:
    ids = running.session("tabs")
    show(page, running, ids[2])
    wanted = {
        "Wires": "Upstream got",
        "Losses": "a detail that somebody may miss",
        "Stream": "Message so far",
        "Window": "The prefix is whole.",
        "Route": "Which rule decided",
        "Actions": "Edit and replay",
    }
    for number, (tab, text) in enumerate(wanted.items(), 2):
        page.keyboard.press(str(number))
        sync_api.expect(page.locator(f".p-{tab.lower()}")).to_contain_text(text)
        assert f"tab={tab}" in page.url
    page.keyboard.press("4")
    page.reload()
    sync_api.expect(page.locator(".p-stream")).to_contain_text("Message so far")
    sync_api.expect(page.locator(".axis text", has_text="ms").first).to_be_visible()
    page.keyboard.press("?")
    sync_api.expect(page.locator("dialog[open]")).to_contain_text("Next, previous exchange")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    sync_api.expect(page.locator(".shell.solo")).to_have_count(1)


def test_a_broken_prefix_is_shown_in_cache_order(page: Any, running: Running) -> None:
    first, _ = running.turn([{"role": "user", "content": "Prefix."}], "prefix")
    messages = [
        {"role": "user", "content": "Prefix."},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": "More."},
    ]
    id = running.turn(messages, "prefix", tools=TOOLS[::-1], system="Today is Tuesday.")[1]
    running.recorder.flush()
    show(page, running, id, "Window")
    sync_api.expect(page.locator(".prefix")).to_contain_text("The prefix broke here: tools[0]")


def test_the_list_is_sorted_and_keeps_its_widths(page: Any, running: Running) -> None:
    running.ask("One.")
    running.ask("Two.", model="gem-x")
    page.goto(f"{running.url}/inspect#/exchanges")
    page.click(".head >> text=Tokens")
    tokens = page.locator(".row .tok").all_inner_texts()
    values = [int(text.split(" ")[0].replace(",", "")) for text in tokens if text[0].isdigit()]
    assert values == sorted(values, reverse=True)
    page.click(".head >> text=Tokens")
    page.click(".head >> text=Tokens")
    box = page.locator(".h-preview .width").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] - 100, box["y"] + 5)
    page.mouse.up()
    width = page.locator(".h-preview").bounding_box()["width"]
    page.reload()
    page.wait_for_selector(".row")
    assert abs(page.locator(".h-preview").bounding_box()["width"] - width) < 3


def test_an_edited_request_is_replayed_and_the_replies_are_compared(page: Any, running: Running) -> None:
    id = running.ask("Say one thing.")
    running.recorder.flush()
    show(page, running, id, "Actions")
    page.wait_for_selector(".plan table")
    assert "gem" in page.inner_text(".plan table")
    page.fill(".editor", "{ no json")
    sync_api.expect(page.locator(".plan")).to_contain_text("This request cannot be sent.")
    body = {"model": "x", "max_tokens": 9, "messages": [{"role": "user", "content": "Say another thing."}]}
    page.fill(".editor", json.dumps(body))
    page.fill("#replay-model", "gem:demo")
    page.click("#replay")
    page.wait_for_selector("#replayed")
    assert page.locator(".result mark").count() > 0
    again = page.inner_text("#replayed")
    running.recorder.flush()
    made = running.recorder.store.get(again)
    assert made is not None
    assert made.summary.provider == "gem"
    assert b"Say another thing." in made.request.body.data


def test_files_are_downloaded_with_the_key(page: Any, running: Running) -> None:
    id = running.ask("Export me.")
    running.recorder.flush()
    show(page, running, id, "Actions")
    for label, name in (("JSON", f"{id}.exchange.json"), ("HTML", f"{id}.html")):
        with page.expect_download() as download:
            page.click(f"button:has-text('This exchange, {label}')")
        assert download.value.suggested_filename == name
        assert b"Export me." in Path(download.value.path()).read_bytes()


def test_an_export_opens_offline(browser: Any, running: Running, tmp_path: Path) -> None:
    id = running.ask(HOSTILE, model="gem-x")
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
    for tab in TABS:
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f".p-{tab.lower()} > *")
    page.click("#tab-Losses")
    assert "metadata" in page.inner_text(".p-losses") or page.locator(".lrow").count() > 0
    assert page.evaluate("window.hacked") is None
    context.close()


@pytest.mark.parametrize("model", ["claude-x", "gem-x"])
def test_hostile_content_is_inert_in_every_view(page: Any, running: Running, model: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    evil = {**TOOLS[0], "name": "Bash", "description": HOSTILE}
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": HOSTILE, HOSTILE: 1}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": HOSTILE}
    picture = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1:9/pixel.png"}}
    messages: list[Any] = [
        {"role": "user", "content": HOSTILE},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, picture]},
    ]
    id = running.turn(messages, "evil", model=model, system=HOSTILE, tools=[evil])[1]
    running.recorder.flush()
    page.goto(f"{running.url}/inspect#/exchanges")
    for tab in TABS:
        show(page, running, id, tab)
        for fold in page.locator("#panel details:not([open]) > summary").all():
            if fold.is_visible():
                fold.click()
    assert page.evaluate("window.hacked") is None
    assert page.locator("#panel iframe, #panel script").count() == 0
    assert [url for url in asked if not url.startswith(running.url)] == []
    policy = urllib.request.urlopen(f"{running.url}/inspect").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "img-src data:" in policy


def test_overview_and_setup_say_what_they_count(page: Any, running: Running) -> None:
    running.session("overview")
    page.goto(f"{running.url}/inspect#/overview")
    page.wait_for_selector(".tile")
    text = page.inner_text(".tiles")
    assert "in the last hour" in text
    assert "a minute on average" in text
    assert page.locator(".ocard", has_text="Cost by key").count() == 1
    page.goto(f"{running.url}/inspect#/setup")
    page.wait_for_selector(".agents")
    assert f"ANTHROPIC_BASE_URL={running.url}" in page.inner_text(
        ".agents"
    ) or "npm install" in page.inner_text(".agents")
    assert running.key not in page.content()


VIEWS = [*[f"exchanges/ID?tab={tab}" for tab in TABS], "exchanges", "overview", "setup"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 420])
def test_axe_finds_nothing_serious(browser: Any, running: Running, scheme: str, width: int) -> None:
    problems: list[str] = []
    page = opened(browser, running, problems, color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    ids = running.session(f"axe {scheme} {width}")
    found: list[str] = []
    for view in VIEWS:
        page.goto(f"{running.url}/inspect#/{view.replace('ID', ids[2])}")
        tab = view.partition("=")[2].lower()
        page.wait_for_selector(
            f".p-{tab} > *" if tab else ".shell.solo .row" if view == "exchanges" else ".ocard"
        )
        for violation in axe.Axe().run(page).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = [
                    node["html"][:160] + " " + node["failureSummary"][:200] for node in violation["nodes"][:2]
                ]
                found.append(f"{view}: {violation['id']} {nodes}")
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{view} is wider than the window"
    page.context.close()
    assert found == []
    assert problems == []


def test_two_thousand_exchanges_and_a_large_one(page: Any, running: Running) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 2_000_000}
    big = {"model": "claude-x", "messages": [{"role": "user", "content": [result]}]}
    for number in range(2_000):
        put(
            running,
            f"req_{number}",
            b'{"model":"claude-x","messages":[{"role":"user","content":"number %d"}]}' % number,
        )
    put(running, "req_big", json.dumps(big).encode())
    page.goto(f"{running.url}/inspect#/exchanges")
    page.reload()
    page.wait_for_selector(".row.done")
    print("first row after", page.evaluate("performance.now()"), "ms")
    sync_api.expect(page.locator(".foot")).to_contain_text("2,0")
    assert page.locator(".row").count() < 120, "only what is visible is drawn"
    page.fill("#filter", "number 1234")
    sync_api.expect(page.locator(".row")).to_have_count(1)
    for tab in ("Conversation", "Wires"):
        show(page, running, "req_big", tab)
    turns = [
        {"role": ("user", "assistant")[n % 2], "content": f"turn {n} " + "words " * 120} for n in range(201)
    ]
    put(running, "req_long", json.dumps({"model": "claude-x", "tools": TOOLS, "messages": turns}).encode())
    for tab in ("Conversation", "Wires", "Losses", "Stream", "Window"):
        show(page, running, "req_long", tab)
        print(tab, page.locator("#panel").get_attribute("data-ms"), "ms, with its data")


def put(running: Running, id: str, body: bytes) -> None:
    at = 1_000_000_000.0 + len(running.recorder.store.ids())
    draft = RecordingDraft(id, at, 0.0, "POST", "/v1/messages", "anthropic", {}, body=body)
    draft.observe(200, b"{}")
    record = ExchangeRecord(id, "anthropic", "generate")
    record.model, record.status = "m", 200
    running.recorder.finish(draft, record, "")
