"""Accounting for forwarded streams: only the usage is decoded, once, at the end."""

from __future__ import annotations

import json
import re
from typing import Any

from dragoman.core.jsontext import is_object
from dragoman.core.model import Usage, Wire
from dragoman.protocols import server
from dragoman.serving.accounting import Accounting

_LONGEST = 256 * 1024
_LONGEST_USAGE = 8192
_decoder = json.JSONDecoder()


class StreamUsage:
    """Keeps the first piece and the last two, which hold the usage, and counts calls by their mark."""

    __slots__ = ("_accounting", "_before", "_first", "_hint", "_mark", "calls", "last")

    def __init__(self, protocol: str) -> None:
        self._accounting = server(protocol).accounting
        self._hint, self._mark = self._accounting.call_hint, re.compile(self._accounting.call_mark.encode())
        self._first = self._before = self.last = b""
        self.calls = 0

    def feed(self, data: bytes) -> None:
        if not self._first:
            self._first = data
        self._before, self.last = self.last, data
        if self._hint in data:
            self.calls += len(self._mark.findall(data))

    def usage(self) -> Usage | None:
        """The usage of the stream; a later number replaces an earlier one."""
        last = (self._before + self.last)[-_LONGEST:]
        merged: Wire = {}
        for each in _objects(self._first, self._accounting) + _objects(last, self._accounting):
            merged |= {name: value for name, value in each.items() if value is not None}
        return self._accounting.count_usage({self._accounting.usage_field: merged}) if merged else None


def _objects(data: bytes, accounting: Accounting) -> list[Wire]:
    """The values of the usage field, as far as they are whole."""
    field = accounting.usage_field.encode()
    starts = sorted([*_ends(data, b'"%b":{' % field), *_ends(data, b'"%b": {' % field)])
    found = [_value(data[start - 1 : start + _LONGEST_USAGE].decode("utf-8", "replace")) for start in starts]
    return [value for value in found if is_object(value)]


def _ends(data: bytes, sought: bytes) -> list[int]:
    """Where each occurrence ends. Much faster than a regular expression, which a long stream would notice."""
    ends: list[int] = []
    at = data.find(sought)
    while at >= 0:
        ends.append(at + len(sought))
        at = data.find(sought, at + 1)
    return ends


def _value(text: str) -> Any:
    try:
        return _decoder.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None
