"""`generate_many` and `agenerate_many`: many prompts at once, with limits, in bounded memory.

A fixed number of workers take prompts from one iterator and put replies into one bounded queue, so no more
than `2 × concurrency` prompts and replies exist at a time, however many there are and however slowly they
are read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sized
from typing import Any, Generic, Literal, TypeVar, Unpack

from msgspec import Struct

from dragoman.client.background import wait_for
from dragoman.client.generating import agenerate
from dragoman.client.limits import added
from dragoman.client.messages import Prompt
from dragoman.client.output import Output
from dragoman.client.progress import ProgressBar
from dragoman.client.providers import Model, model_of
from dragoman.client.requests import RequestSettings
from dragoman.client.results import Result
from dragoman.client.tools import AnyTool
from dragoman.core.errors import ConfigError, DragomanError, UpstreamError
from dragoman.core.model import FailureKind, OutputFormat, Usage, Wire

# No later prompt can succeed either, so these end the whole batch
_FATAL: tuple[FailureKind, ...] = ("unauthenticated", "billing", "forbidden")

AskedOutput = type[Output] | OutputFormat | Wire | Literal["json", "text"] | None
P = TypeVar("P")


class PromptReply(Struct, Generic[P, Output], frozen=True):
    """The answer to one of many prompts; one of `result` and `error` is None. `index` counts from 0."""

    index: int
    prompt: P
    result: Result[Output] | None = None
    error: DragomanError | None = None

    @property
    def content(self) -> str:
        """The text of the reply; raises its error where there is none."""
        if self.result is None:
            raise self.error or ConfigError("this reply is empty")
        return self.result.content


class Progress:
    """How far a batch is. `total`: None where prompts cannot be counted; `cost`: where a price is unknown."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.done = self.failed = self.skipped = 0
        self.usage = Usage()
        self.cost: float | None = 0.0
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def add(self, reply: PromptReply[Any, Any]) -> None:
        self.done += 1
        if reply.result is None:
            self.failed += 1
            return
        self.usage = added(self.usage, reply.result.usage)
        cost = reply.result.cost
        self.cost = None if cost is None or self.cost is None else self.cost + cost

    def __repr__(self) -> str:
        of = "" if self.total is None else f"/{self.total}"
        return f"Progress(done={self.done}{of}, failed={self.failed}, cost={self.cost})"


OnProgress = Callable[[Progress], Any]


class BatchLimits(Struct, frozen=True):
    """At most `concurrency` requests at a time, so many requests and tokens a minute; None: no limit."""

    concurrency: int = 16
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} is more than 0, not {value!r}")


class RateLimiter:
    """Spaces events evenly: `await wait()` returns when the next one may happen, `charge` counts it.

    Tokens are known only after a reply, so they are charged afterwards and the next request waits longer.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60 / per_minute if per_minute else 0.0
        self._next = time.monotonic()

    async def wait(self, count: int = 0) -> None:
        delay = self._next - time.monotonic()
        self.charge(count)
        if delay > 0:
            await asyncio.sleep(delay)

    def charge(self, count: int) -> None:
        if self._interval and count:
            self._next = max(self._next, time.monotonic()) + count * self._interval


async def agenerate_many(
    prompts: Iterable[Prompt],
    model: str | Model,
    *,
    output: AskedOutput[Output] = None,
    tools: Iterable[AnyTool] = (),
    concurrency: int = 16,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    progress: bool | OnProgress = False,
    **settings: Unpack[RequestSettings],
) -> AsyncGenerator[PromptReply[Prompt, Output]]:
    """The replies to `prompts`, each as soon as it is there; `index` says to which prompt it belongs.

    A prompt that fails yields a reply with an `error`, and the others go on; a wrong key or setting raises.
    `progress`: True shows a bar on stderr, a function is called with a `Progress` after each reply. Other
    settings as for `agenerate`.
    """
    limits = BatchLimits(concurrency, requests_per_minute, tokens_per_minute)
    batches = _batches(prompts, model, output, list(tools), limits, progress, settings)
    try:
        async for batch in batches:
            for reply in batch:
                yield reply
    finally:
        await batches.aclose()


def generate_many(
    prompts: Iterable[Prompt],
    model: str | Model,
    *,
    output: AskedOutput[Output] = None,
    tools: Iterable[AnyTool] = (),
    concurrency: int = 16,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    progress: bool | OnProgress = False,
    **settings: Unpack[RequestSettings],
) -> Iterator[PromptReply[Prompt, Output]]:
    """Like `agenerate_many`, for code that is not async. `prompts` is read on another thread."""
    limits = BatchLimits(concurrency, requests_per_minute, tokens_per_minute)
    batches = _batches(prompts, model, output, list(tools), limits, progress, settings)
    try:
        while batch := wait_for(_next(batches)):
            yield from batch
    finally:
        wait_for(batches.aclose())


async def _batches(
    prompts: Iterable[Prompt],
    model: str | Model,
    output: AskedOutput[Output],
    tools: list[AnyTool],
    limits: BatchLimits,
    progress: bool | OnProgress,
    settings: RequestSettings,
) -> AsyncGenerator[list[PromptReply[Prompt, Output]]]:
    target = model_of(model)

    async def ask(prompt: Prompt) -> Result[Output]:
        return await agenerate(prompt, target, output=output, tools=tools, **settings)

    state = Progress(len(prompts) if isinstance(prompts, Sized) else None)
    batches, report = ask_many(iter(enumerate(prompts)), ask, limits), reporter(progress)
    try:
        async for batch in batches:
            for reply in batch:
                state.add(reply)
                report(state)
            yield batch
    finally:
        await batches.aclose()
        if isinstance(report, ProgressBar):
            report.close()


async def ask_many(
    prompts: Iterator[tuple[int, P]], ask: Callable[[P], Awaitable[Result[Output]]], limits: BatchLimits
) -> AsyncGenerator[list[PromptReply[P, Output]]]:
    """`ask` for each prompt, `limits.concurrency` at a time; each list holds the replies that are ready.

    Lists, because a switch to another thread for each single reply would double the time of a call.
    """
    ready: asyncio.Queue[PromptReply[P, Output] | BaseException | None] = asyncio.Queue(limits.concurrency)
    requests = RateLimiter(limits.requests_per_minute)
    tokens = RateLimiter(limits.tokens_per_minute)

    async def work() -> None:
        try:
            for index, prompt in prompts:
                await tokens.wait()
                await requests.wait(1)
                reply = await _reply(index, prompt, ask)
                if reply.result is not None:
                    usage = reply.result.usage
                    tokens.charge(usage.input + usage.output)
                await ready.put(reply)
        except Exception as error:
            await ready.put(error)
        else:
            await ready.put(None)

    workers = [asyncio.create_task(work()) for _ in range(limits.concurrency)]
    running = len(workers)
    try:
        while running:
            items = [await ready.get()]
            while not ready.empty():
                items.append(ready.get_nowait())
            if batch := [item for item in items if isinstance(item, PromptReply)]:
                yield batch
            for item in items:
                if isinstance(item, BaseException):
                    raise item
            running -= items.count(None)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _reply(
    index: int, prompt: P, ask: Callable[[P], Awaitable[Result[Output]]]
) -> PromptReply[P, Output]:
    try:
        return PromptReply(index, prompt, await ask(prompt))
    except ConfigError:
        raise
    except UpstreamError as error:
        if error.failure.kind in _FATAL:
            raise
        return PromptReply(index, prompt, error=error)
    except DragomanError as error:
        return PromptReply(index, prompt, error=error)


async def _next(
    batches: AsyncGenerator[list[PromptReply[Prompt, Output]]],
) -> list[PromptReply[Prompt, Output]]:
    async for batch in batches:
        return batch
    return []


def reporter(progress: bool | OnProgress) -> OnProgress:
    if callable(progress):
        return progress
    return ProgressBar() if progress else lambda _: None
