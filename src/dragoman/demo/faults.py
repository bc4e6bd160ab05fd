"""Misbehaviour on request: `[[fault: NAME]]` in the last user text makes the model fail as real ones do.

[[fault: cut 3]]        NAME may be followed by a position: after that many pieces
[[fault: 429 x2]]       only the first two requests with this very mark fail
[[fault: 429 x2 run 7]] the rest distinguishes one mark from another
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

from dragoman.core.model import Failure, Request, Text

FaultName = Literal[
    "400",
    "401",
    "404",
    "429",
    "500",
    "529",
    "hang",  # no answer at all
    "drop",  # the connection is closed instead of an answer
    "late",  # the answer begins after a while
    "pause",  # a silence in mid-stream
    "slow",  # a silence after every piece
    "stall",  # a silence in mid-stream that does not end
    "cut",  # the connection is closed in mid-answer
    "fail",  # the stream ends with the protocol's own error
    "malformed",  # a broken frame in mid-stream
    "garbage",  # a page of a web server instead of an answer
    "empty",  # status 200 and nothing else
    "leak",  # calls as text, as weak models leak them
]
STATUS: dict[FaultName, Failure] = {
    "400": Failure("bad_request", "demo: bad request", 400),
    "401": Failure("unauthenticated", "demo: bad key", 401),
    "404": Failure("not_found", "demo: no such model", 404),
    "429": Failure("rate_limit", "demo: slow down", 429, retry_after=0.05),
    "500": Failure("server", "demo: something broke", 500),
    "529": Failure("overloaded", "demo: too busy", 529),
}
_MARK = re.compile(r"\[\[fault:\s*(?P<name>\w+)(?:\s+(?P<at>\d+))?(?:\s+x(?P<times>\d+))?[^\]]*\]\]")


class Fault(Struct, frozen=True):
    """`at`: after that many pieces, -1 in the middle. `times`: so many requests with `mark` fail, -1 all."""

    name: FaultName
    at: int = -1
    times: int = -1
    mark: str = ""


def fault_of(request: Request) -> Fault | None:
    """The fault that the prompt asks for; only the last user text counts, so the next turn may go well."""
    for message in reversed(request.messages):
        if message.role != "user":
            continue
        for part in message.parts:
            if isinstance(part, Text) and (found := _MARK.search(part.text)):
                name = found["name"]
                if name not in get_args(FaultName):
                    return None
                return Fault(name, int(found["at"] or -1), int(found["times"] or -1), found[0])  # pyright: ignore[reportArgumentType] - checked against the literal
        return None
    return None


_REMEMBERED = 10_000  # marks


class Memory:
    """How often each mark came already: of faults, and the ids of replies. The oldest are forgotten."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def still_fails(self, fault: Fault) -> bool:
        if fault.times < 0:
            return True
        return self.count(fault.mark) <= fault.times

    def count(self, mark: str) -> int:
        count = self._counts[mark] = self._counts.get(mark, 0) + 1
        if len(self._counts) > _REMEMBERED:
            del self._counts[next(iter(self._counts))]
        return count
