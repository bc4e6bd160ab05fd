"""botocore as the referee: it validates the requests that we send, and reads the replies as we do."""

from __future__ import annotations

import base64
from typing import Any

import botocore.session
import pytest
from botocore.eventstream import EventStreamBuffer
from botocore.parsers import EventStreamJSONParser, RestJSONParser
from botocore.validate import ParamValidator
from hypothesis import given

from dragoman import Exchange
from dragoman.core import jsontext
from dragoman.core.events import fold, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import Response
from dragoman.framing.aws_events import AWS_EVENTS
from dragoman.protocols import upstream
from goldens.scenarios import SCENARIOS
from laws import meaning
from laws.strategies import responses

MODEL = botocore.session.get_session().get_service_model("bedrock-runtime")
CONVERSE = upstream("bedrock-converse")
REQUEST = MODEL.operation_model("Converse").input_shape
REPLY = MODEL.operation_model("Converse").output_shape
EVENTS = MODEL.shape_for("ConverseStreamOutput")
SENT = [(name, client) for name, scenario in SCENARIOS.items() for client in scenario.requests]


@pytest.mark.parametrize("name, client", SENT)
def test_botocore_would_send_what_we_send(name: str, client: str) -> None:
    body = SCENARIOS[name].requests[client]
    exchange = Exchange(client, "bedrock-converse")
    sent = exchange.request(body, model="anthropic.claude-x-v1:0", stream=False)
    report = ParamValidator().validate({**sent, "modelId": "anthropic.claude-x-v1:0"}, REQUEST)
    assert not report.has_errors(), report.generate_report()
    assert exchange.path == "/model/anthropic.claude-x-v1%3A0/converse"


def bytes_of(response: Response) -> bytes:
    encoder, framing = CONVERSE.stream_encoder(Losses()), AWS_EVENTS.encoder()
    frames = [frame for event in unfold(response) for frame in encoder.feed(event)]
    return b"".join(piece for frame in frames for piece in framing.feed(frame))


def read_by_botocore(data: bytes) -> list[dict[str, Any]]:
    buffer, parser = EventStreamBuffer(), EventStreamJSONParser()
    buffer.add_data(data)
    return [parser.parse(message.to_response_dict(), EVENTS) for message in buffer]


@given(response=responses())
def test_botocore_reads_our_streams(response: Response) -> None:
    """The same texts, calls and counts, out of the same bytes."""
    data = bytes_of(response)
    texts: dict[int, str] = {}
    calls: dict[int, list[str]] = {}
    usage: dict[str, int] = {}
    for event in read_by_botocore(data):
        ((kind, body),) = [item for item in event.items() if item[0] != "ResponseMetadata"]
        delta = body.get("delta", {})
        if kind == "contentBlockStart" and (call := body["start"].get("toolUse")):
            calls[body["contentBlockIndex"]] = [call["name"], ""]
        elif "text" in delta:
            texts[body["contentBlockIndex"]] = texts.get(body["contentBlockIndex"], "") + delta["text"]
        elif "toolUse" in delta:
            calls[body["contentBlockIndex"]][1] += delta["toolUse"]["input"]
        elif kind == "metadata":
            usage = body["usage"]
    decoder, frames = CONVERSE.stream_decoder(Losses()), AWS_EVENTS.decoder().feed(data)
    read = fold([event for frame in frames for event in decoder.feed(frame)])
    said = meaning.of_response(read)
    assert "".join(texts.values()) == said["text"]
    assert len(calls) == len(said["calls"])
    counted = read.usage
    assert counted is not None
    assert (usage["outputTokens"], usage["totalTokens"]) == (counted.output, counted.input + counted.output)


@given(response=responses())
def test_botocore_reads_our_replies(response: Response) -> None:
    wire = CONVERSE.encode_response(response, Losses())
    parsed = RestJSONParser().parse({"status_code": 200, "headers": {}, "body": jsontext.encode(wire)}, REPLY)
    assert parsed["stopReason"] == wire["stopReason"]
    assert len(parsed["output"]["message"]["content"]) == len(wire["output"]["message"]["content"])
    validated = {key: value for key, value in parsed.items() if key != "ResponseMetadata"}
    assert not ParamValidator().validate(validated, REPLY).has_errors()


def test_bytes_are_base64() -> None:
    """As botocore reads them: a redacted thought is a blob."""
    block = {"reasoningContent": {"redactedContent": base64.b64encode(b"hidden").decode()}}
    wire = {"output": {"message": {"role": "assistant", "content": [block]}}, "stopReason": "end_turn"}
    parsed = RestJSONParser().parse({"status_code": 200, "headers": {}, "body": jsontext.encode(wire)}, REPLY)
    assert parsed["output"]["message"]["content"][0]["reasoningContent"]["redactedContent"] == b"hidden"
