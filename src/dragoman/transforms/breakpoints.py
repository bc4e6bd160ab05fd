"""Cache breakpoints: marks behind which a prompt is cached, for upstreams that take them.

Anthropic calls them `cache_control`, OpenAI `prompt_cache_breakpoint`. Other upstreams find cached prefixes
themselves, so there a mark is removed and reported (G112: sub2api#225, envoy#2358).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from dragoman.core.codec import ProtocolLimits
from dragoman.core.fold import Fold, FoldRun
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Media, Message, Request, Text, ToolCall, ToolResult
from dragoman.transforms.pairing import MessageFacts, facts_of

MOST = 4  # that Anthropic takes and OpenAI writes; an OpenAI client may send those of earlier turns too

SomePart = TypeVar("SomePart", bound=AnyPart)


def settle(part: SomePart, upstream: ProtocolLimits, losses: Losses) -> SomePart:
    """A marked part for an upstream that takes marks, or not. The mark of a result moves to its last text."""
    why = "The upstream finds cached prefixes itself."
    if upstream.cache_breakpoints:
        if isinstance(part, Text | Media) or (upstream.call_breakpoints and isinstance(part, ToolCall)):
            return part
        if isinstance(part, ToolResult) and part.content and isinstance(part.content[-1], Text):
            marked = replace(part.content[-1], cache=part.cache)
            return replace(part, content=(*part.content[:-1], marked), cache="")
        why = "The upstream takes no mark here."
    losses.dropped(f"{part.where}.cache", why, "cache.breakpoint")
    return replace(part, cache="")


def unmark_system(head: Request, losses: Losses) -> Request:
    """Its system text for an upstream that takes no marks."""
    system = tuple([settle(text, ProtocolLimits(), losses) if text.cache else text for text in head.system])
    return replace(head, system=system) if losses.items else head


class LatestMarks(Fold, frozen=True):
    """All of the conversation with the last MOST marks, where it has more; `system_marks` count as well."""

    limits: ProtocolLimits
    system_marks: int

    def begin(self, state: Any = None) -> FoldRun:
        return _MarkLimiter(self, [])


class _MarkLimiter(FoldRun):
    fold: LatestMarks
    waiting: list[MessageFacts]

    def feed(self, items: Sequence[MessageFacts], /) -> Sequence[MessageFacts]:
        self.waiting += items
        return ()

    def close(self) -> list[MessageFacts]:
        facts, before = self.waiting, self.fold.system_marks
        if before + sum([one.marks for one in facts]) <= MOST:
            return facts
        limited = latest([one.message for one in facts], MOST - before, self.losses)
        return [
            one if message is one.message else facts_of(message, self.fold.limits, passed=one.passed)
            for one, message in zip(facts, limited, strict=True)
        ]


def latest(messages: Sequence[Message], most: int, losses: Losses) -> list[Message]:
    """`messages` with the last `most` marks; those before are removed."""
    limited: list[Message] = []
    for message in reversed(messages):
        parts: list[AnyPart] = []
        for part in reversed(message.parts):
            if _is_marked(part):
                most -= 1
                part = _unmarked(part, losses) if most < 0 else part
            parts.append(part)
        limited.append(replace(message, parts=tuple(parts[::-1])) if most < 0 else message)
    return limited[::-1]


def _is_marked(part: AnyPart) -> bool:
    return bool(part.cache or (isinstance(part, ToolResult) and part.content and part.content[-1].cache))


def _unmarked(part: AnyPart, losses: Losses) -> AnyPart:
    why = f"The upstream takes {MOST} marks. The last ones were sent."
    losses.dropped(f"{part.where}.cache", why, "cache.breakpoint")
    if isinstance(part, ToolResult):
        last = replace(part.content[-1], cache="")
        return replace(part, content=(*part.content[:-1], last), cache="")
    return replace(part, cache="")
