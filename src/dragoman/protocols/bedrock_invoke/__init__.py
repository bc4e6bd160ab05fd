"""`bedrock-invoke`: Claude at Bedrock (InvokeModel). The URL names the model and whether it streams.

Betas are in the body, and a stream is AWS event stream messages with one event of Anthropic in each.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from urllib.parse import quote

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Frame, with_listed_tools
from dragoman.core.events import Event
from dragoman.core.fold import EncodedMessages
from dragoman.core.losses import Losses
from dragoman.core.model import CLIENT_TOOLS, Failure, Request, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.framing.aws_events import AWS_CHUNKS
from dragoman.protocols import anthropic
from dragoman.protocols.aws import address, error_type, explain, refresh, sign
from dragoman.protocols.claude_at_clouds import HEADER_FIELDS, with_known_fields
from dragoman.serving.protocol import Protocol

_VERSION = "bedrock-2023-05-31"


def encode_around(request: Request, messages: EncodedMessages, losses: Losses, profile: ModelProfile) -> Wire:
    wire = anthropic.CODEC.conversation.encode_around(request, messages, losses, profile)
    rest = {name: value for name, value in wire.items() if name not in ("model", "stream")}
    return {"anthropic_version": _VERSION, **with_known_fields(rest, "Bedrock", losses)}


def decode_error(body: Wire, status: int) -> Failure | None:
    """`{"message": …}`; the kind follows from the status. A proxy of AWS spells it `Message`."""
    message = body.get("message") or body.get("Message")
    if status >= 400 and "error" not in body and isinstance(message, str):
        body = {"type": "error", "error": {"type": "", "message": explain(message)}}
    return anthropic.CODEC.decode_error(body, status)


class StreamDecoder(anthropic.StreamDecoder):
    """An exception of AWS ends a stream as an `error` event of Anthropic does."""

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        if frame.event.endswith("Exception") or frame.event == "error":
            value = jsontext.decode_object(frame.data.decode("utf-8", "replace")) or {}
            kind = error_type(str(value.get("code") or frame.event))
            error = {"type": "error", "error": {"type": kind, "message": value.get("message") or frame.event}}
            frame = Frame("error", jsontext.encode(error))
        return super().feed(frame)


def path(model: str, stream: bool) -> str:
    return f"/model/{quote(model, safe='')}/invoke{'-with-response-stream' if stream else ''}"


# Of Anthropic's own tools Bedrock runs none; those that the client runs and tool search are there
# (platform.claude.com/docs, "Features overview")
HOSTED = anthropic.LIMITS.hosted_tools & {*CLIENT_TOOLS, "tool_search"}
LIMITS = replace(anthropic.LIMITS, hosted_tools=HOSTED, lists_hosted=True)

HTTP = replace(
    anthropic.CODEC.http,
    path=path,
    authenticate=sign("bedrock"),
    signs=True,
    refresh=refresh,
    address=address,
    headers={},
    field_headers={},
    header_fields=HEADER_FIELDS,
    model_in_body=False,
    stream_type=AWS_CHUNKS.content_type,
)
CODEC = replace(
    anthropic.CODEC,
    http=HTTP,
    conversation=replace(anthropic.CODEC.conversation, encode_around=encode_around),
    decode_error=decode_error,
    limits=partial(with_listed_tools, LIMITS),
    stream_decoder=StreamDecoder,
)
PROTOCOL = Protocol(codec=CODEC, framing=AWS_CHUNKS, server=anthropic.PROTOCOL.server)
