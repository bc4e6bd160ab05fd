"""How a protocol answers a request that is run in the background, as functions for any upstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from dragoman.core.model import Failure, Wire


class BackgroundCodec(Struct, frozen=True, kw_only=True):
    """`label` says in a reply that it runs in the background. `encode_queued` makes the first reply, of a
    request with its id and the time; `with_status` makes each later one that no model wrote. `first_events`
    and `last_event` are the events around those of the run: all have a number, by which a client resumes the
    stream. `renumber` fits an event of the run into the log, or gives None where the log has it already.
    """

    label: Callable[[Wire], Wire]
    encode_queued: Callable[[Wire, str, int], Wire]
    with_status: Callable[[Wire, str, Failure | None], Wire]
    first_events: Callable[[Wire], list[Wire]]
    restart_event: Callable[[Wire, int], Wire]  # (reply, number), where another attempt begins
    last_event: Callable[[Wire, int], Wire]
    renumber: Callable[[Wire, int], Wire | None]
    reply_of: Callable[[Wire], Wire | None]  # in the event that ends a stream
    run_body: Callable[[Wire], Wire]  # the request without what asks for the background
    starting_after: Callable[[Mapping[str, str]], int]  # of a query; -1: from the beginning
    not_background: Failure  # to cancel something else
    not_streamed: Failure  # to stream what was not created as a stream
