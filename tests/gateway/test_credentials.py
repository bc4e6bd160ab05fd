"""Upstreams that want more than a key: requests signed with several values, and tokens that expire."""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import convert
from msgspec.structs import replace

from dragoman import Provider, generate
from dragoman import credentials as refreshing
from dragoman.core import jsontext
from dragoman.core.codec import Http, OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.core.errors import ConfigError, UpstreamError
from dragoman.gateway.config import load
from dragoman.protocols import protocol
from dragoman.recording.recorder import Recorder
from dragoman.recording.values import Recording, dump_recording
from dragoman.serving.protocol import Protocol
from gateway.canned import Answer, Canned, chat, provider
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway
from protocols.registered import registered
from waiting import wait_until

VALUES = {
    "id": "AKID-1234",
    "secret": "signing-secret-1",
    "session": "session-token-1",
    "region": "eu-west-1",
}
CREDENTIAL = convert(VALUES, Credential)
BODY = jsontext.encode({"model": "one:m", "messages": [{"role": "user", "content": "hi"}]})


def sign(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    text = b"\n".join([request.method.encode(), request.url.encode(), request.body])
    signature = hmac.new(credential.secret.encode(), text, hashlib.sha256).hexdigest()
    return {
        "authorization": f"SIGNED {credential.id}/{credential.region} {signature}",
        "x-session-token": credential.session,
    }


def spoken(name: str, http: Http) -> Protocol:
    chats = protocol("openai-chat")
    return replace(chats, codec=replace(chats.codec, name=name, http=http))


CHAT_HTTP = protocol("openai-chat").codec.http


def block(url: str, name: str, more: str = "") -> str:
    return f'[providers.one]\nprotocol = "{name}"\nbase_url = "{url}"\n{more}\n'


def in_toml(values: dict[str, str]) -> str:
    rows = [f'{name} = "{value}"' for name, value in values.items()]
    return "\n".join(["[providers.one.credentials]", *rows])


@pytest.fixture
def signed() -> Iterator[None]:
    with registered("signed", spoken("signed", replace(CHAT_HTTP, authenticate=sign, signs=True))):
        yield


def test_a_protocol_that_signs_with_four_values(signed: None) -> None:
    upstream = Canned(Answer(200, chat("hello")))
    with running(upstream) as url:
        with gateway(block(url, "signed", in_toml(VALUES)), verbose=True) as stand:
            stand.gateway.recorder = None
            for text in ("hi", "again"):
                body = jsontext.decode(BODY) | {"messages": [{"role": "user", "content": text}]}
                assert send(stand.url, "POST", "/v1/chat/completions", jsontext.encode(body)).status == 200
            log = "\n".join(stand.lines)
        whole = generate("hi", Provider("x", protocol="openai-chat", base_url=url).model("m"))
        assert whole.content == "hello"
    for request in upstream.requests[:2]:
        sent = OutgoingRequest("POST", f"{url}/chat/completions", {}, request.body)
        expected = sign(CREDENTIAL, sent)
        assert {name: request.headers[name] for name in expected} == expected
    assert upstream.requests[0].headers["authorization"] != upstream.requests[1].headers["authorization"]
    for name in ("id", "secret", "session"):
        assert VALUES[name] not in log


def test_no_value_is_in_a_recording_an_error_or_the_configuration(signed: None) -> None:
    leak = {"error": {"message": " ".join(VALUES.values()), "type": "x", "code": None}}
    upstream = Canned(Answer(400, jsontext.encode(leak)))
    with running(upstream) as url, gateway(block(url, "signed", in_toml(VALUES))) as stand:
        stand.gateway.recorder = recorder = Recorder()
        recorder.secrets = stand.gateway._redactor.secrets
        stand.gateway._transport = recorder.transport(stand.gateway._transport)
        stand.gateway._observes = True
        stand.gateway.configure(stand.gateway.config)
        got = send(stand.url, "POST", "/v1/chat/completions", BODY)
        recorded = "".join(dump_recording(each) for each in wait_until(lambda: recordings(recorder)))
        shown = repr(stand.gateway.config)
    assert got.status == 400
    for name in ("id", "secret", "session"):
        assert VALUES[name] not in got.body.decode()
        assert VALUES[name] not in recorded
        assert VALUES[name] not in shown
    assert VALUES["region"] in got.body.decode()
    assert recorded


def recordings(recorder: Recorder) -> list[Recording]:
    found = [recorder.store.get(summary.id) for summary in recorder.store.summaries()]
    return [each for each in found if each]


def test_the_client_signs_too(signed: None) -> None:
    upstream = Canned(Answer(200, chat("hello")))
    with running(upstream) as url:
        one = Provider("one", protocol="openai-chat", base_url=url, credentials=CREDENTIAL)
        one.codec = replace(one.codec, http=replace(CHAT_HTTP, authenticate=sign, signs=True))
        assert generate("hi", one.model("m")).content == "hello"
    sent = OutgoingRequest("POST", f"{url}/chat/completions", {}, upstream.requests[0].body)
    assert upstream.requests[0].headers["authorization"] == sign(CREDENTIAL, sent)["authorization"]
    assert VALUES["secret"] not in repr(one)


class Tokens:
    """Fetches t1, t2, …; each lives for `life` seconds. `held`: it hangs; `problem`: it fails."""

    def __init__(self) -> None:
        self.count, self.life = 0, 3600.0
        self.held = threading.Event()
        self.held.set()
        self.problem = ""

    def make(self, given: Credential, options: object, environ: object) -> object:
        if given.key:
            return None
        if not given.id:
            raise ConfigError("missing: id")
        return self.fetch

    def fetch(self) -> Credential:
        self.count += 1
        token = f"fetched-token-{self.count}"
        self.held.wait()
        if self.problem:
            raise OSError(self.problem)
        return Credential(token=token, expires=time.time() + self.life)


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    made = Tokens()
    http = replace(CHAT_HTTP, refresh=made.make, signs=False)
    with registered("tokened", spoken("tokened", http)):
        yield made
    made.held.set()


def sent_tokens(upstream: Canned) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in upstream.requests]


def test_a_token_that_expires_in_mid_session_is_fetched_anew(tokens: Tokens) -> None:
    upstream = Canned(Answer(200, chat("hello")))
    with running(upstream) as url, gateway(block(url, "tokened", in_toml({"id": "app"}))) as stand:
        for life in (3600.0, 3600.0):
            tokens.life = life
            assert send(stand.url, "POST", "/v1/chat/completions", BODY).status == 200
        source = stand.gateway.config.providers["one"].credentials
        source._known = Credential(token="old", expires=1.0)  # type: ignore[attr-defined]
        source._renew_at = 1.0  # type: ignore[attr-defined]
        assert send(stand.url, "POST", "/v1/chat/completions", BODY).status == 200
    assert sent_tokens(upstream) == ["fetched-token-1", "fetched-token-1", "fetched-token-2"]


def test_a_token_that_the_upstream_refuses_is_fetched_anew(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is late takes an expired token for a good one."""
    monkeypatch.setattr(refreshing, "_YOUNG", 0.0)
    refusal = Answer(401, jsontext.encode({"error": {"message": "expired", "type": "auth", "code": None}}))
    upstream = Canned(Answer(200, chat("hello")), refusal, Answer(200, chat("hello")), refusal)
    with running(upstream) as url, gateway(block(url, "tokened", in_toml({"id": "app"}))) as stand:
        got = [send(stand.url, "POST", "/v1/chat/completions", BODY).status for _ in range(3)]
    assert got == [200, 200, 401]
    assert sent_tokens(upstream) == [f"fetched-token-{n}" for n in (1, 1, 2, 2, 3)]


def test_a_fetch_that_hangs_stalls_nobody_else(tokens: Tokens) -> None:
    upstream = Canned(Answer(200, chat("hello")))
    tokens.held.clear()
    with running(upstream) as url, ThreadPoolExecutor() as pool:
        other = provider("two", url, "openai-chat")
        with gateway(block(url, "tokened", in_toml({"id": "app"})) + "\n" + other) as stand:
            waiting = pool.submit(send, stand.url, "POST", "/v1/chat/completions", BODY)
            wait_until(lambda: tokens.count == 1)
            body = BODY.replace(b"one:m", b"two:m")
            assert send(stand.url, "POST", "/v1/chat/completions", body).status == 200
            assert not waiting.done()
            tokens.held.set()
            assert waiting.result().status == 200


@pytest.mark.parametrize("slow", [True, False], ids=["hangs", "fails"])
def test_a_fetch_that_fails_or_hangs_is_a_clear_error(tokens: Tokens, slow: bool) -> None:
    upstream = Canned(Answer(200, chat("hello")))
    tokens.problem = "the metadata server says no"
    with running(upstream) as url, gateway(block(url, "tokened", in_toml({"id": "app"}))) as stand:
        if slow:
            tokens.held.clear()
            stand.gateway.config.providers["one"].credentials._timeout = 0.01  # type: ignore[attr-defined]
        got = send(stand.url, "POST", "/v1/chat/completions", BODY)
    reason = "no answer within 0.01 s" if slow else "the metadata server says no"
    assert (got.status, got.json["error"]["message"]) == (503, f"Provider 'one': no credential: {reason}")
    assert not upstream.requests


def test_the_client_fetches_a_token_too(tokens: Tokens) -> None:
    upstream = Canned(Answer(200, chat("hello")))
    with running(upstream) as url:
        one = Provider("one", protocol="openai-chat", base_url=url, credentials=Credential(key="k"))
        one.credentials = refreshing.RefreshedCredential(tokens.fetch, Credential())
        assert generate("hi", one.model("m")).content == "hello"
        assert sent_tokens(upstream) == ["fetched-token-1"]
        tokens.problem = "no"
        one.credentials = refreshing.RefreshedCredential(tokens.fetch, Credential())
        with pytest.raises(UpstreamError, match="Provider 'one': no credential: no"):
            generate("hi", replace_tries(one).model("m"))


def replace_tries(provider: Provider) -> Provider:
    provider.tries = 1
    return provider


WRONG = {
    "a protocol that misses a value": ("", "providers.one.credentials: missing: id"),
    "an unknown field": ('[providers.one.credentials]\nkay = "x"', "Unknown key 'kay'. Did you mean 'key'?"),
    "a key said twice": (
        'api_key = "a"\n[providers.one.credentials]\nkey = "b"',
        "providers.one.api_key: credentials.key says the same: leave one of them out",
    ),
    "a variable that is not set": (
        '[providers.one.credentials]\nid = "env:NOT_SET"',
        "providers.one.credentials.id: the variable NOT_SET is not set",
    ),
}


@pytest.mark.parametrize("text, problem", WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_the_configuration(tokens: Tokens, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(block("http://127.0.0.1:9", "tokened", text), {})
    assert problem in str(caught.value)


def test_values_come_from_the_environment() -> None:
    text = block("http://127.0.0.1:9", "openai-chat", '[providers.one.credentials]\nkey = "env:A"')
    assert load(text, {"A": "k-1"}).providers["one"].credentials == Credential(key="k-1")
