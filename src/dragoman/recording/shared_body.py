"""Bodies that repeat each other, stored once.

An agent sends its whole history with every turn, so a request begins (and often ends) like the one before it.
The newest body of a conversation is whole; when the next one comes, it becomes its difference from that one.
Differences point from old to new: the oldest can be forgotten at any time.

    whole ──a newer body shares at least half of it──► difference (first bytes, middle, last bytes)
"""

from __future__ import annotations

from weakref import ref

_LONGEST_CHAIN = 64  # differences to walk through for the oldest body
_CANDIDATES = 4  # conversations that begin with the same bytes
_CONVERSATIONS = 256
_BEGINNING = 256  # bytes that name a conversation


class SharedBody:
    """One body. `number`: how many came before it in its conversation."""

    __slots__ = ("__weakref__", "_data", "_first", "_last", "_middle", "_newer", "number")

    def __init__(self, data: bytes, number: int = 0) -> None:
        self._data: bytes | None = data
        self._newer: SharedBody | None = None
        self._first = self._last = 0
        self._middle = b""
        self.number = number

    @property
    def size(self) -> int:
        """Bytes that it takes by itself."""
        return len(self._middle if self._data is None else self._data)

    @property
    def data(self) -> bytes:
        differences: list[SharedBody] = []
        body = self
        while (whole := body._data) is None:
            differences.append(body)
            assert body._newer is not None
            body = body._newer
        for each in reversed(differences):
            whole = whole[: each._first] + each._middle + whole[len(whole) - each._last :]
        return whole

    def resembles(self, data: bytes) -> bool:
        """Whether `data` is probably a later turn of the same conversation."""
        own = self._data
        half = len(own) // 2 if own is not None else 0
        return own is not None and own[half : half + _BEGINNING] == data[half : half + _BEGINNING]

    def precede(self, newer: SharedBody) -> bool:
        """Become the difference from `newer`. False where the two share too little."""
        old, new = self._data, newer._data
        if old is None or new is None:
            return False
        first = _common_beginning(old, new)
        last = _common_end(old, new, min(len(old), len(new)) - first)
        if first + last < len(old) // 2:
            return False
        newer.number = self.number + 1
        if newer.number % _LONGEST_CHAIN:
            self._first, self._last, self._newer = first, last, newer
            self._middle = old[first : len(old) - last]
            self._data = None  # last: readers in other threads see one or the other
        return True


class SharedBodies:
    """Finds the conversation that a body continues. It keeps no body alive."""

    def __init__(self) -> None:
        self._newest: dict[bytes, list[ref[SharedBody]]] = {}

    def add(self, data: bytes) -> tuple[SharedBody, int]:
        """The body, and how many bytes an older one gave up for it."""
        body = SharedBody(data)
        beginning = data[:_BEGINNING]
        candidates = self._newest.pop(beginning, None) or []
        freed = 0
        for candidate in candidates:
            older = candidate()
            if older and older.resembles(data):
                size = older.size
                if older.precede(body):
                    freed = size - older.size
                    candidates.remove(candidate)
                    break
        self._newest[beginning] = [ref(body), *candidates[: _CANDIDATES - 1]]
        if len(self._newest) > _CONVERSATIONS:
            del self._newest[next(iter(self._newest))]
        return body, freed


def _common_beginning(a: bytes, b: bytes) -> int:
    """By halves. `startswith` compares a view in place, at the speed of memory; slices would be copied."""
    view = memoryview(a)
    low, high = 0, min(len(a), len(b))
    if b.startswith(view[:high]):
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if b.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(a: bytes, b: bytes, most: int) -> int:
    view = memoryview(a)
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if b.endswith(view[len(a) - middle : len(a) - low], 0, len(b) - low):
            low = middle
        else:
            high = middle - 1
    return low
