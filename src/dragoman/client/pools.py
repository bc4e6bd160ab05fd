"""Connections belong to the event loop that opened them: one pool for each loop, closed with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from weakref import WeakKeyDictionary

from dragoman.http.client import Client

_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[None]]] = (
    WeakKeyDictionary()
)


def pool() -> Client:
    """The connections of the running loop."""
    loop = asyncio.get_running_loop()
    entry = _pools.get(loop)
    if entry is None:
        client = Client()
        closer = _close_with_loop(loop, client)
        _pools[loop] = entry = (client, closer)
        task = loop.create_task(_started(closer))
        task.add_done_callback(lambda _: None)
    return entry[0]


async def _close_with_loop(loop: asyncio.AbstractEventLoop, client: Client) -> AsyncGenerator[None]:
    """A loop that is shut down in order (`asyncio.run`) closes its generators, and so the connections."""
    try:
        yield
    finally:
        _pools.pop(loop, None)
        await client.close()


async def _started(closer: AsyncGenerator[None]) -> None:
    await anext(closer)
