"""`web_fetch` for models whose provider has none: one page, guarded and bounded, beside the event loop."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

from dragoman.core.hosted import FoundSource, HostedError, HostedResult
from dragoman.core.model import (
    AnyPart,
    HostedKind,
    HostedTool,
    Message,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
)
from dragoman.core.token_estimate import CHARACTERS_PER_TOKEN
from dragoman.fetch import AddressGuard, FetchError, WebPage, download
from dragoman.fetch.guard import FetchProblem
from dragoman.hosted.executor import DeclaredFunctions, HostedContext, failure
from dragoman.hosted.pages import PDF, read_page
from dragoman.hosted.search.backend import is_wanted
from dragoman.hosted.settings import WebFetchSettings, guard_of
from dragoman.hosted.web_search import read_argument

LARGEST_PAGE = 10 * 1024 * 1024
LARGEST_TEXT = 2 * 1024 * 1024  # of it, but for a PDF: parsing HTML takes a hundred times its size in memory
FETCH = ToolDeclaration(
    "web_fetch",
    "Read a web page or a PDF. The address must be in the conversation.",
    {
        "type": "object",
        "properties": {"url": {"type": "string", "description": "An http or https address"}},
        "required": ["url"],
    },
)
# Threads of their own: slow pages must not take those of asyncio.to_thread from others. Most of them wait:
# the slow pages of one request must not hold up those of another
_THREADS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="dragoman-fetch")
SHARE = 4  # pages at a time, for one caller: half of the parsers of `pages`
_TITLE = re.compile(r"\s*(?:#+ )?(\S[^\n]{0,200})")
_ERRORS: dict[FetchProblem, HostedError] = {
    "invalid": "invalid_input",
    "not_allowed": "not_allowed",
    "not_accessible": "not_accessible",
    "unavailable": "unavailable",
    "timeout": "timeout",
}


class WebFetchExecutor:
    kind: HostedKind = "web_fetch"

    def __init__(self, settings: WebFetchSettings, guard: AddressGuard | None = None) -> None:
        self._guard = guard or guard_of(settings.allowed_hosts)
        # by the caller and its event loop, as long as one of its pages is fetched
        self._slots = WeakValueDictionary[tuple[str, asyncio.AbstractEventLoop], asyncio.Semaphore]()

    async def declare(self, tool: HostedTool, context: HostedContext) -> DeclaredFunctions:
        return DeclaredFunctions((FETCH,))

    async def execute(self, tool: HostedTool, call: ToolCall, context: HostedContext) -> HostedResult:
        url, settings = read_argument(call, "url"), tool.settings
        if not url:
            return failure("invalid_input", "web_fetch needs a url")
        allowed, blocked = (
            tuple(settings.get(name) or ()) for name in ("allowed_domains", "blocked_domains")
        )
        is_allowed = partial(is_wanted, allowed=allowed, blocked=blocked)
        if not is_allowed(url):
            return failure("not_allowed", f"{url} is not one of the allowed domains")
        if not stands_in(
            url, context.messages
        ):  # a page must not make the model send data to an address of its own
            return failure("not_in_conversation", f"{url} is not in the conversation")
        try:
            page, text = await self._fetch(url, context, is_allowed)
        except FetchError as error:
            return failure(_ERRORS[error.problem], str(error))
        if text is None:
            return failure("unsupported_type", f"{url} is {page.media_type}, not text, HTML or PDF")
        if most := settings.get("max_content_tokens"):
            text = text[: int(most * CHARACTERS_PER_TOKEN)]
        cut = "\n[the page goes on]" if page.cut else ""
        title = found[1] if (found := _TITLE.match(text)) else ""
        return HostedResult((Text(text + cut),), (FoundSource(page.url, title, text),))

    async def close(self) -> None:
        """Its threads end with what they fetch."""

    async def _fetch(
        self, url: str, context: HostedContext, is_allowed: Callable[[str], bool]
    ) -> tuple[WebPage, str | None]:
        """In a thread of the caller's share, which is free again when the thread is: also where nobody waits
        for the page any more."""
        loop = asyncio.get_running_loop()
        slots = self._slots.setdefault((context.caller, loop), asyncio.Semaphore(SHARE))
        await slots.acquire()

        def release(_: object) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(slots.release)

        reading = _THREADS.submit(self._read, url, context.limits.seconds, is_allowed)
        reading.add_done_callback(release)
        return await asyncio.wrap_future(reading)

    def _read(
        self, url: str, seconds: float, is_allowed: Callable[[str], bool]
    ) -> tuple[WebPage, str | None]:
        deadline = time.monotonic() + seconds
        page = download(url, self._guard, seconds=seconds, most=LARGEST_PAGE, is_wanted=is_allowed)
        if page.media_type != PDF and len(page.body) > LARGEST_TEXT:
            page = replace(page, body=page.body[:LARGEST_TEXT], cut=True)
        return page, read_page(page, max(deadline - time.monotonic(), 0))


def stands_in(url: str, messages: Iterable[Message]) -> bool:
    """Whether somebody named the address before: the user, with or without its scheme, or the result of a
    tool. What the model itself wrote does not count."""
    bare = url.partition("#")[0].partition("://")[2].rstrip("/")
    # whole: not the end of another name, nor the beginning of a longer one
    named = re.compile(rf"(?<![\w.%@-]){re.escape(bare)}(?![\w%-]|[.:@]\w)")
    told = (message for message in messages if message.role != "assistant")
    return bool(bare) and any(named.search(text) for message in told for text in _texts(message.parts))


def _texts(parts: Iterable[AnyPart]) -> Iterable[str]:
    for part in parts:
        match part:
            case Text():
                yield part.text
            case ToolResult():
                yield from _texts(part.content)
            case _:
                pass
