"""Calls as tags with parameters in tags: `<function=NAME> <parameter=KEY>value</parameter> </function>`,
and blocks of invocations: `<invoke name="NAME"> <parameter name="KEY">value</parameter> </invoke>`.

No such dialect escapes anything, so a value may hold the very tag that ends it (G121: vllm#47311,
llama.cpp#20764). The end is the first closing tag after which the call goes on as it should: another
parameter, or the end of the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.dialects.engine.call_grammar import Sink
from dragoman.dialects.engine.dialect import EarlierCall
from dragoman.dialects.engine.payloads import decode_value, object_text, read_block, read_bracketed
from dragoman.dialects.engine.source import LONGEST_NAME, Broken, Reader, Source
from dragoman.dialects.engine.values import DeclaredTools

_HEAD = re.compile(r"[^<>\n]*")
Head = Callable[[Source], Reader[tuple[str, str]]]


class ParameterForm(Struct, frozen=True):
    """How the parameters of a call are written, and what ends the call.

    `head` reads what follows `opens` up to the value: (what it read, the name or nothing). In `closes`
    {} stands for the name. `framed`: one newline on each side of a value is not part of it. `lost`: what
    in a value shows that its closing tag was forgotten; its group, if any, names a parameter. `typed` says
    of a head whether its value is JSON, text, or (None) what the schema says.
    """

    opens: str
    head: Head
    closes: str
    ends: tuple[str, ...]
    framed: bool = True
    gap: re.Pattern[str] = re.compile(r"\s*")  # what may stand between tags
    lost: re.Pattern[str] | None = None
    typed: Callable[[str], bool | None] | None = None


class TagRules(Struct, frozen=True):
    """`known`: only declared parameters begin with a tag, any other tag is part of a value.

    `loose`: a value without its closing tag ends where the next parameter or the end of the call stands.
    `distinct`: a parameter that is given twice makes the call no call.
    """

    known: bool = False
    loose: bool = False
    distinct: bool = False


class Repairs:
    """What was repaired in a call: the reasons, and whether the reply ended before the call was closed."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.unended = False


LENIENT = TagRules()
PLAIN = re.compile(r"([^\s/=\"'](?:[^=\"']*[^\s/=\"'])?)")
SPACED = re.compile(PLAIN.pattern + r"\s*")
EQUALS = re.compile(r"\s*=\s*[\"']?(.+?)[\"']?\s*")
ATTRIBUTE = re.compile(r"""\s+name\s*=\s*(?:"([^"]+)"|'([^']+)'|([^\s"'=/]+))(?:\s[^<>]*)?/?""")


def head(pattern: re.Pattern[str]) -> Head:
    """The rest of a tag, up to and with its `>`; the name is the group of `pattern` that matched."""

    def read(source: Source) -> Reader[tuple[str, str]]:
        text = yield from source.run(_HEAD, 0)
        closed = yield from source.skip(">")
        found = pattern.fullmatch(text) if closed and len(text) <= LONGEST_NAME + 16 else None
        return text + closed, found[found.lastindex or 0] if found else ""

    return read


def read_parameters(
    source: Source,
    tool: str,
    form: ParameterForm,
    declared: DeclaredTools,
    sink: Sink,
    rules: TagRules = LENIENT,
    repairs: Repairs | None = None,
) -> Reader[str]:
    """The parameters and the end of the call, consumed: its arguments as JSON text.

    With `repairs`, a closing tag may be spelled otherwise, and that of the call may be missing at the end of
    the reply, provided that all required parameters are there.
    """
    values: dict[str, Any] = {}
    known = declared.parameters(tool) if rules.known else None
    yield from source.run(form.gap, 0)
    ended, read, name = yield from _following(source, form, known, repairs)
    if not ended and not name:
        raise Broken(f"expected {form.opens} or {form.ends[0]}")
    source.named = f"A call of {tool}"
    while name:
        if name in values:
            if rules.distinct:
                raise Broken(f"{name} is given twice")
            sink.changed(f"A call of {tool} gives {name} twice. The last value counts.")
        text, after, following = yield from _value(source, name, form, known, rules, repairs)
        if form.lost and not rules.loose and _is_lost(text, form.lost, {*values, name}, declared, tool):
            raise Broken(f"{form.closes.replace('{}', name)} is missing")
        json = form.typed(read) if form.typed else None
        values[name] = declared.read(tool, name, text, framed=form.framed, json=json)
        read, name = after, following
    if repairs and repairs.unended and not values.keys() >= set(declared.required(tool)):
        raise Broken(f"{form.ends[0]} is missing")
    return jsontext.dumps(values)


def _value(
    source: Source,
    name: str,
    form: ParameterForm,
    known: Wire | None,
    rules: TagRules,
    repairs: Repairs | None,
) -> Reader[tuple[str, str, str]]:
    """The text of a value; the head and the name of the parameter that follows it."""
    closes = form.closes.replace("{}", name)
    closers = (closes, *_other_spellings(name)) if repairs else (closes,)
    stops = (closes, form.opens, *form.ends) if rules.loose else closers
    parts: list[str] = []
    while True:
        text, stop = yield from source.until_any(*stops)
        parts.append(text)
        gap = ""
        if stop in closers:
            gap = yield from source.run(form.gap, 0)
        else:
            source.at -= len(stop)
        ended, read, following = yield from _following(source, form, known, repairs)
        if repairs and not ended and not following and not read and (yield from source.is_exhausted()):
            repairs.unended = ended = True
            repairs.reasons.append(f"{form.ends[0]} was missing at the end")
        if ended or following:
            if repairs and stop != closes:
                repairs.reasons.append(f"{stop} was read as {closes}")
            return "".join(parts), read, following
        parts += (stop, gap, read) if stop in closers else (read,)


def _other_spellings(name: str) -> tuple[str, ...]:
    """How models misspell the closing tag of `name`: other case, underscores for capitals, a space."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    camel = re.sub(r"_(\w)", lambda found: found[1].upper(), name)
    spellings = dict.fromkeys([name.lower(), snake, camel, f"{name} "])
    return tuple(f"</{spelling}>" for spelling in spellings if spelling != name)


def _following(
    source: Source, form: ParameterForm, known: Wire | None, repairs: Repairs | None
) -> Reader[tuple[bool, str, str]]:
    """Whether the call ends here; else what was read, and the name of a parameter where it was one."""
    if (yield from source.skip(*form.ends)):
        return True, "", ""
    if (yield from source.next("</")) or not (yield from source.skip(form.opens)):
        return False, "", ""
    text, name = yield from form.head(source)
    if known is not None and name not in known:
        name = ""
    if repairs and name and text.endswith(" >"):
        repairs.reasons.append(f"<{text} was read as <{name}>")
    return False, form.opens + text, name


def _is_lost(
    text: str, pattern: re.Pattern[str], given: set[str], declared: DeclaredTools, tool: str
) -> bool:
    known = declared.parameters(tool)
    return any(
        found.lastindex is None or (found[found.lastindex] in known and found[found.lastindex] not in given)
        for found in pattern.finditer(text)
    )


TAG_RULES = (TagRules(), TagRules(loose=True))


class Invokes(Struct, frozen=True):
    """A block of invocations. Values stand inline and to the byte; quotes around a name may be missing.

    `prefix` stands before `invoke` and `parameter`; `closes` ends the block.

    `typed`: whether a parameter's head says that its value is JSON. `older`: names and parameters may
    be tags: `<tool_name>NAME</tool_name> <parameters> <KEY>value</KEY> </parameters>`.
    """

    closes: str
    prefix: str = ""
    typed: Callable[[str], bool | None] | None = None
    older: bool = False

    def read_block(
        self, source: Source, declared: DeclaredTools, sink: Sink, rules: TagRules
    ) -> Reader[None]:
        """What follows the opening of the block."""
        invoke = partial(self.read_invoke, source, declared, sink, rules)
        yield from read_block(source, f"<{self.prefix}invoke", invoke, self.closes)

    def read_invoke(
        self, source: Source, declared: DeclaredTools, sink: Sink, rules: TagRules
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
            arguments = object_text(decode_value((yield from read_bracketed(source))))
            yield from source.space()
            yield from source.expect(end)
            sink.call(name, arguments)
            return
        parameter = rf"<{self.prefix}parameter\s+name\s*=\s*[\"']?([^<>\n]+?)[\"']?(?:\s[^<>\n]*)?>"
        form = ParameterForm(
            f"<{self.prefix}parameter",
            head(ATTRIBUTE),
            f"</{self.prefix}parameter>",
            (end,),
            framed=False,
            lost=re.compile(rf"{parameter}|</{self.prefix}invoke>\s*{re.escape(self.closes)}"),
            typed=self.typed,
        )
        sink.call(name, (yield from read_parameters(source, name, form, declared, sink, rules)))

    def _read_older(self, source: Source, declared: DeclaredTools, sink: Sink, end: str) -> Reader[None]:
        if not self.older:
            raise Broken("an invocation without a name")
        yield from source.space()
        yield from source.expect("<tool_name>")
        name = (yield from source.until("</tool_name>")).strip()
        yield from source.space()
        yield from source.expect("<parameters>")
        form = ParameterForm("<", head(PLAIN), "</{}>", ("</parameters>",), framed=False)
        arguments = yield from read_parameters(source, name, form, declared, sink)
        yield from source.space()
        yield from source.expect(end)
        sink.call(name, arguments)


def write_invoke(call: EarlierCall) -> str:
    lines = [f'<parameter name="{key}">{text}</parameter>' for key, text in call.texts.items()]
    return "\n".join([f'<invoke name="{call.name}">', *lines, "</invoke>"])
