"""Providers in clouds: Azure, Vertex and Bedrock, against doubles of their services and token endpoints."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import pytest
from google import genai
from google.oauth2.credentials import Credentials
from msgspec.structs import replace

from dragoman import Provider, generate
from dragoman.core import jsontext
from dragoman.core.codec import Frame, OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.core.errors import ConfigError
from dragoman.framing.aws_events import AWS_CHUNKS, AWS_EVENTS
from dragoman.gateway.config import load
from dragoman.protocols.aws import signature
from gateway.canned import Answer, Canned, chat, chunks
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway

BODY: dict[str, Any] = {"model": "cloud:m", "messages": [{"role": "user", "content": "hi"}]}
CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**CLAUDE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hello", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP"}]
}


def block(protocol: str, url: str, *rows: str) -> str:
    return "\n".join(["[providers.cloud]", f'protocol = "{protocol}"', f'base_url = "{url}"', *rows, ""])


def ask(url: str, **more: Any) -> Any:
    return send(url, "POST", "/v1/chat/completions", jsontext.encode(BODY | more))


def text_of(got: Any) -> str:
    return got.json["choices"][0]["message"]["content"]


# Azure


def test_azure_with_a_key() -> None:
    upstream = Canned(Answer(200, chat("hello")))
    with (
        running(upstream) as url,
        gateway(block("azure-openai", f"{url}/openai/v1", 'api_key = "k-azure"')) as stand,
    ):
        assert text_of(ask(stand.url)) == "hello"
    (request,) = upstream.requests
    assert (request.path, request.headers["api-key"]) == ("/openai/v1/chat/completions", "k-azure")
    assert "authorization" not in request.headers


FORWARDED: dict[str, tuple[str, str, dict[str, Any], bytes]] = {
    "azure-openai": ("/v1/chat/completions", "/openai/v1", {"messages": BODY["messages"]}, chat("hello")),
    "vertex-gemini": (
        "/v1beta/models/cloud:m:generateContent",
        "/v1beta1/projects/p/locations/l",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        jsontext.encode(GEMINI),
    ),
}


@pytest.mark.parametrize("protocol", FORWARDED)
def test_a_request_of_the_same_protocol_is_forwarded(protocol: str) -> None:
    """Fields that nobody knows and the spelling of numbers pass; a cloud changes address and credentials."""
    path, base, body, reply = FORWARDED[protocol]
    upstream = Canned(Answer(200, reply))
    given = jsontext.encode({"model": "cloud:m", "unknown": {"a": 1}, **body}).replace(b'"a":1', b'"a": 1e0')
    with running(upstream) as url:
        text = block(protocol, f"{url}{base}", 'credentials = { token = "t" }')
        with gateway(text) as stand:
            assert b"hello" in send(stand.url, "POST", path, given).body
    (request,) = upstream.requests
    assert b'"a": 1e0' in request.body
    assert request.headers["authorization"] == "Bearer t"


def test_a_budget_counts_the_stream_of_a_cloud() -> None:
    data = b"".join(
        [
            *chunks("hello")[:-1],
            b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n',
            b"data: [DONE]\n\n",
        ]
    )
    upstream = Canned(Answer(200, data, content_type="text/event-stream"))
    with running(upstream) as url:
        text = '[limits]\ntokens_per_day = 1000\n[server]\nkeys = ["k"]\n' + block(
            "azure-openai", f"{url}/openai/v1", 'api_key = "k-azure"'
        )
        with gateway(text) as stand:
            send(
                stand.url,
                "POST",
                "/v1/chat/completions",
                jsontext.encode(BODY | {"stream": True}),
                {"authorization": "Bearer k"},
            )
            assert stand.last()["output"] == 3
    assert upstream.requests[0].json["stream_options"] == {"include_usage": True}


def test_the_client_speaks_to_clouds_too() -> None:
    upstream = Canned(Answer(200, chat("hello")))
    with running(upstream) as url:
        azure = Provider("azure", protocol="azure-openai", base_url=f"{url}/openai/v1", api_key="k-azure")
        assert generate("hi", azure.model("m")).content == "hello"
    assert upstream.requests[0].headers["api-key"] == "k-azure"
    with pytest.raises(ConfigError, match="qwen-chat keeps the conversation"):
        Provider("kept", protocol="qwen-chat", base_url="http://127.0.0.1:9", api_key="k")


ENTRA = {"AZURE_TENANT_ID": "tenant-1", "AZURE_CLIENT_ID": "app-1", "AZURE_CLIENT_SECRET": "app-secret-1"}


def test_azure_with_entra() -> None:
    token = {"token_type": "Bearer", "expires_in": 3599, "access_token": "entra-token-1"}
    issuer, upstream = Canned(Answer(200, jsontext.encode(token))), Canned(Answer(200, chat("hello")))
    with running(issuer) as login, running(upstream) as url:
        values = {**ENTRA, "AZURE_AUTHORITY_HOST": login}
        text = block("azure-openai", f"{url}/openai/v1")
        with gateway(text, environ=values) as stand:
            assert [text_of(ask(stand.url)) for _ in range(2)] == ["hello", "hello"]
    assert [each.headers["authorization"] for each in upstream.requests] == ["Bearer entra-token-1"] * 2
    (request,) = issuer.requests
    assert request.path == "/tenant-1/oauth2/v2.0/token"
    assert parse_qs(request.body.decode()) == {
        "grant_type": ["client_credentials"],
        "client_id": ["app-1"],
        "client_secret": ["app-secret-1"],
        "scope": ["https://cognitiveservices.azure.com/.default"],
    }


def test_azure_in_both_of_its_protocols() -> None:
    """One login for both. A request takes the protocol of its client."""
    token = {"token_type": "Bearer", "expires_in": 3599, "access_token": "entra-token-1"}
    issuer = Canned(Answer(200, jsontext.encode(token)))
    upstream = Canned(Answer(200, jsontext.encode(RESPONSE)), Answer(200, chat("hello")))
    with running(issuer) as login, running(upstream) as url:
        listed = [
            f'{{ protocol = "{protocol}", base_url = "{url}/openai/v1" }}'
            for protocol in ("azure-responses", "azure-openai")
        ]
        text = f"[providers.cloud]\nsurfaces = [{', '.join(listed)}]\n"
        with gateway(text, environ={**ENTRA, "AZURE_AUTHORITY_HOST": login}) as stand:
            asked = jsontext.encode({"model": "cloud:m", "input": "hi", "store": False})
            answer = send(stand.url, "POST", "/v1/responses", asked)
            assert answer.json["output"][0]["content"][0]["text"] == "hello"
            assert text_of(ask(stand.url)) == "hello"
    assert [each.path for each in upstream.requests] == [
        "/openai/v1/responses",
        "/openai/v1/chat/completions",
    ]
    assert [each.headers["authorization"] for each in upstream.requests] == ["Bearer entra-token-1"] * 2
    assert len(issuer.requests) == 1


def test_azure_with_the_token_of_a_workload(tmp_path: Any) -> None:
    """The file is read again for each token, because the cluster renews it."""
    token = {"token_type": "Bearer", "expires_in": 3599, "access_token": "entra-token-2"}
    issuer, upstream = Canned(Answer(200, jsontext.encode(token))), Canned(Answer(200, chat("hello")))
    file = tmp_path / "token"
    file.write_text("federated-1\n")
    with running(issuer) as login, running(upstream) as url:
        values = {"AZURE_FEDERATED_TOKEN_FILE": str(file), "AZURE_AUTHORITY_HOST": login}
        values |= {name: ENTRA[name] for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID")}
        with gateway(block("azure-openai", f"{url}/openai/v1"), environ=values) as stand:
            assert text_of(ask(stand.url)) == "hello"
    assert upstream.requests[0].headers["authorization"] == "Bearer entra-token-2"
    form = parse_qs(issuer.requests[0].body.decode())
    assert form["client_assertion"] == ["federated-1"]
    assert form["client_assertion_type"] == ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]
    assert "client_secret" not in form


def test_azure_where_the_file_of_a_workload_is_gone(tmp_path: Any) -> None:
    values = {**ENTRA, "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "none")}
    del values["AZURE_CLIENT_SECRET"]
    with gateway(block("azure-openai", "http://127.0.0.1:9/openai/v1"), environ=values) as stand:
        got = ask(stand.url)
    assert (got.status, "no credential: " in got.json["error"]["message"]) == (503, True)


# how a machine says where its identity is asked for: (variables, credentials), what it is asked
IDENTITIES: dict[str, Any] = {
    "of a virtual machine": (
        {"AZURE_POD_IDENTITY_AUTHORITY_HOST": "{url}"},
        'identity = "managed"',
        ("/metadata/identity/oauth2/token", {"api-version": ["2018-02-01"]}, {"metadata": "true"}),
    ),
    "made by the user": (
        {"AZURE_POD_IDENTITY_AUTHORITY_HOST": "{url}"},
        'identity = "managed", id = "app-2"',
        (
            "/metadata/identity/oauth2/token",
            {"api-version": ["2018-02-01"], "client_id": ["app-2"]},
            {"metadata": "true"},
        ),
    ),
    "of an app service": (
        {"IDENTITY_ENDPOINT": "{url}/msi/token", "IDENTITY_HEADER": "secret-1"},
        "",
        ("/msi/token", {"api-version": ["2019-08-01"]}, {"x-identity-header": "secret-1"}),
    ),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_azure_with_a_managed_identity(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never through a proxy; the end of a token is a moment or a number of seconds, as text."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    variables, given, (path, query, headers) = IDENTITIES[name]
    token = {"token_type": "Bearer", "access_token": "machine-token-1", "expires_on": "4102444800"}
    machine, upstream = Canned(Answer(200, jsontext.encode(token))), Canned(Answer(200, chat("hello")))
    with running(machine) as identity, running(upstream) as url:
        values = {name: value.replace("{url}", identity) for name, value in variables.items()}
        text = block("azure-openai", f"{url}/openai/v1", *([f"credentials = {{ {given} }}"] if given else ()))
        with gateway(text, environ=values) as stand:
            assert [text_of(ask(stand.url)) for _ in range(2)] == ["hello", "hello"]
    assert [each.headers["authorization"] for each in upstream.requests] == ["Bearer machine-token-1"] * 2
    (request,) = machine.requests
    assert request.path == path
    assert parse_qs(request.query) == {"resource": ["https://cognitiveservices.azure.com"], **query}
    assert headers.items() <= request.headers.items()


def test_azure_where_the_machine_has_no_identity() -> None:
    refusal = {"error": "invalid_request", "error_description": "Identity not found"}
    with running(Canned(Answer(400, jsontext.encode(refusal)))) as machine:
        text = block("azure-openai", "http://127.0.0.1:9/openai/v1", 'credentials = { identity = "managed" }')
        with gateway(text, environ={"AZURE_POD_IDENTITY_AUTHORITY_HOST": machine}) as stand:
            got = ask(stand.url)
    host = machine.removeprefix("http://")
    problem = f"Provider 'cloud': no credential: {host} answered 400: Identity not found"
    assert (got.status, got.json["error"]["message"]) == (503, problem)


def test_a_metadata_server_that_hangs_stalls_nobody_else() -> None:
    """It takes the connection and says nothing. Its requests fail with a reason, the others go on."""
    upstream = Canned(Answer(200, chat("hello")))
    with socket.create_server(("127.0.0.1", 0)) as silent, running(upstream) as url:
        host = f"http://127.0.0.1:{silent.getsockname()[1]}"
        text = block("azure-openai", f"{url}/openai/v1", 'credentials = { identity = "managed" }')
        other = text.replace("providers.cloud", "providers.other").replace(
            'credentials = { identity = "managed" }', 'api_key = "k"'
        )
        with (
            gateway(text + other, environ={"AZURE_POD_IDENTITY_AUTHORITY_HOST": host}) as stand,
            ThreadPoolExecutor() as pool,
        ):
            source: Any = stand.gateway.config.providers["cloud"].credentials
            source._timeout = 0.2
            waiting = pool.submit(ask, stand.url)
            assert text_of(ask(stand.url, model="other:m")) == "hello"
            got = waiting.result()
    problem = "Provider 'cloud': no credential: no answer within 0.2 s"
    assert (got.status, got.json["error"]["message"]) == (503, problem)


def test_azure_where_entra_refuses() -> None:
    refusal = {
        "error": "invalid_client",
        "error_description": "AADSTS7000215: Invalid client secret provided.",
    }
    issuer = Canned(Answer(401, jsontext.encode(refusal)))
    with running(issuer) as login:
        text = block("azure-openai", "http://127.0.0.1:9/openai/v1")
        with gateway(text, environ={**ENTRA, "AZURE_AUTHORITY_HOST": login}) as stand:
            got = ask(stand.url)
    host = login.removeprefix("http://")
    refused = "AADSTS7000215: Invalid client secret provided."
    problem = f"Provider 'cloud': no credential: {host} answered 401: {refused}"
    assert (got.status, got.json["error"]["message"]) == (503, problem)


# Vertex


def service_account(token_uri: str) -> dict[str, str]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return {
        "type": "service_account",
        "project_id": "p",
        "private_key": pem.decode(),
        "client_email": "a@p.iam.gserviceaccount.com",
        "token_uri": token_uri,
    }


def test_vertex_with_a_service_account(tmp_path: Any) -> None:
    pytest.importorskip("google.auth")
    token = {"access_token": "google-token-1", "expires_in": 3599, "token_type": "Bearer"}
    issuer, upstream = (
        Canned(Answer(200, jsontext.encode(token))),
        Canned(Answer(200, jsontext.encode(GEMINI))),
    )
    with running(issuer) as login, running(upstream) as url:
        file = tmp_path / "account.json"
        file.write_text(json.dumps(service_account(f"{login}/token")))
        base = f"{url}/v1beta1/projects/p/locations/europe-west4"
        text = block("vertex-gemini", base, f'credentials = {{ file = "{file}" }}')
        with gateway(text) as stand:
            assert [text_of(ask(stand.url)) for _ in range(2)] == ["hello", "hello"]
    assert len(issuer.requests) == 1
    assert upstream.requests[1].headers["authorization"] == "Bearer google-token-1"
    place = "/v1beta1/projects/p/locations/europe-west4/publishers/google/models"
    assert upstream.requests[0].path == f"{place}/m:generateContent"


def test_claude_at_vertex() -> None:
    printed = b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), jsontext.encode(event)) for event in EVENTS
    )
    upstream = Canned(
        Answer(200, jsontext.encode(CLAUDE)), Answer(200, printed, content_type="text/event-stream")
    )
    with running(upstream) as url:
        base = f"{url}/v1/projects/p/locations/global"
        with gateway(block("vertex-claude", base, 'credentials = { token = "t-1" }')) as stand:
            assert text_of(ask(stand.url)) == "hello"
            assert b'"hello"' in ask(stand.url, stream=True).body
    first, second = upstream.requests
    assert first.path.endswith("/publishers/anthropic/models/m:rawPredict")
    assert second.path.endswith("/publishers/anthropic/models/m:streamRawPredict")
    assert first.headers["authorization"] == "Bearer t-1"
    assert "model" not in first.json
    assert (first.json["anthropic_version"], second.json["stream"]) == ("vertex-2023-10-16", True)


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
def test_the_sdk_of_gemini_in_its_vertex_mode(version: str) -> None:
    """Its paths name a project and a location, which are not part of the model's name."""
    upstream = Canned(Answer(200, chat("hello")))
    with running(upstream) as url, gateway(block("openai-chat", url, 'api_key = "k"')) as stand:
        options = genai.types.HttpOptions(base_url=stand.url, api_version=version)
        account = Credentials("client-key")
        client = genai.Client(
            vertexai=True, project="p", location="europe-west4", credentials=account, http_options=options
        )
        assert client.models.generate_content(model="cloud:m", contents="hi").text == "hello"
        assert client.models.count_tokens(model="cloud:m", contents="hi").total_tokens
    assert upstream.requests[0].json["model"] == "m"


# Bedrock


class Metadata(Canned):
    """The metadata server of a machine at Google, whose service account has a token."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        token = {"access_token": "machine-token", "expires_in": 3599, "token_type": "Bearer"}
        account = {"default": {"email": "default", "scopes": [], "aliases": []}}
        answer = jsontext.encode(token if str(scope.get("path")).endswith("/token") else account["default"])
        self.answers = [Answer(200, answer, metadata_flavor="Google")]
        await super().__call__(scope, receive, send)


def test_vertex_with_the_metadata_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The application default credentials of google-auth, on a machine without a file and without gcloud."""
    metadata, upstream = Metadata(), Canned(Answer(200, jsontext.encode(GEMINI)))
    with running(metadata) as machine, running(upstream) as url:
        host = machine.removeprefix("http://")
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
        monkeypatch.setenv("GCE_METADATA_IP", host)
        monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", host)
        with gateway(block("vertex-gemini", f"{url}/v1beta1/projects/p/locations/l")) as stand:
            assert text_of(ask(stand.url)) == "hello"
    assert upstream.requests[0].headers["authorization"] == "Bearer machine-token"


def framed() -> bytes:
    encoder = AWS_CHUNKS.encoder()
    return b"".join(piece for event in EVENTS for piece in encoder.feed(Frame(event["type"], event)))


@pytest.mark.parametrize("client", ["openai-chat", "anthropic"])
def test_claude_at_bedrock_with_a_key(client: str) -> None:
    stream = Answer(200, framed(), content_type="application/vnd.amazon.eventstream")
    upstream = Canned(Answer(200, jsontext.encode(CLAUDE)), stream)
    path, body = "/v1/chat/completions", {**BODY, "model": "cloud:anthropic.claude-x-v1:0"}
    if client == "anthropic":
        path, body = "/v1/messages", {**body, "max_tokens": 9}
    with running(upstream) as url, gateway(block("bedrock-invoke", url, 'api_key = "k-aws"')) as stand:
        assert b'"hello"' in send(stand.url, "POST", path, jsontext.encode(body)).body
        assert b'"hello"' in send(stand.url, "POST", path, jsontext.encode(body | {"stream": True})).body
        assert stand.last()["output"] == 2
    first, second = upstream.requests
    assert first.path == "/model/anthropic.claude-x-v1:0/invoke"
    assert second.path == "/model/anthropic.claude-x-v1:0/invoke-with-response-stream"
    assert first.headers["authorization"] == "Bearer k-aws"
    assert not {"model", "stream"} & {*first.json, *second.json}
    assert first.json["anthropic_version"] == "bedrock-2023-05-31"


@pytest.mark.parametrize("protocol", ["bedrock-invoke", "vertex-claude"])
def test_the_betas_of_a_header_are_in_the_body(protocol: str) -> None:
    """Turn by turn, and only of Anthropic's clients: to others the header means nothing."""
    upstream = Canned(Answer(200, jsontext.encode(CLAUDE)))
    betas = {"anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14"}
    body, turns = {**BODY, "max_tokens": 9}, [{"role": "assistant", "content": "hello"}, *BODY["messages"]]
    with running(upstream) as url, gateway(block(protocol, url, 'credentials = { token = "t" }')) as stand:
        for more in ({}, {"messages": [*BODY["messages"], *turns]}):
            got = send(stand.url, "POST", "/v1/messages", jsontext.encode(body | more), betas)
            assert got.headers["x-dragoman-losses"].startswith("1")
        assert send(stand.url, "POST", "/v1/messages", jsontext.encode(body)).status == 200
        assert send(stand.url, "POST", "/v1/chat/completions", jsontext.encode(BODY), betas).status == 200
    sent = [request.json.get("anthropic_beta") for request in upstream.requests]
    assert sent == [["interleaved-thinking-2025-05-14"]] * 2 + [None, None]


def test_an_exception_in_a_stream_of_bedrock() -> None:
    begun = framed()[: len(framed()) // 2]
    cut = b"".join(AWS_EVENTS.encoder().feed(Frame("throttlingException", b'{"message":"slow down"}')))
    encoder = AWS_CHUNKS.encoder()
    whole = b"".join(piece for event in EVENTS[:3] for piece in encoder.feed(Frame("", event))) + cut
    for data, words in ((whole, b"slow down"), (begun, b"ended without message_stop")):
        answer = Answer(200, data, content_type="application/vnd.amazon.eventstream")
        with running(Canned(answer)) as url, gateway(block("bedrock-invoke", url, 'api_key = "k"')) as stand:
            assert words in ask(stand.url, stream=True).body


def test_an_error_of_bedrock() -> None:
    answer = Answer(400, b'{"message":"Input is too long for requested model."}')
    with running(Canned(answer)) as url, gateway(block("bedrock-invoke", url, 'api_key = "k"')) as stand:
        got = ask(stand.url)
    assert (got.status, got.json["error"]["code"]) == (400, "context_length_exceeded")


def test_signature_version_4() -> None:
    """Computed with botocore 1.44; the secret is the one of AWS's published examples."""
    credential = Credential(
        id="AKIDEXAMPLE", secret="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", region="us-east-1"
    )
    url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-x-v1%3A0/converse"
    request = OutgoingRequest("POST", url, {"content-type": "application/json"}, b'{"messages":[]}')
    assert signature(credential, request, "bedrock", "20261116T000000Z") == {
        "authorization": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261116/us-east-1/bedrock/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=62d29372a5eb3de7c0ac677fecff223a3c0a1334ed6ef98409949babba88f591",
        "x-amz-date": "20261116T000000Z",
    }


# The vectors that AWS publishes for Signature Version 4 (github.com/awslabs/aws-c-auth,
# tests/aws-signing-test-suite/v4): method, path and query as they are given, and the signature of the headers
_UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PUBLISHED = {
    "get-vanilla": ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    "post-vanilla": ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    "get-vanilla-query-order-key-case": (
        "GET",
        "/?Param2=value2&Param1=value1",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-vanilla-query-order-encoded": (
        "GET",
        "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
        "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
    ),
    "get-vanilla-empty-query-key": (
        "GET",
        "/?Param1=value1",
        "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
    ),
    "get-vanilla-query-unreserved": (
        "GET",
        f"/?{_UNRESERVED}={_UNRESERVED}",
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
    ),
    "get-unreserved": (
        "GET",
        f"/{_UNRESERVED}",
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    ),
    "get-utf8": ("GET", "/\u1234", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
    "get-space-unnormalized": (
        "GET",
        "/example space/",
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
    ),
}
_VECTOR_DATE = "20150830T123600Z"
_VECTOR_CREDENTIAL = Credential(
    id="AKIDEXAMPLE", secret="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", region="us-east-1"
)


def _proof(credential: Credential, method: str, path: str) -> str:
    request = OutgoingRequest(method, f"https://example.amazonaws.com{path}", {}, b"")
    return signature(credential, request, "service", _VECTOR_DATE)["authorization"].rpartition("Signature=")[
        2
    ]


@pytest.mark.parametrize("method, path, expected", PUBLISHED.values(), ids=PUBLISHED)
def test_published_signatures(method: str, path: str, expected: str) -> None:
    assert _proof(_VECTOR_CREDENTIAL, method, path) == expected


def test_a_published_signature_with_a_session() -> None:
    """get-vanilla-with-session-token"""
    session = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
    proof = _proof(replace(_VECTOR_CREDENTIAL, session=session), "GET", "/")
    assert proof == "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"


@pytest.mark.parametrize("method, path, expected", PUBLISHED.values(), ids=PUBLISHED)
def test_awscrt_signs_the_published_vectors_alike(method: str, path: str, expected: str) -> None:
    auth: Any = pytest.importorskip("awscrt.auth")
    http: Any = pytest.importorskip("awscrt.http")
    provider = auth.AwsCredentialsProvider.new_static(_VECTOR_CREDENTIAL.id, _VECTOR_CREDENTIAL.secret)
    config = auth.AwsSigningConfig(
        algorithm=auth.AwsSigningAlgorithm.V4,
        signature_type=auth.AwsSignatureType.HTTP_REQUEST_HEADERS,
        credentials_provider=provider,
        region="us-east-1",
        service="service",
        date=datetime(2015, 8, 30, 12, 36, tzinfo=UTC),
        use_double_uri_encode=True,
        should_normalize_uri_path=False,
        signed_body_header_type=auth.AwsSignedBodyHeaderType.NONE,
    )
    request = http.HttpRequest(method, path, http.HttpHeaders([("Host", "example.amazonaws.com")]))
    signed = auth.aws_sign_request(request, config).result()
    assert signed.headers.get("Authorization").rpartition("Signature=")[2] == expected


@pytest.mark.parametrize("session", ["", "session-1"])
def test_botocore_signs_alike(session: str) -> None:
    pytest.importorskip("botocore")
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/arn%3Aaws%3Ax%2Fy/invoke?b=2&a=1"
    theirs: Any = AWSRequest("POST", url, {"content-type": "application/json"}, b"{}")
    SigV4Auth(Credentials("AKID", "secret", session or None), "bedrock", "eu-west-1").add_auth(theirs)
    credential = Credential(id="AKID", secret="secret", session=session, region="eu-west-1")
    request = OutgoingRequest("POST", url, {"content-type": "application/json"}, b"{}")
    ours = signature(credential, request, "bedrock", theirs.headers["X-Amz-Date"])
    assert ours["authorization"] == theirs.headers["Authorization"]


# Configuration

FIVE_LINES = {
    "azure": (
        'protocol = "azure-openai"\nbase_url = "https://r.openai.azure.com/openai/v1"\napi_key = "k"',
        "https://r.openai.azure.com/openai/v1",
    ),
    "vertex": (
        'protocol = "vertex-gemini"\nproject = "p"\nlocation = "europe-west4"\ncredentials = { token = "t" }',
        "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/p/locations/europe-west4",
    ),
    "claude at vertex": (
        'protocol = "vertex-claude"\nproject = "p"\nlocation = "global"\ncredentials = { token = "t" }',
        "https://aiplatform.googleapis.com/v1/projects/p/locations/global",
    ),
    "bedrock": (
        'protocol = "bedrock-invoke"\nregion = "us-east-1"\napi_key = "k"',
        "https://bedrock-runtime.us-east-1.amazonaws.com",
    ),
}


@pytest.mark.parametrize("rows, url", FIVE_LINES.values(), ids=FIVE_LINES)
def test_a_provider_is_a_few_lines(rows: str, url: str) -> None:
    assert load(f"[providers.cloud]\n{rows}\n", {}).providers["cloud"].base_url == url


WRONG = {
    "azure without anything": (
        'protocol = "azure-openai"\nbase_url = "https://r.openai.azure.com/openai/v1"',
        "expected api_key, or for Entra tenant (AZURE_TENANT_ID), id (AZURE_CLIENT_ID)",
    ),
    "an identity of another kind": (
        'protocol = "azure-openai"\nbase_url = "https://r.test/openai/v1"\n'
        'credentials = { identity = "system" }',
        'identity: expected "managed", got "system"',
    ),
    "vertex without a project": ('protocol = "vertex-gemini"', "Vertex needs project (GOOGLE_CLOUD_PROJECT)"),
    "bedrock without a region": ('protocol = "bedrock-invoke"', "Bedrock needs region (AWS_REGION)"),
    "half a signature": (
        'protocol = "bedrock-invoke"\nregion = "us-east-1"\ncredentials = { id = "a" }',
        "a signature needs id, secret and region",
    ),
}


@pytest.mark.parametrize("rows, problem", WRONG.values(), ids=WRONG)
def test_what_is_missing(rows: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(f"[providers.cloud]\n{rows}\n", {})
    assert problem in str(caught.value)
