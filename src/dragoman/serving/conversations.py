"""How a protocol's server keeps conversations: as turns that a reply continues, as lists of items, compacted.

Each codec is a record of functions, for any upstream. Compaction replaces the history of a conversation by a
summary. Towards a client the summary travels as one opaque part of its protocol; on the way back it is opened
as a message of the user (`summary_message`), which every model reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dragoman.core.codec import Frame
from dragoman.core.errors import DragomanError
from dragoman.core.model import Compaction, Failure, Wire


class ConversationError(DragomanError):
    """A request cannot be continued or stored; `failure` is what its client gets."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class StorageRequest(Struct, frozen=True):
    """What a request asks of the store.

    `previous_id` is the reply that it continues, `item_ids` are single items that it refers to, repeated as
    often as they are. `store`: store this turn; `required`: the client asked for that explicitly, so a reply
    that could not be stored is an error. `background`: the client does not wait for the reply.
    `conversation`: the list of items that it belongs to.
    """

    previous_id: str = ""
    item_ids: tuple[str, ...] = ()
    store: bool = False
    required: bool = False
    background: bool = False
    conversation: str = ""


class PastTurn(Struct, frozen=True):
    """A stored turn: what was new in its request, its reply, and the settings that later turns inherit."""

    id: str
    items: list[Any]
    reply: Wire
    settings: Wire
    size: int = 0  # bytes


def _copy(events: Sequence[Frame], reply: Wire, query: Mapping[str, str]) -> list[Frame]:
    return [*events]


class TurnCodec(Struct, frozen=True, kw_only=True):
    """Reads and writes the stored turns of one protocol.

    In a stream, events that hold the reply have it in `reply_field`; `reply_markers` are byte strings of
    which each such event, and the one that ends the stream well, contains at least one; the types of the
    latter are `end_types`. Ids of replies begin with `id_prefix`.
    """

    decode_storage: Callable[[Wire], StorageRequest | None]  # None: the store is not used
    storage_field: str = ""  # without it in a request the store is not used; empty: there is no such field
    new_items: Callable[[Wire], list[Any]]  # of a request
    inherited_settings: Callable[[Wire], Wire]  # of a request, for later turns
    join: Callable[[Wire, Sequence[PastTurn], Mapping[str, Wire]], Wire]  # the whole request
    items_by_id: Callable[[Sequence[Any], Wire], dict[str, Wire]]  # those of a turn that have an id
    label_reply: Callable[[Wire, str, str, bool], Wire]  # (reply, its id, previous id, stored)
    without_secrets: Callable[[Wire], Wire]  # a reply, or an item
    reply_of_stream: Callable[[Sequence[Frame]], Wire | None]  # of a finished one
    unknown_conversation: Callable[[str], Failure]
    unknown_item: Callable[[str], Failure]  # also of a reply
    id_prefix: str
    reply_field: str
    reply_markers: tuple[bytes, ...]
    end_types: frozenset[str]
    end_holds_reply: bool = False  # then `reply_of_stream` needs the event that ends the stream, and no other
    warmed_settings: Callable[[Wire], Wire] = lambda request: {}  # of a request that is only stored
    unanswered: Callable[[Wire], Failure | None] = lambda request: None  # results of calls that are not there
    # The events of a stored reply: (those of its stream encoder, the reply, a query that may skip some)
    replayed: Callable[[Sequence[Frame], Wire, Mapping[str, str]], list[Frame]] = _copy
    encode_deleted: Callable[[str], Wire] = lambda id: {}
    encode_items: Callable[[Sequence[PastTurn], Mapping[str, str]], Wire] = lambda turns, query: {}
    upstream_path: Callable[[str, bool], str] = lambda id, items: ""  # of a reply, or of its items


class ConversationCodec(Struct, frozen=True, kw_only=True):
    """Reads and writes conversations and their items. Items are stored with an id each (`with_ids`)."""

    id_prefix: str
    decode_metadata: Callable[[Wire, bool], Wire]  # of a body; True: it must be there
    decode_items: Callable[[Wire, bool], list[Wire]]
    with_ids: Callable[[Sequence[Wire]], list[Wire]]
    encode: Callable[[str, int, Wire], Wire]  # (id, time, metadata)
    encode_deleted: Callable[[str], Wire]
    encode_page: Callable[[Sequence[Wire], Mapping[str, str]], Wire]  # (oldest first, query)
    encode_added: Callable[[Sequence[Wire]], Wire]
    items_of_reply: Callable[[Wire], list[Wire]]
    label: Callable[[Wire, str], Wire]  # a reply that belongs to a conversation
    unknown: Callable[[str], Failure]
    unknown_item: Callable[[str], Failure]
    locked: Failure  # another request is under way there


class CompactionCodec(Struct, frozen=True, kw_only=True):
    """How requests of one protocol ask for compaction, and where its wire holds the summary.

    A part is what `ProtocolLimits.compaction` made of a summary. A request asks for it in one of `fields`, if
    at all. `decode` sees at least what `Accounting`'s glance at a request reads.
    """

    fields: frozenset[str]
    decode: Callable[[Wire], Compaction | None]  # what a request asks for
    without: Callable[[Wire], Wire]  # a request that does not ask for it any more
    part_of: Callable[[Wire], Wire | None]  # the part in a whole reply
    compacted: Callable[[Wire, Wire, int], Wire]  # (request, part, tokens of messages that may stay)
    # A request without what its newest summary replaced: (request, tokens of messages that may stay; 0: all)
    since_summary: Callable[[Wire, int], Wire]
    marker: bytes = b""  # stands in every request that holds a sealed summary
    counts_summary: bool = False  # the usage of a reply counts the summary in front of it
    encode_reply: Callable[[Wire, Wire], Wire] = lambda request, reply: reply  # of an endpoint of its own
