"""Chat streams for tests: chunks, and the events that the decoder makes of them."""

from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.events import Event
from dragoman.core.losses import Losses
from dragoman.core.model import Text, ToolCall, Wire
from dragoman.protocols.openai_chat import CODEC

DONE = "[DONE]"
OURS = "openai-chat"


def chunk(delta: Wire | None = None, finish: Any = None, **more: Any) -> Wire:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 17, "model": "m"}
    choices = (
        [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
    )
    return {**head, "choices": choices, **more}


def piece(
    index: int | None = 0, id: Any = None, name: Any = None, arguments: Any = None, **more: Any
) -> Wire:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    entry: Wire = {} if index is None else {"index": index}
    if id is not None:
        entry |= {"id": id, "type": "function"}
    return {**entry, "function": function, **more}


def calls(*pieces: Wire) -> Wire:
    return chunk({"tool_calls": list(pieces)})


def frame(item: Any) -> Frame:
    return (
        item
        if isinstance(item, Frame)
        else Frame("", item.encode() if isinstance(item, str) else jsontext.encode(item))
    )


def decode(*items: Any) -> tuple[list[Event], list[str]]:
    losses = Losses()
    decoder = CODEC.stream_decoder(losses)
    events = [event for item in items for event in decoder.feed(frame(item))]
    return [*events, *decoder.close()], [str(loss) for loss in losses]


def bare(part: Any) -> Any:
    if isinstance(part, Text):
        part = replace(part, citations=tuple(replace(c, extras=None) for c in part.citations))
    return replace(part, extras=None)


ROLE = chunk({"role": "assistant", "content": ""})
END = chunk({}, "stop")
CALLED = chunk({}, "tool_calls")
WEATHER = ToolCall("c1", "weather", '{"city":"Rome"}')
TIME = ToolCall("c2", "time", '{"tz":"UTC"}')


USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
