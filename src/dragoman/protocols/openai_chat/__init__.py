"""OpenAI Chat Completions, and the many servers that speak it."""

from dragoman.core.codec import Codec
from dragoman.core.protocol import Protocol
from dragoman.framing.sse import SSE
from dragoman.protocols.openai_chat.grammar import Grammar
from dragoman.protocols.openai_chat.models import limits
from dragoman.protocols.openai_chat.request import decode_request, encode_request
from dragoman.protocols.openai_chat.response import decode_response, encode_response
from dragoman.protocols.openai_chat.server import HTTP, SERVER, decode_error, encode_error
from dragoman.protocols.openai_chat.stream_decoder import StreamDecoder
from dragoman.protocols.openai_chat.stream_encoder import StreamEncoder
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME

LIMITS = limits("")  # of a client, and of OpenAI's own models

CODEC = Codec(
    name=PROTOCOL_NAME,
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    stream_decoder=StreamDecoder,
    stream_encoder=StreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    grammar=Grammar,
    http=HTTP,
    limits=limits,
    turns="messages",
    # some servers leave [DONE] out: a finish reason is an end too
    terminal=(
        b"data: [DONE]",
        b"data:[DONE]",
        b'data: {"error"',
        b'"finish_reason":"',
        b'"finish_reason": "',
    ),
    keep_alive=b": keep-alive\n\n",
    spelling={
        "output": "response_format",
        "effort": "reasoning_effort",
        "budget": "reasoning",
        "parallel": "parallel_tool_calls",
        "cache_key": "prompt_cache_key",
    },
)

PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=SERVER)
