"""`azure-responses`: Responses at the same address, which the Codex models of Azure speak alone."""

from msgspec.structs import replace

from dragoman.framing.sse import SSE
from dragoman.protocols import openai_responses
from dragoman.protocols.azure import authenticate, refresh
from dragoman.serving.protocol import Protocol

HTTP = replace(openai_responses.CODEC.http, authenticate=authenticate, refresh=refresh)
CODEC = replace(openai_responses.CODEC, http=HTTP)
PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=openai_responses.PROTOCOL.server)
