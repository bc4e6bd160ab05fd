"""Endpoints that pass untranslated: where they go, with which key and model, and how they fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman.core import jsontext
from gateway.canned import Answer, Canned, error, provider
from gateway.plain import Got, send
from gateway.running import running
from gateway.sdks import sdk_of
from gateway.stands import CLIENT_KEY, Stand, gateway

VECTOR = {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}
VECTORS = {
    "object": "list",
    "data": [VECTOR],
    "model": "e-1",
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
}


class Line:
    def __init__(self, stand: Stand, upstream: Canned) -> None:
        self.stand, self.upstream = stand, upstream

    def ask(self, path: str, body: bytes, *answers: Answer, **headers: str) -> Got:
        self.upstream.requests.clear()
        self.upstream.answers = list(answers)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return send(self.stand.url, "POST", path, body, named)


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    upstream = Canned(Answer(200))
    with running(upstream) as url:
        rows = [
            f'[server]\nkeys = ["{CLIENT_KEY}"]\n',
            provider("one", url),
            provider("two", url, "openai-responses"),
            provider("google", url, "gemini"),
            provider("claude", url, "anthropic"),
            provider("dead", "http://127.0.0.1:9"),
            "[models]\n",
            'small = "one:e-1"\nfallback = ["dead:e-1", "one:e-2"]\nvec = "google:g-1"\n',
        ]
        with gateway("\n".join(rows)) as stand:
            yield Line(stand, upstream)


def test_embeddings(line: Line) -> None:
    body = b'{"input": "hi",  "model":"small"}'
    got = line.ask("/v1/embeddings", body, Answer(200, jsontext.encode(VECTORS)))
    assert (got.status, got.json) == (200, VECTORS)
    (request,) = line.upstream.requests
    assert (request.path, request.body) == ("/v1/embeddings", b'{"input": "hi",  "model":"e-1"}')
    assert request.headers["authorization"] == "Bearer key-of-one"
    assert CLIENT_KEY not in str(request.headers)
    record = line.stand.last()
    assert (record["action"], record["provider"], record["model"], record["input"]) == (
        "forward",
        "one",
        "small",
        7,
    )


def test_embeddings_with_the_sdk(line: Line) -> None:
    line.upstream.answers = [Answer(200, jsontext.encode(VECTORS))]
    sdk = sdk_of("openai-chat", line.stand.url).sync
    made = sdk.embeddings.create(model="two:e-1", input="hi", encoding_format="float")
    assert made.data[0].embedding == [0.5, -1.0]


PATHS = {
    "/openai/deployments/small/embeddings?api-version=1": "/v1/embeddings",
    "/v1/v1/embeddings": "/v1/embeddings",
    "/v1/completions": "/v1/completions",
    "/v1/moderations": "/v1/moderations",
    "/v1/rerank": "/v1/rerank",
    "/v1/images/generations": "/v1/images/generations",
    "/v1/audio/speech": "/v1/audio/speech",
}


@pytest.mark.parametrize("path", PATHS)
def test_paths(line: Line, path: str) -> None:
    assert line.ask(path, b'{"model":"one:m"}', Answer(200, b"{}")).status == 200
    assert line.upstream.requests[0].path == PATHS[path]


def test_gemini(line: Line) -> None:
    body = b'{"model":"models/vec","content":{"parts":[{"text":"hi"}]}}'
    got = line.ask("/v1beta/models/vec:embedContent", body, Answer(200, b'{"embedding":{"values":[1]}}'))
    assert got.json == {"embedding": {"values": [1]}}
    (request,) = line.upstream.requests
    assert (request.path, request.json["model"]) == ("/v1beta/models/g-1:embedContent", "models/g-1")
    assert request.headers["x-goog-api-key"] == "key-of-google"
    each = b'{"requests":[{"model":"models/vec","content":{}},{"content":{}}]}'
    assert line.ask("/v1beta/models/vec:batchEmbedContents", each, Answer(200, b"{}")).status == 200
    assert line.upstream.requests[0].json["requests"][0]["model"] == "models/g-1"


def test_a_form(line: Line) -> None:
    """Audio is uploaded as a form, in which the model is a field."""
    form = (
        b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nsmall\r\n'
        b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\0\xff\r\n--x--\r\n'
    )
    kind = "multipart/form-data; boundary=x"
    got = line.ask("/v1/audio/transcriptions", form, Answer(200, b'{"text":"hi"}'), content_type=kind)
    assert got.json == {"text": "hi"}
    (request,) = line.upstream.requests
    assert request.body == form.replace(b"small", b"e-1")
    assert request.headers["content-type"] == kind


def test_bytes_pass_as_they_come(line: Line) -> None:
    audio = Answer(200, b"\0\1", b"\2", content_type="audio/mpeg")
    got = line.ask("/v1/audio/speech", b'{"model":"small"}', audio)
    assert (got.body, got.headers["content-type"]) == (b"\0\1\2", "audio/mpeg")


def test_the_next_target(line: Line) -> None:
    got = line.ask("/v1/embeddings", b'{"model":"fallback"}', Answer(200, jsontext.encode(VECTORS)))
    assert (got.status, line.upstream.requests[0].json) == (200, {"model": "e-2"})
    assert line.stand.last()["tries"] == 2


FAILURES: dict[str, tuple[str, bytes, int, str]] = {
    "another protocol": ("/v1/embeddings", b'{"model":"claude:x"}', 404, "/v1/embeddings is forwarded to"),
    "no such model": ("/v1/embeddings", b'{"model":"nonsense"}', 404, "Unknown model"),
    "no model": ("/v1/embeddings", b"{}", 400, "model: The request names none. Unknown model"),
    "a model that is no name": ("/v1/embeddings", b'{"model":7}', 400, "openai-chat: model"),
    "no JSON": ("/v1/embeddings", b"{", 400, "openai-chat: body: invalid JSON"),
    "nobody there": ("/v1/embeddings", b'{"model":"dead:x"}', 503, "Provider 'dead' is not reachable"),
}


@pytest.mark.parametrize("path, body, status, message", FAILURES.values(), ids=FAILURES)
def test_what_is_refused(line: Line, path: str, body: bytes, status: int, message: str) -> None:
    got = line.ask(path, body, Answer(200, b"{}"))
    assert (got.status, got.failure("openai-chat").message[: len(message)]) == (status, message)
    assert line.upstream.requests == []


def test_errors_of_the_upstream(line: Line) -> None:
    got = line.ask("/v1/embeddings", b'{"model":"small"}', Answer(400, error("too many: key-of-one")))
    assert (got.status, got.json["error"]["type"]) == (400, "x")
    assert "key-of-one" not in got.body.decode()
    got = line.ask("/v1/embeddings", b'{"model":"two:e"}', Answer(401, error("no")))
    assert got.status == 401
    assert send(line.stand.url, "POST", "/v1/embeddings", b"{}", key="wrong").status == 401
    got = send(line.stand.url, "GET", "/v1/embeddings")
    assert (got.status, got.headers["allow"]) == (405, "POST")
