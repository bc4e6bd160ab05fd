"""What a protocol's own server answers: which paths it has, and its lists and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from dragoman.core.model import Wire


class Served(Struct, frozen=True):
    """What a URL asks for. `model` and `stream` are said where the URL says them; `array`: not as SSE."""

    action: Literal["generate", "count", "models", "model"]
    model: str = ""
    stream: bool | None = None
    array: bool = False


class Server(Struct, frozen=True, kw_only=True):
    """`recognise` reads (method, path, query, headers); None where the path is not this protocol's.

    `stateful` names the request fields that only a server with a store can honour, each with the
    error code that its clients understand.
    """

    recognise: Callable[[str, str, Mapping[str, str], Mapping[str, str]], Served | None]
    encode_models: Callable[[tuple[str, ...]], Wire]
    encode_model: Callable[[str], Wire]
    encode_count: Callable[[int], Wire]
    stateful: dict[str, str] = {}
