"""OpenAI Chat Completions, and the many servers that speak it."""

from functools import lru_cache

from dragoman.core.codec import Codec, ProtocolLimits
from dragoman.core.hosted import HostedCodec
from dragoman.core.losses import Spelling
from dragoman.core.model_profile import ModelProfile
from dragoman.framing.sse import SSE
from dragoman.protocols.openai import OPENAI_SCHEMAS
from dragoman.protocols.openai_chat.common_shape import read_usual_reply, write_usual_reply
from dragoman.protocols.openai_chat.errors import decode_error, encode_error
from dragoman.protocols.openai_chat.grammar import Grammar
from dragoman.protocols.openai_chat.http import HTTP
from dragoman.protocols.openai_chat.request import CONVERSATION
from dragoman.protocols.openai_chat.response import decode_response, encode_response, join_choices
from dragoman.protocols.openai_chat.serving.server import SERVER
from dragoman.protocols.openai_chat.settings import SPELLING
from dragoman.protocols.openai_chat.stream_decoder import (
    VARYING,
    StreamDecoder,
    delta_text,
    is_answer,
    is_end,
)
from dragoman.protocols.openai_chat.stream_encoder import StreamEncoder
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME
from dragoman.serving.protocol import Protocol

CLIENT_LIMITS = ProtocolLimits(
    hosted=HostedCodec(
        hints=(b'"web_search', b":web_search", b'"browser_search'), forgets=True, joins_texts=True
    ),
    schema_field="function.parameters",
    call_id_length=40,
    custom_tools=True,
    cache_breakpoints=True,
    hosted_tools=frozenset({"web_search"}),
    reasoning_state=False,
    schema_rules=OPENAI_SCHEMAS,
)


@lru_cache(maxsize=256)
def limits(profile: ModelProfile) -> ProtocolLimits:
    """Of one of the many servers of this protocol."""
    return ProtocolLimits(
        call_id=profile.call_id,
        call_id_length=profile.call_id_length,
        call_state=profile.call_state,
        reasoning_beside_output=profile.reasoning_beside_output,
        custom_tools=profile.custom_tools,
        cache_breakpoints=bool(profile.cache_breakpoints),
        hosted_tools=CLIENT_LIMITS.hosted_tools & {*(profile.hosted_tools or ())},
        lists_hosted=profile.hosted_tools is not None,
        reasoning_state=False,
        schema_rules=OPENAI_SCHEMAS,
    )


CODEC = Codec(
    name=PROTOCOL_NAME,
    decode_response=decode_response,
    encode_response=encode_response,
    stream_decoder=StreamDecoder,
    stream_encoder=StreamEncoder,
    decode_error=decode_error,
    encode_error=encode_error,
    grammar=Grammar,
    http=HTTP,
    client_limits=CLIENT_LIMITS,
    limits=limits,
    conversation=CONVERSATION,
    # some servers leave [DONE] out: a finish reason is an end too
    terminal=(
        b"data: [DONE]",
        b"data:[DONE]",
        b'data: {"error"',
        b'"finish_reason":"',
        b'"finish_reason": "',
    ),
    is_end=is_end,
    is_answer=is_answer,
    delta_text=delta_text,
    varying=VARYING,
    read_usual_reply=read_usual_reply,
    write_usual_reply=write_usual_reply,
    keep_alive=b": keep-alive\n\n",
    answers="choices",
    join_answers=join_choices,
    spelling=Spelling(SPELLING),
)

PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=SERVER)
