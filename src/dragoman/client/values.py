"""Arguments of tool calls as dicts, and results of tools, of any type, as content for a model."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_object
from dragoman.core.model import Base64, Media, Text, ToolCall, ToolResult, media_kind
from dragoman.transforms.content import sniff


class ModelRetry(Exception):
    """Raised by a tool: the message goes to the model as a failed result, so that it can call again."""


class ToolOutcome(Struct, frozen=True):
    """The output of a tool as a model gets it."""

    text: str = ""
    media: tuple[Media, ...] = ()
    failed: bool = False


def get_arguments(call: Mapping[str, Any] | ToolCall | str) -> dict[str, Any]:
    """The arguments of a call as a dict, whether they are JSON text or already an object.

    Raises WireError where the model wrote something else.
    """
    value = _arguments_of(call)
    if is_object(value):
        return value
    if value is None or not str(value).strip():
        return {}
    try:
        value = jsontext.decode(str(value))
    except ValueError as error:
        raise WireError("tool call", "arguments", str(error)) from None
    if not is_object(value):
        raise WireError("tool call", "arguments", "expected a JSON object")
    return value


def call_id(call: Mapping[str, Any] | ToolCall) -> str:
    return call.id if isinstance(call, ToolCall) else str(call.get("id") or call.get("call_id") or "")


def call_name(call: Mapping[str, Any] | ToolCall) -> str:
    if isinstance(call, ToolCall):
        return call.name
    return str(call.get("function", call).get("name") or "")


def outcome(output: Any) -> ToolOutcome:
    """Text as it is, structured values as JSON, media beside them, an exception as a failure."""
    match output:
        case ToolOutcome():
            return output
        case str():
            return ToolOutcome(output)
        case ModelRetry():
            return ToolOutcome(str(output), failed=True)
        case BaseException():
            return ToolOutcome(f"{type(output).__name__}: {output}", failed=True)
        case Media():
            return ToolOutcome(media=(output,))
        case bytes() | bytearray():
            return _binary(bytes(output))
        case ToolResult():
            return _join(output.content, output.failed)
        case list() | tuple() if any(map(_is_media, cast(Iterable[Any], output))):
            return _join(cast(Iterable[Any], output))
        case _ if callable(png := getattr(output, "_repr_png_", None)):  # Pillow's images, figures (IPython)
            shown = png()
            return _binary(shown) if isinstance(shown, bytes) else ToolOutcome(_json(output))
        case _:
            return ToolOutcome(_json(output))


def _arguments_of(call: Mapping[str, Any] | ToolCall | str) -> Any:
    match call:
        case str():
            return call
        case ToolCall():
            return call.arguments
        case _:
            function = call.get("function", call)
            return next((function[key] for key in ("arguments", "input", "args") if key in function), None)


def _join(items: Iterable[Any], failed: bool = False) -> ToolOutcome:
    outcomes = [ToolOutcome(item.text) if isinstance(item, Text) else outcome(item) for item in items]
    shown = tuple(media for each in outcomes for media in each.media)
    return ToolOutcome("\n".join(each.text for each in outcomes if each.text), shown, failed)


def _is_media(item: Any) -> bool:
    return isinstance(item, Media | bytes | bytearray) or hasattr(item, "_repr_png_")


def _binary(data: bytes) -> ToolOutcome:
    """Media where the first bytes show a known type; else text where it is UTF-8."""
    encoded = b64encode(data).decode()
    if not (media_type := sniff(encoded)):
        try:
            return ToolOutcome(data.decode())
        except UnicodeDecodeError:
            media_type = "application/octet-stream"
    return ToolOutcome(media=(Media(media_kind(media_type), media_type, Base64(encoded)),))


def _json(value: Any) -> str:
    """JSON where there is a JSON form (dataclasses, dates, sets, models included), else what `str` says."""
    if value is None:
        return ""
    try:
        return msgspec.json.encode(value, enc_hook=plain).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)


def plain(value: Any) -> Any:
    if isinstance(value, jsontext.Number):
        return msgspec.Raw(value.text.encode())
    dump = getattr(value, "model_dump", None)  # pydantic
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return dump(mode="json")
