"""Hosted tools that the gateway executes for a client's request: which ones, and the rounds they take."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.core.caches import cache_tools, with_cached_tools
from dragoman.core.codec import Codec
from dragoman.core.fields import Body
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import Failure, HostedTool, Request
from dragoman.gateway.handlers.rounds import Rounds, pin
from dragoman.gateway.request import AttemptFailed, RoutedRequest
from dragoman.hosted.approvals import ApprovalError
from dragoman.hosted.loop import HostedRun, HostedTools
from dragoman.hosted.returning import HINTS
from dragoman.protocols import upstream
from dragoman.transforms.rounds import RoundEnd

_ONE_ANSWER = Failure(
    "bad_request",
    "A request whose hosted tools the gateway runs gets one answer. Do not ask for several.",
    400,
)


def may_declare_hosted(request: RoutedRequest) -> bool:
    """Whether the body may declare a hosted tool, or carry what one gave earlier, by a look at its bytes."""
    body = _body(request)
    hints = request.arrived.client.client_limits.hosted.hints
    return any(map(body.holds, hints)) or _carries_results(body)


async def start_run(hosted: HostedTools, request: RoutedRequest) -> HostedRun | None:
    """None where the request declares no hosted tool that its first target lacks and we can run, and carries
    no results of earlier ones."""
    arrived, target = request.arrived, request.targets[0]
    client, body = arrived.client, _body(request)
    if not _declares_hosted(client, body) and not _carries_results(body):
        return None  # a function has such a name
    neutral = client.decode_request(body.wire, Losses())
    native = upstream(target.provider.protocol).limits(target.provider.profile(target.model)).hosted_tools
    try:
        run = await hosted.declare(neutral, native, client.client_limits, arrived.scope)
    except ApprovalError as error:
        raise AttemptFailed(Failure("bad_request", str(error), 400)) from None
    if run and (neutral.settings.n or 1) > 1:
        raise AttemptFailed(_ONE_ANSWER)
    return run


async def play(run: HostedRun, rounds: Rounds, request: RoutedRequest) -> RoundEnd:
    record, declared = request.arrived.record, len(run.losses)
    record.lost = [*record.lost, *run.losses]
    # parsed anew: what is remembered of a conversation knows nothing of these rounds
    body = _body(request)
    body = Body(body.data, request.arrived.client.name, wire=body.wire)
    if request.turn_writer:
        request.turn_writer.body = body
    request = replace(request, body=body)
    is_first, run.streams = True, request.stream

    async def send(adapt: Callable[[Request], Request]) -> RoundEnd:
        nonlocal is_first
        now = replace(request if is_first else pin(request), rounds=adapt)
        is_first = False
        return await rounds.send(now)

    async def may_go_on() -> bool:
        admission, used = request.arrived.admission, rounds.usage
        return admission is None or used is None or await admission.affords(used)

    run.may_go_on = may_go_on
    if request.arrived.recording:
        run.note = request.arrived.recording.hosted.append
    try:
        return await run.play(send, rounds.add, rounds.lead)
    finally:
        record.hosted, record.hosted_failed = {**run.counts}, {**run.failed}
        record.lost = [*record.lost, *run.losses[declared:]]  # of results


def _carries_results(body: Body) -> bool:
    return body.sealed is not False and any(map(body.holds, HINTS))


def _declares_hosted(client: Codec, body: Body) -> bool:
    """By the tools alone: to decode the conversation takes much longer."""
    declares_later, hoists = client.client_limits.hosted.declares_later, client.conversation.hoists
    if declares_later and body.holds(declares_later):
        return True
    turns = body.wire.get(client.turns)
    kept = [*filter(hoists, turns)] if hoists and is_array(turns) else []
    wire = with_cached_tools({**body.wire, client.turns: kept})
    head = client.decode_request(wire, Losses())
    cache_tools(wire, head.tools)
    return any(isinstance(tool, HostedTool) for tool in head.tools)


def _body(request: RoutedRequest) -> Body:
    return request.turn_writer.body if request.turn_writer else request.body
