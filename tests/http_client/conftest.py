"""Every test of the transport runs on both event loops that serve: asyncio's own and uvloop's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from waiting import LONG

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine to its end; afterwards no task may be left."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    async def checked(work: Coroutine[Any, Any, Any]) -> Any:
        result = await asyncio.wait_for(work, 60)
        async with asyncio.timeout(LONG):
            while others():
                await asyncio.sleep(0.005)
        return result

    def others() -> set[asyncio.Task[Any]]:
        return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    def runner(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=factory) as loop:
            return loop.run(checked(work))

    return runner
