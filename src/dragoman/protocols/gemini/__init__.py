"""Google Gemini (generateContent)."""

from dragoman.core.codec import Codec, ProtocolLimits, with_listed_tools
from dragoman.core.hosted import HostedCodec
from dragoman.core.losses import Spelling
from dragoman.framing.sse import SSE
from dragoman.protocols.gemini.common_shape import read_usual_reply
from dragoman.protocols.gemini.errors import decode_error
from dragoman.protocols.gemini.grammar import Grammar
from dragoman.protocols.gemini.http import HTTP
from dragoman.protocols.gemini.request import CONVERSATION
from dragoman.protocols.gemini.response import decode_response, encode_response
from dragoman.protocols.gemini.serving.server import SERVER
from dragoman.protocols.gemini.settings import SPELLING
from dragoman.protocols.gemini.stream_decoder import VARYING, StreamDecoder, delta_text, is_end, state_slots
from dragoman.protocols.gemini.stream_encoder import StreamEncoder
from dragoman.protocols.gemini.wire import PROTOCOL_NAME
from dragoman.protocols.google import GOOGLE_SCHEMAS, encode_error
from dragoman.serving.protocol import Protocol

LIMITS = ProtocolLimits(
    hosted=HostedCodec(
        hints=(
            b"oogleSearch",
            b"oogle_search",
            b"rlContext",
            b"rl_context",
            b'WebSearch"',
            b'rise_web_search"',
            b'AiSearch"',
            b'_ai_search"',
            b"mcpServers",
            b"mcp_servers",
        ),
        forgets=True,  # Gemini CLI keeps no thoughts in its history
    ),
    protocol=PROTOCOL_NAME,
    signs="call",
    schema_field="parametersJsonSchema",
    tool_name=r"[a-zA-Z_][a-zA-Z0-9_.:-]*",
    call_id_length=128,
    hosted_tools=frozenset({"web_search", "web_fetch", "code_execution", "maps", "computer", "mcp"}),
    call_state=True,
    text_state=True,
    text_pieces=True,
    reasoning_state=False,  # Gemini CLI keeps no thoughts in its history
    schema_rules=GOOGLE_SCHEMAS,
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
    terminal=(b'"finishReason"', b'"blockReason"', b'"error"'),
    is_end=is_end,
    state_hint=b'"thoughtSignature"',
    state_slots=state_slots,
    model_field="modelVersion",
    keep_alive=b"\n",
    spelling=Spelling(SPELLING),
    answers="candidates",
    delta_text=delta_text,
    varying=VARYING,
    read_usual_reply=read_usual_reply,
)

PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=SERVER)
