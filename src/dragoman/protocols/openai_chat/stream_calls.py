"""Call assembly: which call a piece of a stream belongs to.

OpenAI's rule: `index` identifies the call, and id and name come once, with the first piece. Servers leave the
index out, send 0 for every call, count from 1 (G09: vercel/ai#18382, any-llm#1160), repeat id and name
(G08: CLIProxyAPI#2926), or send the name last (G07: vercel/ai#14760). States of a call:

    unnamed  --name--> named                        arguments are stored; nothing is emitted yet
    named    --first arguments, next call or end--> started    emits PartStart and the stored arguments
    started  --arguments--> started                 emits PartDelta
    started  --end of the reply--> ended            emits PartEnd; not earlier, partial JSON may parse (G10)
    unnamed  --end of the reply--> dropped          reported
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import CallKind, State, ToolCall, Wire
from dragoman.protocols.openai_chat.calls import decode_call_state
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, QUIET_CALL

_WHERE = "choices[0].delta.tool_calls"
_KNOWN_ENTRY = QUIET_CALL | {"id", "function", "custom"}
_KNOWN_INNER = QUIET_CALL | {"name", "input"}


class AssembledCall:
    """One call while its pieces arrive; `part` is the index of its part, -1 until it has started."""

    __slots__ = ("id", "kind", "name", "part", "pieces", "shape", "state")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.kind: CallKind = "function"
        self.shape: Wire = {}
        self.part = -1
        self.pieces: list[str] = []
        self.state: State | None = None

    def as_part(self) -> ToolCall:
        return ToolCall(self.id, self.name, kind=self.kind, where=_WHERE, extras={PROTOCOL_NAME: self.shape})

    def learn(self, id: str, name: str) -> None:
        """A name may come in pieces; a repeated name is not a piece."""
        self.id = self.id or id
        if name and self.part < 0 and name != self.name:
            self.name = name if name.startswith(self.name) else self.name + name

    def is_whole(self) -> bool:
        return bool(self.pieces) and jsontext.is_complete("".join(self.pieces))

    def is_broken(self) -> bool:
        return self.kind == "custom" or not self.is_whole()


Piece = tuple[
    AssembledCall, str, State | None
]  # the call, the arguments added, the state that came with them


class CallAssembly:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self.calls: list[AssembledCall] = []
        self._pending: list[AssembledCall] = []  # those of them that may still have to be announced
        self._by_index: dict[Any, AssembledCall] = {}

    def piece(self, entry: Any) -> Piece:
        """Assign one entry of `tool_calls` to its call."""
        if not is_object(entry):
            raise WireError(PROTOCOL_NAME, _WHERE, f"expected an object, got {describe(entry)}")
        index = entry.get("index")
        inner = entry.get("function")
        if type(index) is int and is_object(inner) and len(entry) == 2 and len(inner) == 1:  # the hot path
            call, text = self._by_index.get(index), inner.get("arguments")
            if call is not None and call.part >= 0 and type(text) is str:
                call.pieces.append(text)
                return call, text, None
        return self._new_piece(entry, index)

    def _new_piece(self, entry: Wire, index: Any) -> Piece:
        custom = entry.get("type") == "custom" or "custom" in entry
        inner = entry.get("custom" if custom else "function")
        if not is_object(inner):
            if inner is not None:
                raise WireError(
                    PROTOCOL_NAME, f"{_WHERE}.function", f"expected an object, got {describe(inner)}"
                )
            inner = {}
        if not (entry.keys() <= _KNOWN_ENTRY and inner.keys() <= _KNOWN_INNER):
            self._report(entry, _KNOWN_ENTRY)
            self._report(inner, _KNOWN_INNER)
        id, name = _string(entry, "id"), _string(inner, "name")
        text = _arguments(inner.get("input" if custom else "arguments"))
        call = self._find(index, id, name, text)
        call.learn(id, name)
        if type(kind := entry.get("type")) is str:
            call.shape = {"type": kind}
        if custom:
            call.kind = "custom"
        elif not call.pieces and text.isspace():  # blanks before JSON mean nothing, and alone are no JSON
            text = ""
        if text:
            call.pieces.append(text)
        if "extra_content" not in entry:
            return call, text, None
        call.state = decode_call_state(entry["extra_content"], PROTOCOL_NAME) or call.state
        return call, text, call.state

    def legacy(self, function: Wire) -> Piece:
        """A piece of the deprecated `function_call`, of which a reply has one."""
        call = self._by_index.get("function_call") or self._new("function_call")
        call.learn("", _string(function, "name"))
        call.shape = {"function_call": {}}
        text = _arguments(function.get("arguments"))
        if text:
            call.pieces.append(text)
        return call, text, None

    def waiting(self, before: AssembledCall | None = None) -> Iterable[AssembledCall]:
        """Named calls that have not started; `before`: those ahead of this one."""
        pending, self._pending = self._pending, []
        waiting: list[AssembledCall] = []
        passed = False
        for call in pending:
            if call.part < 0:
                self._pending.append(call)
                passed = passed or call is before
                if call.name and not passed:
                    waiting.append(call)
        return waiting

    def report_nameless(self, call: AssembledCall) -> None:
        why = "The name of this call never came, so it cannot run."
        self._losses.dropped(call.id or "tool call", why, "call.name")

    def _report(self, wire: Wire, known: frozenset[str]) -> None:
        for key, value in wire.items():
            if key not in known and value:
                why = f"Only {PROTOCOL_NAME} has this field."
                self._losses.dropped(f"{_WHERE}.{key}", why, "field.unknown")

    def _find(self, index: Any, id: str, name: str, text: str) -> AssembledCall:
        if type(index) is not int:
            return self._find_without_index(id, name, text)
        call = self._by_index.get(index)
        return self._new(index) if call is None or _is_another(call, id, name, text) else call

    def _find_without_index(self, id: str, name: str, text: str) -> AssembledCall:
        if id:
            return next((call for call in self.calls if call.id == id), None) or self._new(None)
        last = self.calls[-1] if self.calls else None
        if last is None or (name and last.name and name != last.name) or _is_another(last, id, name, text):
            return self._new(None)
        return last

    def _new(self, index: Any) -> AssembledCall:
        call = AssembledCall()
        self.calls.append(call)
        self._pending.append(call)
        if index is not None:
            self._by_index[index] = call
        return call


def _is_another(call: AssembledCall, id: str, name: str, text: str) -> bool:
    """Whether a piece with a name begins a new call although its index is that of `call`."""
    if not name or not call.name:
        return False
    if id and call.id:
        return id != call.id
    return bool(text) and call.is_whole()


def _string(wire: Wire, key: str) -> str:
    value = wire.get(key)
    if value is None or type(value) is str:
        return value or ""
    raise WireError(PROTOCOL_NAME, f"{_WHERE}.{key}", f"expected a string, got {describe(value)}")


def _arguments(value: Any) -> str:
    if value is None or type(value) is str:
        return value or ""
    if is_object(value) or is_array(value):
        return jsontext.dumps(value)
    raise WireError(
        PROTOCOL_NAME, f"{_WHERE}.function.arguments", f"expected a string, got {describe(value)}"
    )
