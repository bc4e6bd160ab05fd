"""The recorder: whole exchanges on both wires, with secrets masked before anybody sees or stores them.

It watches from outside: the response writer reports what the client gets, a transport around the real one
reports what upstreams send. A gateway without a recorder runs none of this.

    begin ──► draft (bytes by reference) ──► finish ──► memory: masked when somebody looks
                                                   └──► file: a worker thread masks, hashes and writes
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec.structs import asdict, replace

from dragoman.core import jsontext
from dragoman.core.hosted import HostedCallRecord
from dragoman.core.losses import Loss, with_values
from dragoman.core.model import Usage
from dragoman.core.transport import Reply, Timeouts, Transport, TransportError
from dragoman.http.client.reply import Sink, StreamInto
from dragoman.recording.file import RecordingFile
from dragoman.recording.redaction import Mask
from dragoman.recording.ring import Ring, draft_bytes
from dragoman.recording.values import (
    AttemptDraft,
    ObservedExchange,
    RecordedAttempt,
    RecordedBody,
    RecordedCall,
    RecordedMessage,
    RecordedTarget,
    Recording,
    RecordingDraft,
    RecordingSummary,
)
from dragoman.user_folders import data_folder

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
    ("mozilla/", "browser"),  # what every browser says, and so the page of the inspector
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

# Claude Code: metadata.user_id is JSON text or `…_session_<uuid>`; Codex and OpenCode: prompt_cache_key
_SESSION_WORDS = (b"session_id", b"_session_", b'"prompt_cache_key"')
_SESSION_VALUE = re.compile(
    rb'(?:session_id\\*"\s*:\s*\\*"|_session_|"prompt_cache_key"\s*:\s*")([A-Za-z0-9_.:-]{6,})'
)
_SESSION_SPAN = 4096  # bytes at both ends of a body: between them stands the conversation
# Where a reply names the tool that it calls; JSON inside of texts has \" and does not match
_CALLED = re.compile(rb'"name"\s*:\s*"([^"\\]+)"')
_CALLED_GEMINI = re.compile(rb'"functionCall"\s*:\s*\{[^{}]*?"name"\s*:\s*"([^"\\]+)"')

_LOCAL = re.compile(r"https?://(?:localhost|127\.|\[::1\])")  # a model on this machine costs nothing
_MOST_PENDING = 64 * 1024 * 1024  # bytes that wait for the file; above it, exchanges are not recorded

_draft: ContextVar[RecordingDraft | None] = ContextVar("recording", default=None)


class RecordingStore(Protocol):
    """Where recordings are: `Ring` in memory, `RecordingFile` on disk."""

    def get(self, id: str) -> Recording | None: ...

    def summary(self, id: str) -> RecordingSummary | None: ...

    def ids(self) -> list[str]: ...

    def summaries(self) -> list[RecordingSummary]: ...

    def close(self) -> None: ...


class Recorder:
    """`listeners` get a summary when an exchange begins and when it was stored, from the event loop or from
    the worker thread. Without `file`, recordings stay in memory, in at most `limit` bytes."""

    def __init__(
        self,
        secrets: Iterable[str] = (),
        file: RecordingFile | None = None,
        most: int = 10_000,
        limit: int = 64 * 1024 * 1024,
    ) -> None:
        self.secrets: Callable[[], Iterable[str]] = lambda: secrets  # that are masked
        self._active: dict[str, RecordingDraft] = {}
        self.listeners: set[Callable[[RecordingSummary], object]] = set()
        self._writer = _FileWriter(file, self) if file else None
        self._ring = None if file else Ring(self.seal, self.outline, most, limit)

    @property
    def store(self) -> RecordingStore:
        store = self._writer.file if self._writer else self._ring
        assert store is not None
        return store

    @property
    def active(self) -> dict[str, RecordingSummary]:
        """Exchanges under way."""
        return {id: self.outline(draft) for id, draft in list(self._active.items())}

    def begin(
        self, request_id: str, method: str, url: str, headers: Mapping[str, str], client: str, key: str
    ) -> RecordingDraft:
        """A client's request; what this task sends to upstreams from now on belongs to it."""
        draft = RecordingDraft(
            request_id, time.time(), time.perf_counter(), method, url, client, headers, key
        )
        _draft.set(draft)
        self._active[request_id] = draft
        draft.publish = self.publish
        self.publish(draft)
        return draft

    def running_summary(self, id: str) -> RecordingSummary | None:
        draft = self._active.get(id)
        return self.outline(draft) if draft else None

    def running(self, id: str) -> Recording | None:
        """What is recorded so far of an exchange under way."""
        draft = self._active.get(id)
        if draft is None:
            return None
        attempts = [replace(each, pieces=[*each.pieces]) for each in draft.attempts]
        losses = tuple(draft.record.losses) if draft.record and not draft.finished else draft.losses
        return self.seal(replace(draft, pieces=[*draft.pieces], attempts=attempts, losses=losses))

    def transport(self, transport: Transport) -> Transport:
        """`transport`, with everything that passes recorded."""
        return _RecordingTransport(transport)

    def finish(self, draft: RecordingDraft, record: ObservedExchange, rule: str) -> None:
        _draft.set(None)  # the task goes on with the next request of its connection
        draft.losses, draft.rule = tuple(record.losses), rule
        draft.seconds = record.seconds
        record.release()
        draft.record, draft.finished, draft.publish = record, True, None
        if self._writer:
            self._writer.put(draft)
        elif self._ring is not None:
            self.publish(draft)  # before the ring takes its bodies
            self._ring.put(draft)
            self._active.pop(draft.id, None)

    def leave(self, draft: RecordingDraft) -> None:
        """The file has it, or cannot take it."""
        self._active.pop(draft.id, None)
        self.publish(draft)

    def flush(self) -> None:
        """Wait until what was finished is stored."""
        if self._writer:
            self._writer.flush()

    def close(self) -> None:
        self.flush()
        self.store.close()

    def publish(self, draft: RecordingDraft) -> None:
        if not self.listeners:
            return
        summary = self.summarize(draft)
        for listener in tuple(self.listeners):
            listener(summary)

    def outline(self, draft: RecordingDraft) -> RecordingSummary:
        """The summary with what the exchange is about, which takes as long as reading it."""
        from dragoman.recording.outline import outline  # decodes; not on the request path

        mask = self._mask(draft)
        made = outline(draft.client, draft.body, b"".join([data for _, data in draft.pieces]))
        texts = {"prompt": mask.text(made.prompt), "preview": mask.text(made.preview)}
        return replace(self.summarize(draft), **asdict(made) | texts)

    def summarize(self, draft: RecordingDraft) -> RecordingSummary:
        """What a list shows of it, without secrets."""
        if draft.record is None:
            agent = agent_of(draft.request_headers)
            return RecordingSummary(id=draft.id, time=draft.time, client=draft.client, agent=agent)
        return _summary(draft, draft.record, self._mask(draft))

    def seal(self, draft: RecordingDraft) -> Recording:
        """`draft` as a recording, without the secrets of the configuration and of this exchange."""
        mask = self._mask(draft)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in draft.headers}
        sent = mask.data(draft.body)
        attempts = tuple([_attempt(mask, each, draft.began) for each in draft.attempts])
        return Recording(
            summary=self.outline(draft),
            request=RecordedMessage(
                draft.method,
                mask.url(draft.url),
                0,
                mask.headers(draft.request_headers),
                RecordedBody(sent),
            ),
            reply=RecordedMessage(
                "", "", draft.status, mask.headers(headers), _body(mask, draft.pieces, draft.began)
            ),
            attempts=attempts,
            losses=tuple(_losses(mask, draft.losses, sent, attempts)),
            rule=draft.rule,
            hosted=tuple([_record_hosted(mask, each, draft.began) for each in draft.hosted]),
        )

    def _mask(self, draft: RecordingDraft) -> Mask:
        return Mask((*self.secrets(), draft.key))


class _FileWriter:
    """Puts drafts into a file from a thread of its own: the event loop does not wait for masks and hashes.

    What waits is bounded. When more comes than the disk takes, exchanges are not recorded.
    """

    def __init__(self, file: RecordingFile, recorder: Recorder) -> None:
        self.file, self._recorder = file, recorder
        self._worker = ThreadPoolExecutor(1, "recorder")
        self._pending = 0  # bytes

    def put(self, draft: RecordingDraft) -> None:
        size = draft_bytes(draft)
        if self._pending + size > _MOST_PENDING:
            self._recorder.leave(draft)
            return
        self._pending += size
        self._worker.submit(self._write, draft, size)

    def flush(self) -> None:
        self._worker.submit(lambda: None).result()

    def _write(self, draft: RecordingDraft, size: int) -> None:
        try:
            self.file.put(self._recorder.seal(draft))
        finally:
            self._pending -= size
            self._recorder.leave(draft)


def open_recorder(keep: int, path: str, max_mb: int) -> Recorder:
    """For the last `keep` exchanges in a file, at `path` or in the user's data folder; for 0 in memory."""
    if not keep:
        return Recorder(limit=max_mb * 1024 * 1024)
    folder = data_folder(os.environ) or Path.cwd()
    return Recorder(file=RecordingFile(Path(path) if path else folder / "recordings.db", keep))


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
    for part in (body[-_SESSION_SPAN:], body[:_SESSION_SPAN]):
        for word in _SESSION_WORDS:
            at = part.find(word)
            if at >= 0 and (match := _SESSION_VALUE.match(part, at)):
                return match[1].decode()[:80]
    return ""


def _find_called(client: str, pieces: list[tuple[float, bytes]]) -> tuple[str, ...]:
    """The tools that a reply calls."""
    found = (_CALLED_GEMINI if client == "gemini" else _CALLED).findall(
        b"".join([data for _, data in pieces])
    )
    return tuple(dict.fromkeys([name.decode("utf-8", "replace") for name in found]))


def _summary(draft: RecordingDraft, record: ObservedExchange, mask: Mask) -> RecordingSummary:
    losses = Counter([loss.severity for loss in draft.losses])
    codes = Counter([loss.code for loss in draft.losses if loss.code])
    failed = bool(record.failure) or record.gone or record.status >= 400
    ended = "failed" if failed else "done"
    return replace(
        _describe_target(draft, record),
        state=ended if draft.finished else "active",
        session=mask.text(session_of(draft.request_headers, draft.body)),
        tool_names=_find_called(draft.client, draft.pieces) if record.calls else (),
        queue_ms=round(record.waited * 1000, 1),
        first_ms=None if record.first is None else round(record.first * 1000, 1),
        ms=round(draft.seconds * 1000, 1) if draft.finished else None,
        losses=dict(losses),
        codes=tuple(codes),
        code_counts=dict(codes),
        error=mask.text(_error(record)),
        cut=failed and 200 <= record.status < 300 and not record.gone,
        size=len(draft.body) + sum([len(data) for _, data in draft.pieces]),
    )


def _describe_target(draft: RecordingDraft, record: ObservedExchange) -> RecordingSummary:
    """Who asked for what, who answers it, and what that takes and costs."""
    attempt = draft.attempts[-1] if draft.attempts else AttemptDraft(0.0)
    target, usage = record.target, record.usage or Usage()
    provider = target.provider if target else None
    return RecordingSummary(
        id=draft.id,
        time=draft.time,
        agent=agent_of(draft.request_headers),
        key=record.caller,
        client=record.client,
        action=record.action,
        model=record.model,
        provider=provider.name if provider else attempt.provider,
        upstream=provider.protocol if provider else attempt.protocol,
        target=target.model if target else attempt.model,
        stream=record.stream,
        status=record.status,
        attempts=len(draft.attempts) or record.tries,
        rounds=len({each.round for each in draft.hosted}),
        providers=tuple([each.provider for each in draft.attempts]),
        tools=record.tools,
        calls=record.calls,
        input=usage.input if record.usage else None,
        output=usage.output if record.usage else None,
        cached=usage.cached,
        cost=_cost(target, usage) if target and record.usage else None,
        window=target.provider.profile(target.model).context_window if target else None,
    )


def _error(record: ObservedExchange) -> str:
    if record.failure:
        return record.failure.message
    return "the client disconnected" if record.gone else ""


def _cost(target: RecordedTarget, usage: Usage) -> float | None:
    if price := target.provider.profile(target.model).price:
        return price.cost(usage)
    return 0.0 if _LOCAL.match(target.provider.base_url) else None


class _RecordingTransport:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Reply:
        draft = _draft.get()
        if draft is None:
            return await self._transport.send(method, url, headers, body, timeouts)
        last = draft.attempts[-1] if draft.attempts else None
        if last is None or last.method:  # nobody named it
            last = AttemptDraft(time.perf_counter())
            draft.attempts.append(last)
        last.method, last.url, last.request_headers, last.body = method, url, headers, body
        try:
            reply = await self._transport.send(method, url, headers, body, timeouts)
        except BaseException as error:
            last.error, last.ended = str(error) or type(error).__name__, time.perf_counter()
            raise
        last.status, last.headers = reply.status, reply.headers
        return _RecordedReply(reply, last)


class _RecordedReply:
    def __init__(self, reply: Reply, attempt: AttemptDraft) -> None:
        self.status, self.headers = reply.status, reply.headers
        self._reply, self._attempt = reply, attempt

    @property
    def stream_into(self) -> StreamInto | None:
        """Where the reply has it. No attribute: the cycle of references would keep the pieces in memory."""
        stream_into: StreamInto | None = getattr(self._reply, "stream_into", None)
        return partial(self._stream_into, stream_into) if stream_into else None

    async def _stream_into(self, stream_into: StreamInto, sink: Sink) -> bool:
        """Record each piece on its way to `sink`; see HttpReply.stream_into."""
        pieces = self._attempt.pieces

        def record(piece: bytes) -> bool:
            pieces.append((time.perf_counter(), piece))
            return sink(piece)

        try:
            return await stream_into(record)
        except TransportError as error:
            self._attempt.error = str(error) or type(error).__name__
            raise

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


def _record_hosted(mask: Mask, record: HostedCallRecord, began: float) -> RecordedCall:
    call = record.call
    return RecordedCall(
        round=record.round,
        kind=call.kind,
        name=call.name,
        server=call.server,
        arguments=mask.text(call.arguments),
        result=mask.text(record.result.text),
        error=record.result.error or "",
        approval=call.approval,
        began=round(record.began - began, 4),
        seconds=round(record.seconds, 4),
    )


def _attempt(mask: Mask, draft: AttemptDraft, began: float) -> RecordedAttempt:
    request = RecordedMessage(
        draft.method,
        mask.url(draft.url),
        0,
        mask.headers(draft.request_headers),
        RecordedBody(mask.data(draft.body)),
    )
    reply = RecordedMessage(
        "", "", draft.status, mask.headers(draft.headers), _body(mask, draft.pieces, began)
    )
    first = draft.pieces[0][0] if draft.pieces else None
    ended = draft.ended or (draft.pieces[-1][0] if draft.pieces else None)
    started, first_ms, ended_ms = [
        None if at is None else round((at - began) * 1000, 2) for at in (draft.began, first, ended)
    ]
    return RecordedAttempt(
        draft.provider,
        draft.protocol,
        draft.model,
        started or 0.0,
        request,
        reply,
        mask.text(draft.error),
        first_ms,
        ended_ms,
    )


def _losses(
    mask: Mask, losses: tuple[Loss, ...], sent: bytes, attempts: tuple[RecordedAttempt, ...]
) -> list[Loss]:
    """Each with the beginning of what stood at its place, in the client's request or the upstream's reply."""
    if not losses:
        return []
    got = attempts[-1].reply.body.data if attempts else b""
    sources = [jsontext.decode_object(data.decode("utf-8", "replace")) for data in (sent, got)]
    return [
        replace(loss, value=mask.text(loss.value), why=mask.text(loss.why))
        for loss in with_values(losses, *sources)
    ]


def _body(mask: Mask, pieces: list[tuple[float, bytes]], began: float) -> RecordedBody:
    ends: list[tuple[float, int]] = []
    total = 0
    for at, data in pieces:
        total += len(data)
        ends.append((round((at - began) * 1000, 2), total))
    whole = mask.data(b"".join([data for _, data in pieces]))
    return RecordedBody(whole, tuple(ends) if len(ends) > 1 else ())
