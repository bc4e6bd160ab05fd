"""The page at /inspect and its API, served by the gateway.

GET  /inspect                      the page
GET  /inspect/api/exchanges        what is under way, and summaries of what is recorded, newest first:
                                   ?before=ID goes on behind that one
GET  /inspect/api/live             summaries as they change (SSE)
GET  /inspect/api/search?q=WORDS   ids of exchanges whose bodies hold the words; ?before=ID goes on
GET  /inspect/api/exchanges/ID     one exchange; its tabs: /conversation, /wires, /stream, /window, /snippets;
                                   /attempts/N/wires: those of an earlier attempt or round; /request: its
                                   body as text; /all: everything;
                                   /exchange.json: the recording; /export.html: one file that opens offline;
                                   /session.html: the same of its conversation up to it
POST /inspect/api/exchanges/ID/plan   a dry run of the request, or of the edited one in the body
GET  /inspect/api/overview?hours=N, /inspect/api/setup
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import to_builtins

from dragoman.core.errors import DragomanError
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.routing import names, route
from dragoman.http.server import Headers, ResponseWriter
from dragoman.inspector import analysis, sessions, views
from dragoman.inspector.export import compress_page, export, page
from dragoman.inspector.overview import overview
from dragoman.inspector.plan import plan_all
from dragoman.profiles import known
from dragoman.recording.file import RecordingFile
from dragoman.recording.recorder import Recorder
from dragoman.recording.values import FILE_SUFFIX, Recording, RecordingSummary, dump_recording
from dragoman.serving.routes import Route

_LIVE_PING = 10.0  # seconds between comments on a quiet connection
_LIVE_POLL = 1.0  # seconds between looks at the file of several workers
_FIRST, _PAGE = 40, 150  # summaries in the first answer, which fills the screen, and in each further one
_SEARCH_SECONDS = 1.0  # of one answer; the page asks on
_MOST_MASKED, _LARGEST_MASKED = 8, 2_000_000  # recordings, bytes of each
_LARGEST_PLAN = 16 * 1024 * 1024
_LARGEST_SESSION = 8 * 1024 * 1024  # of requests; the page holds each of them several times
_SAFE: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


ROUTES = (
    Route("GET", "/inspect", "page"),
    Route("GET", "/inspect/api/{rest:path}", "recordings"),
    Route("POST", "/inspect/api/{rest:path}", "recordings"),
)


def mount_inspector(gateway: Gateway) -> None:
    """Adds the page to a gateway that records."""
    if gateway.recorder:
        gateway.add_routes(ROUTES, Inspector(gateway.recorder, gateway).answer)


class Inspector:
    """Answers the paths below /inspect. The gateway has checked that the caller may see them."""

    def __init__(self, recorder: Recorder, gateway: Gateway) -> None:
        self._recorder, self._gateway = recorder, gateway
        self._circuits = gateway.circuit_breakers
        self._masked: dict[tuple[Any, ...], Recording] = {}  # the last ones that were looked at

    @property
    def _config(self) -> Config:
        return self._gateway.config  # of now: it may be reloaded

    async def answer(self, request: GatewayRequest) -> None:
        path, writer, query = request.incoming.path, request.writer, request.query
        steps = path.removeprefix("/inspect").strip("/").split("/")
        if request.incoming.method == "POST" and steps[-1] != "plan":
            await writer.json(405, {"error": f"POST is not allowed on {path}. Use GET."}, _SAFE)
            return
        match steps:
            case [""]:
                await _page(writer, request.headers.get("accept-encoding", ""))
            case ["api", "exchanges"]:
                await _json(writer, await asyncio.to_thread(self._rows, query.get("before", "")))
            case ["api", "search"]:
                words, before = query.get("q", ""), query.get("before", "")
                await _json(writer, await asyncio.to_thread(self._search, words, before))
            case ["api", "live"]:
                await self._live(writer)
            case ["api", "overview"]:
                await _json(writer, await asyncio.to_thread(self._overview, query.get("hours", "")))
            case ["api", "setup"]:
                await _json(writer, self._setup(request))
            case ["api", "exchanges", id, *rest]:
                await self._exchange(id, rest, request)
            case _:
                await writer.json(404, {"error": f"The inspector has no {path}."}, _SAFE)

    def _rows(self, before: str) -> dict[str, Any]:
        """A page of summaries, newest first; the first one begins with what is under way."""
        ids = self._recorder.store.ids()[::-1]
        begin = ids.index(before) + 1 if before in ids else 0
        end = begin + (_PAGE if before else _FIRST)
        chosen = ids[begin:end]
        found = [self._recorder.store.summary(id) for id in chosen]
        rows = [*(self._active() if not before else ()), *[each for each in found if each]]
        more = chosen[-1] if end < len(ids) else None
        return {"rows": rows, "more": more, "total": len(ids)}

    def _active(self) -> list[RecordingSummary]:
        return sorted(self._recorder.active.values(), key=lambda each: -each.time)

    def _search(self, words: str, before: str) -> dict[str, Any]:
        """Exchanges with all words in a body, newest first; `more` where the time was over."""
        wanted = [word.encode() for word in words.lower().split()]
        ids = self._recorder.store.ids()[::-1]
        begin = ids.index(before) + 1 if before in ids else 0
        until, found = time.monotonic() + _SEARCH_SECONDS, list[str]()
        for id in ids[begin:] if wanted else ():
            recording = self._recorder.store.get(id)
            if recording and _holds(recording, wanted):
                found.append(id)
            if time.monotonic() > until and id != ids[-1]:
                return {"ids": found, "more": id}
        return {"ids": found, "more": None}

    async def _exchange(self, id: str, rest: list[str], request: GatewayRequest) -> None:
        writer = request.writer
        recording = await asyncio.to_thread(self._recording, id)
        if recording is None:
            await writer.json(404, {"error": f"No exchange {id} is recorded. It may be too old."}, _SAFE)
            return
        match rest:
            case []:
                await _json(writer, await asyncio.to_thread(self._view, views.head_view, recording))
            case ["all"]:
                await _json(writer, await asyncio.to_thread(self._view, views.whole_view, recording))
            case [tab] if tab in views.TABS:
                await _json(writer, await asyncio.to_thread(self._view, views.TABS[tab], recording))
            case ["attempts", number, "wires"] if number.isdigit():
                tried = views.until(recording, int(number))
                await _json(writer, await asyncio.to_thread(self._view, views.wires_view, tried))
            case ["request"]:
                await _json(writer, recording.request.body.text)
            case ["plan"]:
                await self._plan(recording, request)
            case ["exchange.json"]:
                text = await asyncio.to_thread(dump_recording, recording)
                await writer.whole(200, text.encode(), [*_SAFE, _attachment(id + FILE_SUFFIX)])
            case ["export.html"]:
                await self._file(writer, f"{id}.html", lambda: [recording])
            case ["session.html"]:
                await self._file(writer, f"{id}.session.html", lambda: self._session(recording))
            case _:
                await writer.json(404, {"error": "There is no such view of an exchange."}, _SAFE)

    async def _file(
        self, writer: ResponseWriter, name: str, recordings: Callable[[], Sequence[Recording]]
    ) -> None:
        """The recordings as a page that opens offline."""
        html = await asyncio.to_thread(
            lambda: export(*[self._view(views.whole_view, each) for each in recordings()])
        )
        await writer.whole(200, html, [*_SAFE, _attachment(name)], b"text/html; charset=utf-8")

    def _session(self, recording: Recording) -> list[Recording]:
        """The last turns of its conversation up to it, oldest first, as many as one page can hold."""
        found, size = [recording], len(recording.request.body.data)
        ids = [each.id for each in self._context(recording).turns if each.time < recording.summary.time]
        for id in reversed(ids):
            before = self._recorder.store.get(id)
            size += len(before.request.body.data) if before else 0
            if size > _LARGEST_SESSION:
                break
            found += [before] if before else []
        return found[::-1]

    def _recording(self, id: str) -> Recording | None:
        """A stored one, or what is there of one under way."""
        return self._stored(id) or self._recorder.running(id) or self._stored(id)

    def _stored(self, id: str) -> Recording | None:
        """Masking takes longer than most views, and a reader goes from tab to tab and from turn to turn."""
        key = (id, *self._recorder.secrets())
        found = self._masked.pop(key, None) or self._recorder.store.get(id)
        if found and found.summary.size < _LARGEST_MASKED:
            self._masked[key] = found
            while len(self._masked) > _MOST_MASKED:
                self._masked.pop(next(iter(self._masked)), None)
        return found

    def _view(self, view: Any, recording: Recording) -> Any:
        return view(recording, self._context(recording))

    def _context(self, recording: Recording) -> views.Context:
        mine, stored = recording.summary, self._recorder.store.summaries()
        turns = sessions.conversation([each for each in stored if each.id != mine.id] + [mine], mine)
        place = next((number for number, each in enumerate(turns) if each.id == mine.id), 0)
        before = [each for each in turns[:place] if each.state != "failed"] or turns[:place]
        following = turns[place + 1 : place + 2]
        provider = self._config.providers.get(mine.provider)
        return views.Context(
            turns,
            self._stored(before[-1].id) if before else None,
            self._stored(following[0].id) if following else None,
            analysis.losses_today(stored, time.time()),
            provider.profile(mine.target).price if provider else None,
        )

    async def _plan(self, recording: Recording, request: GatewayRequest) -> None:
        """What each provider would lose of the request, or of the one in the body."""
        edited = await request.incoming.read(_LARGEST_PLAN) if request.incoming.method == "POST" else b""
        providers = [*self._config.providers.values()] or [known()["demo"]]
        summary, body = recording.summary, edited or recording.request.body.data
        model = summary.target or summary.model
        try:
            plans = await asyncio.to_thread(plan_all, body, summary.client, providers, model)
        except (DragomanError, ValueError) as error:
            await request.writer.json(400, {"error": str(error)}, _SAFE)
            return
        await _json(request.writer, [to_builtins(each) | {"worst": each.worst} for each in plans])

    def _overview(self, hours: str) -> dict[str, Any]:
        providers = {each.name: each.protocol for each in self._config.providers.values()} or {"demo": "any"}
        circuits = {name: self._circuits.seconds_left(name) for name in self._circuits.opened}
        seconds = float(hours) * 3600 if hours.isdigit() and int(hours) else None
        return overview(self._recorder.store.summaries(), providers, circuits, time.time(), seconds)

    def _setup(self, request: GatewayRequest) -> dict[str, Any]:
        from dragoman.cli.agents import AGENTS, command_line
        from dragoman.cli.welcome import model_for, sdk_variables

        config = self._config
        url = f"http://{request.headers.get('host') or '127.0.0.1:8787'}"
        key = "$DRAGOMAN_KEY" if config.keys else "any"
        models_for = {name: model_for(agent, config) for name, agent in AGENTS.items()}
        agents = [
            {
                "name": agent.title,
                "found": shutil.which(agent.program) is not None,
                "install": agent.install,
                "command": command_line(agent, url, key, models_for[name]),
                "served": models_for[name] != "",
                "model": models_for[name] or agent.usual_model,
                "note": agent.note,
            }
            for name, agent in AGENTS.items()
        ]
        providers = [
            {
                "name": name,
                "protocol": provider.protocol,
                "usable": name in config.providers or not provider.key_env,
                "why": _why(name in config.providers, provider.key_env),
            }
            for name, provider in {**known(), **config.providers}.items()
        ]
        rows = [{"name": row.pattern, "targets": [*map(str, row.targets)]} for row in config.models]
        patterns = {row.pattern for row in config.models}
        models = rows + [
            {
                "name": name,
                "targets": [f"{each.provider.name}:{each.model}" for each in _targets(config, name)],
            }
            for name in names(config)
            if name not in patterns
        ]
        return {
            "url": url,
            "keys": bool(config.keys),
            "agents": agents,
            "sdks": sdk_variables(url),
            "providers": providers,
            "models": models,
        }

    async def _live(self, writer: ResponseWriter) -> None:
        """Changes in this process at once; what other workers stored, every second."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[RecordingSummary](10_000)

        def put(summary: RecordingSummary) -> None:
            if not queue.full():
                queue.put_nowait(summary)

        def listener(summary: RecordingSummary) -> None:
            loop.call_soon_threadsafe(put, summary)

        self._recorder.listeners.add(listener)
        try:
            await writer.begin("text/event-stream", _SAFE)
            await writer.piece(b": live\n\n")
            newest, _ = await self._list_since(-1)
            quiet = 0.0
            while True:
                changed: list[RecordingSummary] = []
                try:
                    changed.append(await asyncio.wait_for(queue.get(), _LIVE_POLL))
                except TimeoutError:
                    quiet += _LIVE_POLL
                newest, stored = await self._list_since(newest)
                for summary in changed + stored:
                    full = await asyncio.to_thread(self._with_outline, summary)
                    await writer.piece(b"data: " + msgspec.json.encode(full) + b"\n\n")
                    quiet = 0.0
                if quiet >= _LIVE_PING:
                    await writer.piece(b": still here\n\n")
                    quiet = 0.0
        finally:
            self._recorder.listeners.discard(listener)

    def _with_outline(self, summary: RecordingSummary) -> RecordingSummary:
        """What it is about too. That is read here, and not on the way of the exchange."""
        if summary.state != "active":
            return self._recorder.store.summary(summary.id) or summary
        return self._recorder.running_summary(summary.id) or summary

    async def _list_since(self, number: int) -> tuple[int, list[RecordingSummary]]:
        store = self._recorder.store
        if self._config.workers == 1 or not isinstance(store, RecordingFile):
            return 0, []
        return await asyncio.to_thread(store.since, number)


async def _page(writer: ResponseWriter, accepts: str) -> None:
    html, policy = page()
    headers = [*_SAFE, (b"content-security-policy", policy.encode())]
    if "gzip" in accepts:
        html = compress_page()
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
    await writer.whole(200, html, headers, b"text/html; charset=utf-8")


async def _json(writer: ResponseWriter, value: Any) -> None:
    await writer.whole(200, msgspec.json.encode(value), _SAFE)


def _holds(recording: Recording, words: Sequence[bytes]) -> bool:
    bodies = recording.request.body.data.lower() + b"\n" + recording.reply.body.data.lower()
    return all(word in bodies for word in words)


def _targets(config: Config, model: str) -> Sequence[Any]:
    try:
        return route(config, model)
    except DragomanError:
        return ()


def _why(configured: bool, key_env: str) -> str:
    if configured:
        return "configured, or its key variable is set"
    if not key_env:
        return "needs no key"
    return f"{key_env} is set" if os.environ.get(key_env) else f"{key_env} is not set"


def _attachment(name: str) -> tuple[bytes, bytes]:
    return b"content-disposition", f'attachment; filename="{name}"'.encode()
