"""Results on their way through a client, beside calls that it runs itself, until its next request.

in the client's own parts            Anthropic's blocks, Responses' mcp_call     nothing is to be done here
in hidden reasoning                  the client echoes it                        `seal_results`
in the store, under a call's id      the client echoes ids alone (Chat, Gemini)       `keep`, `find_lost`
nowhere any more                     the id says what was called: it is called again, and reported
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.hosted import content_in_words
from dragoman.core.jsontext import is_array
from dragoman.core.model import AnyPart, Message, Reasoning, State, Text, ToolCall, ToolResult
from dragoman.core.seal import MAGIC
from dragoman.hosted.calls import CUT
from dragoman.hosted.result_store import ResultStore, StoreUnusable, digest_of
from dragoman.transforms import call_ids
from dragoman.transforms.call_ids import CallId

_RESULTS = "dragoman-hosted"  # origin of the state in which results travel
_CALLS = "dragoman-hosted-calls"  # of the state in an id that says which calls were executed beside it
_LONGEST = 2048  # characters of arguments in an id; what is longer is not called again
_LARGEST = 360 * 1024  # bytes of results in a seal, which quotes and base64 make up to 2.7 times as long
_KEY = 64  # characters of an id that every client echoes

Answer = tuple[ToolCall, ToolResult]


def _in_base64(word: bytes) -> tuple[bytes, ...]:
    """`word` inside base64, for each place in a group of three bytes where it may begin."""
    texts = [base64.urlsafe_b64encode(b"\0" * shift + word + b"\0" * 3) for shift in range(3)]
    return tuple(text[-(-shift * 4 // 3) : (shift + len(word)) * 4 // 3] for shift, text in enumerate(texts))


HINTS = _in_base64(_RESULTS.encode())  # one stands in every request that carries results, or their mark


def seal_results(answers: Sequence[Answer]) -> Reasoning:
    """Hidden reasoning is what clients of most protocols echo unread. A seal has a largest size."""
    rows = _rows_of(answers)
    if len(jsontext.encode(rows)) > _LARGEST:
        most = _LARGEST // len(rows) // 6  # characters: one may take six bytes
        rows = [[*row[:3], row[3] if len(row[3]) <= most else row[3][:most] + CUT, row[4]] for row in rows]
    return Reasoning(hidden=True, state=State(_RESULTS, jsontext.dumps(rows)))


def is_sealed(part: AnyPart) -> bool:
    return isinstance(part, Reasoning) and part.state is not None and part.state.origin == _RESULTS


def unseal_results(part: AnyPart) -> list[Answer]:
    return _answers(part.state.data) if part.state else []


def _rows_of(answers: Sequence[Answer]) -> list[list[Any]]:
    return [[call.id, call.name, call.arguments, _text_of(answer), answer.failed] for call, answer in answers]


def _answers(data: str | bytes) -> list[Answer]:
    try:
        rows = jsontext.decode(data)
    except ValueError:
        return []
    found = [row for row in rows if is_array(row) and len(row) == 5] if is_array(rows) else []
    calls = [(ToolCall(str(row[0]), str(row[1]), str(row[2])), row) for row in found]
    return [(call, ToolResult(call.id, call.name, (Text(str(row[3])),), bool(row[4]))) for call, row in calls]


def _text_of(result: ToolResult) -> str:
    return "\n".join(content_in_words(result.content))


# For clients that echo ids alone


def mark(call: ToolCall, executed: Iterable[ToolCall], client: ProtocolLimits) -> ToolCall:
    """`call` of a client, with an id that says which calls were executed beside it."""
    rows = [[each.id, each.name, each.arguments] for each in executed]
    data = jsontext.dumps(rows)
    if len(data) > _LONGEST:
        data = jsontext.dumps([[id, name, None] for id, name, _ in rows])
    opened = call_ids.unwrap(call.id, client) or CallId(call.id)
    note = Reasoning(hidden=True, state=State(_CALLS, data))
    return replace(call, id=call_ids.wrap(replace(opened, reasoning=(*opened.reasoning, note)), client))


async def keep(store: ResultStore, caller: str, call: ToolCall, answers: Sequence[Answer]) -> None:
    data = jsontext.encode(_rows_of(answers))
    with suppress(StoreUnusable):  # they travel in hidden reasoning too, and the id says what was called
        await store.remember(caller, digest_of("results", call.id[:_KEY]), data)


class Marked(Struct, frozen=True):
    """A call of the client beside which others were executed; `id` is its own, without the mark. `echoed`:
    the client brings the results back."""

    marked_id: str
    id: str
    calls: tuple[ToolCall, ...]
    echoed: bool

    @property
    def digest(self) -> str:
        return digest_of("results", self.marked_id[:_KEY])


def are_in(messages: Sequence[Message], client: ProtocolLimits) -> bool:
    """Whether results, or the mark of some, come back with these messages."""
    sealed = any(is_sealed(part) for message in messages for part in message.parts)
    return sealed or bool(find_marked(messages, client))


def find_marked(messages: Sequence[Message], client: ProtocolLimits) -> dict[str, Marked]:
    """By the ids that the client sends."""
    if not client.hosted.forgets:
        return {}
    parts = [part for message in messages for part in message.parts]
    echoed = {call.id for part in parts if is_sealed(part) for call, _ in unseal_results(part)}
    called = [part.id for part in parts if type(part) is ToolCall and MAGIC in part.id]
    return {id: marked for id in called if (marked := _read_mark(id, echoed, client))}


def _read_mark(id: str, echoed: set[str], client: ProtocolLimits) -> Marked | None:
    opened = call_ids.unwrap(id, client)
    if opened is None:  # cut by the client: the store may have its results all the same
        return Marked(id, id, (), echoed=False) if len(id) == _KEY else None
    notes = [part for part in opened.reasoning if part.state and part.state.origin == _CALLS]
    if not notes or not notes[0].state:
        return None
    rest = tuple(part for part in opened.reasoning if part not in notes)
    calls = _read_calls(notes[0].state.data)
    is_echoed = any(call.id in echoed for call in calls)
    return Marked(id, call_ids.wrap(replace(opened, reasoning=rest), client), calls, is_echoed)


def _read_calls(data: str) -> tuple[ToolCall, ...]:
    try:
        rows = jsontext.decode(data)
    except ValueError:
        return ()
    match = [row for row in rows if is_array(row) and len(row) == 3] if is_array(rows) else []
    return tuple(
        ToolCall(str(id), str(name), args or "", complete=args is not None) for id, name, args in match
    )


async def recall(store: ResultStore, caller: str, marked: Iterable[Marked]) -> dict[str, list[Answer]]:
    """The results that the client did not bring back and the store has, by the id of the client's call."""
    lost = {each.digest: each.marked_id for each in marked if not each.echoed}
    try:
        kept = await store.recall_many(caller, [*lost]) if lost else {}
    except StoreUnusable:
        return {}
    return {lost[digest]: answers for digest, data in kept.items() if (answers := _answers(data))}
