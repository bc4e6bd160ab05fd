"""No secret that stands in the place of one is in a recording, and nothing else changes.

A secret is planted in every place: headers of MCP servers under any name, user and query of URLs, members
that are named like a secret. All of them also in JSON that stands in a string, as the arguments of a call do.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core import jsontext
from dragoman.recording.redaction import Mask, mask_secrets, without_credentials

SECRET = "S3CR3T-value"
PLACES: dict[str, Callable[[str], Any]] = {
    "MCP headers": lambda secret: {"type": "mcp", "headers": {"X-Anything": secret, "Plain": "v"}},
    "nested headers": lambda secret: {"transport": {"headers": {"a": [secret], "b": {"c": secret}}}},
    "a list of headers": lambda secret: {"headers": [{"name": "x", "value": secret}]},
    "a token": lambda secret: {"authorization_token": secret},
    "a key": lambda secret: {"api_key": secret, "x": 1},
    "camel case": lambda secret: {"apiKey": secret},
    "a password": lambda secret: {"db": {"password": secret}},
    "the user of a URL": lambda secret: {"server_url": f"https://u:{secret}@h.example/x"},
    "any text with a URL": lambda secret: {"text": f"look at postgres://me:{secret}@h/db now"},
    "the query of a URL": lambda secret: {"url": f"https://h/x?a={secret}&b={secret}#end"},
    "a URI": lambda secret: {"fileUri": f"https://h/x?sig={secret}"},
    "Bearer": lambda secret: {"text": f"curl -H 'Authorization: Bearer {secret}'"},
    "another key": lambda secret: {"secretKey": secret, "Ocp-Apim-Subscription-Key": secret, "pwd": secret},
    "a list of keys": lambda secret: {"api_keys": [secret, secret], "password": [secret]},
    "headers as a text": lambda secret: {"headers": f"X-Key: {secret}"},
    "an endpoint": lambda secret: {"endpoint": f"https://h/x;k={secret}#access_token={secret}"},
    "the user of a URL with @": lambda secret: {"server_url": f"https://u:p@ss{secret}@h/x"},
    "a header in a text": lambda secret: {"command": f"curl -H 'X-Api-Key: {secret}' h"},
    "a line of .env": lambda secret: {"text": f"A=1\nOPENAI_API_KEY={secret}\nB=2"},
    "an option of a command": lambda secret: {"command": f"mysql --password={secret} db"},
    "a URL in a text": lambda secret: {"text": f"see https://h/x?a=b&access_token={secret} there"},
    "a backslash before": lambda secret: {"password": "a\\", "token": secret},
}  # fmt: skip
TEXT = st.text(max_size=20).filter(lambda text: SECRET not in text)
NOISE = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "text", "role"]), inner)
    ),
    max_leaves=8,
)
SECRETS = st.text("abXY019-_.~$!", min_size=4, max_size=12).map(lambda text: SECRET + text)


def dumped(value: Any, depth: int) -> Any:
    """`value`, `depth` times a JSON text within JSON, as arguments of calls are."""
    for _ in range(depth):
        value = {"arguments": json.dumps(value)}
    return value


@given(
    place=st.sampled_from(sorted(PLACES)),
    depth=st.integers(0, 3),
    before=NOISE,
    behind=NOISE,
    secret=SECRETS,
    spaces=st.booleans(),
)
def test_no_secret_is_left(place: str, depth: int, before: Any, behind: Any, secret: str, spaces: bool):
    value = [before, dumped(PLACES[place](secret), depth), behind]
    data = json.dumps(value, separators=None if spaces else (",", ":")).encode()
    masked = mask_secrets(data)
    assert SECRET.encode() not in masked
    assert len(masked) == len(data), "offsets into a stream stay right"
    assert isinstance(jsontext.decode(masked), list)
    assert SECRET not in without_credentials(data.decode())


@given(value=NOISE)
def test_nothing_else_changes(value: Any):
    data = json.dumps(value).encode()
    if not re.search(rb"bearer|://|url|uri|headers", data, re.IGNORECASE):
        assert mask_secrets(data) == data


def streamed(text: str, size: int) -> dict[str, bytes]:
    """`text` as arguments of a call and as a text, in frames of each protocol, between others."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    def lines(frame: Callable[[str, int], Any]) -> bytes:
        written: list[bytes] = []
        for piece in pieces:
            for text, index in ((piece, 1), ("and more", 2)):
                written.append(b"data: " + json.dumps(frame(text, index), separators=(",", ":")).encode())
        return b"\n\n".join([*written, b"data: [DONE]\n\n"])

    return {
        "anthropic": lines(lambda text, index: {"index": index, "delta": {"partial_json": text}}),
        "openai-chat": lines(
            lambda text, index: {
                "choices": [
                    {"index": 0, "delta": {"tool_calls": [{"index": index, "function": {"arguments": text}}]}}
                ]
            }
        ),
        "openai-responses": lines(lambda text, index: {"type": "x", "delta": text, "output_index": index}),
        "gemini": lines(
            lambda text, index: {"candidates": [{"index": index, "content": {"parts": [{"text": text}]}}]}
        ),
    }


@given(place=st.sampled_from(sorted(PLACES)), secret=SECRETS, size=st.integers(1, 40))
def test_no_secret_is_left_in_a_stream(place: str, secret: str, size: int):
    """However it is cut into frames, each of which can still be read."""
    for protocol, data in streamed(json.dumps(PLACES[place](secret)), size).items():
        masked = mask_secrets(data)
        assert len(masked) == len(data)
        texts = [_strings_of(json.loads(line[6:])) for line in masked.split(b"\n\n") if line[6:7] == b"{"]
        assert "".join(texts[1::2]) == "and more" * len(texts[1::2])
        assert SECRET not in "".join(texts[::2]), protocol


def _strings_of(value: Any) -> str:
    match value:
        case dict():
            return "".join([_strings_of(each) for name, each in value.items() if name != "type"])  # pyright: ignore[reportUnknownVariableType] - any JSON
        case list():
            return "".join([_strings_of(each) for each in value])  # pyright: ignore[reportUnknownVariableType] - any JSON
        case str():
            return value
        case _:
            return ""


@given(secret=SECRETS, size=st.integers(1, 10))
def test_no_known_secret_is_left_in_a_stream(secret: str, size: int):
    for data in streamed(f"the key is {secret}, they say", size).values():
        masked = Mask([secret]).data(data)
        texts = [_strings_of(json.loads(line[6:])) for line in masked.split(b"\n\n") if line[6:7] == b"{"]
        assert "".join(texts[::2]) == f"the key is {'*' * len(secret)}, they say"


@pytest.mark.parametrize(
    "key", ["sk-proj-abcDEF1234567890xyz", "ghp_abcDEF1234567890xyz", "glpat-abcDEF1234567890xyz"]
)
def test_keys_that_say_what_they_are(key: str):
    masked = mask_secrets(json.dumps({"text": f"it is {key}."}).encode())
    assert key[-8:].encode() not in masked
    assert mask_secrets(b'{"text": "task-abcdefghij1234567890"}') == b'{"text": "task-abcdefghij1234567890"}'


def test_a_private_key():
    text = f"-----BEGIN PRIVATE KEY-----\nMII{SECRET}abcdefghijklmnop==\n-----END PRIVATE KEY-----"
    assert SECRET.encode() not in mask_secrets(json.dumps({"text": text}).encode())


READABLE = (
    "token = get_token()",
    "password=getpass.getpass(prompt)",
    "token: str = the_token",
    "the secret: nobody knows it",
)


@pytest.mark.parametrize("program", READABLE)
def test_programs_stay_readable(program: str):
    data = json.dumps({"content": program}).encode()
    assert mask_secrets(data) == data


AT_ONCE = {
    *("the user of a URL", "any text with a URL", "Bearer", "the user of a URL with @", "a URL in a text"),
    *("a header in a text", "a line of .env", "an option of a command"),
}  # known by what follows, or by their length


@given(place=st.sampled_from(sorted(PLACES.keys() - AT_ONCE)), cut=st.integers(1, 12))
def test_a_value_that_is_cut_off(place: str, cut: int):
    data = json.dumps(PLACES[place](SECRET)).encode()
    data = data[: data.rindex(SECRET.encode()) + cut]
    assert mask_secrets(data).endswith(b"*" * cut)


def test_what_a_reader_needs_stays():
    body = {
        "model": "m",
        "max_tokens": 5,
        "tools": [{"type": "mcp", "server_url": "https://h/x?team=a", "headers": {"X-Key": "abcdefgh"}}],
        "messages": [{"role": "user", "content": "the token count, see https://h/?q=1"}],
        "usage": {"input_tokens": 3},
    }
    got = jsontext.decode(mask_secrets(jsontext.encode(body)))
    assert got["tools"] == [
        {"type": "mcp", "server_url": "https://h/x?team=*", "headers": {"X-Key": "********"}}
    ]
    assert {**got, "tools": 0} == {**body, "tools": 0}


def test_headers_and_urls():
    mask = Mask(["client-key-1"])
    headers = {"X-Session-Id": "abc", "Cookie": "x", "X-Amz-Signature": "y", "user-agent": "client-key-1 z"}
    assert mask.headers(headers) == {
        "X-Session-Id": "***", "Cookie": "***", "X-Amz-Signature": "***", "user-agent": "*** z",
    }  # fmt: skip
    assert mask.url("/v1beta/models/m:x?alt=sse&key=abc&x=y") == "/v1beta/models/m:x?alt=sse&key=***&x=***"
    assert mask.url("https://u:p@h/v1?api-version=2&sig=a") == "https://***@h/v1?api-version=2&sig=***"
