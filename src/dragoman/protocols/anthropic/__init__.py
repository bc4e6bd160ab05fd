"""Anthropic Messages."""

from dragoman.core.codec import Codec, ProtocolLimits, with_listed_tools
from dragoman.core.fields import word_set
from dragoman.core.losses import Spelling
from dragoman.core.schema_rules import SchemaRules, StrictRules
from dragoman.framing.sse import SSE
from dragoman.protocols.anthropic.common_shape import read_usual_reply, write_usual_reply
from dragoman.protocols.anthropic.context_management import encode_compaction
from dragoman.protocols.anthropic.errors import decode_error, encode_error
from dragoman.protocols.anthropic.executed import HOSTED_CODEC
from dragoman.protocols.anthropic.grammar import Grammar
from dragoman.protocols.anthropic.hosted import FILTERS, HOSTED, encode_executed
from dragoman.protocols.anthropic.http import HTTP
from dragoman.protocols.anthropic.request import CONVERSATION
from dragoman.protocols.anthropic.response import decode_response, encode_response
from dragoman.protocols.anthropic.serving.server import SERVER
from dragoman.protocols.anthropic.settings import SPELLING
from dragoman.protocols.anthropic.stream_decoder import StreamDecoder, delta_text, is_end, state_slots
from dragoman.protocols.anthropic.stream_encoder import StreamEncoder
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME
from dragoman.serving.protocol import Protocol

SCHEMA_RULES = SchemaRules(
    vendor="Anthropic",
    strict=StrictRules(
        keywords=word_set(
            "$defs $ref type title description enum const anyOf items prefixItems properties required"
        ),
        formats=word_set("date-time time date duration email hostname ipv4 ipv6 uuid uri"),
        largest_min_items=1,
        cycles="none",
    ),
)

LIMITS = ProtocolLimits(
    protocol=PROTOCOL_NAME,
    signs="reasoning",
    schema_field="input_schema",
    tool_name_length=128,
    call_id=r"[a-zA-Z0-9_-]+",
    call_id_length=128,
    call_id_prefix="toolu_",
    deferred_tools=True,
    cache_breakpoints=True,
    call_breakpoints=True,
    hosted_tools=HOSTED,
    hosted_filters=FILTERS,
    hosted_choices=frozenset({"none"}),  # a subset is said by what is declared
    schema_rules=SCHEMA_RULES,
    compaction=encode_compaction,
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
    terminal=(b"event: message_stop", b'"type":"message_stop"', b"event: error"),
    is_end=is_end,
    state_hint=b'"signature"',
    state_slots=state_slots,
    envelope="message",
    delta_text=delta_text,
    read_usual_reply=read_usual_reply,
    write_usual_reply=write_usual_reply,
    keep_alive=b'event: ping\ndata: {"type": "ping"}\n\n',
    spelling=Spelling(SPELLING),
)

PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=SERVER)
