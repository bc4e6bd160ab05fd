"""LiteLLM: its in-process adapter from Anthropic Messages to Chat, and its wrapper from Chat chunks back.

Its own path builds a chunk object from the parsed JSON before the wrapper sees it, and so do we; what the
rest of that path adds (SDK, its general stream wrapper, logging, cost) is left out, in its favour.
"""

import os
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

from bench.contenders.base import FAST, STANDARD, Contender, JsonText, Pair, TranslateRequest, TranslateStream
from bench.streams import frame_data

ONLY_PAIR = Pair(client="anthropic", upstream="openai-chat")


def prepare_request(json: JsonText, pair: Pair) -> TranslateRequest | None:
    adapter = new_adapter()
    if pair != ONLY_PAIR:
        return None
    return lambda body: json.encode(adapter.translate_completion_input_params(json.decode(body)))


def prepare_stream(json: JsonText, pair: Pair, body: bytes) -> TranslateStream | None:
    adapter = new_adapter()
    if pair != ONLY_PAIR:
        return None
    convert = partial(
        adapter.translate_completion_output_params_streaming, model="some-model", is_async=False
    )
    return lambda frames: b"".join(convert(chunks(json, frames)))


def new_adapter() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it asks the network while importing
    return import_module("litellm.llms.anthropic.pass_through.adapters.transformation").AnthropicAdapter()


def chunks(json: JsonText, frames: list[bytes]) -> Iterator[Any]:
    chunk_object = import_module("litellm.types.utils").ModelResponseStream
    for frame in frames:
        data = frame_data(frame)
        if data != b"[DONE]":
            yield chunk_object(**json.decode(data))


LITELLM = Contender(
    "LiteLLM", "litellm", partial(prepare_request, STANDARD), partial(prepare_stream, STANDARD)
)
WITH_MSGSPEC = Contender(
    "LiteLLM + msgspec", "litellm", partial(prepare_request, FAST), partial(prepare_stream, FAST)
)
