"""Searches of a client that searches by itself: what it found keeps a name until the client opens it, in the
store too: the next request may come to another worker.

A command gives text for the model, whatever happens: it says what is not offered here, and what failed.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

from msgspec.json import decode
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.hosted import FoundSource, HostedResult
from dragoman.core.model import HostedKind, HostedTool, Message, Text, ToolCall
from dragoman.hosted.calls import RunningCalls
from dragoman.hosted.executor import CallLimits, HostedContext, HostedExecutor, failure
from dragoman.hosted.result_store import ResultStore, StoreUnusable, digest_of
from dragoman.serving.search import SearchCommand, SearchRequest

_MOST_SESSIONS, _MOST_SOURCES = 256, 512
_LINES = 200  # of a page that are shown at a time
_WIDTH = 400  # characters of a line
_HITS = 20  # of a pattern in a page
_Kept = tuple[int, dict[str, tuple[str, str]]]  # the turn, and addresses with titles by their names
_OFFSET = re.compile(r"([+-]?)(\d{1,2})(?::?(\d\d))?")


class SearchSession:
    """What one conversation has found, by its name."""

    def __init__(self) -> None:
        self.turn = -1
        self.sources: OrderedDict[str, FoundSource] = OrderedDict()

    def keep(self, name: str, source: FoundSource) -> None:
        self.sources[name] = replace(source, text="")  # a page is read again when it is opened
        while len(self.sources) > _MOST_SOURCES:
            self.sources.popitem(last=False)

    async def load(self, store: ResultStore, caller: str, digest: str) -> None:
        """What other workers found since."""
        with suppress(StoreUnusable):
            kept = (await store.recall_many(caller, [digest])).get(digest)
            turn, sources = decode(kept or b"[-1, {}]", type=_Kept)
            self.turn = max(self.turn, turn)
            for name in sources.keys() - self.sources.keys():
                self.keep(name, FoundSource(*sources[name]))

    async def save(self, store: ResultStore, caller: str, digest: str) -> None:
        sources = {name: (source.url, source.title) for name, source in self.sources.items()}
        with suppress(StoreUnusable):
            await store.remember(caller, digest, jsontext.encode([self.turn, sources]))


class SearchSessions:
    """`executors` by the kind of tool; without one for the web there is no search."""

    def __init__(
        self, executors: Mapping[HostedKind, HostedExecutor], limits: CallLimits, store: ResultStore
    ) -> None:
        self._executors, self._limits, self.store = executors, limits, store
        self._sessions: OrderedDict[tuple[str, str], SearchSession] = OrderedDict()

    async def run(self, caller: str, request: SearchRequest) -> tuple[str, list[FoundSource]]:
        """The text for the model, and the sources in it."""
        session = self._sessions.setdefault((caller, request.session), SearchSession())
        self._sessions.move_to_end((caller, request.session))
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        digest = digest_of("search", request.session)
        await session.load(self.store, caller, digest)
        session.turn += 1
        turn = _SearchStep(self._executors, self._limits, session, caller, request)
        texts = await asyncio.gather(*(turn.run(command) for command in request.commands))
        if turn.found:
            await session.save(self.store, caller, digest)
        return "\n\n".join(texts) or "Nothing was asked.", turn.found


class _SearchStep:
    """The commands of one request."""

    def __init__(
        self,
        executors: Mapping[HostedKind, HostedExecutor],
        limits: CallLimits,
        session: SearchSession,
        caller: str,
        request: SearchRequest,
    ) -> None:
        self._executors, self._limits, self._session = executors, limits, session
        self._caller, self._request = caller, request
        self._running, self._number = RunningCalls(limits), session.turn
        self._counts = {"search": 0, "view": 0}
        self.found: list[FoundSource] = []

    async def run(self, command: SearchCommand) -> str:
        match command.kind:
            case "search":
                return await self._search(command)
            case "open" | "find":
                return await self._open(command)
            case "time":
                return _time(command.offset)
            case "unknown":
                return f"{command.name} is not offered here. Use search_query, open or find."

    async def _search(self, command: SearchCommand) -> str:
        settings = dict(self._request.settings)
        if command.domains:
            settings["allowed_domains"] = _narrow(command.domains, settings.get("allowed_domains"))
        result = await self._execute("web_search", {"query": command.query}, settings)
        if result.error or not result.sources:
            return result.text
        lines = [f"Results for {command.query!r}:"]
        for source in result.sources:
            name = self._name("search", source)
            said = (f"[{name}] {source.title}", source.url, source.age, source.text)
            lines.append("\n".join(part for part in said if part))
        return "\n\n".join(lines)

    async def _open(self, command: SearchCommand) -> str:
        known = self._session.sources.get(command.ref)
        url = known.url if known else command.ref
        if "://" not in url:
            return f"There is no {command.ref!r} in this session. Search again, or open an address."
        settings = self._request.settings
        domains = {
            name: settings[name] for name in ("allowed_domains", "blocked_domains") if name in settings
        }
        result = await self._execute("web_fetch", {"url": url}, domains, named=url if known else "")
        if result.error:
            return result.text
        source = result.sources[0] if result.sources else FoundSource(url)
        name, lines = self._name("view", source), result.text.split("\n")
        if command.kind == "find":
            return f"[{name}] {url}\n{_hits(lines, command.pattern)}"
        begin = min(max(command.line, 1), len(lines))
        shown = [f"L{n}: {line[:_WIDTH]}" for n, line in enumerate(lines, 1) if begin <= n < begin + _LINES]
        more = len(lines) - begin - len(shown) + 1
        rest = f"\n({more} more lines; open it with lineno {begin + _LINES})" if more > 0 else ""
        return f"[{name}] {source.title}\n{url}\n" + "\n".join(shown) + rest

    def _name(self, kind: str, source: FoundSource) -> str:
        name = f"turn{self._number}{kind}{self._counts[kind]}"
        self._counts[kind] += 1
        self._session.keep(name, source)
        self.found.append(source)
        return name

    async def _execute(
        self, kind: HostedKind, arguments: dict[str, str], settings: dict[str, object], named: str = ""
    ) -> HostedResult:
        """`named`: an address that a search has given."""
        executor = self._executors.get(kind)
        if executor is None:
            return failure("unavailable", f"this gateway has no {kind}: set [hosted.{kind}]")
        said = Message("user", (Text(f"{named} {self._request.said}"),))
        context = HostedContext(self._caller, (said,), (), self._limits)
        tool, call = HostedTool(kind, "", settings), ToolCall("1", kind, jsontext.dumps(arguments))
        return await self._running.bound(lambda: executor.execute(tool, call, context))


def _narrow(domains: tuple[str, ...], allowed: list[str] | None) -> list[str]:
    """The model's choice within that of the client, else the client's."""
    if not allowed:
        return list(domains)
    within = [each for each in domains if any(each == one or each.endswith(f".{one}") for one in allowed)]
    return within or allowed


def _hits(lines: list[str], pattern: str) -> str:
    wanted = pattern.casefold()
    hits = [f"L{n}: {line[:_WIDTH]}" for n, line in enumerate(lines, 1) if wanted in line.casefold()]
    return "\n".join(hits[:_HITS]) if pattern and hits else f"{pattern!r} is not on this page."


def _time(offset: str) -> str:
    found = _OFFSET.fullmatch(offset.strip() or "+0")
    if not found or int(found[2]) > 23:
        return f"{offset!r} is no offset from UTC, such as +02:00."
    sign = -1 if found[1] == "-" else 1
    zone = timezone(sign * timedelta(hours=int(found[2]), minutes=int(found[3] or 0)))
    return datetime.now(UTC).astimezone(zone).isoformat(timespec="seconds")
