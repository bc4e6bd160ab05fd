"""How state travels through a client: in a slot that the client echoes unread (G97: opencode#4832,
cline#7974).

A sealed text is URL-safe base64 (so that it is legal in ids, signatures and Gemini's bytes alike)
of a magic word, a version and a JSON array. It is recognised wherever it comes back, in either
base64 alphabet, with or without padding.

State that is forwarded within its own protocol is only tagged: the magic word and a digest of its origin, as
20 characters that are valid base64 in front of the state itself, which stays as it is.
"""

from __future__ import annotations

import base64
import binascii
import re
from hashlib import blake2s
from typing import Any

from dragoman.core import jsontext
from dragoman.core.model import State

MAGIC = "ZHJhZ29t"  # what base64 makes of "dragom"
_MAGIC = MAGIC.encode()
HINT = _MAGIC[0]  # most bodies have no Z, and one byte is found in a tenth of the time
_HEAD = b"dragom1"
_TAG = "x"  # follows the magic word of a tag; that of a seal is followed by "M"
TAG_LENGTH = 20
_TAGGED = re.compile(rf"{MAGIC}{_TAG}[0-9a-f]{{11}}(?=.)")
LONGEST = 1 << 20  # nobody's signature is longer; what is, is withheld and reported


def is_in(data: bytes) -> bool:
    """Whether `data` holds anything sealed or tagged."""
    return HINT in data and data.rfind(_MAGIC) >= 0  # from the end it takes half as long


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


def tag(origin: str) -> str:
    """What stands in front of forwarded state that `origin` made."""
    return f"{MAGIC}{_TAG}{blake2s(origin.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()[:11]}"


def untagged(text: str) -> tuple[str, str] | None:
    """The tag in front of a text and the text behind it; None where there is no tag."""
    return (text[:TAG_LENGTH], text[TAG_LENGTH:]) if _TAGGED.match(text) else None


def stamp(state: State, own: str, origin: str) -> State:
    """State of a reply: `origin` made it under the name `own`, whatever it looks like.

    Another gateway behind this one seals and tags as this one does. What it made is for it alone to open: it
    is sealed once more, under the tag of its origin.
    """
    if state.origin == own and not state.data.startswith(MAGIC):
        return State(origin, state.data, state.id)
    if state.origin == own:
        return State(tag(origin), state.data, state.id)
    if state.origin.startswith(MAGIC):
        return State(tag(origin), state.origin + state.data, state.id)
    return State(tag(origin), seal(state.origin, state.data, state.id))


def seal_state(state: State, own: str) -> str:
    """What goes into the opaque slot of protocol `own`: its own data as it is, foreign data sealed."""
    if state.origin == own:
        return state.data
    return seal(state.origin, state.data, state.id)


def unseal_state(text: str, own: str, id: str = "") -> State:
    """The state that an opaque slot of protocol `own` holds; the origin of tagged state is its tag."""
    if found := untagged(text):
        return State(found[0], found[1], id)
    match unseal(text):
        case [str(origin), str(data), str(name)]:
            return State(origin, data, name)
        case _:
            return State(own, text, id)
