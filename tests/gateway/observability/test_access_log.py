"""What is reported about exchanges: access log, metrics, the sums of all workers, and spans."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from dragoman.core import jsontext
from dragoman.core.model import Usage
from dragoman.core.optional import MissingExtraError
from dragoman.demo import DemoApp
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog, AccessLogLine, LogWriter, for_people
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.metrics_page import WorkerMetrics
from dragoman.gateway.observability.redaction import Redactor
from dragoman.gateway.observability.stream_usage import StreamUsage
from dragoman.gateway.observability.traces import Traces, traces_for
from dragoman.gateway.request import ExchangeRecord
from dragoman.gateway.upstreams.routing import Target
from dragoman.pipeline import TranslatedStream
from dragoman.profiles import known
from dragoman.recording.redaction import without_credentials
from gateway.canned import Answer, Canned, chat, chunks, error, provider
from gateway.plain import ask, asking, model_of, opened, send
from gateway.running import running
from gateway.sdks import SDKS, sdk_of
from gateway.stands import HASTY, PROTOCOLS, UPSTREAMS, Stand, configuration, gateway
from waiting import LONG, wait_until

# The log


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", SDKS)
def test_a_line(stand: Stand, client: str, upstream: str, stream: bool) -> None:
    sdk = sdk_of(client, stand.url)
    request = sdk.request(model_of(upstream), sdk.user("weather in Oslo and Rome"))
    (sdk.streamed if stream else sdk.whole)(request)
    line = stand.last()
    expected = {
        key: line.get(key)
        for key in ("client", "provider", "model", "target", "status", "tries", "tools", "calls")
    }
    assert expected == {
        "client": client,
        "provider": upstream,
        "model": model_of(upstream),
        "target": model_of(upstream).partition(":")[2],
        "status": 200,
        "tries": 1,
        "tools": 2,
        "calls": 2,
    }
    assert line["upstream"] == ("openai-chat" if upstream == "hermes" else upstream)
    assert line.get("stream", False) == stream
    assert 0 < line["first_ms"] <= line["ms"]
    if not (
        client == "openai-chat" and stream and upstream in ("openai-chat", "hermes")
    ):  # nobody asked for it
        assert line["input"] > 10 < line["output"]


def test_unknown_values_are_left_out(stand: Stand) -> None:
    ask(stand.url, "anthropic", "hi", "nonsense:m")
    line = stand.last()
    assert set(line) == {"time", "id", "client", "key", "address", "model", "status", "ms", "error"}
    assert (line["status"], "Unknown model" in line["error"]) == (404, True)


def test_a_crash_is_logged_without_content() -> None:
    lines: list[str] = []
    app = Gateway(load("", {}), AccessLog(lines.append), HASTY)
    app.attempts.run = _crash  # type: ignore[method-assign]
    with running(app) as url:
        got = ask(url, "anthropic", "my secret prompt", "demo")
        assert (got.status, got.failure("anthropic").message) == (
            500,
            "The gateway failed. Its log tells more.",
        )
        wait_until(lambda: len(lines) == 2)
    crash = jsontext.decode(lines[1])
    assert (crash["crash"], "test_access_log.py" in crash["at"]) == ("ZeroDivisionError", True)
    assert "my secret prompt" not in "".join(lines)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_crash_in_mid_stream_ends_the_stream_as_a_failure(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    feed, count = TranslatedStream.feed, 0

    def crashing(self: TranslatedStream, data: bytes) -> bytes:
        nonlocal count
        count += 1
        if count > 3:
            raise ZeroDivisionError
        return feed(self, data)

    monkeypatch.setattr(TranslatedStream, "feed", crashing)
    upstream = "gemini" if client != "gemini" else "anthropic"
    got = ask(stand.url, client, f"{'one two three ' * 20}[[fault: slow]]", model_of(upstream), stream=True)
    assert got.status == 200
    assert got.failure(client).message == "The gateway failed. Its log tells more."
    stand.last()
    assert jsontext.decode(stand.lines[-1])["crash"] == "ZeroDivisionError"


async def _crash(*anything: object) -> None:
    raise ZeroDivisionError("my secret prompt")


def test_lines_are_written_together(tmp_path: Path) -> None:
    path = tmp_path / "log"

    async def work() -> list[str]:
        lines = LogWriter(path)
        lines.write("a")
        lines.write("b")
        before = path.read_text()
        await asyncio.sleep(0.1)
        after = path.read_text()
        lines.write("c")
        lines.close()
        return [before, after, path.read_text()]

    assert asyncio.run(work()) == ["", "a\nb\n", "a\nb\nc\n"]
    lines = LogWriter(path)
    lines.write("d")  # no loop: at once
    assert path.read_text().endswith("d\n")
    lines.close()
    lines.write("nobody hears this")  # and nobody falls over it


def test_the_log_goes_where_the_configuration_says(tmp_path: Path, behind: tuple[DemoApp, str]) -> None:
    config = replace(load(configuration(behind[1]), {}), log_file=str(tmp_path / "log"))
    with running(Gateway(config)) as url:
        ask(url, "anthropic", "hi", model_of("gemini"))
    assert jsontext.decode((tmp_path / "log").read_text())["provider"] == "gemini"
    assert (tmp_path / "log").stat().st_mode & 0o077 == 0  # with --verbose it holds what people say


# Forwarded streams are counted without being decoded


def events(*bodies: str) -> list[bytes]:
    return [f"event: x\ndata: {body}\n\n".encode() for body in bodies]


BLOCK = '{"type":"content_block_start","index":%d,"content_block":{"type":%s"tool_use"}}'
TAILS: dict[str, tuple[list[bytes], tuple[int, int, int]]] = {
    "anthropic": (
        events(
            '{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}',
            BLOCK % (0, " "),
            BLOCK % (1, ""),
            r'{"type":"content_block_delta","delta":{"text":"\"type\":\"tool_use\" \"usage\":{}"}}',
            '{"type":"message_delta","usage":{"output_tokens":15}}',
            '{"type":"message_stop"}',
        ),
        (25, 15, 2),
    ),
    "openai-chat": (
        events(
            '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{}}]}}]}',
            '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}',
            '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}',
            "[DONE]",
        ),
        (7, 3, 1),
    ),
    "openai-responses": (
        events(
            '{"type":"response.created","response":{"usage":null}}',
            '{"type":"response.function_call_arguments.done","item_id":"x"}',
            '{"type":"response.output_item.done","item":{"type":"function_call"}}',
            '{"type":"response.completed","response":{"output":[{"type":"function_call"}],"usage":'
            '{"input_tokens":9,"output_tokens":4,"input_tokens_details":{"cached_tokens":2}}}}',
        ),
        (9, 4, 1),
    ),
    "gemini": (
        events(
            '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}],'
            '"usageMetadata":{"promptTokenCount":5}}',
            '{"candidates":[{}],"usageMetadata": {"promptTokenCount":5,"candidatesTokenCount":6}}',
        ),
        (5, 6, 1),
    ),
}


@pytest.mark.parametrize("protocol", TAILS)
def test_a_tail(protocol: str) -> None:
    pieces, (input, output, calls) = TAILS[protocol]
    tail = StreamUsage(protocol)
    for piece in pieces:
        tail.feed(piece)
    usage = tail.usage()
    assert usage
    assert (usage.input, usage.output, tail.calls) == (input, output, calls)


@pytest.mark.parametrize(
    "piece", [b"", b'"usage":{', b'"usage":{"input_tokens":"x"}', b'"usage":7', b"\xff" * 99]
)
def test_a_tail_of_nonsense(piece: bytes) -> None:
    tail = StreamUsage("anthropic")
    tail.feed(piece)
    assert tail.usage() is None


# Metrics


def families(page: bytes) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name and label values."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(value for _, value in sorted(sample.labels.items()))] = (
                sample.value
            )
    return found


def test_metrics() -> None:
    busy = Answer(429, error("busy"))
    upstream = Canned(
        busy,
        Answer(200, chat("well")),
        Answer(200, *chunks("well"), content_type="text/event-stream"),
        Answer(400, error("no")),
        Answer(200, *chunks("well")[:-2], content_type="text/event-stream"),
    )
    with running(upstream) as url, gateway(provider("one", url)) as stand:
        path, body = asking("anthropic", "hi", "m")
        send(stand.url, "POST", path, jsontext.encode({**body, "made_up": 1}))
        ask(stand.url, "anthropic", "hi", "m", stream=True)
        ask(stand.url, "openai-chat", "hi", "m")
        ask(stand.url, "anthropic", "hi", "m", stream=True)
        stand.last()
        got = send(stand.url, "GET", "/metrics")
        assert got.headers["content-type"].startswith("text/plain; version=")
        seen = families(got.body)
    assert seen["dragoman_requests_total"] == {
        ("anthropic", "one", "200"): 3,
        ("openai-chat", "one", "400"): 1,
    }
    assert seen["dragoman_failures_total"] == {("bad_request", "one"): 1, ("truncated", "one"): 1}
    assert seen["dragoman_tries_total"] == {("one",): 5}
    assert seen["dragoman_tokens_total"] == {
        ("", "input", "m", "one"): 7,
        ("", "output", "m", "one"): 3,
    }
    assert seen["dragoman_losses_total"][("dropped",)] >= 1
    assert seen["dragoman_request_seconds_count"] == {("one",): 4}
    assert seen["dragoman_first_byte_seconds_count"] == {("one",): 3}
    assert seen["dragoman_request_seconds_bucket"][("+Inf", "one")] == 4
    assert seen["dragoman_in_flight"] == {(): 0}
    assert seen["dragoman_upstream_connections"][()] >= 0
    assert seen["process_resident_memory_bytes"][()] > 0


def test_models_that_clients_make_up_do_not_grow_the_metrics() -> None:
    metrics = Metrics()
    for number in range(300):
        record = ExchangeRecord("id", "openai-chat", "generate", target=Target(known()["demo"], f"m{number}"))
        record.usage = Usage(input=1)
        metrics.count(record, {}, 0.1)
    labels = [model for _, model, _, _ in metrics.numbers.counters["dragoman_tokens"]]
    assert len(labels) == 201
    assert metrics.numbers.counters["dragoman_tokens"]["demo", "other", "", "input"] == 100


SECRET = "sk-very-secret-0123456789"
REDACTED = {
    "whole": (f"key {SECRET} is wrong", "key *** is wrong"),
    "cut at the end": (f"x {SECRET[:20]}", "x ***"),
    "too short to tell": ("x sk-ve", "x sk-ve"),
    "in the middle": (f"{SECRET[:20]} x", f"{SECRET[:20]} x"),
}


@pytest.mark.parametrize("case", REDACTED)
def test_a_secret_that_was_cut(case: str) -> None:
    text, clean = REDACTED[case]
    assert Redactor([SECRET]).clean(text) == clean


def test_credentials_in_bodies() -> None:
    body = {
        "mcp_servers": [{"authorization_token": 'a"b', "url": "https://x"}],
        "tools": [
            {"authorization": "oauth-token", "headers": {"Authorization": "Bearer t", "X-Api-Key": "k"}}
        ],
        "max_tokens": 5,
    }
    shown = jsontext.decode(without_credentials(jsontext.dumps(body)))
    assert shown["mcp_servers"] == [{"authorization_token": "***", "url": "https://x"}]
    tool = {"authorization": "***", "headers": {"Authorization": "***", "X-Api-Key": "***"}}
    assert (shown["tools"], shown["max_tokens"]) == ([tool], 5)


def test_what_is_under_way_is_seen(stand: Stand, behind: tuple[DemoApp, str]) -> None:
    path, body = asking("anthropic", "hi [[fault: stall]]", model_of("gemini"), stream=True)
    with opened(stand.url, path, jsontext.encode(body)):
        wait_until(lambda: behind[0].under_way == 1)
        seen = families(send(stand.url, "GET", "/metrics").body)
        assert (seen["dragoman_in_flight"][()], seen["dragoman_streams"][()]) == (1, 1)
        assert seen["dragoman_upstream_connections"][()] >= 1
    wait_until(lambda: behind[0].under_way == 0)


def test_calls_and_losses_are_counted(stand: Stand) -> None:
    sdk = sdk_of("openai-chat", stand.url)
    before = families(send(stand.url, "GET", "/metrics").body).get("dragoman_tool_calls_total", {})
    sdk.whole(sdk.request(model_of("gemini"), sdk.user("weather in Oslo and Rome")))
    stand.last()
    after = families(send(stand.url, "GET", "/metrics").body)["dragoman_tool_calls_total"]
    labels = ("openai-chat", "gemini")
    assert after[labels] - before.get(labels, 0) == 2


def test_workers_add_up(tmp_path: Path) -> None:
    """Three workers; one of them is dead, and what it counted remains."""
    workers = [Metrics() for _ in range(3)]
    for number, metrics in enumerate(workers, 1):
        for _ in range(number):
            seen = ExchangeRecord("id", "anthropic", "generate")
            seen.status = 200
            metrics.count(seen, {"dropped": 1}, 0.1)
        metrics.gauges = {"dragoman_in_flight": float(number)}
    folder = tmp_path / "together"
    own = WorkerMetrics(folder)
    own.write(workers[0].numbers)
    alive, dead = folder / f"{os.getppid()}.numbers", folder / "999999999.numbers"
    for path, metrics in ((alive, workers[1]), (dead, workers[2])):
        other = WorkerMetrics(folder)
        other._own = path
        other.write(metrics.numbers)
    (folder / "7.numbers").write_bytes(b"nonsense")
    page = families(workers[0].page(own.numbers()))
    assert page["dragoman_requests_total"] == {("anthropic", "", "200"): 6}
    assert page["dragoman_losses_total"] == {("dropped",): 6}
    assert page["dragoman_request_seconds_count"] == {("",): 6}
    assert page["dragoman_in_flight"] == {(): 3}  # one and two; the dead one has nothing under way
    own.remove()
    assert sorted(path.stem for path in folder.iterdir()) == sorted(["7", "999999999", str(os.getppid())])


# Traces


class Collected:
    """A tracer whose spans end up in a list."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = Traces(provider.get_tracer("test"))

    @property
    def ended(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())


def test_spans() -> None:
    collected = Collected()
    upstream = Canned(Answer(200, chat("well")), Answer(400, error("no")))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with running(upstream) as url:
        app = Gateway(
            load(provider("one", url), {}), AccessLog(lambda line: None, traces=collected.spans), HASTY
        )
        with running(app) as address:
            path, body = asking("anthropic", "hi", "asked-for")
            send(address, "POST", path, jsontext.encode(body), {"traceparent": parent})
            send(address, "POST", path, jsontext.encode(body))
            wait_until(lambda: len(collected.ended) == 2)
    good, bad = collected.ended
    assert good.name == "chat asked-for"
    assert f"{good.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{good.parent.span_id:016x}" == "b7ad6b7169203331"
    recorded = {name: good.attributes[name] for name in good.attributes if not name.endswith("first_token")}
    assert recorded == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "one",
        "gen_ai.request.model": "asked-for",
        "gen_ai.response.model": "asked-for",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "http.response.status_code": 200,
        "dragoman.client": "anthropic",
        "dragoman.upstream": "openai-chat",
        "dragoman.tools": 0,
        "dragoman.calls": 0,
        "dragoman.tries": 1,
        "dragoman.losses": recorded["dragoman.losses"],
    }
    assert (bad.status.status_code.name, bad.attributes["error.type"], bad.parent) == (
        "ERROR",
        "bad_request",
        None,
    )
    first, second = (request.headers["traceparent"] for request in upstream.requests)
    assert first == f"00-{good.context.trace_id:032x}-{good.context.span_id:016x}-01"
    assert second.split("-")[1] == f"{bad.context.trace_id:032x}"


@pytest.mark.parametrize(
    "environ, expected",
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
    ],
)
def test_spans_only_where_somebody_collects_them(environ: dict[str, str], expected: bool) -> None:
    assert (traces_for(environ) is not None) == expected


def test_no_spans_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[otel\]"):
        traces_for({"OTEL_TRACES_EXPORTER": "console"})


@pytest.mark.parametrize("tokens", ["9" * 400, "9" * 30, "-5"])
def test_a_count_that_is_none_leaves_the_metrics_alone(tokens: str) -> None:
    usage = f'{{"prompt_tokens": {tokens}, "completion_tokens": 3}}'.encode()
    reply = chat("hello").replace(b'"usage":{', b'"usage":%b,"other":{' % usage)
    with running(Canned(Answer(200, reply))) as url, gateway(provider("one", url)) as stand:
        for client in ("openai-chat", "anthropic"):
            ask(stand.url, client, "hi", "one:m")
            stand.last()
            assert send(stand.url, "GET", "/metrics").status == 200


# Workers


def test_the_metrics_of_workers_are_those_of_the_gateway(tmp_path: Path) -> None:
    """Whichever worker a scrape reaches, it tells what all of them did."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environ, text=True, cwd=tmp_path)
    try:
        assert process.stderr
        url = ""
        while not url:
            line = process.stderr.readline()
            assert line, "it did not start"
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            url = found[0] if found else ""
        for client in PROTOCOLS * 3:
            assert ask(url, client, "hi", "demo").status == 200

        def total() -> float:
            page = urllib.request.urlopen(f"{url}/metrics", timeout=LONG).read()
            return sum(families(page).get("dragoman_requests_total", {}).values())

        wait_until(lambda: [total() for _ in range(6)] == [3.0 * len(PROTOCOLS)] * 6)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(LONG)
        finally:
            process.kill()
    wait_until(lambda: not list(tmp_path.glob("dragoman-*/*")))


def test_a_terminal_gets_a_line_for_people():
    line = AccessLogLine(
        "2026-11-18T09:31:02.123Z",
        "req_1",
        "anthropic",
        key="alice",
        model="big",
        provider="groq",
        target="m",
        status=200,
        tries=2,
        failed={"dead: overloaded": 1},
        input=1200,
        output=34,
        ms=812.4,
        losses={"dropped": 2},
    )
    assert for_people(line) == (
        "09:31:02 200 anthropic big (alice) → groq:m  812 ms, 1,200 + 34 tokens, 2 losses, 2 tries"
        " (dead: overloaded ×1)"
    )
    refused = AccessLogLine("2026-11-18T09:31:02.123Z", "req_1", "gemini", status=429, ms=1, error="no more")
    assert for_people(refused) == "09:31:02 429 gemini generate  1 ms  no more"
