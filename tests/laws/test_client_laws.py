"""The client library under the laws of an exchange: the same pipeline, without a client codec before it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dragoman
from dragoman import Provider, Tool
from dragoman.client.requests import ModelCall, Question
from dragoman.client.results import Result
from dragoman.client.streaming import StreamReader
from dragoman.core import jsontext
from dragoman.core.errors import UpstreamError
from dragoman.core.losses import Losses
from dragoman.core.model import Response, Stop, Text, ToolCall, Usage
from dragoman.protocols import codec, names
from laws import meaning
from laws.strategies import responses, words
from laws.test_exchange_laws import END_BEFORE_DONE, plain, response_wire, stream_wire

few = settings(max_examples=20)
every_protocol = pytest.mark.parametrize("upstream", names())
LEAK = '<tool_call>{"name": "%s", "arguments": {"path": "a"}}</tool_call>'


class _Reply:
    """An upstream's answer, at once."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read(self, limit: int) -> bytes:
        return self._body

    def close(self) -> None:
        pass


def call(upstream: str, tools: Any = (), stream: bool = False, **options: Any) -> ModelCall:
    provider = Provider("p", protocol=upstream, base_url="http://127.0.0.1:9", api_key="k", **options)
    return ModelCall(Question("go", provider.model("m"), tools, {}, stream=stream))


def sent_body(model: ModelCall) -> bytes:
    return model._prepared.body


def whole(model: ModelCall, response: Response) -> Result:
    body = jsontext.encode(response_wire(model.provider.codec.name, response))
    return asyncio.run(model.read(_Reply(body)))  # pyright: ignore[reportArgumentType] - all that is used


def streamed(model: ModelCall, pieces: list[bytes]) -> Result:
    reader = StreamReader(model)
    for piece in pieces:
        reader.feed(piece)
    reader.close()
    assert reader.result
    return reader.result


@every_protocol
@few
@given(response=responses())
def test_a_reply_means_what_its_codec_decodes(upstream: str, response: Response) -> None:
    expected = codec(upstream).decode_response(response_wire(upstream, response), Losses())
    assert meaning.of_response(whole(call(upstream), response).response) == meaning.of_response(expected)


@every_protocol
@few
@given(response=responses())
def test_streamed_equals_whole(upstream: str, response: Response) -> None:
    expected = meaning.of_response(whole(call(upstream), response).response)
    result = streamed(call(upstream, stream=True), stream_wire(upstream, response))
    seen = meaning.of_response(result.response)
    if any(loss.code == "citation.dropped" for loss in result.losses):  # a source that comes after its text
        del seen["citations"], expected["citations"]
    assert seen == expected


@every_protocol
@few
@given(response=responses(), data=st.data())
def test_where_bytes_are_cut_does_not_matter(upstream: str, response: Response, data: st.DataObject) -> None:
    body = b"".join(stream_wire(upstream, response))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    one = streamed(call(upstream, stream=True), [body])
    assert streamed(call(upstream, stream=True), pieces).response == one.response


@every_protocol
@few
@given(response=responses())
def test_G14_a_stream_cut_anywhere_fails(upstream: str, response: Response) -> None:
    pieces = stream_wire(upstream, response)
    for count in range(len(pieces)):
        if END_BEFORE_DONE.get(upstream, b"\xff") in b"".join(pieces[:count]):
            continue
        with pytest.raises(UpstreamError):
            streamed(call(upstream, stream=True), pieces[:count])


@every_protocol
@few
@given(name=words)
def test_G85_any_tool_name_is_restored_in_the_call(upstream: str, name: str) -> None:
    model = call(upstream, [Tool(name=name, description="d", parameters={"type": "object"})])
    (declared,) = codec(upstream).decode_request(plain(jsontext.decode(sent_body(model))), Losses()).tools
    reply = Response("r", "m", (ToolCall("call_1", declared.name, "{}"),), Stop("tool_calls"), Usage())
    (made,) = whole(model, reply).tool_calls
    assert made["function"]["name"] == name


@every_protocol
@pytest.mark.parametrize("how", ["whole", "streamed"])
def test_recovery_knows_tools_under_the_names_that_the_upstream_sees(upstream: str, how: str) -> None:
    """An exchange found a leaked call of a tool whose name had to be changed; the client did not."""
    model = call(upstream, [Tool(name="fs.read", parameters={"type": "object"})], recover=True)
    (declared,) = codec(upstream).decode_request(jsontext.decode(sent_body(model)), Losses()).tools
    reply = Response("r", "m", (Text(LEAK % declared.name),), Stop("end"), Usage())
    result = whole(model, reply) if how == "whole" else streamed(model, stream_wire(upstream, reply))
    assert [made["function"]["name"] for made in result.tool_calls] == ["fs.read"]


@every_protocol
def test_malformed_and_deep_replies_are_failures(upstream: str) -> None:
    for body in (b"[]", b"{", b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
        with pytest.raises(dragoman.UpstreamError):
            asyncio.run(call(upstream).read(_Reply(body)))  # pyright: ignore[reportArgumentType] - as above
