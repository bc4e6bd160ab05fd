"""How clients of a protocol search by themselves: commands that they send, and what the model reads of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from dragoman.core.hosted import FoundSource
from dragoman.core.model import Wire


class SearchCommand(Struct, frozen=True):
    """One step of a client that searches by itself. `ref`: an address, or the name of something found before;
    `name`: what the client calls a command that nobody offers here."""

    kind: Literal["search", "open", "find", "time", "unknown"]
    query: str = ""
    domains: tuple[str, ...] = ()
    ref: str = ""
    pattern: str = ""
    line: int = 1
    offset: str = ""  # of a time zone: "+02:00"
    name: str = ""


class SearchRequest(Struct, frozen=True):
    """Commands of a client that searches by itself. `session` keeps what was found apart; `settings` are
    those of a hosted web search; `said`: what the client sends of the conversation, with addresses in it."""

    session: str
    model: str
    commands: tuple[SearchCommand, ...]
    settings: dict[str, Any] = {}
    said: str = ""


class SearchRouteCodec(Struct, frozen=True):
    """How clients of a protocol search by themselves. `encode` takes what the model reads and the sources."""

    decode: Callable[[Wire], SearchRequest]
    encode: Callable[[str, Sequence[FoundSource]], Wire]
