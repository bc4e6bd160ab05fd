"""Everything but generating: lists, counts, probes, upgrades, refusals of what needs a store, and headers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google.genai import errors, types

from dragoman.cli.landing import mount_pages
from dragoman.core import jsontext
from dragoman.core.losses import Loss
from dragoman.demo import DemoApp
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.store import StoreError
from dragoman.gateway.handlers.relay import loss_header
from dragoman.gateway.jobs.replay import CapturedResponse
from dragoman.http.server import ServerRequest
from dragoman.profiles import profile_of
from gateway.plain import ask, asking, model_of, opened, send
from gateway.sdks import TOOLS, sdk_of
from gateway.stands import CLIENT_KEY, PROTOCOLS, Stand, configuration, gateway
from waiting import wait_until

each_client = pytest.mark.parametrize("client", PROTOCOLS)
UNKNOWN = {
    "/v1/nonsense": "openai-chat",
    "/nonsense": "openai-chat",
    "/v1/chat/nonsense": "openai-chat",
    "/v1/responses/resp_1/nonsense": "openai-responses",
    "/v1/messages/nonsense": "anthropic",
    "/v1beta/models/m:nonsense": "gemini",
    "/v1beta/nonsense": "gemini",
}


@pytest.mark.parametrize("path", UNKNOWN)
def test_an_unknown_route(stand: Stand, path: str) -> None:
    got = send(stand.url, "POST", path, b"{}")
    failure = got.failure(UNKNOWN[path])
    assert (got.status, failure.kind) == (404, "not_found")
    assert failure.message.startswith(f"There is no POST {path}. Did you mean ")


NEAREST = {
    ("POST", "/v1/chat/completion"): "POST /v1/chat/completions",
    ("POST", "/chat/completion"): "POST /v1/chat/completions",
    ("POST", "/v1/message"): "POST /v1/messages",
    ("GET", "/v1/modles"): "GET /v1/models",
}


@pytest.mark.parametrize("method, path", NEAREST)
def test_a_typo_gets_the_route_that_was_meant_and_a_line_in_the_log(method: str, path: str) -> None:
    with gateway("") as stand:
        mount_pages(stand.gateway)  # whose own routes are never what was meant
        body = b"{}" if method == "POST" else b""
        got = send(stand.url, method, path, body, headers={"accept": "*/*"})
        refused = send(stand.url, "DELETE", "/v1/chat/completions")
        wait_until(lambda: len(stand.records) == 2)
    message = f"There is no {method} {path}. Did you mean {NEAREST[method, path]}?"
    assert message in got.body.decode()
    lines = [(line["action"], line["status"], line["error"]) for line in stand.records]
    assert lines == [
        ("unknown", 404, message),
        ("unknown", 405, "DELETE is not allowed on /v1/chat/completions. Use POST."),
    ]
    assert refused.status == 405


def test_an_unknown_route_is_404_in_the_protocol_of_the_client(stand: Stand) -> None:
    body = send(stand.url, "GET", "/v1/nonsense", headers={"anthropic-version": "2023-06-01"}).json
    assert body["type"] == "error"
    body = send(stand.url, "GET", "/v1/nonsense", headers={"x-goog-api-key": CLIENT_KEY}).json
    assert body["error"]["status"] == "NOT_FOUND"
    assert send(stand.url, "OPTIONS", "/v1/nonsense", headers={"origin": "http://evil"}).status == 404
    got = send(stand.url, "POST", "/v1/messages", b"{}", {"origin": "http://evil"})
    assert not [name for name in got.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "method, path, allow, protocol",
    [
        ("DELETE", "/v1/chat/completions", "POST", "openai-chat"),
        ("GET", "/v1/messages", "POST", "anthropic"),
        ("PUT", "/v1/responses/resp_1", "DELETE, GET", "openai-responses"),
        ("GET", "/v1/responses", "GET, POST", "openai-responses"),
        ("POST", "/v1beta/models", "GET", "gemini"),
        ("POST", "/healthz", "GET, HEAD", "openai-chat"),
    ],
)
def test_a_known_path_with_another_method(
    stand: Stand, method: str, path: str, allow: str, protocol: str
) -> None:
    got = send(stand.url, method, path, b"" if method == "GET" else b"{}")
    assert (got.status, got.headers["allow"]) == (405, allow)
    assert got.failure(protocol).message == f"{method} is not allowed on {path}. Use {allow}."


SPELLINGS = {
    "//v1//chat/completions": "openai-chat",
    "/v1/v1/chat/completions": "openai-chat",
    "/v1/chat/completions/": "openai-chat",
    "/chat/completions": "openai-chat",
    "/openai/v1/chat/completions": "openai-chat",
    "/openai/chat/completions": "openai-chat",
    "/api/v1/chat/completions": "openai-chat",
    "/v1beta/openai/chat/completions": "openai-chat",
    "/openai/deployments/MODEL/chat/completions?api-version=2026-01-01": "openai-chat",
    "/openai/v1/responses": "openai-responses",
    "/responses": "openai-responses",
    "/anthropic/v1/messages": "anthropic",
    "/anthropic/messages": "anthropic",
    "/v1/v1/messages": "anthropic",
    "/v1/anthropic/v1/messages": "anthropic",
    "/api/anthropic/v1/messages": None,
    "//v1beta/models/MODEL:generateContent": "gemini",
}


@pytest.mark.parametrize("path", SPELLINGS)
def test_paths_as_clients_spell_them(stand: Stand, path: str) -> None:
    client = SPELLINGS[path]
    model = model_of("openai-chat")
    _, body = asking(client or "anthropic", "hi", model)
    got = send(stand.url, "POST", path.replace("MODEL", model), jsontext.encode(body))
    assert (got.status, got.text(client) if client else "") == (
        (200, "You said: hi") if client else (404, "")
    )


def test_an_unknown_route_is_no_unknown_model(stand: Stand) -> None:
    for path in ("/v1/nonsense", "/v1/responses/x/nonsense"):
        assert send(stand.url, "POST", path, b"{}").json["error"]["code"] == "unknown_route"


# Probes and upgrades


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/api/hello"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_probe(stand: Stand, method: str, path: str) -> None:
    got = send(stand.url, method, path, key="")
    assert got.status == 200
    assert got.body == b"" if method == "HEAD" else got.json["status"] == "ok"


def test_not_ready_without_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.handlers.internal_routes._STORE_EVERY", 0.0)
    with gateway("") as stand:
        assert send(stand.url, "GET", "/readyz").status == 200
        stored = jsontext.encode({"model": "demo", "input": "hi", "store": True})
        assert send(stand.url, "POST", "/v1/responses", stored).status == 200  # the first use opens the store
        assert send(stand.url, "GET", "/readyz").status == 200

        async def gone(*_: object) -> None:
            raise StoreError("the disk is gone")

        working = stand.gateway.store.get
        monkeypatch.setattr(stand.gateway.store, "get", gone)
        got = send(stand.url, "GET", "/readyz")
        assert (got.status, got.json["status"]) == (503, "the store cannot be read")
        assert send(stand.url, "GET", "/healthz").status == 200
        monkeypatch.setattr(stand.gateway.store, "get", working)
        assert send(stand.url, "GET", "/readyz").status == 200


def test_not_ready_where_the_store_cannot_be_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dragoman.gateway.handlers.internal_routes._STORE_EVERY", 0.0)
    file = tmp_path / "store.db"
    file.write_bytes(b"no database" * 1000)
    with gateway(f'[store]\nurl = "sqlite:///{file}"\n') as stand:
        stored = jsontext.encode({"model": "demo", "input": "hi", "store": True})
        assert send(stand.url, "POST", "/v1/responses", stored).status == 500
        assert send(stand.url, "GET", "/readyz").status == 503


def test_ready_without_the_database_that_all_share() -> None:
    """A balancer that took it out would take out all, and requests that need no store with them."""
    with gateway('[store]\nurl = "postgresql://127.0.0.1:1/nobody"\n') as stand:
        got = send(stand.url, "GET", "/readyz")
        assert (got.status, got.json["status"], got.json["store"]) == (200, "ok", "cannot be read")
        got = send(stand.url, "GET", "/readyz?store=required")
        assert (got.status, got.json["status"]) == (503, "the store cannot be read")


def test_not_ready_while_it_drains() -> None:
    with gateway("") as stand:
        stand.gateway.is_draining = lambda: True
        got = send(stand.url, "GET", "/readyz")
        assert (got.status, got.json["status"]) == (503, "draining")
        assert send(stand.url, "GET", "/healthz").status == 200


def test_a_path_for_websockets_is_none_for_get(stand: Stand) -> None:
    assert send(stand.url, "GET", "/v1/responses").status == 405


# What needs a store


@pytest.mark.parametrize("upstream", ["gemini", "openai-chat", "hermes", "anthropic"])
def test_a_thread_that_nobody_kept_makes_the_sdks_resend(stand: Stand, upstream: str) -> None:
    thread = {"type": "continue", "previous_message_id": "msg_nobody"}
    path, body = asking("anthropic", "hi", model_of(upstream))
    got = send(stand.url, "POST", path, jsontext.encode({**body, "thread": thread}))
    assert got.status == 404
    assert got.json["error"]["type"] == "not_found_error"
    assert got.json["error"]["details"]["error_code"] == "thread_not_found"
    sdk = sdk_of("anthropic", stand.url)
    with pytest.raises(anthropic.NotFoundError) as caught:
        sdk.sync.messages.create(
            **sdk.request(model_of(upstream), sdk.user("hi")), extra_body={"thread": thread}
        )
    assert type(caught.value).__name__ == "ThreadNotFoundError"


@pytest.mark.parametrize("upstream", ["gemini", "openai-chat", "hermes", "openai-responses"])
@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_a_conversation_that_nobody_kept(stand: Stand, upstream: str, field: str) -> None:
    sdk = sdk_of("openai-responses", stand.url)
    refusal = openai.NotFoundError if field == "conversation" else openai.BadRequestError
    with pytest.raises(refusal) as caught:
        sdk.sync.responses.create(model=model_of(upstream), input="hi", **{field: "resp_1"})
    error: Any = caught.value.body
    assert error["param"] == field
    assert error["type"] == "invalid_request_error"
    assert error["code"] == {"previous_response_id": "previous_response_not_found"}.get(
        field, "conversation_not_found"
    )


# Models


@pytest.fixture(scope="module")
def listing(behind: tuple[DemoApp, str]) -> Any:
    text = (
        configuration(behind[1])
        + '\n[models]\nfast = "anthropic:x"\nbig = "gemini:y"\n"gpt-*" = "gemini:y"\n'
    )
    with gateway(text) as stand:
        yield stand


def test_model_lists_in_the_shape_of_the_asking_client(listing: Stand) -> None:
    chat = sdk_of("openai-chat", listing.url).sync
    messages = sdk_of("anthropic", listing.url).sync
    gemini = sdk_of("gemini", listing.url).sync
    assert [model.id for model in chat.models.list()] == ["fast", "big"]
    assert [model.id for model in messages.models.list()] == ["fast", "big"]
    assert [model.name for model in gemini.models.list()] == ["models/fast", "models/big"]
    assert send(listing.url, "GET", "/v1beta/models").json["models"][0]["name"] == "models/fast"
    assert send(listing.url, "GET", "/models").json["object"] == "list"


FACTS = """[models]
nobody = "groq:none"
pro = { to = "gemini:y", like = "gemini-3-pro" }
[models.blind]
to = "openai-chat:z"
images = false
context_window = 8192
max_output = 1024
reasoning = true
efforts = ["low", "high"]
"""


def test_model_lists_say_what_is_known(behind: tuple[DemoApp, str]) -> None:
    """Sizes, efforts and modalities, each where the protocol's agents look for them."""
    with gateway(configuration(behind[1]) + FACTS) as stand:
        chat = {row["id"]: row for row in send(stand.url, "GET", "/v1/models").json["data"]}
        messages = {model.id: model for model in sdk_of("anthropic", stand.url).sync.models.list()}
        gemini = {model.name: model for model in sdk_of("gemini", stand.url).sync.models.list()}
        one = send(stand.url, "GET", "/v1/models/blind").json
    known = profile_of("gemini-3-pro")
    assert chat["pro"]["context_length"] == chat["pro"]["max_model_len"] == known.context_window
    assert chat["pro"]["top_provider"]["max_completion_tokens"] == known.max_output
    assert chat["pro"]["architecture"]["input_modalities"] == ["text", "image"]
    assert (one["context_window"], one["max_completion_tokens"]) == (8192, 1024)
    assert one["architecture"]["input_modalities"] == ["text"]
    assert one["reasoning"] == {"supported_efforts": ["low", "high"], "default_effort": None}
    assert chat["nobody"] == {"id": "nobody", "object": "model", "created": 0, "owned_by": "dragoman"}
    assert (messages["pro"].max_input_tokens, messages["pro"].max_tokens) == (
        known.context_window,
        known.max_output,
    )
    blind = messages["blind"].capabilities
    assert blind is not None
    assert not blind.image_input.supported
    assert (blind.effort.low.supported, blind.effort.medium.supported) == (True, False)
    assert (messages["nobody"].max_input_tokens, messages["nobody"].capabilities) == (None, None)
    assert (gemini["models/pro"].input_token_limit, gemini["models/pro"].output_token_limit) == (
        known.context_window,
        known.max_output,
    )
    assert gemini["models/nobody"].input_token_limit is None


def test_one_model(listing: Stand) -> None:
    chat = sdk_of("openai-chat", listing.url).sync
    messages = sdk_of("anthropic", listing.url).sync
    gemini = sdk_of("gemini", listing.url).sync
    for name in ("fast", "gpt-anything", "gemini:some", "gemini:some/where:8b"):
        assert chat.models.retrieve(name).id == name
        assert messages.models.retrieve(name).id == name
        assert gemini.models.get(model=name).name == f"models/{name}"
    with pytest.raises(openai.NotFoundError):
        chat.models.retrieve("nonsense")
    with pytest.raises(anthropic.NotFoundError):
        messages.models.retrieve("nonsense")
    with pytest.raises(errors.ClientError) as caught:
        gemini.models.get(model="nonsense")
    assert caught.value.code == 404


def test_the_embedded_model_is_listed(embedded: Stand) -> None:
    assert [model.id for model in sdk_of("openai-chat", embedded.url).sync.models.list()] == ["demo"]


# Tokens

PNG = "iVBORw0KGgo="
TALK = "The quick brown fox jumps over the lazy dog. " * 20


def count_anthropic(stand: Stand, model: str, **more: Any) -> int:
    client = sdk_of("anthropic", stand.url).sync
    body = {"messages": [{"role": "user", "content": TALK}], **more}
    return client.messages.count_tokens(model=model, **body).input_tokens


def count_gemini(stand: Stand, model: str) -> int:
    client = sdk_of("gemini", stand.url).sync
    return client.models.count_tokens(model=model, contents=TALK).total_tokens


def count_responses(stand: Stand, model: str) -> int:
    client = sdk_of("openai-responses", stand.url).sync
    return client.responses.input_tokens.count(model=model, input=TALK).input_tokens


@pytest.mark.parametrize("upstream", ["openai-chat", "openai-responses", "anthropic", "gemini", "hermes"])
def test_tokens_are_counted_for_any_upstream(stand: Stand, upstream: str) -> None:
    """About four letters each; the demo counts exactly four."""
    for counted in (count_anthropic, count_gemini, count_responses):
        assert len(TALK) / 4 * 0.9 < counted(stand, model_of(upstream)) < len(TALK) / 4 * 1.4


def test_an_estimate_is_marked_and_a_count_is_not(stand: Stand) -> None:
    body = {"messages": [{"role": "user", "content": TALK}]}

    def count(model: str) -> tuple[int, str]:
        sent = jsontext.encode({**body, "model": model})
        got = send(stand.url, "POST", "/v1/messages/count_tokens", sent)
        return got.json["input_tokens"], got.headers.get("x-dragoman-estimate", "")

    assert count(model_of("anthropic")) == (len(TALK) // 4 + 1, "")
    estimated, marked = count(model_of("gemini"))
    assert (estimated > len(TALK) // 4, marked) == (True, "true")
    assert count("anthropic:nobody [[fault: 500]]")[1] == ""


def test_G110_tools_results_and_images_count(stand: Stand) -> None:
    model = model_of("gemini")
    tools = [
        {"name": name, "description": words, "input_schema": {"type": "object", "properties": {}}}
        for name, (words, _) in TOOLS.items()
    ]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    called = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}],
    }
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": TALK}, image]}
    bare = count_anthropic(stand, model)
    assert count_anthropic(stand, model, tools=tools) > bare + 30
    assert count_anthropic(stand, model, system=TALK) > bare + 200
    cycle = [{"role": "user", "content": TALK}, called, {"role": "user", "content": [result]}]
    assert count_anthropic(stand, model, messages=cycle, tools=tools) > 2 * bare + 1000


@each_client
def test_a_count_of_an_unknown_model(listing: Stand, client: str) -> None:
    paths = {
        "gemini": "/v1beta/models/nonsense:countTokens",
        "openai-responses": "/v1/responses/input_tokens",
    }
    path = paths.get(client, "/v1/messages/count_tokens")
    got = send(
        listing.url, "POST", path, b'{"model": "nonsense", "messages": [], "input": "x", "contents": []}'
    )
    assert got.status == 404


def test_gemini_counts_a_whole_request_too(stand: Stand) -> None:
    bodies = {
        "contents": [{"role": "user", "parts": [{"text": TALK}]}],
        "systemInstruction": {"parts": [{"text": TALK}]},
    }
    body = jsontext.encode({"generateContentRequest": {"model": "models/x", **bodies}})
    path = f"/v1beta/models/{model_of('anthropic')}:countTokens"
    assert send(stand.url, "POST", path, body).json["totalTokens"] > len(TALK) // 2
    assert types.CountTokensResponse.model_validate(send(stand.url, "POST", path, body).json).total_tokens


# Headers


@each_client
def test_every_answer_has_the_id_that_the_log_has(stand: Stand, client: str) -> None:
    good = ask(stand.url, client, "hi", model_of("anthropic"))
    bad = ask(stand.url, client, "hi", "nonsense:x")
    streamed = ask(stand.url, client, "hi", model_of("anthropic"), stream=True)
    ids = [got.headers["request-id"] for got in (good, bad, streamed)]
    stand.last()
    assert ids == [got.headers["x-request-id"] for got in (good, bad, streamed)]
    assert ids == [line["id"] for line in stand.records]
    assert len(set(ids)) == 3
    assert all(re.fullmatch(r"req_[0-9a-f]{24}", id) for id in ids)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_losses_are_listed_in_a_header(stand: Stand, stream: bool) -> None:
    path, body = asking("openai-chat", "hi", model_of("gemini"), stream)
    lossy = {
        **body,
        "logit_bias": {"1": 2},
        "made_up": "x",
        "prediction": {"type": "content", "content": "y"},
    }
    got = send(stand.url, "POST", path, jsontext.encode(lossy))
    count, _, listed = got.headers["x-dragoman-losses"].partition("; ")
    assert int(count) >= 3
    assert ".dropped made_up" in listed
    line = stand.last()
    assert line["losses"]["dropped"] >= 3
    assert "field.unknown.dropped" in line["loss_codes"]["minor"]
    assert (
        "x-dragoman-losses"
        not in ask(stand.url, "openai-chat", "hi", model_of("openai-chat"), stream).headers
    )


def test_a_header_of_losses_is_short_and_printable() -> None:
    losses = [
        Loss("dropped", f"messages[{number}].wörld\r\nevil: 1" + "x" * 300, "why") for number in range(9)
    ]
    ((name, value),) = loss_header(losses)
    assert name == b"x-dragoman-losses"
    assert value.startswith(b"9; dropped messages[0].w?rld??evil: 1x")
    assert len(value) <= 1000
    assert not [byte for byte in value if not 32 <= byte < 127]
    assert loss_header([]) == []


def test_a_stream_is_not_held_back_on_its_way(stand: Stand) -> None:
    """Proxies pass it on as it comes, and nobody keeps it."""
    got = ask(stand.url, "anthropic", "hi", model_of("gemini"), stream=True)
    assert got.headers["content-type"] == "text/event-stream"
    assert (got.headers["cache-control"], got.headers["x-accel-buffering"]) == ("no-cache", "no")


def test_requests_in_a_row_share_a_connection(stand: Stand) -> None:
    path, body = asking("anthropic", "hi", model_of("gemini"))
    raw = jsontext.encode(body)
    with opened(stand.url, path, raw) as connection:
        for _ in range(3):
            read = b""
            while b"\r\n\r\n" not in read or not read.rstrip().endswith(b"}"):
                read += connection.recv(65536)
            assert read.startswith(b"HTTP/1.1 200 OK")
            head = f"POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {CLIENT_KEY}\r\n"
            connection.sendall(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)


def test_a_known_head_is_read_again_after_a_reload() -> None:
    """Whose conversations it may continue depends on the keys of the configuration."""
    gateway = Gateway(Config(store_url="memory:"))
    incoming = ServerRequest("POST", "/v1/responses", b"", {"authorization": "Bearer k"})

    def head() -> Any:
        gateway(incoming, CapturedResponse()).close()
        return incoming.memo.found

    first = head()
    assert (first.route.action, first.key, first.owner) == ("generate", "k", "")
    assert head() is first
    gateway.configure(Config(store_url="memory:", keys=("k",)))
    assert head().owner
