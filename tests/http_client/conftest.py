"""Every test of the transport runs on both event loops that serve: asyncio's own and uvloop's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine to its end; afterwards no task may be left."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    async def checked(work: Coroutine[Any, Any, Any]) -> Any:
        result = await asyncio.wait_for(work, 60)
        for _ in range(4000):
            if not others():
                break
            await asyncio.sleep(0.005)
        assert not others()
        return result

    def others() -> set[asyncio.Task[Any]]:
        return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    def runner(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=factory) as loop:
            return loop.run(checked(work))

    return runner
