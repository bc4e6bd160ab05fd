"""A provider that speaks several protocols: the one with the least loss is chosen for each request.

The first surface is the one that the client prefers (routing.py): mostly its own protocol, so nothing is
translated. The others are looked at only where something would be lost there.

    first surface --nothing is lost------> sent
                  --something is lost----> all are translated, the one with the least loss is sent
    sent          --404------------------> the next one; that answers: this one is not asked again
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from dragoman.core.errors import DragomanError
from dragoman.exchange import Exchange
from dragoman.gateway.conversations.turn_writer import TurnWriter
from dragoman.gateway.request import AttemptFailed
from dragoman.gateway.upstreams.routing import Target
from dragoman.transforms.rounds import RoundEnd

NOTHING = (0, 0, 0)


class SurfaceRequest(Struct, frozen=True, eq=False):
    """The request as it is sent to `target`."""

    target: Target
    exchange: Exchange
    turn_writer: TurnWriter | None
    body: bytes


Translate = Callable[[Target], Awaitable[SurfaceRequest]]
Send = Callable[[SurfaceRequest], Awaitable[RoundEnd]]


async def attempt_surfaces(target: Target, translate: Translate, send: Send) -> RoundEnd:
    """Raises AttemptFailed as `send` does."""
    order = [each for each in target.surfaces if each.provider.protocol not in target.missing]
    chosen = await _choose(order or list(target.surfaces), translate)
    try:
        return await send(chosen)
    except AttemptFailed as error:
        # a server without the path says 404, and so does one without the model: then the others do so too
        if error.failure.kind != "not_found":
            raise
        failed = error
    try:
        for surface in target.surfaces:
            if surface is chosen.target:
                continue
            try:
                end = await send(await translate(surface))
            except AttemptFailed as error:
                if error.failure.kind != "not_found":
                    raise
            else:
                target.missing.add(chosen.target.provider.protocol)
                return end
        raise failed
    finally:
        del failed  # its traceback refers to this frame: a cycle that would keep the body in memory


async def _choose(surfaces: list[Target], translate: Translate) -> SurfaceRequest:
    best = await translate(surfaces[0])
    least = best.exchange.loss_list.damage()
    for surface in surfaces[1:]:
        if least == NOTHING:
            break
        try:
            other = await translate(surface)
        except DragomanError:  # it cannot say this request at all
            continue
        if (damage := other.exchange.loss_list.damage()) < least:
            best, least = other, damage
    return best
