"""harmony: messages on channels (gpt-oss). A call is a message to a function on the commentary channel.

    <|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather
    <|constrain|>json<|message|>{"city":"Paris"}<|call|>

(in one line). What stands on the analysis channel is reasoning; commentary to nobody and the final
channel are text, and so is text without a channel.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dragoman.core.model import Tool
from dragoman.dialects.engine.base import Dialect, Made, RenderedResult
from dragoman.dialects.engine.declared import Declared
from dragoman.dialects.engine.grammar import Grammar, Sink, Think, literal
from dragoman.dialects.engine.payloads import bracketed, decoded, object_text
from dragoman.dialects.engine.source import Broken, Reader, Source, any_of, overlap
from dragoman.dialects.engine.typescript import declare_function
from dragoman.dialects.engine.values import spaced

_START, _CHANNEL, _MESSAGE, _CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_STOPS = (*_ENDS, _START, _CHANNEL)
_WORDS = re.compile(r"[^<>\n]*")
_TO = re.compile(r"\bto=(?:functions\.)?(\S+)")
_DECLARED = """\
# Valid channels: analysis, commentary, final. Channel must be included for every message.
Calls to these tools must go to the commentary channel: 'functions'. Write a call as
<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{{"key": "value"}}<|call|>

# Tools

## functions

namespace functions {{

{tools}

}} // namespace functions"""


class Harmony(Dialect, frozen=True, kw_only=True):
    think: Think | None = None
    gap: str = ""

    def grammars(self, declared: Declared) -> tuple[Grammar, ...]:
        opening = literal(_START, _CHANNEL)
        return (Grammar(opening, _read_call), Grammar(opening, _read_message, leaks=False))

    def declare(self, tools: tuple[Tool, ...]) -> str:
        return _DECLARED.format(tools="\n\n".join(declare_function(tool) for tool in tools))

    def write_calls(self, calls: tuple[Made, ...]) -> str:
        return f"{_START}assistant".join(_call(call) for call in calls)

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        return "".join(_result(result) for result in results)

    def write_reasoning(self, text: str) -> str:
        return f"{_CHANNEL}analysis{_MESSAGE}{text}<|end|>"


def _call(call: Made) -> str:
    head = f"{_CHANNEL}commentary to=functions.{call.name} {_CONSTRAIN}json"
    return f"{head}{_MESSAGE}{spaced(call.arguments)}<|call|>"


def _result(result: RenderedResult) -> str:
    head = f"{_START}functions.{result.call.name} to=assistant{_CHANNEL}commentary"
    return f"{head}{_MESSAGE}{result.text}<|end|>"


def _read_call(source: Source, declared: Declared, sink: Sink) -> Reader[None]:
    head = yield from _head(source)
    to = _TO.search(head)
    if not to:
        raise Broken("no call")
    source.named = f"a call of {to[1]}"
    yield from source.space()
    if (yield from source.next(*_ENDS)):
        sink.call(to[1], "{}")
    else:
        sink.call(to[1], object_text(decoded((yield from bracketed(source)))))
    yield from source.space()
    if not (yield from source.skip(*_ENDS)):
        source.reset()


def _read_message(source: Source, declared: Declared, sink: Sink) -> Reader[None]:
    head = yield from _head(source)
    if _TO.search(head):
        raise Broken("a call")
    yield from _body(source, sink.thought if head.split()[:1] == ["analysis"] else sink.said)


def _head(source: Source) -> Reader[str]:
    """Channel and recipient, up to and with `<|message|>`."""
    role = ""
    if (yield from source.skip(_START)):
        role = yield from source.run(_WORDS)
    channel = (yield from source.run(_WORDS)) if (yield from source.skip(_CHANNEL)) else ""
    if (yield from source.skip(_CONSTRAIN)):
        yield from source.run(_WORDS)
    yield from source.expect(_MESSAGE)
    return f"{channel} {role}"


def _body(source: Source, say: Callable[[str], None]) -> Reader[None]:
    """The text of a message, as it comes, up to its end."""
    while True:
        found = any_of(_STOPS).search(source.window, source.at)
        safe = len(source.window) - max(overlap(source.window, source.at, stop) for stop in _STOPS)
        start, source.at = source.at, found.start() if found else safe
        if source.at > start:
            say(source.window[start : source.at])
        if found:
            source.at = found.end() if found[0] in _ENDS else found.start()
            return
        if not (yield from source.more()):
            if source.at < len(source.window):
                rest, source.at = source.window[source.at :], len(source.window)
                say(rest)
            return


DIALECT = Harmony(name="harmony")
