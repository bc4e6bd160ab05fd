"""One event loop on a thread of its own, on which everything that is called synchronously runs.

It is shared and made when first needed, so that connections stay open between calls, and so that the
synchronous functions also work where another loop is already running.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from inspect import isawaitable
from typing import Any, TypeVar

from dragoman.core.errors import ConfigError

T = TypeVar("T")

_LONGEST_END = 5.0  # seconds; a tool that blocks the loop does not keep the process


class Background:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        if threading.current_thread() is self._thread:
            raise ConfigError("You called a sync function from async code. Use await arun(…).")
        with self._lock:
            if self._loop is None:
                self._loop = _new_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="dragoman-client", daemon=True
                )
                self._thread.start()
            return self._loop

    def end(self) -> None:
        """Before Python ends: a loop that still runs while the interpreter is taken down may crash it."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop and thread and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_LONGEST_END)

    def forget(self) -> None:
        """In the child of a fork there is no such thread."""
        self._lock, self._loop, self._thread = threading.Lock(), None, None


def close_with_loop(close: Callable[[], Awaitable[object]]) -> AsyncGenerator[None]:
    """Call `close` when the running loop is shut down in order: `asyncio.run` closes its generators. The
    caller keeps what this returns."""

    async def generator() -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await close()

    async def start() -> None:
        await anext(closer)

    closer = generator()
    task = asyncio.get_running_loop().create_task(start())
    task.add_done_callback(lambda _: None)
    return closer


class Calls:
    """Functions that must run on the thread of the caller, while it waits for the loop."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def on_caller(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """`function` for use on the loop: it runs where the caller waits. An async one runs on the loop."""

        async def call(*values: Any) -> Any:
            answer = Future[Any]()
            self._queue.put(lambda: _answer(answer, function, values))
            result = await asyncio.wrap_future(answer)
            return await result if isawaitable(result) else result

        return call

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; Ctrl-C cancels it."""
        future = _start(work)
        future.add_done_callback(lambda _: self._queue.put(None))
        try:
            while (task := self._queue.get()) is not None:
                task()
            return future.result()
        except BaseException:
            future.cancel()
            raise


def wait_for(work: Awaitable[T]) -> T:
    """The result of `work`, which runs on the shared loop; Ctrl-C cancels it."""
    future = _start(work if asyncio.iscoroutine(work) else _await(work))
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _start(work: Coroutine[Any, Any, T]) -> Future[T]:
    try:
        return asyncio.run_coroutine_threadsafe(work, _background.loop())
    except ConfigError:
        work.close()
        raise


async def _await(work: Awaitable[T]) -> T:
    return await work


def _answer(answer: Future[Any], function: Callable[..., Any], values: tuple[Any, ...]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(function(*values))
    except Exception as error:
        answer.set_exception(error)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Until it is stopped; then what is under way is cancelled."""
    loop.run_forever()
    loop.run_until_complete(_cancel_tasks())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def _cancel_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_background = Background()
atexit.register(_background.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.forget)
