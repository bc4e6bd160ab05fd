"""Recordings: stored once where turns repeat, bounded, exact to the byte, and free of secrets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import ConfigError
from dragoman.core.hosted import HostedCall, HostedCallRecord, HostedResult
from dragoman.core.losses import Loss
from dragoman.core.model import Failure, Text
from dragoman.core.transport import Timeouts
from dragoman.gateway.request import ExchangeRecord
from dragoman.recording.file import RecordingFile, pieces_of
from dragoman.recording.recorder import Recorder, agent_of, session_of
from dragoman.recording.ring import Ring
from dragoman.recording.shared_body import SharedBodies
from dragoman.recording.values import (
    AttemptDraft,
    RecordedAttempt,
    RecordedBody,
    RecordedMessage,
    Recording,
    RecordingDraft,
    RecordingSummary,
    dump_recording,
    load_recording,
)


def request(turns: int, size: int = 900) -> bytes:
    messages = [{"role": "user", "content": f"{number} " + "x" * size} for number in range(turns)]
    tools = [{"name": f"tool_{number}", "description": "y" * 300} for number in range(10)]
    return json.dumps({"model": "m", "messages": messages, "tools": tools}, ensure_ascii=False).encode()


def recording(id: str, body: bytes = b"{}", reply: bytes = b"ok") -> Recording:
    sent = RecordedMessage("POST", "/v1/messages", 0, {"a": "b"}, RecordedBody(body))
    got = RecordedMessage("", "", 200, {}, RecordedBody(reply, ((1.5, 1), (2.5, len(reply)))))
    attempt = RecordedAttempt("groq", "openai-chat", "m", 0.5, sent, got)
    loss = Loss("dropped", "top_k", "no such field", "setting.top_k.dropped", "minor", "5")
    return Recording(
        summary=RecordingSummary(id=id, time=1.0),
        request=sent,
        reply=got,
        attempts=(attempt,),
        losses=(loss,),
    )


def draft(
    id: str, body: bytes = b"{}", reply: bytes = b"ok", upstream: bytes | None = None
) -> RecordingDraft:
    """A finished one, both wires with `body`."""
    made = RecordingDraft(id, 1.0, 0.0, "POST", "/v1/messages", "anthropic", {"a": "b"}, body=body)
    made.begin_attempt("groq", "openai-chat", "m")
    made.attempts[0].method, made.attempts[0].body = "POST", body if upstream is None else upstream
    made.observe(200, reply)
    return made


def finished(recorder: Recorder, made: RecordingDraft) -> None:
    recorder.finish(made, ExchangeRecord(made.id, "anthropic", "generate"), "")


def ring_size(recorder: Recorder) -> int:
    assert isinstance(recorder.store, Ring)
    return recorder.store.size


@pytest.fixture(params=["memory", "file"])
def recorder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Recorder]:
    file = RecordingFile(tmp_path / "recordings.db", 5) if request.param == "file" else None
    made = Recorder(file=file, most=5)
    yield made
    made.close()


@given(st.binary(max_size=400) | st.integers(0, 6).map(lambda turns: request(turns, 150)))
def test_pieces_join_to_the_exact_bytes(body: bytes) -> None:
    assert b"".join(pieces_of(body)) == body


def test_a_growing_conversation_is_stored_once() -> None:
    recorder = Recorder()
    for turns in range(1, 60):
        finished(recorder, draft(str(turns), request(turns), upstream=request(turns, 901)))
    sent = sum(len(request(turns)) for turns in range(1, 60))
    assert ring_size(recorder) < sent / 3, "each body was recorded on both wires"
    for turns in (1, 17, 58, 59):
        stored = recorder.store.get(str(turns))
        assert stored is not None
        assert stored.request.body.data == request(turns)
        assert stored.attempts[0].request.body.data == request(turns, 901)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 40), st.binary(max_size=60), st.integers(0, 40)),
        max_size=90,
    )
)
def test_shared_bodies_are_exact_whatever_changes(steps: list[tuple[int, int, bytes, int]]) -> None:
    """Interleaved conversations that grow, shrink and change in the middle."""
    shared = SharedBodies()
    newest = [b"a" * 400 + bytes([number]) * 200 for number in range(4)]
    stored = []
    for which, start, piece, end in steps:
        old = newest[which]
        cut = len(old) * start // 40
        newest[which] = old[:cut] + piece + old[min(len(old), cut + end) :]
        stored.append((newest[which], shared.add(newest[which])[0]))
    assert [body.data for _, body in stored] == [data for data, _ in stored]


def test_the_oldest_are_deleted(recorder: Recorder) -> None:
    for number in range(9):
        finished(recorder, draft(str(number), request(number)))
    recorder.flush()
    assert [each.id for each in recorder.store.summaries()] == ["4", "5", "6", "7", "8"]
    assert recorder.store.get("3") is None
    newest = recorder.store.get("8")
    assert newest
    assert newest.request.body.data == newest.attempts[0].request.body.data == request(8)
    assert newest.reply.body.data == b"ok"


def test_the_ring_is_bounded_in_bytes_and_frees_what_nobody_uses() -> None:
    recorder = Recorder(limit=200_000)
    for number in range(300):
        body = b'{"messages": [%b]}' % json.dumps(f"{number}" * 4000).encode()
        finished(recorder, draft(str(number), body, upstream=body + b" "))
    assert ring_size(recorder) <= 200_000
    finished(recorder, draft("last", b"x" * 195_000))
    assert [each.id for each in recorder.store.summaries()] == ["last"]
    finished(recorder, draft("last", b"{}"))
    assert ring_size(recorder) < 10_000


def test_a_file_that_cannot_keep_up_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.recording.recorder._MOST_PENDING", 10_000)
    recorder = Recorder(file=RecordingFile(tmp_path / "recordings.db", 5))
    finished(recorder, draft("large", b"x" * 20_000))
    finished(recorder, draft("small"))
    recorder.flush()
    assert [each.id for each in recorder.store.summaries()] == ["small"]
    assert not recorder.active
    recorder.close()


def test_a_file_survives_a_restart_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "recordings.db"
    first = RecordingFile(path, 10)
    first.put(recording("a", request(3)))
    first.close()
    again = RecordingFile(path, 10)
    assert again.get("a") == recording("a", request(3))
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("reply", [b"plain", b"\xff\xfe\x00", "é".encode()])
def test_a_recording_survives_its_file(reply: bytes) -> None:
    one = recording("a", request(2), reply)
    assert load_recording(dump_recording(one)) == one


@pytest.mark.parametrize(
    "text, problem",
    [
        ("[]", "dragoman_exchange is missing"),
        ("{", "This is no recording"),
        ('{"dragoman_exchange": 99}', "version 99"),
        ('{"dragoman_exchange": 1}', "This is no recording"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_recording(text)


SECRETS = ("sk-live-0123456789", "p/ss+word==", "clé-secrète-42")
PLACES = st.sampled_from(
    [
        lambda secret: json.dumps({"messages": [{"content": f"the key is {secret}!"}]}).encode(),
        lambda secret: json.dumps({"a": secret}, ensure_ascii=False).encode(),
        lambda secret: json.dumps({"a": secret}).replace("/", "\\/").encode(),
        lambda secret: f"data: {json.dumps({'delta': secret})}\n\n".encode(),
        lambda secret: json.dumps({"mcp_servers": [{"authorization_token": "tok-" + secret}]}).encode(),
        lambda secret: f"Authorization: Bearer {secret}".encode(),
    ]
)


@given(st.sampled_from(SECRETS), PLACES, st.lists(st.integers(0, 200), max_size=5))
def test_no_secret_is_recorded(secret: str, place: object, cuts: list[int]) -> None:
    """In bodies, headers, URLs, errors and losses; also where the pieces of a stream cut through it."""
    body: bytes = place(secret)  # type: ignore[operator]
    bounds = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [(float(i), body[a:b]) for i, (a, b) in enumerate(pairwise(bounds))]
    headers = {"authorization": f"Bearer {secret}", "x-odd": f"see {secret}", "cookie": "c=1"}
    url = f"/v1/x?key={secret}&a=1"
    attempt = AttemptDraft(0.0, method="POST", url=url, request_headers=headers, body=body)
    attempt.status, attempt.headers, attempt.pieces, attempt.error = 200, headers, pieces, f"no {secret}"
    draft = RecordingDraft("r", 0.0, 0.0, "POST", url, "anthropic", headers, secret, body, 200)
    draft.headers, draft.pieces, draft.attempts = [(b"x-odd", secret.encode())], pieces, [attempt]
    draft.losses = (Loss("dropped", "a", f"{secret}", value=secret),)
    draft.record = ExchangeRecord("r", "anthropic", "generate")
    draft.record.failure = Failure("bad_request", f"wrong key {secret}")
    recorder = Recorder(SECRETS)
    made = recorder.seal(draft)
    text = dump_recording(made)
    assert secret not in text
    assert secret not in repr(recorder.summarize(draft))
    assert json.dumps(secret)[1:-1] not in text
    assert len(made.reply.body.data) == len(body), "masks keep the offsets of a stream"


def test_losses_are_recorded_with_what_stood_at_their_place() -> None:
    recorder = Recorder(SECRETS)
    made = draft("r", json.dumps({"top_k": 5, "user": f"it is {SECRETS[0]}"}).encode())
    made.losses = (Loss("dropped", "top_k", "no such field"), Loss("dropped", "user", "no such field"))
    assert [loss.value for loss in recorder.seal(made).losses] == ["5", "it is " + "*" * len(SECRETS[0])]


@pytest.mark.parametrize(
    "headers, body, agent, session",
    [
        (
            {"user-agent": "claude-cli/2.1 (x)"},
            b'{"metadata":{"user_id":"u_session_0a1b2c3d"}}',
            "Claude Code",
            "0a1b2c3d",
        ),
        (
            {"user-agent": "claude-cli/2.1"},
            b'{"metadata":{"user_id":"{\\"session_id\\":\\"abc-123-def\\"}"}}',
            "Claude Code",
            "abc-123-def",
        ),
        ({"user-agent": "codex_exec/0.166.0", "session-id": "s-1"}, b"{}", "Codex", "s-1"),
        (
            {"user-agent": "OpenAI/Python 3.1"},
            b'{"prompt_cache_key":"conversation-7"}',
            "openai SDK",
            "conversation-7",
        ),
        ({"user-agent": "mine/1"}, b"{}", "mine", ""),
    ],
)
def test_agents_and_sessions_are_named(
    headers: dict[str, str], body: bytes, agent: str, session: str
) -> None:
    assert (agent_of(headers), session_of(headers, body)) == (agent, session)


def test_listeners_hear_of_the_beginning_and_the_end() -> None:
    recorder = Recorder()
    changes: list[tuple[str, str]] = []
    recorder.listeners.add(lambda summary: changes.append((summary.id, summary.state)))
    draft = recorder.begin("r", "POST", "/v1/messages", {}, "anthropic", "")
    assert list(recorder.active) == ["r"]
    recorder.finish(draft, ExchangeRecord("r", "anthropic", "generate"), "")
    recorder.flush()
    assert changes == [("r", "active"), ("r", "done")]
    assert not recorder.active
    assert recorder.store.get("r") is not None
    recorder.close()


class Pouring:
    """A reply that pushes two pieces, and the transport that brings it."""

    status, headers = 200, dict[str, str]()

    async def send(self, *given: object) -> Pouring:
        return self

    async def stream_into(self, sink: Callable[[bytes], bool]) -> bool:
        return sink(b"one") or sink(b"two")


def test_a_reply_that_is_pushed_is_recorded_piece_by_piece() -> None:
    async def work() -> tuple[list[bytes], list[bytes]]:
        recorder = Recorder()
        begun = recorder.begin("r", "POST", "/v1/messages", {}, "anthropic", "")
        begun.begin_attempt("groq", "openai-chat", "m")
        reply = await recorder.transport(cast(Any, Pouring())).send("POST", "http://a", {}, b"{}", Timeouts())
        passed: list[bytes] = []
        assert await cast(Any, reply).stream_into(lambda piece: passed.append(piece) or piece == b"two")
        return passed, [piece for _, piece in begun.attempts[-1].pieces]

    assert asyncio.run(work()) == ([b"one", b"two"], [b"one", b"two"])


def test_texts_beside_the_bodies_hold_no_secret(recorder: Recorder) -> None:
    """The beginning of the prompt and of the reply in the list, and calls that the gateway executed."""
    said = "use https://me:pa55word9@h/x and curl -H 'Authorization: Bearer abcdefgh12345678'"
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": said}]}
    reply = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": said}], "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    made = draft("a", json.dumps(body).encode(), json.dumps(reply).encode())
    arguments = '{"url":"https://h/x?key=SECRET-1","token":"SECRET-2"}'
    call = HostedCall("call_1", "web_fetch", "web_fetch", arguments)
    made.hosted.append(HostedCallRecord(call, 1, HostedResult((Text(said),)), 0.0, 0.1))
    finished(recorder, made)
    recorder.flush()
    stored = recorder.store.get("a")
    assert stored is not None
    shown = dump_recording(stored)
    assert "use https" in shown
    for secret in ("pa55word9", "abcdefgh12345678", "SECRET-1", "SECRET-2"):
        assert secret not in shown
