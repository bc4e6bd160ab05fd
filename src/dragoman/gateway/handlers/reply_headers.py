"""Headers that say more about an answer: what was lost, and when to ask again."""

from __future__ import annotations

from dragoman.core.losses import Loss
from dragoman.http.server import Headers

_LISTED = 5  # losses named in the header; the count tells the rest
_LONGEST = 1000  # characters of that header


def loss_header(losses: list[Loss]) -> Headers:
    """A count and a short list, for people who wonder."""
    if not losses:
        return []
    named = ", ".join(f"{loss.kind} {loss.where}" for loss in losses[:_LISTED])
    text = f"{len(losses)}; {named}" + (", ..." if len(losses) > _LISTED else "")
    text = text[:_LONGEST]
    if not (text.isascii() and text.isprintable()):
        text = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return [(b"x-dragoman-losses", text.encode())]


def retry_header(seconds: float | None) -> Headers:
    """Whole seconds for everyone, and milliseconds for the SDKs that read them."""
    if seconds is None:
        return []
    whole = max(1, -int(-seconds // 1))
    return [(b"retry-after", b"%d" % whole), (b"retry-after-ms", b"%d" % round(seconds * 1000))]
