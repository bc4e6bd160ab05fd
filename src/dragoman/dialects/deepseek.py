"""deepseek: marked calls with a JSON payload (V3, R1, V3.1), or invocations in tags (V3.2, V4).

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>
    <｜tool▁calls▁end｜>

(in one line). V3 writes `function` before the separator and the name behind it, and the payload in a
```json fence. V3.2 writes `<｜DSML｜invoke name="…">`, where each parameter says whether it is a string.
All are read; `version` says which is written.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from dragoman.core.jsontext import spaced
from dragoman.core.model import ToolDeclaration
from dragoman.dialects.engine.call_grammar import CallGrammar, Sink, opens_with, stray
from dragoman.dialects.engine.dialect import Dialect, EarlierCall, RenderedResult, declaration
from dragoman.dialects.engine.payloads import decode_value, object_text, read_block, read_bracketed
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.tags import TAG_RULES, Invokes, TagRules
from dragoman.dialects.engine.values import DeclaredTools

_BLOCK, _BLOCK_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _SEPARATOR, _CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_DSML = "｜DSML｜"
_BLOCKS = (f"<{_DSML}function_calls>", f"<{_DSML}tool_calls>")
_IS_STRING = re.compile(r'string="(true|false)"')
_NAME = re.compile(r"[^\n<>{}\"`]*")
_HOW = {
    "v3": f"{_BLOCK}{_CALL}function{_SEPARATOR}tool_name\n"
    f"```json\n{{JSON arguments}}\n```{_CALL_END}{_BLOCK_END}",
    "v3.1": f"{_BLOCK}{_CALL}tool_name{_SEPARATOR}{{JSON arguments}}{_CALL_END}{_BLOCK_END}",
    "v3.2": f'{_BLOCKS[0]}\n<{_DSML}invoke name="$FUNCTION_NAME">\n'
    f'<{_DSML}parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</{_DSML}parameter>\n'
    f"</{_DSML}invoke>\n</{_DSML}function_calls>\n\n"
    'With string="true" the value stands as it is, with string="false" it is JSON.',
}


class Deepseek(Dialect, frozen=True, kw_only=True):
    gap: str = ""
    version: Literal["v3", "v3.1", "v3.2"] = "v3.1"

    def grammars(self, declared: DeclaredTools) -> tuple[CallGrammar, ...]:
        blocks = (CallGrammar(opens_with(*_BLOCKS), partial(_read_invokes, rules)) for rules in TAG_RULES)
        return (CallGrammar(opens_with(_BLOCK, _CALL), _read), *blocks, stray(_BLOCK_END, _CALL_END))

    def declare(self, tools: tuple[ToolDeclaration, ...]) -> str:
        sections = "\n\n".join(
            f"### {tool.name}\nDescription: {tool.description}\n\n"
            f"Parameters: {spaced(declaration(tool)['function']['parameters'])}"
            for tool in tools
        )
        how = "To call tools, write one block with all calls, and nothing after it:"
        return (
            f"## Tools\nYou have access to the following tools:\n\n{sections}\n\n{how}\n{_HOW[self.version]}"
        )

    def write_calls(self, calls: tuple[EarlierCall, ...]) -> str:
        match self.version:
            case "v3":
                payloads = (f"{call.name}\n```json\n{spaced(call.arguments)}\n```" for call in calls)
                written = "\n".join(_mark("function", payload) for payload in payloads)
                return f"{_BLOCK}{written}{_BLOCK_END}"
            case "v3.1":
                written = "".join(_mark(call.name, spaced(call.arguments)) for call in calls)
                return f"{_BLOCK}{written}{_BLOCK_END}"
            case "v3.2":
                return "\n".join([_BLOCKS[0], *map(_invoke, calls), f"</{_DSML}function_calls>"])

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        if self.version == "v3.2":
            shown = "\n".join(f"<result>{result.text}</result>" for result in results)
            return f"<function_results>\n{shown}\n</function_results>"
        shown = "\n".join(f"<｜tool▁output▁begin｜>{result.text}<｜tool▁output▁end｜>" for result in results)
        return f"<｜tool▁outputs▁begin｜>{shown}<｜tool▁outputs▁end｜>" if self.version == "v3" else shown


def _mark(head: str, payload: str) -> str:
    return f"{_CALL}{head}{_SEPARATOR}{payload}{_CALL_END}"


def _invoke(call: EarlierCall) -> str:
    lines = [_parameter(key, value) for key, value in call.arguments.items()]
    return "\n".join([f'<{_DSML}invoke name="{call.name}">', *lines, f"</{_DSML}invoke>"])


def _parameter(name: str, value: object) -> str:
    text, string = (value, "true") if isinstance(value, str) else (spaced(value), "false")
    return f'<{_DSML}parameter name="{name}" string="{string}">{text}</{_DSML}parameter>'


def _is_json(head: str) -> bool | None:
    """What a parameter says about its value."""
    found = _IS_STRING.search(head)
    return found[1] == "false" if found else None


def _read(source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    yield from source.skip(_BLOCK)
    yield from read_block(source, _CALL, partial(_read_call, source, sink), _BLOCK_END)


def _read_call(source: Source, sink: Sink) -> Reader[None]:
    name = (yield from source.run(_NAME)).strip()
    yield from source.expect(_SEPARATOR)
    yield from source.space()
    if name == "function" and not (yield from source.next("{")):
        name = (yield from source.run(_NAME)).strip()
        yield from source.space()
    if not name:
        raise Broken("a call without a name")
    fenced = yield from source.skip("```json", "```")
    yield from source.space()
    arguments = object_text(decode_value((yield from read_bracketed(source))))
    if fenced:
        yield from source.close("```")
    yield from source.close(_CALL_END)
    sink.call(name, arguments)


def _read_invokes(rules: TagRules, source: Source, declared: DeclaredTools, sink: Sink) -> Reader[None]:
    opened = yield from source.expect(*_BLOCKS)
    form = Invokes(f"</{opened[1:]}", _DSML, _is_json)
    yield from form.read_block(source, declared, sink, rules)


DIALECT = Deepseek(name="deepseek")
