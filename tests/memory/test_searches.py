"""What is known of a body was searched before: `Reading.holds` looks at the new bytes only."""

import pytest

from dragoman.core.jsontext import encode
from dragoman.memory.conversation_memory import ConversationMemory
from dragoman.protocols import codec

NEEDLE = b"needle"
FILLER = "A text that makes the body long enough to be worth knowing. " * 20


def body(count: int, place: str = "", branch: str = "") -> bytes:
    """So many messages; NEEDLE stands in the one of this number, or in this field of the head."""
    texts = [f"{FILLER}{number}{'needle' if str(number) == place else ''}" for number in range(count - 1)]
    messages = [
        {"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate([*texts, branch])
    ]
    system, user = ["needle" if place == name else "" for name in ("system", "user")]
    head = {"model": "m", "system": FILLER + system}
    return encode({**head, "messages": messages, "metadata": {"user_id": user}})


@pytest.mark.parametrize("place", ["", "system", "user", "0", "2", "4", "6", "8"])
def test_a_body_holds_what_its_bytes_hold(place: str) -> None:
    """Whatever is known of it: conversations grow and branch, and their head changes."""
    memory, read = ConversationMemory(), 0
    sent = [
        (3, ""),
        (3, ""),
        (5, ""),
        (5, place),
        (7, place),
        (7, ""),
        (9, place),
        (9, ""),
        (10, place),
        (6, place),
    ]
    for branch in ("", "other"):
        for count, where in [*sent, *sent]:
            data = body(count, where, branch)
            reading = memory.read("scope", codec("anthropic"), data)
            if reading:
                read += 1
                assert reading.holds(NEEDLE) == reading.holds(NEEDLE) == (NEEDLE in data)
    assert read > 25
