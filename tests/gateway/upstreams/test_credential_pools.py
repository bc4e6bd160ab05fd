"""Pools of credentials that are more than a key: each account signs, or fetches its tokens, for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Http, OutgoingRequest
from dragoman.core.credentials import Credential, Refresh
from dragoman.core.errors import ConfigError
from dragoman.gateway.config import load
from dragoman.gateway.observability.redaction import secrets_of
from dragoman.gateway.upstreams.routing import route
from dragoman.protocols import protocol
from dragoman.serving.protocol import Protocol
from gateway.canned import Answer, Canned, ReceivedRequest, chat
from gateway.plain import Got, send
from gateway.running import running
from gateway.stands import gateway
from protocols.registered import registered


def sign(credential: Credential, request: OutgoingRequest) -> dict[str, str]:
    return {"authorization": f"SIGNED {credential.id} {len(credential.secret)}"}


class Applications:
    """Each application fetches tokens with its id; those in `broken` get none."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.broken: set[str] = set()

    def make(self, given: Credential, options: Mapping[str, str], environ: Mapping[str, str]) -> Refresh:
        def fetch() -> Credential:
            self.fetched.append(given.id)
            if given.id in self.broken:
                raise OSError("the login says no")
            return Credential(token=f"{given.id}-token-{self.fetched.count(given.id)}")

        return fetch


@pytest.fixture
def applications() -> Iterator[Applications]:
    made = Applications()
    chats = protocol("openai-chat")
    for_signing = replace(chats.codec.http, authenticate=sign, signs=True)
    for_tokens = replace(chats.codec.http, refresh=made.make)

    def spoken(name: str, http: Http) -> Protocol:
        return replace(chats, codec=replace(chats.codec, name=name, http=http))

    with (
        registered("signed", spoken("signed", for_signing)),
        registered("tokened", spoken("tokened", for_tokens)),
    ):
        yield made


def file(url: str, name: str, entries: str) -> str:
    return f'[providers.up]\nprotocol = "{name}"\nbase_url = "{url}"\ncredentials = [{entries}]\n'


def ask(url: str, session: str) -> Got:
    body = {"model": "up:m", "messages": [{"role": "user", "content": session}]}
    return send(url, "POST", "/v1/chat/completions", jsontext.encode(body))


def accounts(requests: list[ReceivedRequest]) -> list[str]:
    return [request.headers["authorization"] for request in requests]


def test_each_request_is_signed_with_the_values_of_its_account(applications: Applications):
    upstream = Canned(Answer(200, chat("hello")))
    entries = '{ id = "A", secret = "sss", weight = 2 }, { id = "B", secret = "s", name = "second" }'
    with running(upstream) as url, gateway(file(url, "signed", entries)) as stand:
        for number in range(6):
            assert ask(stand.url, f"session {number}").status == 200
        names = [line["credential"] for line in stand.finished()]
    assert sorted(accounts(upstream.requests)) == ["SIGNED A 3"] * 4 + ["SIGNED B 1"] * 2
    assert sorted(names) == ["key-1"] * 4 + ["second"] * 2


def test_an_account_without_a_token_rests_and_the_others_take_over(applications: Applications):
    upstream = Canned(Answer(200, chat("hello")))
    applications.broken.add("one")
    with running(upstream) as url, gateway(file(url, "tokened", '{ id = "one" }, { id = "two" }')) as stand:
        for number in range(6):
            assert ask(stand.url, f"session {number}").status == 200
    assert accounts(upstream.requests) == ["Bearer two-token-1"] * 6
    assert applications.fetched == ["one", "two"]
    assert any(
        "up/key-1 is paused for 5 s: Provider 'up': no credential: the login says no" in line
        for line in stand.lines
    )


def test_a_refused_token_is_fetched_anew_before_the_session_moves(applications: Applications):
    refused = Answer(401, b'{"error": {"message": "expired"}}')
    upstream = Canned(Answer(200, chat("hello")), refused, refused, Answer(200, chat("hello")))
    with running(upstream) as url, gateway(file(url, "tokened", '{ id = "one" }, { id = "two" }')) as stand:
        assert ask(stand.url, "a session").status == 200
        for pooled in stand.gateway.config.providers["up"].pool:
            pooled.credentials._fetched_at = 0.0  # type: ignore[attr-defined] - it is no longer young
        assert [ask(stand.url, "a session").status for _ in range(2)] == [200, 200]
    first, *others = [each.removeprefix("Bearer ") for each in accounts(upstream.requests)]
    assert first == "one-token-1"
    assert others == ["one-token-1", "one-token-2", "two-token-1", "two-token-1"]


def test_accounts_have_their_own_plans_and_their_secrets_are_known(applications: Applications):
    config = load(file("http://127.0.0.1:9", "tokened", '{ id = "app-one" }, { id = "app-two" }'), {})
    one, two = route(config, "up:m")
    assert one.plans is not two.plans
    assert (one.provider.state_key, two.provider.state_key) == ("app-one", "app-two")
    assert {"app-one", "app-two"} <= set(secrets_of(config))


def test_accounts_that_are_fetched_without_a_secret_are_told_apart():
    """Files of service accounts at Vertex AI."""
    text = """
    [providers.google]
    protocol = "vertex-gemini"
    project = "p"
    location = "global"
    credentials = [{ file = "one account.json" }, { file = "two.json", name = "second", weight = 3 }]
    """
    targets = route(load(text, {}), "google:gemini-3-pro")
    assert [target.id for target in targets] == ["google/key-1:gemini-3-pro", "google/second:gemini-3-pro"]
    assert [target.provider.state_key for target in targets] == ["key-1", "second"]
    assert [round(4 * target.weight) for target in targets] == [1, 3]


BEDROCK = '[providers.aws]\nprotocol = "bedrock-invoke"\nregion = "eu-west-1"\n'
MISTAKES = {
    "values that are missing": (
        'credentials = [{ id = "A" }, { id = "B", secret = "s" }]',
        "providers.aws.credentials[0]: a signature needs id, secret and region",
    ),
    "the same account twice": (
        'credentials = [{ id = "A", secret = "s" }, { id = "A", secret = "t", name = "x" }]',
        "providers.aws.credentials[1]: x is there twice",
    ),
    "both lists": (
        'api_keys = ["a"]\ncredentials = [{ id = "A", secret = "s" }]',
        "providers.aws.api_keys: replaces api_key, credentials and passthrough",
    ),
    "an unknown value": (
        'credentials = [{ id = "A", secrt = "s" }]',
        "providers.aws.credentials[0].secrt: Unknown key 'secrt'. Did you mean 'secret'?",
    ),
}


@pytest.mark.parametrize("given, message", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(given: str, message: str):
    with pytest.raises(ConfigError) as caught:
        load(BEDROCK + given, {})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
