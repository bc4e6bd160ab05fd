"""Google Gemini Interactions."""

from dragoman.core.codec import Codec, ProtocolLimits, with_listed_tools
from dragoman.core.losses import Spelling
from dragoman.framing.sse import SSE
from dragoman.protocols.gemini_interactions.errors import decode_error
from dragoman.protocols.gemini_interactions.grammar import Grammar
from dragoman.protocols.gemini_interactions.hosted import HOSTED, HOSTED_CODEC, encode_executed
from dragoman.protocols.gemini_interactions.http import HTTP
from dragoman.protocols.gemini_interactions.request import CONVERSATION
from dragoman.protocols.gemini_interactions.response import decode_response, encode_response
from dragoman.protocols.gemini_interactions.serving.server import SERVER
from dragoman.protocols.gemini_interactions.settings import SPELLING
from dragoman.protocols.gemini_interactions.stream_decoder import (
    VARYING,
    StreamDecoder,
    delta_text,
    is_end,
    state_slots,
)
from dragoman.protocols.gemini_interactions.stream_encoder import StreamEncoder
from dragoman.protocols.gemini_interactions.wire import PROTOCOL_NAME
from dragoman.protocols.google import GOOGLE_SCHEMAS, encode_error
from dragoman.serving.protocol import Protocol

LIMITS = ProtocolLimits(
    protocol=PROTOCOL_NAME,
    signs="reasoning",
    tool_name=r"[a-zA-Z_][a-zA-Z0-9_.:-]*",
    call_id_length=128,
    hosted_tools=HOSTED,
    hosted_filters=frozenset({"mcp.allowed"}),
    schema_rules=GOOGLE_SCHEMAS,
    executed=encode_executed,
    hosted=HOSTED_CODEC,
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
    client_limits=LIMITS,
    limits=lambda profile: with_listed_tools(LIMITS, profile),
    conversation=CONVERSATION,
    terminal=(b"interaction.complete", b'"error"'),
    is_end=is_end,
    state_hint=b'"signature"',
    state_slots=state_slots,
    envelope="interaction",
    keep_alive=b": keep-alive\n\n",
    spelling=Spelling(SPELLING),
    delta_text=delta_text,
    varying=VARYING,
)

PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=SERVER)
