"""Chunks -> neutral events: Chat's, and the last event carries the names that the stream sent."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.events import Event, ResponseEnd
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.protocols import openai_chat as chat
from dragoman.protocols.qwen_chat.response import CREATED, NAMES, SLOT, split_names

_HAS_NAMES = re.compile(rb'"(?:id|%b)"' % b"|".join(name.encode() for name in (*NAMES, CREATED)))


class StreamDecoder(chat.StreamDecoder):
    def __init__(self, losses: Losses) -> None:
        super().__init__(losses)
        self._names: Wire = {}

    def feed(self, frame: Frame, /) -> Iterable[Event]:
        if _HAS_NAMES.search(frame.data):
            frame = self._without_names(frame)
        return [self._with_names(event) for event in super().feed(frame)]

    def close(self) -> Iterable[Event]:
        return [self._with_names(event) for event in super().close()]

    def _without_names(self, frame: Frame) -> Frame:
        body = jsontext.decode_object(frame.data.decode("utf-8", "replace"))
        if body is None:  # Chat's decoder reports what is wrong with it
            return frame
        rest, names = split_names(body)
        self._names |= names
        return Frame(frame.event, jsontext.encode(rest))

    def _with_names(self, event: Event) -> Event:
        if type(event) is not ResponseEnd:
            return event
        return replace(event, extras={**(event.extras or {}), SLOT: self._names})
