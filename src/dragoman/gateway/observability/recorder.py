"""The recorder: whole exchanges on both wires, with secrets masked before anything is kept.

It watches from outside: the response writer reports what the client gets, a transport around the real one
reports what upstreams send. A gateway without a recorder runs none of this.

    begin ──► draft (bytes by reference) ──► finish ──► worker thread: mask, hash, store
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.losses import Loss
from dragoman.core.model import ToolCall
from dragoman.core.transport import Reply, Timeouts, Transport
from dragoman.core.user_folders import data_folder
from dragoman.gateway.config import Config
from dragoman.gateway.observability.exchange_record import ExchangeRecord
from dragoman.gateway.observability.recorded_stream import reply_parts
from dragoman.gateway.observability.recording import (
    AttemptDraft,
    RecordedAttempt,
    RecordedBody,
    RecordedMessage,
    Recording,
    RecordingDraft,
    RecordingSummary,
)
from dragoman.gateway.observability.recording_file import RecordingFile
from dragoman.gateway.observability.redaction import secrets_of
from dragoman.gateway.observability.ring import Ring

_SHORTEST_SECRET = 6  # as in redaction.py
_SECRET_NAME = "|".join(
    (
        "authorization",
        "authorization_token",
        r"(?:x-|x-goog-)?api[-_]?key",
        r"(?:access|refresh|auth|bearer)[-_]?token",
        "password",
        "(?:client_)?secret",
        "bearer",
        "(?:set-)?cookie",
    )
)
# A JSON member whose name says that it is secret: MCP servers get tokens in request bodies
_SECRET_MEMBER = re.compile(rb'("(?:%b)"\s*:\s*")((?:[^"\\]|\\.)+)(")' % _SECRET_NAME.encode(), re.IGNORECASE)
_SECRET_QUERY = re.compile(r"([?&](?:key|api[-_]?key|access_token|token)=)([^&]+)", re.IGNORECASE)
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_BEARER = re.compile(rb"(?i)\b(bearer\s+)([A-Za-z0-9._~+/=-]{8,})")

# User-Agent prefixes of agents and SDKs
_AGENTS = (
    ("claude-cli", "Claude Code"),
    ("claude-code", "Claude Code"),
    ("codex", "Codex"),
    ("geminicli", "Gemini CLI"),
    ("gemini-cli", "Gemini CLI"),
    ("opencode", "OpenCode"),
    ("ai-sdk", "AI SDK"),
    ("qwencode", "Qwen Code"),
    ("qwen-code", "Qwen Code"),
    ("openai/", "openai SDK"),
    ("asyncopenai/", "openai SDK"),
    ("anthropic/", "anthropic SDK"),
    ("asyncanthropic/", "anthropic SDK"),
    ("google-genai-sdk", "google-genai SDK"),
    ("curl/", "curl"),
)
# Headers by which agents name their session
_SESSION_HEADERS = (
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "x-session-id",
    "x-session-affinity",
)

_draft: ContextVar[RecordingDraft | None] = ContextVar("recording", default=None)


class RecordingStore(Protocol):
    """Where recordings are kept: `Ring` in memory, `RecordingFile` on disk."""

    def put(self, recording: Recording) -> None: ...

    def get(self, id: str) -> Recording | None: ...

    def summaries(self) -> list[RecordingSummary]: ...

    def close(self) -> None: ...


class Recorder:
    """`listeners` get a summary when an exchange begins and when it was stored, from the event loop or from
    the worker thread."""

    def __init__(self, store: RecordingStore | None = None, secrets: tuple[str, ...] = ()) -> None:
        self.store: RecordingStore = store or Ring()
        self._secrets: tuple[str, ...] = ()
        self.add_secrets(secrets)
        self.active: dict[str, RecordingSummary] = {}
        self.listeners: set[Callable[[RecordingSummary], object]] = set()
        self._worker = ThreadPoolExecutor(1, "recorder")

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Those of a new configuration; the old ones stay secret."""
        known = {*self._secrets, *(each for each in secrets if len(each) >= _SHORTEST_SECRET)}
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def begin(
        self, request_id: str, method: str, url: str, headers: Mapping[str, str], client: str, key: str
    ) -> RecordingDraft:
        """A client's request; what this task sends to upstreams from now on belongs to it."""
        draft = RecordingDraft(request_id, time.time(), time.perf_counter(), method, url, dict(headers), key)
        _draft.set(draft)
        summary = RecordingSummary(id=request_id, time=draft.time, client=client, agent=agent_of(headers))
        self.active[request_id] = summary
        self._publish(summary)
        return draft

    def transport(self, transport: Transport) -> Transport:
        """`transport`, with everything that passes recorded."""
        return _RecordingTransport(transport)

    def finish(self, draft: RecordingDraft, record: ExchangeRecord, rule: str) -> None:
        """The worker thread does the rest: the event loop does not wait for masks and hashes."""
        summary = _summary(draft, record)
        self._worker.submit(self._store, draft, summary, tuple(record.losses), rule)

    def flush(self) -> None:
        """Wait until what was finished is stored."""
        self._worker.submit(lambda: None).result()

    def close(self) -> None:
        self._worker.shutdown(wait=True)
        self.store.close()

    def _store(
        self, draft: RecordingDraft, summary: RecordingSummary, losses: tuple[Loss, ...], rule: str
    ) -> None:
        try:
            recording = self.sealed(draft, summary, losses, rule)
            self.store.put(recording)
            summary = recording.summary
        finally:
            self.active.pop(summary.id, None)
            self._publish(summary)

    def sealed(
        self, draft: RecordingDraft, summary: RecordingSummary, losses: tuple[Loss, ...] = (), rule: str = ""
    ) -> Recording:
        """`draft` as a recording, without the secrets of the configuration and of this exchange."""
        mask = _Mask((*self._secrets, *([draft.key] if len(draft.key) >= _SHORTEST_SECRET else ())))
        sent = RecordedMessage(draft.method, draft.url, 0, draft.request_headers, RecordedBody(draft.body))
        request = mask.message(sent)
        reply = mask.message(
            RecordedMessage("", "", draft.status, draft.headers, _body(draft.pieces, draft.began))
        )
        attempts = tuple([mask.attempt(each, draft.began) for each in draft.attempts])
        size = len(request.body.data) + len(reply.body.data)
        called = [part for part in reply_parts(summary.client, reply.body.data) if isinstance(part, ToolCall)]
        summary = replace(
            summary,
            size=size,
            tool_names=tuple(dict.fromkeys(part.name for part in called)),
            error=mask.text(summary.error),
            session=mask.text(summary.session),
            attempts=len(attempts) or summary.attempts,
            providers=tuple([each.provider for each in attempts]) or summary.providers,
        )
        losses = tuple(
            [replace(loss, value=mask.text(loss.value), why=mask.text(loss.why)) for loss in losses]
        )
        return Recording(
            summary=summary, request=request, reply=reply, attempts=attempts, losses=losses, rule=rule
        )

    def _publish(self, summary: RecordingSummary) -> None:
        for listener in tuple(self.listeners):
            listener(summary)


def open_recorder(config: Config) -> Recorder:
    """As `[inspector]` says: in memory, or in a file of the user's data folder."""
    inspector = config.inspector
    secrets = tuple(secrets_of(config))
    if not inspector.keep:
        return Recorder(Ring(limit=inspector.max_mb * 1024 * 1024), secrets)
    folder = data_folder(os.environ) or Path.cwd()
    path = Path(inspector.path) if inspector.path else folder / "recordings.db"
    return Recorder(RecordingFile(path, inspector.keep), secrets)


def agent_of(headers: Mapping[str, str]) -> str:
    """The program that calls, as far as its User-Agent says."""
    agent = headers.get("user-agent", "")
    lowered = agent.lower()
    for prefix, name in _AGENTS:
        if lowered.startswith(prefix):
            return name
    return agent.partition("/")[0][:40]


def session_of(headers: Mapping[str, str], body: bytes) -> str:
    """The session that an agent names in its headers or its body; empty where it names none."""
    for name in _SESSION_HEADERS:
        if value := headers.get(name):
            return value[:80]
    match = _SESSION_MEMBER.search(body)
    return match[1].decode("utf-8", "replace")[:80] if match else ""


# Claude Code: metadata.user_id is JSON text or `…_session_<uuid>`; Codex and OpenCode: prompt_cache_key
_SESSION_MEMBER = re.compile(
    rb'(?:session_id\\*"\s*:\s*\\*"|_session_|"prompt_cache_key"\s*:\s*")([A-Za-z0-9_.:-]{6,})'
)


def _summary(draft: RecordingDraft, record: ExchangeRecord) -> RecordingSummary:
    target, usage = record.target, record.usage
    losses: dict[str, int] = {}
    for loss in record.losses:
        losses[loss.severity] = losses.get(loss.severity, 0) + 1
    failed = bool(record.failure) or record.gone or record.status >= 400
    return RecordingSummary(
        id=draft.id,
        time=draft.time,
        state="failed" if failed else "done",
        agent=agent_of(draft.request_headers),
        session=session_of(draft.request_headers, draft.body),
        key=record.caller,
        client=record.client,
        action=record.action,
        model=record.model,
        provider=record.provider,
        upstream=target.provider.protocol if target else "",
        target=target.model if target else "",
        stream=record.stream,
        status=record.status,
        attempts=record.tries,
        tools=record.tools,
        calls=record.calls,
        input=usage.input if usage else None,
        output=usage.output if usage else None,
        cached=usage.cached if usage else 0,
        first_ms=None if record.first is None else round(record.first * 1000, 1),
        ms=round(record.seconds * 1000, 1),
        losses=losses,
        codes=tuple(dict.fromkeys(loss.code for loss in record.losses if loss.code)),
        error=record.failure.message if record.failure else "the client disconnected" if record.gone else "",
    )


class _RecordingTransport:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Reply:
        draft = _draft.get()
        if draft is None:
            return await self._transport.send(method, url, headers, body, timeouts)
        request = RecordedMessage(method, url, 0, dict(headers), RecordedBody(body))
        last = draft.attempts[-1] if draft.attempts else None
        if last is None or last.request.method:  # nobody named it
            last = AttemptDraft(time.perf_counter(), request)
            draft.attempts.append(last)
        last.request = request
        try:
            reply = await self._transport.send(method, url, headers, body, timeouts)
        except BaseException as error:
            last.error = str(error) or type(error).__name__
            raise
        last.status, last.headers = reply.status, dict(reply.headers)
        return _RecordedReply(reply, last)


class _RecordedReply:
    def __init__(self, reply: Reply, attempt: AttemptDraft) -> None:
        self.status, self.headers = reply.status, reply.headers
        self._reply, self._attempt = reply, attempt

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = self._attempt.pieces
        try:
            async for piece in self._reply:
                pieces.append((time.perf_counter(), piece))
                yield piece
        except Exception as error:
            self._attempt.error = str(error) or type(error).__name__
            raise

    async def read(self, limit: int) -> bytes:
        body = await self._reply.read(limit)
        self._attempt.pieces.append((time.perf_counter(), body))
        return body

    def close(self) -> None:
        self._reply.close()


def _body(pieces: list[tuple[float, bytes]], began: float) -> RecordedBody:
    ends: list[tuple[float, int]] = []
    total = 0
    for at, data in pieces:
        total += len(data)
        ends.append((round((at - began) * 1000, 2), total))
    return RecordedBody(b"".join([data for _, data in pieces]), tuple(ends) if len(ends) > 1 else ())


class _Mask:
    """Secrets become asterisks of the same length, so that offsets into a stream stay right."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._texts = secrets
        self._bytes = [form.encode() for secret in secrets for form in _spellings(secret)]

    def attempt(self, draft: AttemptDraft, began: float) -> RecordedAttempt:
        reply = RecordedMessage("", "", draft.status, draft.headers, _body(draft.pieces, began))
        return RecordedAttempt(
            draft.provider,
            draft.protocol,
            draft.model,
            round((draft.began - began) * 1000, 2),
            self.message(draft.request),
            self.message(reply),
            self.text(draft.error),
        )

    def message(self, message: RecordedMessage) -> RecordedMessage:
        headers = {
            name: "***" if _SECRET_HEADER.search(name) else self.text(value)
            for name, value in message.headers.items()
        }
        url = self.text(_SECRET_QUERY.sub(r"\1***", message.url))
        body = RecordedBody(self.data(message.body.data), message.body.pieces)
        return RecordedMessage(message.method, url, message.status, headers, body)

    def text(self, text: str) -> str:
        for secret in self._texts:
            if secret in text:
                text = text.replace(secret, "***")
        return text

    def data(self, data: bytes) -> bytes:
        for secret in self._bytes:
            if secret in data:
                data = data.replace(secret, b"*" * len(secret))
        data = _SECRET_MEMBER.sub(_masked, data)
        return _BEARER.sub(_masked, data)


def _masked(match: re.Match[bytes]) -> bytes:
    groups = match.groups()
    return groups[0] + b"*" * len(groups[1]) + (groups[2] if len(groups) > 2 else b"")


def _spellings(secret: str) -> set[str]:
    """A secret as it may stand in JSON: as it is, and escaped."""
    quoted = jsontext.dumps(secret)[1:-1]
    return {secret, quoted, quoted.replace("/", "\\/")}
