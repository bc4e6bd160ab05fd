"""How foreign state travels through a client: in a slot that the client echoes unread.

A sealed text is URL-safe base64 (so that it is legal in ids, signatures and Gemini's bytes alike)
of a magic word, a version and a JSON array. It is recognised wherever it comes back, in either
base64 alphabet, with or without padding.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from dragoman.core import jsontext
from dragoman.core.model import State

MAGIC = "ZHJhZ29t"  # what base64 makes of "dragom"
_HEAD = b"dragom1"
LONGEST = 1 << 20  # nobody's signature is longer; what is, is withheld and reported


def seal(*values: Any) -> str:
    return base64.urlsafe_b64encode(_HEAD + jsontext.encode([*values])).decode()


def unseal(text: str) -> list[Any] | None:
    """The values inside, or None where `text` is not one of ours."""
    if not text.startswith(MAGIC) or len(text) > LONGEST:
        return None
    try:
        opened = base64.urlsafe_b64decode(text.replace("+", "-").replace("/", "_") + "=" * (-len(text) % 4))
        values = jsontext.decode(opened[len(_HEAD) :]) if opened.startswith(_HEAD) else None
    except (ValueError, binascii.Error):
        return None
    return values if jsontext.is_array(values) else None


def seal_state(state: State, own: str) -> str:
    """What goes into the opaque slot of protocol `own`: its own data as it is, foreign data sealed."""
    if state.origin == own and not state.data.startswith(MAGIC):
        return state.data
    return seal(state.origin, state.data, state.id)


def unseal_state(text: str, own: str, id: str = "") -> State:
    """The state that an opaque slot of protocol `own` holds."""
    match unseal(text):
        case [str(origin), str(data), str(name)]:
            return State(origin, data, name)
        case _:
            return State(own, text, id)
