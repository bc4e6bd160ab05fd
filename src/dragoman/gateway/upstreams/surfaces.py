"""A target whose provider speaks several protocols (dragoman/surfaces.py), at one of which it is sent.

The first surface is the one that the client prefers (routing.py): mostly its own protocol, so nothing is
translated. The others are looked at only where something would be lost there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from dragoman.core.errors import DragomanError
from dragoman.exchange import Exchange
from dragoman.gateway.conversations.turn_writer import TurnWriter
from dragoman.gateway.upstreams.routing import Target
from dragoman.surfaces import LeastLoss, ask_until_found, present
from dragoman.transforms.rounds import RoundEnd


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
    chosen = await _choose(present(target.surfaces, target.missing, _protocol), translate)

    async def ask(surface: Target) -> RoundEnd:
        return await send(chosen if surface is chosen.target else await translate(surface))

    surface, end = await ask_until_found(chosen.target, target.surfaces, ask)
    if surface is not chosen.target:
        target.missing.add(_protocol(chosen.target))
    return end


async def _choose(surfaces: Sequence[Target], translate: Translate) -> SurfaceRequest:
    least: LeastLoss[SurfaceRequest] = LeastLoss()
    first = await translate(surfaces[0])
    if not least.offer(first, first.exchange.loss_list):
        for surface in surfaces[1:]:
            try:
                other = await translate(surface)
            except DragomanError:  # it cannot say this request at all
                continue
            if least.offer(other, other.exchange.loss_list):
                break
    return least.best


def _protocol(target: Target) -> str:
    return target.provider.protocol
