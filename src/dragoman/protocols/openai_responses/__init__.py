"""OpenAI Responses."""

from msgspec.structs import replace

from dragoman.core.codec import Codec, ProtocolLimits, with_listed_tools
from dragoman.core.losses import Spelling
from dragoman.framing.sse import SSE
from dragoman.protocols.openai import OPENAI_SCHEMAS
from dragoman.protocols.openai_responses.common_shape import print_echo, read_usual_reply, write_usual_reply
from dragoman.protocols.openai_responses.compaction import encode_compaction
from dragoman.protocols.openai_responses.errors import decode_error, encode_error
from dragoman.protocols.openai_responses.executed import HOSTED_CODEC
from dragoman.protocols.openai_responses.grammar import Grammar
from dragoman.protocols.openai_responses.hosted import ENCODED, FILTERS, encode_executed
from dragoman.protocols.openai_responses.http import HTTP
from dragoman.protocols.openai_responses.request import CONVERSATION
from dragoman.protocols.openai_responses.response import decode_response, encode_response
from dragoman.protocols.openai_responses.serving.server import SERVER
from dragoman.protocols.openai_responses.settings import SPELLING
from dragoman.protocols.openai_responses.stream_decoder import (
    VARYING,
    StreamDecoder,
    delta_text,
    is_end,
    state_slots,
)
from dragoman.protocols.openai_responses.stream_encoder import KEEP_ALIVE_EVENTS, StreamEncoder, continued
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME
from dragoman.serving.protocol import Protocol

LIMITS = ProtocolLimits(
    protocol=PROTOCOL_NAME,
    signs="reasoning",
    call_id_length=64,
    custom_tools=True,
    namespaces=True,
    deferred_tools=True,
    hosted_tools=frozenset(ENCODED),
    hosted_filters=FILTERS,
    hosted_choices=frozenset({"none", "names"}),
    schema_rules=OPENAI_SCHEMAS,
    compaction=encode_compaction,
    executed=encode_executed,
    hosted=HOSTED_CODEC,
)

MARKED = replace(LIMITS, cache_breakpoints=True)
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
    client_limits=LIMITS,
    limits=lambda profile: with_listed_tools(MARKED if profile.cache_breakpoints else LIMITS, profile),
    conversation=CONVERSATION,
    terminal=(
        b"event: response.completed",
        b"event: response.incomplete",
        b"event: response.failed",
        b"event: error",
        b'"type":"response.completed"',
        b'"type":"response.incomplete"',
        b'"type":"response.failed"',
        b'"type": "response.completed"',
        b'"type": "response.incomplete"',
        b'"type": "response.failed"',
    ),
    is_end=is_end,
    state_hint=b'"encrypted_content"',
    state_slots=state_slots,
    envelope="response",
    keep_alive=b": keep-alive\n\n",
    keep_alive_events=KEEP_ALIVE_EVENTS,
    continued=continued,
    numbered=b'"sequence_number"',  # llama.cpp leaves out all numbers, and the OpenAI SDK stumbles over that
    spelling=Spelling(SPELLING),
    delta_text=delta_text,
    varying=VARYING,
    read_usual_reply=read_usual_reply,
    write_usual_reply=write_usual_reply,
    echo=print_echo,
)

PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=SERVER)
