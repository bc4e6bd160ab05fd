"""mistral: `[TOOL_CALLS]` before each call, or before an array of them, depending on the tokenizer.

    [TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}
    [TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Paris"}
    [TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "a1b2c3d4e"}]

All forms are read; `form` says which is written: "args" (tokenizers from v13 on), "call_id" (v7 to v11)
or "array" (v1 to v3). Ids have nine letters and digits (G48), and are made from the call's own where it has
others.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, Think, opens_with
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult, declaration
from dragoman.dialects.engine.payloads import decode_value, object_text, put, read_bracketed, read_named_calls
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools

_CALLS, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_NAME = re.compile(r"[^\s\[\]{}\"<>]*")
_OWN_ID = re.compile(r"[a-zA-Z0-9]{9}")
_HOW = {
    "args": '[TOOL_CALLS]tool_name[ARGS]{"key": "value"}',
    "call_id": '[TOOL_CALLS]tool_name[CALL_ID]a1b2c3d4e[ARGS]{"key": "value"}',
    "array": '[TOOL_CALLS] [{"name": "tool_name", "arguments": {"key": "value"}, "id": "a1b2c3d4e"}]',
}


class Mistral(Dialect, frozen=True, kw_only=True):
    think: Think | None = Think("[THINK]", "[/THINK]", anywhere=True)
    gap: str = ""
    form: Literal["args", "call_id", "array"] = "args"

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        return (CallGrammar(opens_with(_CALLS), _read),)

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        shown = spaced([declaration(tool) for tool in tools])
        how = f"To call tools, write {_HOW[self.form]} and end your reply."
        return f"[AVAILABLE_TOOLS]{shown}[/AVAILABLE_TOOLS]\n\n{how}"

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        if self.form == "array":
            listed = [{"name": call.name, "arguments": call.arguments, "id": _id(call)} for call in calls]
            return f"{_CALLS} {spaced(listed)}"
        ids = [f"{_ID}{_id(call)}" if self.form == "call_id" else "" for call in calls]
        return "".join(
            f"{_CALLS}{call.name}{id}{_ARGUMENTS}{spaced(call.arguments)}"
            for call, id in zip(calls, ids, strict=True)
        )

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "".join(f"[TOOL_RESULTS]{self._result(result)}[/TOOL_RESULTS]" for result in results)

    def _result(self, result: RenderedResult) -> str:
        match self.form:
            case "array":
                return spaced({"content": result.text, "call_id": _id(result.call)})
            case "call_id":
                return f"{_id(result.call)}[TOOL_CONTENT]{result.text}"
            case "args":
                return result.text

    def write_reasoning(self, text: str) -> str:
        return f"[THINK]{text}[/THINK]"


def _id(call: EarlierCall) -> str:
    return call.id if _OWN_ID.fullmatch(call.id) else hashlib.sha256(call.id.encode()).hexdigest()[:9]


def _read(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.expect(_CALLS)
    yield from source.space()
    if (yield from source.next("[{", "{")):
        put(read_named_calls(decode_value((yield from read_bracketed(source)))), sink)
        return
    name = yield from source.run(_NAME)
    if not name:
        raise Broken("a call without a name")
    yield from source.space()
    id = (yield from source.run(_NAME)) if (yield from source.skip(_ID)) else ""
    yield from source.skip(_ARGUMENTS)  # a server that drops special tokens may have lost it
    yield from source.space()
    sink.call(name, object_text(decode_value((yield from read_bracketed(source)))), id)


DIALECT = Mistral(name="mistral")
