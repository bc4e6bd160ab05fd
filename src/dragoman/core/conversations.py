"""How a protocol names conversations that its server keeps as lists of items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from dragoman.core.model import Failure, Wire


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
