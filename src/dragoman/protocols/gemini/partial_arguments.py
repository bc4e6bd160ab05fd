"""Arguments that arrive value by value: Vertex can send a call as assignments to JSON paths (`$.a.b[0]`), the
pieces of one string one after another. Its SDK puts such a call into the history as it came.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_array, is_object
from dragoman.protocols.gemini.wire import PROTOCOL_NAME, opened, printed

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPE = re.compile(r"\\(.)")
_DEEPEST = 100
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class _GrowingString(list[str]):
    """A string that is still growing."""


class PartialArguments:
    """`whole` holds arguments that a server sends at once after announcing pieces."""

    def __init__(self) -> None:
        self.whole = ""
        self._root: dict[str, Any] = {}
        self._growing: str | None = None  # the path of a string that announced more

    @property
    def complete(self) -> bool:
        return self._growing is None

    def add(self, assignments: Any, where: str) -> None:
        if not is_array(assignments):
            raise WireError(PROTOCOL_NAME, where, f"expected an array, got {describe(assignments)}")
        for i, assignment in enumerate(assignments):
            self._assign(assignment, f"{where}[{i}]")

    def text(self) -> str:
        """The arguments as JSON; empty where none came."""
        return printed(_settled(self._root), "partialArgs") if self._root else self.whole

    def _assign(self, assignment: Any, where: str) -> None:
        fields = opened(assignment, where)
        path = fields.need("jsonPath", str)
        key = next((key for key in _VALUES if fields.rest.get(key) is not None), None)
        if key is None:
            raise WireError(PROTOCOL_NAME, where, f"expected one of {', '.join(_VALUES)}")
        value: Any = None if key == "nullValue" else fields.any(key)
        self._growing = path if fields.take("willContinue", bool) else None
        self._put(_steps(path, where), _GrowingString([value]) if isinstance(value, str) else value, where)

    def _put(self, steps: list[str | int], value: Any, where: str) -> None:
        target: Any = self._root
        for step, following in pairwise([*steps, None]):
            known: Any = _known(target, step, where)
            if following is not None and known is None:
                known = list[Any]() if isinstance(following, int) else dict[str, Any]()
            elif following is None and type(known) is _GrowingString and type(value) is _GrowingString:
                known += value
            elif following is None:
                known = value
            target[step] = known
            target = known


def _known(target: Any, step: str | int | None, where: str) -> Any:
    """The value at `step`; an array is extended by one at its end."""
    if is_object(target) and isinstance(step, str):
        return target.get(step)
    if is_array(target) and isinstance(step, int) and step <= len(target):
        if step == len(target):
            target.append(None)
        return target[step]
    raise WireError(
        PROTOCOL_NAME, f"{where}.jsonPath", f"expected a place in the arguments, got step {step!r}"
    )


def _steps(path: str, where: str) -> list[str | int]:
    """`$.a['b c'][0]` is a, b c, 0."""
    steps: list[str | int] = []
    at = 1
    while path.startswith("$") and (found := _STEP.match(path, at)):
        name, number, single, double = found.groups()
        quoted = single if single is not None else double
        steps.append(name or (int(number) if number else _ESCAPE.sub(r"\1", quoted or "")))
        at = found.end()
    if not steps or at != len(path) or len(steps) > _DEEPEST:
        raise WireError(
            PROTOCOL_NAME, f"{where}.jsonPath", f"expected a path such as $.a.b[0], got {path[:40]!r}"
        )
    return steps


def _settled(value: Any) -> Any:
    if type(value) is _GrowingString:
        return "".join(value)
    if is_object(value):
        return {key: _settled(item) for key, item in value.items()}
    if is_array(value):
        return [_settled(item) for item in value]
    return value
