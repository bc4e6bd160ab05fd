"""Compaction for upstreams that have none: the model itself writes a summary that replaces the history.

`summarising` turns a request into one for a summary; `Summary` turns the reply to it into one compaction part
of the client's protocol. How a client of a protocol carries a summary is `ProtocolLimits.compaction`; what it
carries is read back as a message of the user, so the conversation continues with any model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from dragoman.core.events import (
    Event,
    EventStage,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
    ResponseStart,
)
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Compaction,
    Failure,
    Message,
    Request,
    Settings,
    Stop,
    Text,
    ToolChoice,
)

_PROMPT = """\
The conversation above will be removed from your context and replaced by the summary that you write now. \
Write down everything that is needed to continue the work without it:

1. What the user wants, with all constraints and preferences. Quote the latest request of the user verbatim.
2. What has been done and decided, and why; names, paths, commands, identifiers and values exactly.
3. Results of tools that still matter, with the facts they gave.
4. What failed and must not be tried again.
5. What remains to be done, and the very next step.

Write the summary only, as plain text. \
Do not call tools, do not answer the user and do not continue the work."""
_EMPTY = Failure("server", "the model wrote no summary of the conversation", 502)


def summarising(request: Request, compaction: Compaction, losses: Losses) -> Request:
    """The request for a summary of `request`.

    The tools stay declared, so that the upstream finds the prefix of the last request in its cache, but none
    may be called.
    """
    why = "The gateway asked the model to summarise the conversation."
    losses.emulated("compaction", why, "compaction")
    prompt = compaction.instructions or _PROMPT
    old = request.settings
    return replace(
        request,
        messages=(*request.messages, Message("user", (Text(prompt),))),
        tool_choice=ToolChoice("none") if request.tools else None,
        parallel=None,
        settings=Settings(
            effort=old.effort,
            budget=old.budget,
            user=old.user,
            metadata=old.metadata,
            service_tier=old.service_tier,
            cache_key=old.cache_key,
        ),
        compaction=None,
        extras=None,  # settings of the client's own protocol are for its reply, not for the summary
    )


class Summary(EventStage):
    """The reply to `summarising` → one part that holds its text.

    States:  collecting → ended. Only text is collected: reasoning is not part of the summary, and a call
    cannot be answered.
    """

    def __init__(self, encode: Callable[[str], AnyPart]) -> None:
        self._encode = encode
        self._texts: list[str] = []
        self._text_parts: set[int] = set()

    def feed(self, event: Event, /) -> Iterable[Event]:
        match event:
            case ResponseStart():  # the upstream's own fields belong to a reply that the client does not get
                return (replace(event, extras=None),)
            case PartStart(index, Text()):
                self._text_parts.add(index)
                return ()
            case PartStart() | PartEnd():
                return ()
            case PartDelta(index, text):
                if index in self._text_parts:
                    self._texts.append(text)
                return ()
            case ResponseEnd(_, usage):
                summary = "".join(self._texts).strip()
                if not summary:
                    return (ResponseFailed(_EMPTY),)
                end = ResponseEnd(Stop("end"), usage)
                return (PartStart(0, self._encode(summary)), PartEnd(0), end)
            case _:
                return (event,)
