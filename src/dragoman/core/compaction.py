"""How a protocol asks for compaction, as functions that a gateway can use for any upstream.

Compaction replaces the history of a conversation by a summary. Towards a client the summary travels as one
opaque part of its protocol; on the way back it is opened as a message of the user (`summary_message`), which
every model reads.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.core.model import Compaction, Wire

_INTRODUCTION = "Earlier messages of this conversation were replaced by this summary:"


def summary_message(summary: str) -> str:
    """The text of the user's message that stands for the earlier conversation."""
    return f"{_INTRODUCTION}\n\n{summary}"


class CompactionCodec(Struct, frozen=True, kw_only=True):
    """How requests of one protocol ask for compaction, and where its wire holds the summary.

    A part is what `ProtocolLimits.compaction` made of a summary. `decode` sees at least what `Accounting`'s
    glance at a request reads.
    """

    decode: Callable[[Wire], Compaction | None]  # what a request asks for
    without: Callable[[Wire], Wire]  # a request that does not ask for it any more
    part_of: Callable[[Wire], Wire | None]  # the part in a whole reply
    compacted: Callable[[Wire, Wire, int], Wire]  # (request, part, tokens of messages that may stay)
    encode_reply: Callable[[Wire, Wire], Wire] = lambda request, reply: reply  # of an endpoint of its own
