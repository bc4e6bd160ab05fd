"""`generate_many` and `agenerate_many`: many prompts at once, with limits, in bounded memory.

A fixed number of workers take prompts from one iterator and put replies into one bounded queue, so no more
than `2 × concurrency` prompts and replies exist at a time, however many there are and however slowly they
are read.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sized
from contextlib import aclosing
from typing import Any, Generic, Protocol, TextIO, TypeVar, Unpack, cast

from msgspec import Struct

from dragoman.client.background import wait_for
from dragoman.client.budget import add_usage
from dragoman.client.generating import agenerate
from dragoman.client.messages import Prompt
from dragoman.client.output import Output, OutputSpec
from dragoman.client.providers import Model, model_of
from dragoman.client.requests import RequestSettings
from dragoman.client.results import Result
from dragoman.client.tools import ToolLike
from dragoman.core.errors import ConfigError, DragomanError, UpstreamError
from dragoman.core.model import FailureKind, Usage

# No later prompt can succeed either, so these end the whole batch
_FATAL: tuple[FailureKind, ...] = ("unauthenticated", "billing", "forbidden")
_NO_ANSWER: tuple[FailureKind, ...] = ("overloaded", "timeout")
_MOST_ALIKE = 32  # such failures in a row, all alike: nobody is there, and the other prompts would fail too
_WIDTH = 24
_INTERVAL = 0.1  # seconds between two pictures
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
            raise self.error or ConfigError("This reply is empty.")
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
        self.usage: Usage = add_usage(self.usage, reply.result.usage)
        cost = reply.result.cost
        self.cost = None if cost is None or self.cost is None else self.cost + cost

    def __repr__(self) -> str:
        of = "" if self.total is None else f"/{self.total}"
        return f"Progress(done={self.done}{of}, failed={self.failed}, cost={self.cost})"


class ProgressBar:
    """Called with a `Progress`; shows it where stderr is a terminal, and only the last one elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._shown = 0.0
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        self._last = progress
        now = time.monotonic()
        if self._live and now - self._shown >= _INTERVAL:
            self._shown = now
            self._stream.write(f"\r{describe_progress(progress)}\x1b[K")
            self._stream.flush()

    def close(self) -> None:
        if self._last:
            start, end = ("\r", "\x1b[K") if self._live else ("", "")
            self._stream.write(f"{start}{describe_progress(self._last)}{end}\n")
            self._stream.flush()


def describe_progress(progress: Progress) -> str:
    """`━━━━╺───  412/1000  41 %  512/s  3 failed  $0.0210  0:01 left`."""
    done, total, seconds = progress.done + progress.skipped, progress.total, progress.seconds
    rate = progress.done / seconds if seconds else 0.0
    count = f"{done}" if total is None else f"{done}/{total}"
    parts = [count, f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s"]
    if total:
        filled = round(_WIDTH * done / total)
        parts = ["━" * filled + "─" * (_WIDTH - filled), *parts[:1], f"{100 * done // total} %", *parts[1:]]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.cost:
        parts.append(f"${progress.cost:.4f}")
    if total and rate and done < total:
        left = int((total - done) / rate)
        parts.append(f"{left // 60}:{left % 60:02} left")
    return "  ".join(parts)


OnProgress = Callable[[Progress], Any]


class BatchOptions(RequestSettings, total=False):
    """Every keyword of `generate_many` beside `output`; the settings of the requests are among them."""

    tools: Iterable[ToolLike]
    concurrency: int  # requests at a time; 16 where nothing is given
    requests_per_minute: float | None
    tokens_per_minute: float | None
    progress: bool | OnProgress  # True: a bar on stderr; a function gets a `Progress` after each reply


class RateLimit(Protocol):
    """What spaces events: here, or for several processes together."""

    async def wait(self, count: int = 0) -> None: ...
    def charge(self, count: int) -> None: ...


class RateLimiter:
    """Spaces events evenly: `await wait()` returns when the next one may happen, `charge` counts it.

    Tokens are known only after a reply, so they are charged afterwards and the next request waits longer.
    """

    def __init__(
        self,
        per_minute: float | None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._interval = 60 / per_minute if per_minute else 0.0
        self._now, self._sleep = now, sleep
        self._next = now()

    async def wait(self, count: int = 0) -> None:
        delay = self.reserve(count)
        if delay > 0:
            await self._sleep(delay)

    def reserve(self, count: int) -> float:
        """The seconds until the next event may happen; `count` events are planned then."""
        delay = self._next - self._now()
        self.charge(count)
        return delay

    def charge(self, count: int) -> None:
        if self._interval and count:
            self._next = max(self._next, self._now()) + count * self._interval


async def agenerate_many(
    prompts: Iterable[Prompt],
    model: str | Model,
    *,
    output: OutputSpec[Output] = None,
    **options: Unpack[BatchOptions],
) -> AsyncGenerator[PromptReply[Prompt, Output]]:
    """The replies to `prompts`, each as soon as it is there; `index` says to which prompt it belongs.

    A prompt that fails yields a reply with an `error`, and the others go on; a wrong key or setting raises,
    and so do 32 failures in a row that are all alike, of an upstream that does not answer.
    The options are those of `BatchOptions`: tools, limits, progress, and the settings of the requests.
    """
    async with aclosing(_count_replies(prompts, model, output, options)) as batches:
        async for batch in batches:
            for reply in batch:
                yield reply


def generate_many(
    prompts: Iterable[Prompt],
    model: str | Model,
    *,
    output: OutputSpec[Output] = None,
    **options: Unpack[BatchOptions],
) -> Iterator[PromptReply[Prompt, Output]]:
    """Like `agenerate_many`, for code that is not async. `prompts` is read on another thread."""
    batches = _count_replies(prompts, model, output, options)
    try:
        while batch := wait_for(anext(batches, None)):
            yield from batch
    finally:
        wait_for(batches.aclose())


async def _count_replies(
    prompts: Iterable[Prompt], model: str | Model, output: OutputSpec[Output], options: BatchOptions
) -> AsyncGenerator[list[PromptReply[Prompt, Output]]]:
    batch = PromptBatch(model, output, options, len(prompts) if isinstance(prompts, Sized) else None)
    async with aclosing(batch.replies(iter(enumerate(prompts)), batch.ask)) as batches:
        async for replies in batches:
            for reply in replies:
                batch.count(reply)
            yield replies


class PromptBatch(Generic[Output]):
    """Many prompts for one model: how they are sent, how many at a time, and how far it is.

    `limits` of requests and tokens, instead of those of the options. A prompt waits for one request; each
    further one that it takes, to try again or in another round, is charged when it is sent.
    """

    def __init__(
        self,
        model: str | Model,
        output: OutputSpec[Output],
        options: BatchOptions,
        total: int | None,
        limits: tuple[RateLimit, RateLimit] | None = None,
    ) -> None:
        given = model_of(model)
        self._model = Model(given.provider.observed(self._on_request), given.name)
        self._output, self._tools = output, list(options.get("tools", ()))
        for name in ("concurrency", "requests_per_minute", "tokens_per_minute"):
            if (value := options.get(name)) is not None and value <= 0:
                raise ConfigError(f"{name} is more than 0, not {value!r}")
        self._concurrency = options.get("concurrency", 16)
        rates = options.get("requests_per_minute"), options.get("tokens_per_minute")
        self._requests, self._tokens = limits or (RateLimiter(rates[0]), RateLimiter(rates[1]))
        self._reserved = 0  # requests that a prompt waited for and that are not sent yet
        own = BatchOptions.__annotations__.keys() - RequestSettings.__annotations__.keys()
        self._settings = {name: value for name, value in options.items() if name not in own}
        self._last_error, self._alike = "", 0
        self.progress: Progress = Progress(total)
        shown = options.get("progress", False)
        self._report: OnProgress | None = ProgressBar() if shown is True else shown or None

    async def ask(self, prompt: Prompt, settings: Mapping[str, Any] = {}) -> Result[Output]:
        """`settings` of the prompt win over those of the batch; unknown names are refused by the request."""
        merged = cast(RequestSettings, {**self._settings, **settings})
        return await agenerate(prompt, self._model, output=self._output, tools=self._tools, **merged)

    def count(self, reply: PromptReply[Any, Any]) -> None:
        self.progress.add(reply)
        if self._report:
            self._report(self.progress)

    def _on_request(self) -> None:
        if self._reserved:
            self._reserved -= 1
        else:
            self._requests.charge(1)

    def _give_up(self, error: DragomanError | None) -> None:
        """Raise `error` where the last ones were all like it."""
        alike = isinstance(error, UpstreamError) and error.failure.kind in _NO_ANSWER
        said = str(error) if alike else ""
        self._alike = self._alike + 1 if said == self._last_error else 1
        self._last_error = said
        if error and said and self._alike >= _MOST_ALIKE:
            raise error

    async def replies(
        self, prompts: Iterator[tuple[int, P]], ask: Callable[[P], Awaitable[Result[Output]]]
    ) -> AsyncGenerator[list[PromptReply[P, Output]]]:
        """`ask` for each prompt, within the limits; each list holds the replies that are ready.

        Lists, because a switch to another thread for each single reply would double the time of a call.
        """
        ready = asyncio.Queue[PromptReply[P, Output] | BaseException | None](self._concurrency)

        async def work() -> None:
            try:
                for index, prompt in prompts:
                    await self._tokens.wait()
                    await self._requests.wait(1)
                    self._reserved += 1
                    reply = await _reply(index, prompt, ask)
                    self._give_up(reply.error)
                    if reply.result is not None:
                        usage = reply.result.usage
                        self._tokens.charge(usage.input + usage.output)
                    await ready.put(reply)
            except Exception as error:
                await ready.put(error)
            else:
                await ready.put(None)

        workers = [asyncio.create_task(work()) for _ in range(self._concurrency)]
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
            if isinstance(self._report, ProgressBar):
                self._report.close()


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
