"""`bedrock-converse`: every model at Bedrock that has no API of its own there (Converse and ConverseStream).

The URL names the model and whether it streams. A stream is AWS event stream messages, one event in each.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core.codec import Codec, ProtocolLimits
from dragoman.core.fields import rows
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Spelling
from dragoman.core.model import Wire
from dragoman.core.schema_rules import SchemaRules
from dragoman.framing.aws_events import AWS_EVENTS
from dragoman.protocols.bedrock_converse.errors import decode_error, encode_error
from dragoman.protocols.bedrock_converse.grammar import Grammar
from dragoman.protocols.bedrock_converse.http import HTTP
from dragoman.protocols.bedrock_converse.request import CONVERSATION
from dragoman.protocols.bedrock_converse.response import decode_response, encode_response
from dragoman.protocols.bedrock_converse.serving.server import SERVER
from dragoman.protocols.bedrock_converse.settings import SPELLING
from dragoman.protocols.bedrock_converse.stream_decoder import StreamDecoder, is_end
from dragoman.protocols.bedrock_converse.stream_encoder import StreamEncoder
from dragoman.protocols.bedrock_converse.wire import PROTOCOL_NAME
from dragoman.serving.protocol import Protocol

LIMITS = ProtocolLimits(
    protocol=PROTOCOL_NAME,
    schema_field="inputSchema",
    call_id=r"[a-zA-Z0-9_.:-]+",
    call_id_prefix="tooluse_",
    cache_breakpoints=True,
    schema_rules=SchemaRules(vendor="Bedrock"),
)


def state_slots(reply: Wire) -> Iterable[tuple[Wire, str]]:
    """The objects of a whole reply, or of a frame, that hold opaque state, each with its field."""
    output, delta = reply.get("output"), reply.get("delta")
    message = output.get("message") if is_object(output) else None
    for block in [delta, *rows(message.get("content") if is_object(message) else None)]:
        thought = block.get("reasoningContent") if is_object(block) else None
        if not is_object(thought):
            continue
        signed: Wire = inner if is_object(inner := thought.get("reasoningText")) else thought
        for field in ("signature", "redactedContent"):
            if signed.get(field):
                yield signed, field


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
    limits=lambda profile: LIMITS,
    conversation=CONVERSATION,
    terminal=(b"totalTokens", b"Exception"),
    is_end=is_end,
    state_hint=b"reasoningContent",
    state_slots=state_slots,
    keep_alive=b"",
    spelling=Spelling(SPELLING),
)

PROTOCOL = Protocol(codec=CODEC, framing=AWS_EVENTS, server=SERVER)
