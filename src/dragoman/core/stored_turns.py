"""How a protocol keeps conversations at the server, told so that a gateway can do it for any upstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dragoman.core.codec import Frame
from dragoman.core.errors import DragomanError
from dragoman.core.model import Failure, Wire


class ConversationError(DragomanError):
    """What a request asks of the store cannot be had; `failure` says it so that its client understands."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class StorageRequest(Struct, frozen=True):
    """What a request asks of a server that keeps conversations.

    `continues` is the id of the reply it goes on from, `refers` are ids of single items. `stores`: this turn
    is to be kept; `insists`: the client said so, and an answer that is not kept is of no use to it.
    """

    continues: str = ""
    refers: tuple[str, ...] = ()
    stores: bool = False
    insists: bool = False


class PastTurn(Struct, frozen=True):
    """A turn that was kept: what the client said, what it got, and what it laid down for later turns."""

    id: str
    items: list[Any]
    reply: Wire
    settings: Wire


class TurnCodec(Struct, frozen=True, kw_only=True):
    """The functions read requests and replies of their protocol.

    In a stream, an event that holds the reply has it in `field`; one of `marks` stands in each event that
    does, and in the one that ends it well, whose type is in `ends`. `prefix` begins the ids of replies.
    """

    wish: Callable[[Wire], StorageRequest | None]  # None: nothing is asked of the store
    items: Callable[[Wire], list[Any]]  # what a request says newly
    settings: Callable[[Wire], Wire]  # what it lays down for later turns
    join: Callable[
        [Wire, Sequence[PastTurn], Mapping[str, Wire]], Wire
    ]  # the whole request; items found by id
    named: Callable[[Sequence[Any], Wire], dict[str, Wire]]  # the items of a turn that have an id, by it
    told: Callable[
        [Wire, str, str, bool], Wire
    ]  # (reply, its id, what it continues, stored) as clients get it
    safe: Callable[[Wire], Wire]  # a reply, or an item, without the secrets that a request holds
    whole: Callable[[Sequence[Frame]], Wire | None]  # the reply that a finished stream told
    unknown: Callable[[str], Failure]  # a conversation that nobody keeps
    absent: Callable[[str], Failure]  # a reply or an item that nobody keeps
    prefix: str
    field: str
    marks: tuple[bytes, ...]
    ends: frozenset[str]
    deleted: Callable[[str], Wire] = lambda id: {}
    page: Callable[[Sequence[PastTurn], Mapping[str, str]], Wire] = lambda turns, query: {}
    path: Callable[[str, bool], str] = lambda id, items: ""  # where an upstream has a reply, or its items
