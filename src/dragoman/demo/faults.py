"""Misbehaviour on request: `[[fault: NAME]]` in the last user text makes the scripted model fail like real ones."""

from __future__ import annotations

import re
from typing import Literal, get_args

from dragoman.core.model import Request, Text

Fault = Literal["429", "500", "529", "400", "401", "404", "hang", "cut", "malformed", "leak", "slow", "empty"]
_MARK = re.compile(r"\[\[fault:\s*(\w+)\s*\]\]")


def fault_of(request: Request) -> Fault | None:
    """The fault that the prompt asks for; only the last user text counts, so that a retry may differ."""
    for message in reversed(request.messages):
        if message.role != "user":
            continue
        for part in message.parts:
            if isinstance(part, Text) and (found := _MARK.search(part.text)) and found[1] in get_args(Fault):
                return found[1]  # pyright: ignore[reportReturnType] - checked against the literal
        return None
    return None
