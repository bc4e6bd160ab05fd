"""Clients of Responses over WebSocket: connections of a few requests each, which go on by id, and some of
which end in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from dragoman import build_tool_results, parse_tool_calls
from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import DragomanError, UpstreamError
from dragoman.core.model import Wire
from soak.clients import PATIENT, Outcome, problem, streamed
from soak.plans import Plan

_EACH = 4  # requests of a connection
_TURN = 1_000_000  # the second turn of exchange N is number N + _TURN
_LAST = ("response.completed", "response.failed", "response.incomplete", "error")
_NO_JSON = "no JSON"


async def converse(plans: Iterator[Plan], url: str, outcomes: list[Outcome]) -> None:
    """All of them, a few on each connection."""
    while some := list(islice(plans, _EACH)):
        await _connection(some, url, outcomes)


async def _connection(plans: Iterable[Plan], url: str, outcomes: list[Outcome]) -> None:
    """Until its last plan has ended, or one of them leaves: the others then begin a new one."""
    waiting = iter(plans)
    async with connect(url.replace("http", "ws") + "/v1/responses", open_timeout=60) as socket:
        await _disturb(socket)
        for plan in waiting:
            outcome = await perform(plan, socket)
            outcomes.append(outcome)
            if outcome.what == "left":
                break
            again = _next_turn(plan, outcome.reply) if outcome.reply else None
            if again:
                outcomes.append(await perform(again, socket))
    rest = list(waiting)
    if rest:
        await _connection(rest, url, outcomes)


async def _disturb(socket: ClientConnection) -> None:
    """What is no request must not end the connection."""
    await (await socket.ping())
    await socket.send("{")
    refused = jsontext.decode(await socket.recv())
    assert (refused["type"], refused["status"]) == ("error", 400)


async def perform(plan: Plan, socket: ClientConnection) -> Outcome:
    body = jsontext.decode_object(plan.body.decode()) or {}
    try:
        async with asyncio.timeout(PATIENT.idle):
            await socket.send(jsontext.dumps({**body, "type": "response.create"}))
            if plan.leaves:
                return await _leave(plan, socket)
            return _read(plan, await _events(socket))
    except TimeoutError as error:
        return Outcome(plan, "hung", note=str(error))
    except ConnectionClosed as error:
        return Outcome(plan, "cut", note=str(error))


async def _leave(plan: Plan, socket: ClientConnection) -> Outcome:
    """Without a closing frame, as a client whose process ends."""
    if plan.leaves == "in mid-stream":
        await socket.recv()
    await asyncio.sleep(plan.leaves_after)
    socket.transport.abort()
    return Outcome(plan, "left")


async def _events(socket: ClientConnection) -> list[Wire]:
    """Until the last; what is no JSON is passed as it came, and the response still ends."""
    got: list[Wire] = []
    while not got or got[-1]["type"] not in _LAST:
        message = str(await socket.recv())
        got.append(jsontext.decode_object(message) or {"type": _NO_JSON})
    return got


def _read(plan: Plan, events: list[Wire]) -> Outcome:
    last = events[-1]
    if any(event["type"] == _NO_JSON for event in events):
        return Outcome(plan, "malformed", 200, "a message is no JSON")
    if last["type"] == "error":
        status = last["status"] if len(events) == 1 else 200
        return Outcome(plan, "refused" if status != 200 else "failed", status, str(last["error"]))
    try:
        response = streamed(plan.client, (Frame(event["type"], jsontext.encode(event)) for event in events))
    except UpstreamError as error:
        return Outcome(plan, "failed", 200, error.failure.message)
    except (DragomanError, ValueError) as error:
        return Outcome(plan, "malformed", 200, f"{type(error).__name__}: {error}")
    wrong = problem(plan, response)
    return Outcome(plan, "wrong" if wrong else "answered", 200, wrong, last["response"])


def _next_turn(plan: Plan, reply: Wire) -> Plan | None:
    """Results for the calls of a reply, which is continued by its id."""
    calls = parse_tool_calls(reply, plan.client)
    number = plan.number + _TURN
    results = build_tool_results(calls, [f"sunny, number {number}" for _ in calls], plan.client)
    if not calls:
        return None
    return replace(plan, number=number, turns=tuple(results), fault="", continues=reply["id"])
