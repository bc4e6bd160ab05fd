"""LLM-Rosetta: its conversion pipeline, which is what its gateway runs, for every pair."""

from functools import partial
from importlib import import_module
from typing import Any

from bench.contenders.base import FAST, STANDARD, Contender, JsonText, Pair, TranslateRequest, TranslateStream
from bench.streams import NAMED_EVENTS, frame_data

ITS_NAME = {
    "anthropic": "anthropic",
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "gemini": "google",
}


def prepare_request(json: JsonText, pair: Pair) -> TranslateRequest:
    new_pipeline(pair)
    return lambda body: json.encode(new_pipeline(pair).convert_request(json.decode(body)))


def prepare_stream(json: JsonText, pair: Pair, body: bytes) -> TranslateStream:
    pipeline = new_pipeline(pair)
    pipeline.convert_request({"model": "some-model", **json.decode(body)})
    processor = pipeline.create_stream_processor()
    named = pair.client in NAMED_EVENTS

    def translate(frames: list[bytes]) -> bytes:
        return b"".join(
            print_frame(json, event, named)
            for frame in frames
            if (data := frame_data(frame)) != b"[DONE]"
            for event in processor.process_chunk(json.decode(data))
        )

    return translate


def new_pipeline(pair: Pair) -> Any:
    pipeline = import_module("llm_rosetta").ConversionPipeline
    return pipeline(ITS_NAME[pair.client], ITS_NAME[pair.upstream])


def print_frame(json: JsonText, event: Any, named: bool) -> bytes:
    data = b"data: %b\n\n" % json.encode(event)
    return b"event: %b\n%b" % (event["type"].encode(), data) if named else data


ROSETTA = Contender(
    "LLM-Rosetta", "llm-rosetta", partial(prepare_request, STANDARD), partial(prepare_stream, STANDARD)
)
WITH_MSGSPEC = Contender(
    "LLM-Rosetta + msgspec", "llm-rosetta", partial(prepare_request, FAST), partial(prepare_stream, FAST)
)
