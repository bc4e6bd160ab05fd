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
    kept = _pools.get(loop)
    if kept is None:
        client = Client()
        keeper = _kept(loop, client)
        _pools[loop] = kept = (client, keeper)
        task = loop.create_task(_begun(keeper))
        task.add_done_callback(lambda _: None)
    return kept[0]


async def _kept(loop: asyncio.AbstractEventLoop, client: Client) -> AsyncGenerator[None]:
    """A loop that is shut down in order (`asyncio.run`) closes its generators, and so the connections."""
    try:
        yield
    finally:
        _pools.pop(loop, None)
        await client.close()


async def _begun(keeper: AsyncGenerator[None]) -> None:
    await anext(keeper)
