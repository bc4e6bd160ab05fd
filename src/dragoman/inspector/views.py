"""What the page and `dragoman inspect` show of recordings, as plain JSON values: a head, and one value for
each tab."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from dragoman.core.jsontext import is_object
from dragoman.core.loss_codes import CODES
from dragoman.core.model import Wire
from dragoman.core.model_profile import Price
from dragoman.inspector import analysis
from dragoman.inspector.conversation import conversation_view
from dragoman.inspector.pairs import find_repeated, reply_pairs, request_pairs
from dragoman.recording.streams import TimedFrame, assemble_reply, client_framing, timeline
from dragoman.recording.values import (
    RecordedAttempt,
    RecordedCall,
    RecordedMessage,
    Recording,
    RecordingSummary,
)

_LONGEST_PROBLEM = 2000
_MOST_TICKS = 3000
_LONGEST_FRAME = 20_000  # characters
# Headers that a client sets by itself
_SKIPPED = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding"})
_KEYS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key"})
_RANK = {"material": 0, "minor": 1, "cosmetic": 2}


class Context(Struct, frozen=True):
    """What is known around an exchange. `turns`: those of its conversation, oldest first; `before` and
    `following`: the ones beside it; `today`: how often each code was reported; `price`: of its model."""

    turns: Sequence[RecordingSummary] = ()
    before: Recording | None = None
    following: Recording | None = None
    today: Mapping[str, int] = {}
    price: Price | None = None


def head_view(recording: Recording, context: Context) -> Wire:
    """What every tab needs."""
    turns = [each.id for each in context.turns]
    return {
        "summary": to_builtins(recording.summary),
        "rule": recording.rule,
        "request": _head(recording.request),
        "reply": _head(recording.reply),
        "attempts": [_attempt(each, recording.hosted) for each in recording.attempts],
        "executed": to_builtins(recording.hosted),
        "losses": sorted(
            [_loss(loss, context.today) for loss in recording.losses], key=lambda it: _RANK[it["severity"]]
        ),
        "turns": turns,
        "tools_changed": _compare_tools(recording, context.before),
    }


def wires_view(recording: Recording, context: Context) -> Wire:
    """Both wires, and which of their fields correspond."""
    attempt = recording.answered or RecordedAttempt()
    client, upstream = recording.summary.client, attempt.protocol
    sent, got = analysis.parse(recording.request.body.data), analysis.parse(attempt.request.body.data)
    old_sent, old_got = _bodies(context.before)
    pairs = request_pairs(client, sent, upstream, got, recording.losses)
    repeated = analysis.count_repeated(old_sent, sent)
    answered, given = (
        assemble_reply(upstream, attempt.reply.body.data),
        assemble_reply(client, recording.reply.body.data, client_framing(recording)),
    )
    return {
        "client_request": {"text": recording.request.body.text},
        "upstream_request": {"text": attempt.request.body.text},
        "upstream_reply": {"text": attempt.reply.body.text, "assembled": answered},
        "client_reply": {"text": recording.reply.body.text, "assembled": given},
        "pairs": pairs,
        "reply_pairs": reply_pairs(
            answered or analysis.parse(attempt.reply.body.data),
            given or analysis.parse(recording.reply.body.data),
        ),
        "repeated": {
            "client_request": repeated,
            "upstream_request": find_repeated(pairs, repeated)
            if context.before and context.before.summary.upstream != upstream
            else analysis.count_repeated(old_got, got),
        },
    }


def stream_view(recording: Recording, context: Context) -> Wire:
    ticks = timeline(recording) if recording.summary.stream else []
    return {"ticks": to_builtins(_thin(ticks)), "frames": len(ticks)}


def window_view(recording: Recording, context: Context) -> Wire:
    """What fills the context, and how much of it a prompt cache could match."""
    summary, before = recording.summary, context.before
    request = analysis.decode_request(summary.client, analysis.parse(recording.request.body.data))
    return {
        "segments": to_builtins(analysis.window(request)),
        "prefix": _prefix(recording, before),
        "other_provider": before.summary.provider
        if before and before.summary.provider != summary.provider
        else "",
        "earlier": [each.input for each in context.turns if each.time < summary.time and each.input],
        "price": to_builtins(context.price),
    }


def turns_view(recording: Recording, context: Context) -> Wire:
    until = [each for each in context.turns if each.time <= recording.summary.time]
    return conversation_view(recording, until, context.following, context.before)


def snippets_view(recording: Recording, context: Context) -> Wire:
    return snippets(recording)


TABS: dict[str, Callable[[Recording, Context], Wire]] = {
    "conversation": turns_view,
    "wires": wires_view,
    "stream": stream_view,
    "window": window_view,
    "snippets": snippets_view,
}


def until(recording: Recording, number: int) -> Recording:
    """As if the attempt with this number, from 1, had been the last: its wires are then shown."""
    return replace(recording, attempts=recording.attempts[:number])


def whole_view(recording: Recording, context: Context) -> Wire:
    """The head and all tabs, for an export."""
    tabs = {name: view(recording, context) for name, view in TABS.items()}
    for number in range(1, len(recording.attempts)):
        tabs[f"attempts/{number}/wires"] = wires_view(until(recording, number), context)
    return {**head_view(recording, context), "tabs": tabs}


def _prefix(recording: Recording, before: Recording | None) -> Wire | None:
    """None where there is nothing to compare with."""
    attempt = recording.answered
    old, new = _bodies(before)[1], analysis.parse(attempt.request.body.data) if attempt else None
    if not (is_object(old) and is_object(new)):
        return None
    return to_builtins(analysis.prefix_break(old, new))


def _bodies(recording: Recording | None) -> tuple[Any, Any]:
    """The requests on both wires."""
    if recording is None:
        return None, None
    attempt = recording.answered or RecordedAttempt()
    return analysis.parse(recording.request.body.data), analysis.parse(attempt.request.body.data)


def _head(message: RecordedMessage) -> Wire:
    return {
        "method": message.method,
        "url": message.url,
        "status": message.status,
        "headers": message.headers,
        "size": len(message.body.data),
    }


def _attempt(attempt: RecordedAttempt, executed: Sequence[RecordedCall]) -> Wire:
    failed = attempt.reply.status >= 400
    return {
        "round": len({call.round for call in executed if call.began * 1000 <= attempt.started_ms}),
        "provider": attempt.provider,
        "protocol": attempt.protocol,
        "model": attempt.model,
        "started_ms": attempt.started_ms,
        "first_ms": attempt.first_ms,
        "ended_ms": attempt.ended_ms,
        "status": attempt.reply.status,
        "error": attempt.error,
        "problem": attempt.reply.body.text[:_LONGEST_PROBLEM] if failed else "",
        "method": attempt.request.method,
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


def _compare_tools(recording: Recording, before: Recording | None) -> dict[str, list[str]]:
    if before is None:
        return {}
    old, new = [
        analysis.tools_of(
            analysis.decode_request(each.summary.client, analysis.parse(each.request.body.data))
        )
        for each in (before, recording)
    ]
    return analysis.tools_difference(old, new)


def _thin(ticks: Sequence[TimedFrame]) -> list[TimedFrame]:
    """At most `_MOST_TICKS`: of a longer stream, neighbours of one track and one name are one."""
    group = -(-len(ticks) // _MOST_TICKS) if ticks else 1
    waiting: dict[tuple[str, str, str], list[TimedFrame]] = {}
    found: list[TimedFrame] = []
    for tick in ticks:
        part = tick.text.partition(" ")[0] if tick.track == "neutral" else ""
        key = (tick.track, tick.name, part)
        if group > 1 and tick.name not in ("PartStart", "PartEnd"):
            held = waiting.setdefault(key, [])
            held.append(tick)
            if len(held) < group:
                continue
            found.append(_join(waiting.pop(key), part))
            continue
        if part:  # what belongs to a part comes before its end
            found += [_join(held, part) for other, held in _pop_part(waiting, part) if other]
        found.append(_join([tick], part))
    found += [_join(held, key[2]) for key, held in waiting.items()]
    return sorted(found, key=lambda tick: tick.ms)


def _pop_part(
    waiting: dict[tuple[str, str, str], list[TimedFrame]], part: str
) -> list[tuple[Any, list[TimedFrame]]]:
    return [(key, waiting.pop(key)) for key in [key for key in waiting if key[2] == part]]


def _join(ticks: Sequence[TimedFrame], part: str) -> TimedFrame:
    """One for all of them, at the time of the last."""
    last = ticks[-1]
    if len(ticks) == 1:
        return TimedFrame(last.ms, last.track, last.name, last.text[:_LONGEST_FRAME])
    if part:
        text = f"{part} " + "".join([tick.text.partition(" ")[2] for tick in ticks])
    else:
        text = "\n".join([tick.text for tick in ticks])
    return TimedFrame(last.ms, last.track, last.name, text[:_LONGEST_FRAME])


def snippets(recording: Recording) -> dict[str, str]:
    """One exchange as something to run elsewhere, by name. The key is a variable: a recording holds none."""
    found = {"curl, client side": curl(recording.request, "$GATEWAY")}
    attempt = recording.answered
    if attempt and attempt.request.method:
        found["curl, upstream side"] = curl(attempt.request, "")
        found["Python"] = _python(attempt.request)
    id, model = recording.summary.id, shlex.quote(recording.summary.model or "provider:model")
    found["dragoman replay"] = (
        f"dragoman inspect {id} --save {id}.exchange.json\ndragoman replay {id}.exchange.json --model {model}"
    )
    return found


def curl(message: RecordedMessage, base: str) -> str:
    url = f'"{base}"{shlex.quote(message.url)}' if base else shlex.quote(message.url)
    lines = [f"curl -sS -X {message.method or 'POST'} {url}"]
    for name, value in _headers(message):
        header = f"{name}: {value}"
        lines.append(f'-H "{header}"' if value.endswith("$API_KEY") else f"-H {shlex.quote(header)}")
    if message.body.data:
        lines.append(f"--data-binary {shlex.quote(message.body.text)}")
    return " \\\n  ".join(lines)


def _headers(message: RecordedMessage) -> Iterator[tuple[str, str]]:
    """Headers to send again. The key is a variable; what else is masked is left out."""
    for name, value in message.headers.items():
        if value == "***" and name in _KEYS:
            yield name, "Bearer $API_KEY" if name == "authorization" else "$API_KEY"
        elif value != "***" and name not in _SKIPPED:
            yield name, value


def _python(message: RecordedMessage) -> str:
    return (
        "import json, os, urllib.request\n\n"
        f"body = json.loads({message.body.text!r})\n"
        f"headers = {dict(_headers(message))!r}\n"
        "headers = {name: os.path.expandvars(value) for name, value in headers.items()}  # $API_KEY\n"
        f"request = urllib.request.Request({message.url!r}, json.dumps(body).encode(), headers)\n"
        "print(urllib.request.urlopen(request).read().decode())\n"
    )
