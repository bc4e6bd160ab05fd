"""Converse behind the gateway: every client over it, keys and signatures, the credential chain, failures."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame, OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.framing.aws_events import AWS_EVENTS
from dragoman.gateway.config import load
from dragoman.protocols.aws import chain, signature
from gateway.canned import Answer, Canned
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway

MODEL = "us.amazon.nova-pro-v1:0"
USAGE = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}
CALL = {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"at": "Paris"}}}
WHOLE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hello"}, CALL]}},
    "stopReason": "tool_use",
    "usage": USAGE,
    "metrics": {"latencyMs": 1},
}
EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hello"}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    (
        "contentBlockStart",
        {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "look"}}},
    ),
    ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"at":"Paris"}'}}}),
    ("contentBlockStop", {"contentBlockIndex": 1}),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}}),
]
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
ASKED = [{"role": "user", "content": "hi"}]
FUNCTION = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
# client -> path, body, what its call looks like on the wire
CLIENTS: dict[str, tuple[str, dict[str, Any], bytes]] = {
    "openai-chat": (
        "/v1/chat/completions",
        {"messages": ASKED, "tools": [{"type": "function", "function": FUNCTION}]},
        b'"finish_reason":"tool_calls"',
    ),
    "openai-responses": (
        "/v1/responses",
        {"input": "hi", "store": False, "tools": [{"type": "function", **FUNCTION}]},
        b'"type":"function_call"',
    ),
    "anthropic": (
        "/v1/messages",
        {"max_tokens": 9, "messages": ASKED, "tools": [{"name": "look", "input_schema": SCHEMA}]},
        b'"stop_reason":"tool_use"',
    ),
    "gemini": (
        "/v1beta/models/cloud:MODEL:METHOD",
        {
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "tools": [{"functionDeclarations": [FUNCTION]}],
        },
        b'"functionCall"',
    ),
}


def framed(events: list[tuple[str, dict[str, Any]]]) -> bytes:
    encoder = AWS_EVENTS.encoder()
    return b"".join(piece for name, body in events for piece in encoder.feed(Frame(name, body)))


def streams(*events: tuple[str, dict[str, Any]]) -> Answer:
    return Answer(200, framed([*events] or EVENTS), content_type="application/vnd.amazon.eventstream")


def block(url: str, *rows: str) -> str:
    return "\n".join(["[providers.cloud]", 'protocol = "bedrock-converse"', f'base_url = "{url}"', *rows, ""])


def ask(url: str, client: str, stream: bool = False) -> Any:
    path, body, _ = CLIENTS[client]
    path = path.replace("MODEL", MODEL)
    path = path.replace("METHOD", "streamGenerateContent?alt=sse" if stream else "generateContent")
    return send(url, "POST", path, jsontext.encode({"model": f"cloud:{MODEL}", "stream": stream, **body}))


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_over_converse(client: str) -> None:
    upstream = Canned(Answer(200, jsontext.encode(WHOLE)), streams())
    with running(upstream) as url, gateway(block(url, 'api_key = "k-aws"')) as stand:
        for stream in (False, True):
            got = ask(stand.url, client, stream)
            assert got.status == 200
            assert b"hello" in got.body
            assert CLIENTS[client][2] in got.body
        record = stand.last()
    assert (record["upstream"], record["input"], record["output"], record["calls"]) == (
        "bedrock-converse",
        7,
        3,
        1,
    )
    first, second = upstream.requests
    assert (first.path, second.path) == (f"/model/{MODEL}/converse", f"/model/{MODEL}/converse-stream")
    assert first.headers["authorization"] == "Bearer k-aws"
    assert first.json["messages"] == [{"role": "user", "content": [{"text": "hi"}]}]
    assert not {"model", "stream"} & {*first.json, *second.json}


def test_a_whole_cycle() -> None:
    """The client sends the call and its result back."""
    upstream = Canned(Answer(200, jsontext.encode(WHOLE)))
    path, body, _ = CLIENTS["openai-chat"]
    with running(upstream) as url, gateway(block(url, 'api_key = "k-aws"')) as stand:
        reply = ask(stand.url, "openai-chat").json["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": "18 C"}
        body = {**body, "model": f"cloud:{MODEL}", "messages": [*ASKED, reply, result]}
        assert send(stand.url, "POST", path, jsontext.encode(body)).status == 200
    _, model, user = upstream.requests[1].json["messages"]
    assert model["content"] == [{"text": "hello"}, CALL]
    assert user["content"] == [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "18 C"}]}}]


def test_a_flipped_bit_is_no_answer() -> None:
    data = bytearray(framed(EVENTS))
    data[60] ^= 1
    answer = Answer(200, bytes(data), content_type="application/vnd.amazon.eventstream")
    with running(Canned(answer)) as url, gateway(block(url, 'api_key = "k"')) as stand:
        assert b"checksum" in ask(stand.url, "openai-chat", stream=True).body


def test_an_exception_in_a_stream() -> None:
    answer = streams(*EVENTS[:2], ("throttlingException", {"message": "slow down"}))
    with running(Canned(answer)) as url, gateway(block(url, 'api_key = "k"')) as stand:
        assert b"slow down" in ask(stand.url, "anthropic", stream=True).body


def test_an_error_in_the_protocol_of_the_client() -> None:
    answer = Answer(400, b'{"message":"Input is too long for requested model."}')
    with running(Canned(answer)) as url, gateway(block(url, 'api_key = "k"')) as stand:
        got = ask(stand.url, "openai-chat")
    assert (got.status, got.json["error"]["code"]) == (400, "context_length_exceeded")


def test_a_clock_that_is_off_is_said() -> None:
    words = (
        "Signature expired: 20261118T100000Z is now earlier than 20261118T100500Z (20261118T101000Z - 5 min.)"
    )
    answer = Answer(403, jsontext.encode({"message": words}))
    with running(Canned(answer)) as url, gateway(block(url, 'api_key = "k"')) as stand:
        got = ask(stand.url, "openai-chat")
    assert got.status == 403
    assert "the clock of this machine is off" in got.json["error"]["message"]


SIGNED = 'credentials = { id = "AKIDEXAMPLE", secret = "s3cret" }\nregion = "us-east-1"'


def test_a_signed_request_is_what_botocore_would_sign() -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    upstream = Canned(Answer(200, jsontext.encode(WHOLE)))
    with running(upstream) as url, gateway(block(url, SIGNED)) as stand:
        assert ask(stand.url, "openai-chat").status == 200
    (sent,) = upstream.requests
    path = f"/model/{MODEL.replace(':', '%3A')}/converse"
    theirs: Any = AWSRequest("POST", url + path, {"content-type": "application/json"}, sent.body)
    theirs.context["timestamp"] = sent.headers["x-amz-date"]
    theirs.headers["X-Amz-Date"] = sent.headers["x-amz-date"]
    auth = SigV4Auth(Credentials("AKIDEXAMPLE", "s3cret"), "bedrock", "us-east-1")
    signed = auth.signature(auth.string_to_sign(theirs, auth.canonical_request(theirs)), theirs)
    assert sent.headers["authorization"].rpartition("Signature=")[2] == signed


# Of AWS's test suite for Signature Version 4 and of Bedrock's own paths: what botocore makes of each
URLS = {
    "get-vanilla": "https://example.amazonaws.com/",
    "get-vanilla-query": "https://example.amazonaws.com/?Param1=value1",
    "get-vanilla-query-order-key": "https://example.amazonaws.com/?Param1=value2&Param1=Value1",
    "get-vanilla-query-order-value": "https://example.amazonaws.com/?Param1=value2&Param1=value1",
    "get-vanilla-query-unreserved": "https://example.amazonaws.com/?-._~09AZaz=-._~09AZaz",
    "get-vanilla-empty-query-key": "https://example.amazonaws.com/?Param1=",
    "get-utf8": "https://example.amazonaws.com/%E1%88%B4",
    "get-space": "https://example.amazonaws.com/example%20space/",
    "an ARN": "https://bedrock-runtime.us-east-1.amazonaws.com/model/arn%3Aaws%3Abedrock%3Ax%2Fy/converse",
    "a port": "http://127.0.0.1:8080/model/m/converse-stream",
}


@pytest.mark.parametrize("session", ["", "session-1"])
@pytest.mark.parametrize("method, body", [("GET", b""), ("POST", b"{}"), ("POST", b"x" * 70_000)])
@pytest.mark.parametrize("url", URLS.values(), ids=URLS)
def test_botocore_signs_alike(url: str, method: str, body: bytes, session: str) -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    theirs: Any = AWSRequest(method, url, {"content-type": "application/json"}, body)
    SigV4Auth(Credentials("AKID", "secret", session or None), "service", "us-east-1").add_auth(theirs)
    credential = Credential(id="AKID", secret="secret", session=session, region="us-east-1")
    request = OutgoingRequest(method, url, {"content-type": "application/json"}, body)
    ours = signature(credential, request, "service", theirs.headers["X-Amz-Date"])
    assert ours["authorization"] == theirs.headers["Authorization"]


# AWS's own chain, as far as it works without a machine at AWS: the endpoint that containers have


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Only the endpoint of a container is left of the chain."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def point(url: str) -> None:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/credentials")

    return point


def issued(life: float) -> Answer:
    expiration = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(2_000_000_000 + life))
    values = {"AccessKeyId": "AKIDROLE", "SecretAccessKey": "s", "Token": "t-role", "Expiration": expiration}
    return Answer(200, jsontext.encode(values))


def test_the_chain_of_awscrt(container: Any) -> None:
    pytest.importorskip("awscrt")
    issuer, upstream = Canned(issued(3600)), Canned(Answer(200, jsontext.encode(WHOLE)))
    with running(issuer) as login, running(upstream) as url:
        container(login)
        assert chain("us-east-1")() == Credential(
            id="AKIDROLE", secret="s", session="t-role", region="us-east-1", expires=2_000_003_600.0
        )
        with gateway(block(url, 'region = "us-east-1"')) as stand:
            assert ask(stand.url, "openai-chat").status == 200
    assert upstream.requests[0].headers["x-amz-security-token"] == "t-role"
    assert "Credential=AKIDROLE/" in upstream.requests[0].headers["authorization"]


def test_a_chain_that_finds_nothing_is_a_clear_error(container: Any) -> None:
    pytest.importorskip("awscrt")
    with running(Canned(Answer(500, b"{}"))) as login:
        container(login)
        with gateway(block("http://127.0.0.1:9", 'region = "us-east-1"')) as stand:
            got = ask(stand.url, "openai-chat")
    assert got.status == 503
    assert "Provider 'cloud': no credential" in got.json["error"]["message"]


def test_five_lines() -> None:
    text = '[providers.aws]\nprotocol = "bedrock-converse"\nregion = "eu-central-1"\napi_key = "k"\n'
    assert load(text, {}).providers["aws"].base_url == "https://bedrock-runtime.eu-central-1.amazonaws.com"
