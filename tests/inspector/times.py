"""What the inspector's page weighs and how fast it is, in a real browser: `make page-times`.

Needs playwright, a Chromium and tests/ on the path. Two thousand exchanges are recorded, and two turns of a
coding agent, of which the last has 150 kB. Times are the best of several, from one run. On a busy machine
compare: a bare page fetches the same rows from the same server, and the server's own part stands beside.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from playwright.sync_api import sync_playwright

from dragoman.gateway.app import Gateway
from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import private_gateway
from dragoman.gateway.request import GatewayRequest
from dragoman.inspector.export import compress_page, page
from dragoman.inspector.server import mount_inspector
from dragoman.inspector.views import TABS as SERVED
from dragoman.recording.recorder import Recorder
from dragoman.serving.routes import Route
from gateway.stands import UPSTREAM_KEY, demo
from inspector.test_page import CONFIG, TABS, Gate, Running, put

BARE = b"""<!doctype html><title>bare</title><script type="module">
const headers = { "x-api-key": location.hash.slice(1) };
const { rows } = await (await fetch("/inspect/api/exchanges?before=", { headers })).json();
for (const row of rows) {
  const line = document.createElement("p");
  line.className = "row";
  line.textContent = row.id;
  document.body.append(line);
}
</script>"""
# The moment at which the first row can be seen: it is in the document, and a frame was drawn
WATCH = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("a.row, p.row")) return;
  observer.disconnect();
  requestAnimationFrame(() => { window.firstRow = performance.now(); });
}).observe(document, { childList: true, subtree: true });
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=7, help="how often each thing is measured")
    times: int = parser.parse_args().times
    print(f"the page: {len(page()[0]) / 1000:.0f} kB, compressed {len(compress_page()) / 1000:.1f} kB")
    recorder = Recorder(secrets=(UPSTREAM_KEY,))
    with demo() as (_, upstream):
        text = CONFIG.replace("UPSTREAM", upstream).replace("KEY", UPSTREAM_KEY).replace("GATED", upstream)
        with private_gateway(load(text, {}), AccessLog(lambda line: None), recorder, _mount) as served:
            running = Running(served.url, served.key, recorder, Gate())
            large = _large_exchange(running)
            for number in range(2_000):
                put(running, f"req_{number}", b'{"messages":[{"role":"user","content":"%d"}]}' % number)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                _show_first_row(browser, running, times)
                _show_tabs(browser, running, large, times)
                browser.close()


def _mount(gateway: Gateway) -> None:
    mount_inspector(gateway)
    gateway.add_routes((Route("GET", "/bare", "page"),), _bare)


async def _bare(request: GatewayRequest) -> None:
    await request.writer.whole(200, BARE, [], b"text/html")


def _show_first_row(browser: Any, running: Running, times: int) -> None:
    bare = _best(times, lambda: _first_row(browser, f"{running.url}/bare#{running.key}"))
    whole = _best(times, lambda: _first_row(browser, f"{running.url}/inspect#key={running.key}"))
    print(
        f"first row of 2,000: {whole:.0f} ms, a bare page with these rows {bare:.0f} ms: {whole / bare:.2f} x"
    )


def _first_row(browser: Any, address: str) -> float:
    """Milliseconds, in a browser that has never seen the page."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(address)
    page.wait_for_function("window.firstRow")
    found: float = page.evaluate("window.firstRow")
    context.close()
    return found


def _show_tabs(browser: Any, running: Running, id: str, times: int) -> None:
    """In all: from the click until it is drawn. The server's part is that of a request without a browser."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.goto(f"{running.url}/inspect#key={running.key}")
    page.wait_for_selector(".row")
    print(f"{'a tab':14}{'in all, ms':>12}{'drawing':>10}{'server':>10}{'kB':>8}{'elements':>10}")
    for tab in TABS:
        seen: list[tuple[float, float]] = []
        for _ in range(times):
            page.goto(f"{running.url}/inspect#/exchanges")
            page.wait_for_function("!document.querySelector('#panel')")
            page.goto(f"{running.url}/inspect#/exchanges/{id}?tab={tab}")
            page.wait_for_selector("#panel[data-ms]")
            panel = page.locator("#panel")
            seen.append((float(panel.get_attribute("data-ms")), float(panel.get_attribute("data-drawn"))))
        path = f"/inspect/api/exchanges/{id}/{tab.lower()}" if tab.lower() in SERVED else ""
        server = _best(times, lambda path=path: _fetch(running, path)[0]) if path else 0
        size = _fetch(running, path)[1] / 1000 if path else 0
        elements = page.evaluate("document.querySelectorAll('#panel *').length")
        whole, drawing = (min(column) for column in zip(*seen, strict=True))
        print(f"{tab:14}{whole:>12.0f}{drawing:>10.0f}{server:>10.1f}{size:>8.0f}{elements:>10}")
    context.close()


def _fetch(running: Running, path: str) -> tuple[float, int]:
    began = time.perf_counter()
    request = urllib.request.Request(running.url + path, headers={"x-api-key": running.key})
    with urllib.request.urlopen(request) as reply:
        size = len(reply.read())
    return (time.perf_counter() - began) * 1000, size


def _best(times: int, measure: Callable[[], float]) -> float:
    return min([measure() for _ in range(times)])


def _large_exchange(running: Running) -> str:
    """The last of two turns of an agent: 150 kB of tools, calls and results."""
    names = ("path", "pattern", "command", "old", "new", "limit")
    properties = {name: {"type": "string", "description": f"The {name}, as text."} for name in names}
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    about = "Does something with a path and a pattern, and says what came of it. " * 25
    tools = [{"name": f"tool_{number}", "description": about, "input_schema": schema} for number in range(25)]
    lines = [f"src/module_{line}.py:{line}: error: value_{line} is not defined" for line in range(80)]
    messages: list[Any] = [{"role": "user", "content": "Find the cause of this error, and fix it."}]
    for number in range(20):
        given = {"path": f"src/module_{number}.py", "command": "grep -n error"}
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": f"tool_{number}", "input": given}
        text = {"type": "text", "text": f"Step {number}: I look at the **next** module."}
        output = "\n".join([str(number), *lines])
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": output}
        messages += [{"role": "assistant", "content": [text, call]}, {"role": "user", "content": [result]}]
    running.turn(messages[:-2], "large", tools=tools, model="gem-x")
    _, id = running.turn(messages, "large", tools=tools, model="gem-x", stream=True)
    running.recorder.flush()
    print(f"the large exchange: {len(json.dumps([tools, messages])) / 1000:.0f} kB, {len(messages)} messages")
    return id


if __name__ == "__main__":
    main()
