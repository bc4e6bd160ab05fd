"""Parts in a row: however an upstream interleaves them, a client sees one part after another.

The first open part streams on; what arrives for the others waits until their turn comes.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core.events import (
    Event,
    EventStage,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseEnd,
    ResponseFailed,
)
from dragoman.core.model import Response


class Sequencer(EventStage):
    def __init__(self) -> None:
        self._current: int | None = None
        self._waiting: dict[int, list[Event]] = {}

    def feed(self, event: Event, /) -> Iterable[Event]:
        if type(event) is PartDelta:
            if event.index == self._current:
                return (event,)
            self._waiting[event.index].append(event)
            return ()
        if type(event) is PartStart:
            if self._current is None:
                self._current = event.index
                return (event,)
            self._waiting[event.index] = [event]
            return ()
        if type(event) is PartEnd:
            if event.index != self._current:
                self._waiting[event.index].append(event)
                return ()
            self._current = None
            return (event, *self._release()) if self._waiting else (event,)
        if isinstance(event, ResponseEnd | ResponseFailed):
            return (*self._flush(), event) if self._waiting or self._current is not None else (event,)
        return (event,)

    def whole(self, response: Response) -> Response:
        return response  # its parts are in a row

    def _release(self) -> list[Event]:
        """The parts whose turn has come: every finished one, and the next unfinished as the current."""
        released: list[Event] = []
        while self._waiting and self._current is None:
            index = next(iter(self._waiting))
            events = self._waiting.pop(index)
            released += events
            if not isinstance(events[-1], PartEnd):
                self._current = index
        return released

    def _flush(self) -> list[Event]:
        """The end came while parts were open: they end here, incomplete."""
        released: list[Event] = []
        while self._current is not None:
            released.append(PartEnd(self._current, complete=False))
            self._current = None
            released += self._release()
        return released
