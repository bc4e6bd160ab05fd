"""The pieces of an answer in time, with the fault that was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dragoman.demo.answers import Answered

SILENCE = 0.3  # seconds: longer than the pings of a test, shorter than its timeouts


class Cut(Exception):
    """The connection is to be closed here, in mid-answer."""


async def before(answered: Answered) -> None:
    """What happens before the head goes out. Raises Cut where there is to be none."""
    match answered.fault.name if answered.fault else "":
        case "hang":
            await asyncio.Event().wait()
        case "drop":
            raise Cut
        case "late":
            await asyncio.sleep(SILENCE)
        case _:
            pass


async def pieces(answered: Answered) -> AsyncIterator[bytes]:
    """Raises Cut where the connection is to be closed."""
    fault = answered.fault
    name = fault.name if fault else ""
    at = fault.at if fault and fault.at >= 0 else len(answered.pieces) // 2
    if name == "empty":
        return
    for index, piece in enumerate(answered.pieces):
        if index == at:
            match name:
                case "cut":
                    raise Cut
                case "malformed":
                    yield b"data: {broken\n\n"
                case "pause":
                    await asyncio.sleep(SILENCE)
                case "stall":
                    await asyncio.Event().wait()
                case _:
                    pass
        if name == "slow":
            await asyncio.sleep(0.02)
        yield piece
    if name == "cut" and at >= len(answered.pieces):
        raise Cut
