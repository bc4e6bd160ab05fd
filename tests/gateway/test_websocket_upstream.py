"""An upstream reached by WebSocket (`base_url = "ws://…"`): a real server of the `websockets` package."""

from __future__ import annotations

import http
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from dragoman import ConfigError
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import load
from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from gateway.running import running
from waiting import LONG

Script = Callable[[dict[str, Any]], Iterator[dict[str, Any] | None]]
"""What the upstream sends for a message; None: it closes the connection."""


def response(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "status": "completed",
        "output": [item], "usage": usage, "error": None, "incomplete_details": None, "instructions": None,
        "metadata": {}, "parallel_tool_calls": True, "temperature": 1, "tool_choice": "auto", "tools": [],
        "top_p": 1, **more,
    }  # fmt: skip


def answering(message: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
    whole = response("Hello there.")
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    item, place = whole["output"][0], {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = item["content"][0]
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": "Hello ", "logprobs": []},
        {"type": "response.output_text.delta", **place, "delta": "there.", "logprobs": []},
        {"type": "response.output_text.done", **place, "text": "Hello there.", "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    yield from [{**event, "sequence_number": number} for number, event in enumerate(events)]


class Upstream:
    """Counts connections and keeps the messages and headers that came."""

    def __init__(self, script: Script = answering, status: int = 101) -> None:
        self._script, self._status = script, status
        self.messages: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.closed = threading.Event()

    def handle(self, connection: ServerConnection) -> None:
        assert connection.request
        self.headers.append({name.lower(): value for name, value in connection.request.headers.raw_items()})
        try:
            for text in connection:
                message = json.loads(text)
                self.messages.append(message)
                for event in self._script(message):
                    if event is None:
                        connection.close(1011, "it broke")
                        return
                    connection.send(json.dumps(event, indent=1))
        except ConnectionClosed:
            self.closed.set()

    def check(self, connection: ServerConnection, request: Any) -> Any:
        if self._status == 101:
            return None
        body = json.dumps({"error": {"message": "no such key", "type": "invalid_request_error", "code": "x"}})
        return connection.respond(http.HTTPStatus(self._status), body)


@contextmanager
def gateway(upstream: Upstream) -> Iterator[str]:
    server: Server
    with serve(upstream.handle, "127.0.0.1", 0, process_request=upstream.check) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        port = server.socket.getsockname()[1]
        config = (
            f'[providers.far]\nprotocol = "openai-responses"\nbase_url = "ws://127.0.0.1:{port}/v1"\n'
            f'api_key = "sk-far-away"\n[models]\n"*" = "far:gpt-5"\n'
        )
        try:
            with running(Gateway(load(config, {}), policy=RetryPolicy(tries=1))) as url:
                yield url
        finally:
            server.shutdown()
            thread.join(LONG)


def claude(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)


def ask(url: str) -> str:
    message = claude(url).messages.create(
        model="m", max_tokens=100, messages=[{"role": "user", "content": "Hi"}]
    )
    assert message.content[0].type == "text"
    return message.content[0].text


def test_whole_and_streamed_over_one_connection() -> None:
    upstream = Upstream()
    with gateway(upstream) as url:
        assert ask(url) == "Hello there."
        with claude(url).messages.stream(
            model="m", max_tokens=100, messages=[{"role": "user", "content": "Hi"}]
        ) as stream:
            assert "".join(stream.text_stream) == "Hello there."
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
        events = list(client.responses.create(model="m", input="Hi", stream=True))
        assert [event.type for event in events][-1] == "response.completed"
    assert len(upstream.headers) == 1, "the connection is reused"
    assert upstream.headers[0]["authorization"] == "Bearer sk-far-away"
    assert "content-type" not in upstream.headers[0]
    for message in upstream.messages:
        assert message["type"] == "response.create"
        assert message["model"] == "gpt-5"
        assert not {"stream", "stream_options", "background"} & message.keys()


def test_calls_at_the_same_time_have_connections_of_their_own() -> None:
    together = threading.Barrier(2)

    def waiting(message: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
        together.wait(LONG)
        yield from answering(message)

    upstream = Upstream(waiting)
    with gateway(upstream) as url:
        other = threading.Thread(target=ask, args=(url,))
        other.start()
        assert ask(url) == "Hello there."
        other.join(LONG)
    assert len(upstream.headers) == 2


def failed(url: str) -> anthropic.APIStatusError:
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask(url)
    return caught.value


def test_an_error_event_is_the_http_error_that_it_stands_for() -> None:
    def full(message: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
        error = {"type": "tokens", "code": "rate_limit_exceeded", "message": "Slow down."}
        yield {"type": "error", "status": 429, "error": error, "headers": {"Retry-After": "7"}}

    with gateway(Upstream(full)) as url:
        error = failed(url)
    assert error.status_code == 429
    assert error.response.headers["retry-after"] == "7"
    assert "Slow down." in error.message


@pytest.mark.parametrize("status, client", [(401, 401), (403, 403), (503, 529)])
def test_a_refused_upgrade_is_its_status(status: int, client: int) -> None:
    with gateway(Upstream(status=status)) as url:
        assert failed(url).status_code == client


@pytest.mark.parametrize("status", [404, 426])
def test_a_server_without_websocket_is_named(status: int) -> None:
    with gateway(Upstream(status=status)) as url:
        error = failed(url)
    assert error.status_code == 529
    assert "use https:// in base_url" in error.message


def test_a_connection_that_breaks_in_mid_stream_is_an_error_and_not_used_again() -> None:
    calls = []

    def breaking(message: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
        calls.append(message)
        if len(calls) == 1:
            yield from list(answering(message))[:4]
            yield None
        yield from answering(message)

    upstream = Upstream(breaking)
    with gateway(upstream) as url:
        with (
            pytest.raises(anthropic.APIError),
            claude(url).messages.stream(
                model="m", max_tokens=100, messages=[{"role": "user", "content": "Hi"}]
            ) as stream,
        ):
            list(stream)
        assert ask(url) == "Hello there."
    assert len(upstream.headers) == 2


def test_a_client_that_leaves_cancels_the_response() -> None:
    release = threading.Event()

    def slow(message: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
        yield from list(answering(message))[:4]
        release.wait(30)

    upstream = Upstream(slow)
    with gateway(upstream) as url:
        with claude(url).messages.stream(
            model="m", max_tokens=100, messages=[{"role": "user", "content": "Hi"}]
        ) as stream:
            next(iter(stream))
        release.set()
        assert upstream.closed.wait(LONG), "the connection is closed"


def test_other_paths_of_the_provider_go_over_http() -> None:
    """Here the server speaks only WebSocket, so its list of models is empty; nothing hangs or crashes."""
    with (
        gateway(Upstream()) as url,
        pytest.raises(urllib.error.HTTPError),
    ):
        urllib.request.urlopen(
            urllib.request.Request(f"{url}/v1/responses/resp_x", headers={"authorization": "Bearer k"})
        )


def test_only_responses_are_spoken_over_websocket() -> None:
    with pytest.raises(ConfigError, match=r"providers\.x\.base_url.*only openai-responses"):
        load('[providers.x]\nprotocol = "anthropic"\nbase_url = "wss://example.com/v1"\napi_key = "k"', {})
