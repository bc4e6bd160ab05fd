"""A block of invocations: `<invoke name="NAME"> <parameter name="KEY">value</parameter> </invoke>`.

Values stand inline and to the byte, white space included. Quotes around a name may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from dragoman.dialects.engine.declared import Declared
from dragoman.dialects.engine.grammar import Sink
from dragoman.dialects.engine.payloads import bracketed, decoded, object_text
from dragoman.dialects.engine.rendering import Made
from dragoman.dialects.engine.source import Broken, Reader, Source
from dragoman.dialects.engine.tags import ATTRIBUTE, PLAIN, Form, Strictness, head, read_parameters

STRICTNESSES = (Strictness(), Strictness(loose=True))


class Invokes(Struct, frozen=True):
    """`prefix` stands before `invoke` and `parameter`; `closes` ends the block.

    `typed`: whether a parameter's head says that its value is JSON. `older`: names and parameters may
    be tags: `<tool_name>NAME</tool_name> <parameters> <KEY>value</KEY> </parameters>`.
    """

    closes: str
    prefix: str = ""
    typed: Callable[[str], bool | None] | None = None
    older: bool = False

    def read_block(
        self, source: Source, declared: Declared, sink: Sink, strictness: Strictness
    ) -> Reader[None]:
        """What follows the opening of the block."""
        called = False
        yield from source.space()
        while (yield from source.skip(f"<{self.prefix}invoke")):
            yield from self.read_invoke(source, declared, sink, strictness)
            called = True
            yield from source.space()
        if not called:
            raise Broken("a block without calls")
        if not (yield from source.close(self.closes)):
            source.reset()

    def read_invoke(
        self, source: Source, declared: Declared, sink: Sink, strictness: Strictness
    ) -> Reader[None]:
        """What follows `<invoke`. Without parameters it may close at once; they may also come as JSON."""
        text, name = yield from head(ATTRIBUTE)(source)
        end = f"</{self.prefix}invoke>"
        if not name:
            yield from self._read_older(source, declared, sink, end)
            return
        if text.endswith("/>"):
            sink.call(name, "{}")
            return
        yield from source.space()
        if (yield from source.next("{")):
            arguments = object_text(decoded((yield from bracketed(source))))
            yield from source.space()
            yield from source.expect(end)
            sink.call(name, arguments)
            return
        form = Form(
            f"<{self.prefix}parameter",
            head(ATTRIBUTE),
            f"</{self.prefix}parameter>",
            (end,),
            framed=False,
            lost=_lost(self.prefix, self.closes),
            typed=self.typed,
        )
        sink.call(name, (yield from read_parameters(source, name, form, declared, sink, strictness)))

    def _read_older(self, source: Source, declared: Declared, sink: Sink, end: str) -> Reader[None]:
        if not self.older:
            raise Broken("an invocation without a name")
        yield from source.space()
        yield from source.expect("<tool_name>")
        name = (yield from source.until("</tool_name>")).strip()
        yield from source.space()
        yield from source.expect("<parameters>")
        form = Form("<", head(PLAIN), "</{}>", ("</parameters>",), framed=False)
        arguments = yield from read_parameters(source, name, form, declared, sink)
        yield from source.space()
        yield from source.expect(end)
        sink.call(name, arguments)


def _lost(prefix: str, closes: str) -> re.Pattern[str]:
    parameter = rf"<{prefix}parameter\s+name\s*=\s*[\"']?([^<>\n]+?)[\"']?(?:\s[^<>\n]*)?>"
    return re.compile(rf"{parameter}|</{prefix}invoke>\s*{re.escape(closes)}")


def write_invoke(call: Made) -> str:
    lines = [f'<parameter name="{key}">{text}</parameter>' for key, text in call.texts.items()]
    return "\n".join([f'<invoke name="{call.name}">', *lines, "</invoke>"])
