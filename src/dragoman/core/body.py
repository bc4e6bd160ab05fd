"""A body that may pass as it is: its bytes, and of what they say no more than somebody asks for."""

from __future__ import annotations

from dragoman.core.fields import read_body
from dragoman.core.jsontext import Glance
from dragoman.core.model import Wire


class Body:
    """`glance` holds at least the fields that forwarding looks at; `wire`, read when it is first needed, all.

    Raises WireError, now and not later, where `data` is not a JSON object.
    """

    __slots__ = ("_protocol", "_wire", "data", "glance")

    def __init__(
        self, data: bytes, protocol: str, glance: Glance | None = None, wire: Wire | None = None
    ) -> None:
        self.data, self._protocol, self._wire = data, protocol, wire
        seen = glance.read(data) if glance and wire is None else None
        self.glance: Wire = self.wire if seen is None else seen

    @property
    def wire(self) -> Wire:
        if self._wire is None:
            self._wire = read_body(self.data, self._protocol)
        return self._wire
