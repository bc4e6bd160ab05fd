"""A conversation as a record: it is written down in another protocol, and no server has to accept it.

Names and ids stay as they are. Reasoning stays too: where the target's servers would refuse it without a
signature, it is marked as the target's own, whose unsigned reasoning its encoder leaves as it is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from dragoman.core.codec import ProtocolLimits
from dragoman.core.fold import EachRun, Fold, FoldRun
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Reasoning, Request

_ANY, _LONGEST = r"[\s\S]+", 1 << 20
_UNSIGNED = "Servers of the target would demand a signature, and the record has none."


@lru_cache(256)
def record_limits(limits: ProtocolLimits) -> ProtocolLimits:
    """`limits` where nobody refuses a name, an id or a call without a result."""
    return replace(
        limits,
        tool_name=_ANY,
        tool_name_length=_LONGEST,
        call_id=_ANY,
        call_id_length=_LONGEST,
        mends_calls=False,
    )


def without_orders(request: Request, losses: Losses) -> Request:
    """What the client wanted done to the conversation is not done to a record of it."""
    for where, order in (("edits", request.edits), ("compaction", request.compaction)):
        if order:
            losses.dropped(where, "A transcript is never edited.", "transcript.order")
    return replace(request, edits=None, compaction=None)


class KeepUnsigned(Fold, frozen=True):
    """Reasoning without a signature stays, for `protocol`, whose servers would refuse it."""

    protocol: str

    def begin(self, state: Any = None) -> FoldRun:
        return EachRun(function=self._message)

    def _message(self, message: Message, losses: Losses) -> Message:
        if Reasoning not in map(type, message.parts):
            return message
        return replace(message, parts=tuple([self._part(part, losses) for part in message.parts]))

    def _part(self, part: AnyPart, losses: Losses) -> AnyPart:
        if type(part) is not Reasoning or part.state is not None or self.protocol in (part.extras or ()):
            return part
        losses.dropped(part.where or "reasoning", _UNSIGNED, "reasoning.signature")
        return replace(part, extras={self.protocol: {}})
