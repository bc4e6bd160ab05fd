"""`azure-openai`: Chat at `/openai/v1` of Azure OpenAI and Foundry. The model is the name of a deployment."""

from msgspec.structs import replace

from dragoman.framing.sse import SSE
from dragoman.protocols import openai_chat
from dragoman.protocols.azure import authenticate, refresh
from dragoman.serving.protocol import Protocol

HTTP = replace(openai_chat.CODEC.http, authenticate=authenticate, refresh=refresh)
CODEC = replace(openai_chat.CODEC, http=HTTP)
PROTOCOL = Protocol(codec=CODEC, framing=SSE, server=openai_chat.PROTOCOL.server)
