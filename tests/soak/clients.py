"""One client and its exchange: what it asked, and what it saw. Nothing here is part of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import DragomanError, UpstreamError
from dragoman.core.events import fold
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, Response, Text, ToolCall, Wire
from dragoman.framing import sse
from dragoman.http.client import Client, Reply, TimedOut, Timeouts, TransportError
from dragoman.http.client.reply import HttpReply
from dragoman.protocols import codec
from soak.plans import Plan

PATIENT = Timeouts(connect=30, first_byte=60, idle=60)
LONGEST = 1 << 20
What = Literal["answered", "refused", "failed", "left", "cut", "hung", "malformed", "wrong"]


class Outcome(Struct, frozen=True):
    """`refused`: an HTTP error; `failed`: an error at the end of a stream; the last four are never right."""

    plan: Plan
    what: What
    status: int = 0
    note: str = ""
    reply: Wire | None = None  # a whole one
    retry_after: str = ""


async def perform(plan: Plan, client: Client, url: str) -> Outcome:
    headers = {"content-type": "application/json"}
    if plan.leaves == "in mid-request":
        return await _half_a_request(plan, url)
    sending = asyncio.ensure_future(client.send("POST", url + plan.path, headers, plan.body, PATIENT))
    if plan.leaves == "before the answer":
        await asyncio.wait((sending,), timeout=plan.leaves_after)
        return await _leave(plan, sending)
    try:
        reply = await sending
        if plan.leaves == "in mid-stream":
            return await _leave_the_stream(plan, reply)
        return await _read(plan, reply)
    except TimedOut as error:
        return Outcome(plan, "hung", note=str(error))
    except TransportError as error:
        return Outcome(plan, "cut", note=str(error))


async def _half_a_request(plan: Plan, url: str) -> Outcome:
    host, _, port = url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {plan.path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(plan.body)}\r\n\r\n"
    writer.write(head.encode() + plan.body[: len(plan.body) // 2])
    await asyncio.sleep(plan.leaves_after)
    writer.close()
    return Outcome(plan, "left")


async def _leave(plan: Plan, sending: asyncio.Future[HttpReply]) -> Outcome:
    sending.cancel()
    reply, *_ = await asyncio.gather(sending, return_exceptions=True)
    if not isinstance(reply, BaseException):
        reply.close()
    return Outcome(plan, "left")


async def _leave_the_stream(plan: Plan, reply: Reply) -> Outcome:
    """After its first piece and a moment; it does not matter what came."""
    async for _ in reply:
        break
    await asyncio.sleep(plan.leaves_after)
    reply.close()
    return Outcome(plan, "left", reply.status)


async def _read(plan: Plan, reply: Reply) -> Outcome:
    body = await reply.read(LONGEST)
    try:
        response = _failure(plan, reply, body) or _response(plan, reply, body)
    except UpstreamError as error:
        return Outcome(plan, "failed", reply.status, error.failure.message)
    except (DragomanError, ValueError) as error:
        return Outcome(plan, "malformed", reply.status, f"{type(error).__name__}: {error}")
    if isinstance(response, Failure):
        after = reply.headers.get("retry-after", "")
        return Outcome(plan, "refused", reply.status, response.message, retry_after=after)
    wrong = problem(plan, response)
    whole = None if plan.stream else jsontext.decode(body)
    return Outcome(plan, "wrong" if wrong else "answered", reply.status, wrong, whole)


def _failure(plan: Plan, reply: Reply, body: bytes) -> Failure | None:
    if reply.status < 400:
        return None
    failure = codec(plan.client).decode_error(jsontext.decode(body), reply.status)
    if not failure:
        raise ValueError(f"an error that is none: {body[:200]!r}")
    return failure


def _response(plan: Plan, reply: Reply, body: bytes) -> Response:
    """Checked by the protocol's own grammar, where it is a stream."""
    protocol_codec = codec(plan.client)
    if not plan.stream:
        return protocol_codec.decode_response(jsontext.decode(body), Losses())
    framing = sse.Decoder()
    return streamed(plan.client, (*framing.feed(body), *framing.close()))


def streamed(client: str, frames: Iterable[Frame]) -> Response:
    grammar, decoder = codec(client).grammar(), codec(client).stream_decoder(Losses())
    passed = [each for frame in frames for each in grammar.feed(frame)]
    return fold([*(event for frame in passed for event in decoder.feed(frame)), *decoder.close()])


def problem(plan: Plan, response: Response) -> str:
    """Whether this is the answer to this very question."""
    text = "".join(part.text for part in response.parts if isinstance(part, Text))
    calls = [part for part in response.parts if isinstance(part, ToolCall)]
    if not response.model.endswith(plan.model):
        return f"an answer of {response.model!r}"
    if plan.fault == "leak":
        return "" if calls or text else "nothing was said"
    if plan.turns or not plan.calls:
        return "" if f"umber {plan.number}" in text else f"text: {text[:100]!r}"
    called = [(call.name, "Oslo" in call.arguments) for call in calls]
    return "" if called == [("get_weather", True)] else f"called {called}"
