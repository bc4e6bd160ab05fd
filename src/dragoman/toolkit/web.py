"""The web: `web_fetch` reads the pages that a prompt names, `google_web_search` uses your search backend."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from inspect import isawaitable

from dragoman.client.tools import Tool
from dragoman.fetch import Address, AddressGuard, FetchError, WebPage, download, is_public
from dragoman.fetch.pagetext import page_text
from dragoman.toolkit.limits import Limits, bound_text
from dragoman.toolkit.root import Refused
from dragoman.toolkit.schema import string, tool

PAGES = 20
# Threads of their own: slow pages must not take those of asyncio.to_thread from the other tools.
_THREADS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="dragoman-web")
_URL = re.compile(r"https?://[^\s<>\"'`]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search."""

    title: str
    url: str
    text: str = ""


Allowed = Callable[[Address], bool]
Search = Callable[[str], Sequence[Hit] | Awaitable[Sequence[Hit]]]


def web_tools(limits: Limits, search: Search | None = None, allowed: Allowed = is_public) -> list[Tool]:
    async def web_fetch(prompt: str) -> str:
        urls = addresses(prompt)
        if not urls:
            raise Refused("the prompt names no http or https address")
        pages = await asyncio.gather(*(_read(url, limits, allowed) for url in urls[:PAGES]))
        if all(failed for _, failed in pages):
            raise Refused("; ".join(text for text, _ in pages))
        joined = "\n".join(f"--- {url} ---\n{text}" for url, (text, _) in zip(urls, pages, strict=False))
        return bound_text(joined, limits.output * 2)

    async def google_web_search(query: str) -> str:
        if search is None:
            raise Refused("no search backend is configured: use standard_tools(root, search=…)")
        hits = search(query)
        listed = list(await hits if isawaitable(hits) else hits)
        if not listed:
            return f'No search results for "{query}".'
        texts = "\n\n".join(
            f"[{number}] {hit.title}\n{hit.text}".strip() for number, hit in enumerate(listed, 1)
        )
        sources = "\n".join(f"[{number}] {hit.title} ({hit.url})" for number, hit in enumerate(listed, 1))
        return bound_text(
            f'Web search results for "{query}":\n\n{texts}\n\nSources:\n{sources}', limits.output
        )

    return [
        tool(
            web_fetch,
            "Read web pages: the text of each address that the prompt names",
            ["prompt"],
            prompt=string("What you want to know, with the addresses (http or https)"),
        ),
        tool(google_web_search, "Search the web", ["query"], query=string("What to look for")),
    ]


def addresses(prompt: str) -> list[str]:
    """The addresses in a text, once each; a full stop after one is not part of it."""
    found = (url.rstrip(".,;:!?)]}") for url in _URL.findall(prompt))
    return list(dict.fromkeys(found))


async def _read(url: str, limits: Limits, allowed: Allowed) -> tuple[str, bool]:
    """The text of a page and False, or the reason why there is none and True."""

    def text() -> str:
        page = download(url, AddressGuard(allowed=allowed), seconds=limits.seconds, most=limits.file)
        return bound_text(_text(page), limits.output)

    try:
        async with asyncio.timeout(limits.seconds):
            return await asyncio.get_running_loop().run_in_executor(_THREADS, text), False
    except (Refused, FetchError) as error:
        return str(error), True
    except TimeoutError:
        return f"{url}: no answer within {limits.seconds:g} s", True


def _text(page: WebPage) -> str:
    kind = page.media_type
    if not kind.startswith("text/") and not kind.endswith(("json", "xml", "javascript")):
        raise Refused(f"{page.url} is {kind} ({len(page.body)} bytes), not text")
    text = page.text()
    text = page_text(text) if kind in ("text/html", "application/xhtml+xml") else text
    return f"{text}\n[the page goes on]" if page.cut else text
