"""What the page and `dragoman inspect` show of recordings, as plain JSON values."""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from dragoman.core.loss_codes import CODES
from dragoman.core.model import Wire
from dragoman.gateway.observability.recorded_stream import timeline
from dragoman.gateway.observability.recording import (
    RecordedAttempt,
    RecordedMessage,
    Recording,
    RecordingSummary,
)
from dragoman.inspector import analysis

_LONGEST_PROBLEM = 2000
_MOST_TICKS = 20_000
# Headers that a client sets by itself
_SKIPPED = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding"})
MOST_TURNS = 200  # of a session, whose calls are followed


def exchange_view(
    recording: Recording, before: Recording | None, session: Sequence[Recording], today: Mapping[str, int]
) -> Wire:
    """Everything about one exchange. `before`: the turn before it in its session; `session`: all of them."""
    attempt = recording.answered or RecordedAttempt()
    client, upstream = recording.request.body.data, attempt.request.body.data
    values = {name: analysis.parsed(body) for name, body in (("client", client), ("upstream", upstream))}
    old_client, old_upstream = _bodies(before)
    protocol = recording.summary.client
    return {
        "summary": to_builtins(recording.summary),
        "rule": recording.rule,
        "request": _head(recording.request),
        "reply": _head(recording.reply),
        "attempts": [_attempt(each) for each in recording.attempts],
        "losses": [_loss(loss, today) for loss in recording.losses],
        "wires": {
            "client_request": {"text": recording.request.body.text},
            "upstream_request": {"text": attempt.request.body.text},
            "upstream_reply": {"text": attempt.reply.body.text},
            "client_reply": {"text": recording.reply.body.text},
        },
        "pairs": analysis.correspondences(values["client"], values["upstream"]),
        "reply_pairs": analysis.correspondences(
            analysis.parsed(attempt.reply.body.data), analysis.parsed(recording.reply.body.data)
        ),
        "repeated": {
            "client_request": analysis.repeated_entries(analysis.parsed(old_client), values["client"]),
            "upstream_request": analysis.repeated_entries(analysis.parsed(old_upstream), values["upstream"]),
        },
        "states": _state_paths(protocol, client),
        "tools": analysis.tools_difference(
            analysis.tools_of(protocol, old_client) if old_client else analysis.tools_of(protocol, client),
            analysis.tools_of(protocol, client),
        ),
        "previous": before.summary.id if before else None,
        "prefix": to_builtins(analysis.prefix_break(old_upstream, upstream))
        if old_upstream and upstream
        else None,
        "window": to_builtins(analysis.window(protocol, client)),
        "threads": to_builtins(analysis.threads(session[-MOST_TURNS:])),
        "timeline": to_builtins(timeline(recording)[:_MOST_TICKS]) if recording.summary.stream else [],
        "snippets": snippets(recording),
    }


def _bodies(recording: Recording | None) -> tuple[bytes, bytes]:
    if recording is None:
        return b"", b""
    attempt = recording.answered
    return recording.request.body.data, attempt.request.body.data if attempt else b""


def _head(message: RecordedMessage) -> Wire:
    return {
        "method": message.method,
        "url": message.url,
        "status": message.status,
        "headers": message.headers,
    }


def _attempt(attempt: RecordedAttempt) -> Wire:
    failed = attempt.reply.status >= 400
    return {
        "provider": attempt.provider,
        "protocol": attempt.protocol,
        "model": attempt.model,
        "started_ms": attempt.started_ms,
        "status": attempt.reply.status,
        "error": attempt.error,
        "problem": attempt.reply.body.text[:_LONGEST_PROBLEM] if failed else "",
        "url": attempt.request.url,
        "headers": attempt.request.headers,
        "reply_headers": attempt.reply.headers,
    }


def _loss(loss: Any, today: Mapping[str, int]) -> Wire:
    known = CODES.get(loss.code)
    return {
        **to_builtins(loss),
        "today": today.get(loss.code, 0),
        "meaning": known.meaning if known else "",
        "advice": known.advice if known else "",
    }


def _state_paths(protocol: str, body: bytes) -> list[str]:
    request = analysis.decoded_request(protocol, body)
    messages = request.messages if request else ()
    return [part.where for message in messages for part in message.parts if part.state and part.where]


def overview(
    summaries: Sequence[RecordingSummary], providers: Mapping[str, str], circuits: Mapping[str, str]
) -> Wire:
    """Totals of the recorded exchanges. `providers`: name and protocol; `circuits`: the state of breakers."""
    today = analysis.losses_today(summaries, time.time())
    rows: list[Wire] = []
    for name, protocol in providers.items():
        mine = [each for each in summaries if name in each.providers or each.provider == name]
        took = [each.ms for each in mine if each.ms is not None]
        rows.append(
            {
                "name": name,
                "protocol": protocol,
                "requests": len(mine),
                "failures": sum(each.state == "failed" for each in mine),
                "median_ms": statistics.median(took) if took else None,
                "circuit": circuits.get(name, "closed"),
            }
        )
    return {
        "codes": [{"code": code, "count": count} for code, count in today.most_common()],
        "providers": rows,
        "keys": _keys(summaries),
    }


def _keys(summaries: Iterable[RecordingSummary]) -> list[Wire]:
    keys: dict[str, Wire] = {}
    for each in summaries:
        row = keys.setdefault(each.key, {"name": each.key, "requests": 0, "input": 0, "output": 0})
        row["requests"] += 1
        row["input"] += each.input or 0
        row["output"] += each.output or 0
    return list(keys.values())


def snippets(recording: Recording) -> dict[str, str]:
    """One exchange as something to run elsewhere, by name. The key is a variable: a recording holds none."""
    found = {"curl, as the client sent it": curl(recording.request, "$GATEWAY")}
    attempt = recording.answered
    if attempt and attempt.request.method:
        found["curl, as the upstream got it"] = curl(attempt.request, "")
        found["Python"] = _python(attempt.request)
    if attempt and attempt.protocol and recording.summary.client != attempt.protocol:
        found["dragoman translate"] = (
            f"dragoman inspect {recording.summary.id} --save exchange.exchange.json\n"
            f"dragoman translate request --from {recording.summary.client} --to {attempt.protocol}"
            " exchange.exchange.json"
        )
    return found


def curl(message: RecordedMessage, base: str) -> str:
    url = f'"{base}"{shlex.quote(message.url)}' if base else shlex.quote(message.url)
    lines = [f"curl -sS -X {message.method or 'POST'} {url}"]
    for name, value in message.headers.items():
        if name in _SKIPPED:
            continue
        if value == "***":
            scheme = "Bearer " if name == "authorization" else ""
            lines.append(f'-H "{name}: {scheme}$API_KEY"')
        else:
            lines.append(f"-H {shlex.quote(f'{name}: {value}')}")
    if message.body.data:
        lines.append(f"--data-binary {shlex.quote(message.body.text)}")
    return " \\\n  ".join(lines)


def _python(message: RecordedMessage) -> str:
    headers = {
        name: value for name, value in message.headers.items() if name not in _SKIPPED and value != "***"
    }
    return (
        "import json, os, urllib.request\n\n"
        f"body = json.loads({message.body.text!r})\n"
        f"headers = {headers!r} | {{'authorization': 'Bearer ' + os.environ['API_KEY']}}\n"
        f"request = urllib.request.Request({message.url!r}, json.dumps(body).encode(), headers)\n"
        "print(urllib.request.urlopen(request).read().decode())\n"
    )
