"""No secret that stands in the place of one is in a recording, and nothing else changes.

A secret is planted in every place: headers of MCP servers under any name, user and query of URLs, members
that are named like a secret. All of them also in JSON that stands in a string, as the arguments of a call do.
"""

import json
import re
from collections.abc import Callable
from typing import Any

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


AT_ONCE = {"the user of a URL", "any text with a URL", "Bearer"}  # known by what follows, or by their length


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
