"""The page at /inspect and its API, served by the gateway.

GET /inspect                      the page
GET /inspect/static/NAME          its scripts and styles
GET /inspect/api/exchanges        summaries of what is recorded, and of what is under way
GET /inspect/api/live             summaries as they change (SSE)
GET /inspect/api/exchanges/ID     one exchange; /plan: a dry run at every provider; /exchange.json: the
                                  recording; /export.html: one file that opens offline
GET /inspect/api/overview, /inspect/api/setup
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from typing import Any

import msgspec
from msgspec import to_builtins

from dragoman.core.server import Route
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config
from dragoman.gateway.observability.recorder import Recorder
from dragoman.gateway.observability.recording import FILE_SUFFIX, Recording, RecordingSummary, dump_recording
from dragoman.gateway.observability.recording_file import RecordingFile
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.routing import names, route
from dragoman.http.server import Headers, ResponseWriter
from dragoman.inspector import analysis, views
from dragoman.inspector.export import MODULES, asset, exported, page
from dragoman.inspector.plan import plan_all
from dragoman.profiles import known

_LIVE_PING = 10.0  # seconds between comments on a quiet connection
_LIVE_POLL = 1.0  # seconds between looks at the file of several workers
_SAFE: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_AGENTS = {
    "Claude Code": "claude",
    "Codex": "codex",
    "Gemini CLI": "gemini",
    "OpenCode": "opencode",
    "Qwen Code": "qwen",
}


ROUTES = (
    Route("GET", "/inspect", "page"),
    Route("GET", "/inspect/static/{name}", "page"),
    Route("GET", "/inspect/api/{rest:path}", "recordings"),
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

    @property
    def _config(self) -> Config:
        return self._gateway.config  # of now: it may be reloaded

    async def answer(self, request: GatewayRequest) -> None:
        path, writer = request.incoming.path, request.writer
        steps = path.removeprefix("/inspect").strip("/").split("/")
        match steps:
            case [""]:
                html, policy = page()
                headers = [*_SAFE, (b"content-security-policy", policy.encode())]
                await writer.whole(200, html, headers, b"text/html; charset=utf-8")
            case ["static", name] if name == "style.css":
                await writer.whole(200, asset(name), _SAFE, b"text/css; charset=utf-8")
            case ["static", name] if name.removesuffix(".js") in MODULES:
                await writer.whole(200, asset(name), _SAFE, b"text/javascript; charset=utf-8")
            case ["api", "exchanges"]:
                await writer.json(200, {"rows": [to_builtins(each) for each in self.summaries()]}, _SAFE)
            case ["api", "live"]:
                await self._live(writer)
            case ["api", "overview"]:
                await writer.json(200, self._overview(), _SAFE)
            case ["api", "setup"]:
                await writer.json(200, self._setup(), _SAFE)
            case ["api", "exchanges", id, *rest]:
                await self._exchange(id, rest, writer)
            case _:
                await writer.json(404, {"error": f"the inspector has no {path}"}, _SAFE)

    def summaries(self) -> list[RecordingSummary]:
        """Stored ones and those under way."""
        return [*self._recorder.store.summaries(), *self._recorder.active.values()]

    async def _exchange(self, id: str, rest: list[str], writer: ResponseWriter) -> None:
        recording = await asyncio.to_thread(self._recorder.store.get, id)
        if recording is None:
            problem = (
                f"{id} is still under way" if id in self._recorder.active else f"no exchange {id} is recorded"
            )
            await writer.json(404, {"error": problem}, _SAFE)
            return
        match rest:
            case []:
                await writer.whole(200, await asyncio.to_thread(self._view_bytes, recording), _SAFE)
            case ["plan"]:
                await writer.json(200, await asyncio.to_thread(self._plan, recording), _SAFE)
            case ["exchange.json"]:
                text = await asyncio.to_thread(dump_recording, recording)
                await writer.whole(200, text.encode(), [*_SAFE, _attachment(id + FILE_SUFFIX)])
            case ["export.html"]:
                html = await asyncio.to_thread(lambda: exported(self.view(recording)))
                kind = b"text/html; charset=utf-8"
                await writer.whole(200, html, [*_SAFE, _attachment(f"{id}.html")], kind)
            case _:
                await writer.json(404, {"error": "no such view of an exchange"}, _SAFE)

    def view(self, recording: Recording) -> dict[str, Any]:
        session = self._session(recording)
        place = next((i for i, each in enumerate(session) if each.summary.id == recording.summary.id), 0)
        before = session[place - 1] if place else None
        today = analysis.losses_today(self.summaries(), time.time())
        return views.exchange_view(recording, before, session[: place + 1] or [recording], today)

    def _view_bytes(self, recording: Recording) -> bytes:
        return msgspec.json.encode(self.view(recording))

    def _session(self, recording: Recording) -> list[Recording]:
        """The exchanges of the same session up to this one, oldest first; it alone where it names none."""
        mine = recording.summary
        if not mine.session:
            return [recording]
        ids = [
            each.id
            for each in self._recorder.store.summaries()
            if each.session == mine.session
            and each.agent == mine.agent
            and each.action == mine.action
            and each.time <= mine.time
        ]
        found = [self._recorder.store.get(id) for id in ids[-views.MOST_TURNS :]]
        return [each for each in found if each is not None]

    def _plan(self, recording: Recording) -> list[dict[str, Any]]:
        providers = self._config.providers.values() or [known()["demo"]]
        summary = recording.summary
        plans = plan_all(
            recording.request.body.data, summary.client, providers, summary.target or summary.model
        )
        return [to_builtins(each) for each in plans]

    def _overview(self) -> dict[str, Any]:
        providers = {each.name: each.protocol for each in self._config.providers.values()} or {"demo": "any"}
        circuits = {str(name): "open" for name in self._circuits.opened}
        return views.overview(self._recorder.store.summaries(), providers, circuits)

    def _setup(self) -> dict[str, Any]:
        configured = self._config.providers
        agents = [
            {"name": name, "found": shutil.which(program) is not None, "command": f"dragoman run {program}"}
            for name, program in _AGENTS.items()
        ]
        providers = [
            {
                "name": name,
                "protocol": provider.protocol,
                "usable": name in configured or not provider.key_env,
                "why": _why(name in configured, provider.key_env),
            }
            for name, provider in {**known(), **configured}.items()
        ]
        models = [
            {
                "name": name,
                "targets": [f"{each.provider.name}:{each.model}" for each in route(self._config, name)],
            }
            for name in names(self._config)
        ]
        return {"agents": agents, "providers": providers, "models": models}

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
            newest, _ = await self._stored_since(-1)
            quiet = 0.0
            while True:
                changed: list[RecordingSummary] = []
                try:
                    changed.append(await asyncio.wait_for(queue.get(), _LIVE_POLL))
                except TimeoutError:
                    quiet += _LIVE_POLL
                newest, stored = await self._stored_since(newest)
                for summary in changed + stored:
                    await writer.piece(b"data: " + msgspec.json.encode(summary) + b"\n\n")
                    quiet = 0.0
                if quiet >= _LIVE_PING:
                    await writer.piece(b": still here\n\n")
                    quiet = 0.0
        finally:
            self._recorder.listeners.discard(listener)

    async def _stored_since(self, number: int) -> tuple[int, list[RecordingSummary]]:
        store = self._recorder.store
        if self._config.workers == 1 or not isinstance(store, RecordingFile):
            return 0, []
        return await asyncio.to_thread(store.since, number)


def _why(configured: bool, key_env: str) -> str:
    if configured:
        return "configured, or its key variable is set"
    if not key_env:
        return "needs no key"
    return f"{key_env} is set" if os.environ.get(key_env) else f"{key_env} is not set"


def _attachment(name: str) -> tuple[bytes, bytes]:
    return b"content-disposition", f'attachment; filename="{name}"'.encode()
