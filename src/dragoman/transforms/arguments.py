"""Arguments of a finished call, checked against the schema that the client declared.

A repair is lossless and reported: text that spells the declared type, 10.0 for an integer, an object encoded
twice, a null that only a strict mode requires. Nothing is guessed: a result that does not fit is not used.
"""

from __future__ import annotations

import re

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_text
from dragoman.core.losses import Losses
from dragoman.core.model import ToolCall, Wire
from dragoman.schemas.argument_checker import BROKEN, Checker, read

RAW = "_raw_arguments"
RAW_REASON = "The arguments are no JSON object. They were sent as written."
EMPTY_ARRAY = "The empty array was read as no arguments."
_TRAILING_COMMA = re.compile(r',(?=\s*[}\]])|("(?:[^"\\]|\\.)*")', re.DOTALL)
_MOST_WRAPPINGS = 3


def repair(arguments: str, checker: Checker | None) -> tuple[str, str]:
    """The arguments as the tool declares them, and why they differ; ("…", "") where nothing changed."""
    value = read(arguments)
    text, reason = arguments, ""
    if isinstance(value, str):
        text, value = _unwrapped(value)
        reason = "The object was encoded twice."
    if value is None and text.strip() == "null":
        return "{}", "null was read as no arguments."
    if value is BROKEN and (mended := _mended(text)):
        (text, reason), value = mended, read(mended[0])
    if not isinstance(value, dict):
        return arguments, ""
    repaired, why = checker.repair(text, value) if checker else (text, "")
    return repaired, " ".join(part for part in (reason, why) if part)


def is_plain(text: str) -> bool:
    """Whether arguments of the history are an object as the model wrote it, which needs no look at what is
    inside."""
    return text[:1] == "{" and RAW not in text


def settle(call: ToolCall, losses: Losses) -> str:
    """The arguments of a function of the history, as upstreams take them."""
    text, where = unwrap_raw(call.arguments), f"{call.where or call.name}.arguments"
    if text[:1] == '"' and (once := decode_twice(text)) is not text:
        losses.changed(where, "The object was encoded twice. It was sent encoded once.", "call.arguments")
        return once
    if is_empty_array(text):
        losses.changed(where, EMPTY_ARRAY, "call.empty")
        return "{}"
    return text


def decode_twice(arguments: str) -> str:
    """An object that was encoded twice, encoded once; anything else as it is. For the history."""
    if not arguments.startswith('"'):
        return arguments
    text, value = _unwrapped(read(arguments))
    return text if isinstance(value, dict) else arguments


def is_begun_object(text: str) -> bool:
    """Whether arguments that begin so are an object, and not one encoded twice or another value."""
    return text.startswith("{") or text.lstrip().startswith("{")


def is_broken(call: ToolCall, text: str | None = None) -> bool:
    """Whether the arguments of a finished call break off: what an SDK makes of such JSON must never run.

    Some servers give the reason `tool_calls` or `stop` for a reply that ran out of tokens inside a call. JSON
    that is wrong and yet closed is what the model wrote: it passes as it is, and is reported (G66).
    """
    text = call.arguments if text is None else text
    if call.kind != "function" or not text.lstrip().startswith(("{", "[", '"')):
        return False
    return not jsontext.is_complete(text) and jsontext.breaks_off(text)


def report_raw(call: ToolCall, text: str, losses: Losses) -> None:
    """Arguments that are no JSON object pass as they were written, inside an object where one is demanded."""
    if call.kind == "function" and text.strip() and jsontext.decode_object(text) is None:
        losses.changed(f"{call.where or call.name}.arguments", RAW_REASON, "call.arguments")


def is_empty_array(arguments: str) -> bool:
    """R and PHP write an empty object so."""
    return arguments[:1] == "[" and not arguments[1:-1].strip() and arguments.endswith("]")


def may_need_repair(checker: Checker | None, strict: bool) -> bool:
    """Whether arguments of this tool may need a repair; if not, they can be passed on as they arrive.

    `strict`: the upstream must fill in every property, so that optional ones may come as null.
    Arguments that begin with a quotation mark are an object encoded twice, for any tool.
    """
    return checker is not None and (checker.typed or (strict and checker.optional))


def wrap_raw(arguments: str) -> str:
    """`arguments` as an object, for protocols that take nothing else: what is none travels inside one."""
    if not arguments.strip():
        return "{}"
    return arguments if jsontext.decode_object(arguments) is not None else jsontext.dumps({RAW: arguments})


def as_object(call: ToolCall, losses: Losses) -> Wire:
    """The arguments for a protocol that takes objects only (G59: any-llm#947): what is none is wrapped."""
    if call.kind == "custom":
        return {"input": call.arguments}
    value = jsontext.decode_object(call.arguments)
    if value is not None:
        return value
    if not call.arguments.strip():
        return {}
    report_raw(call, call.arguments, losses)
    return {RAW: call.arguments}


def unwrap_raw(arguments: str) -> str:
    """What `wrap_raw` wrapped, or `arguments` as they are."""
    if RAW not in arguments:
        return arguments
    match jsontext.decode_object(arguments):
        case {"_raw_arguments": str(raw), **rest} if not rest:
            return raw
        case _:
            return arguments


def _mended(text: str) -> tuple[str, str] | None:
    """The object without commas before its brackets and without what follows it; None: that is not all."""
    end = jsontext.end_of_value(text)
    whole = _TRAILING_COMMA.sub(lambda found: found[1] or "", text[:end]).strip()
    if not whole or not isinstance(read(whole), dict):
        return None
    trailing = "" if text[end:].strip() == "" else "Text after the object was left out."
    comma = "" if len(whole) == len(text[:end].strip()) else "A comma without a value after it was left out."
    return whole, " ".join(filter(None, (comma, trailing)))


def _unwrapped(value: object) -> tuple[str, object]:
    """The innermost text that still spells something, and what it spells."""
    text = ""
    for _ in range(_MOST_WRAPPINGS):
        if not isinstance(value, str):
            break
        text, value = value, read(value)
    return text, value


def checker_of(parameters: Wire | None) -> Checker | None:
    """What checks the arguments of a tool with this schema; None: it has none."""
    if not parameters:
        return None
    try:
        printed = jsontext.encode(parameters)
    except (ValueError, TypeError, RecursionError):
        return Checker(None)
    return _checker_of(printed)


@cached_by_text
def _checker_of(printed: bytes) -> Checker:
    return Checker(jsontext.decode(printed))
