"""Two-way tables: the first row that names a value decides its direction."""

import pytest

from dragoman.core.fields import Table

STOP: Table[str] = Table(
    ("stop", "end"), ("halt", "end"), ("cut", "length"), ("cut", "full"), other=("stop", "other")
)

CASES = {
    "both ways": ("stop", "end", "stop"),
    "a second word for the same": ("halt", "end", "stop"),
    "a word for two things": ("cut", "length", "cut"),
    "an unknown word": ("new", "other", "stop"),
}


@pytest.mark.parametrize(("wire", "neutral", "back"), CASES.values(), ids=CASES)
def test_there_and_back(wire: str, neutral: str, back: str) -> None:
    assert STOP.decode(wire) == neutral
    assert STOP.encode(neutral) == back


def test_a_neutral_word_with_a_borrowed_wire() -> None:
    assert STOP.encode("full") == "cut"
    assert STOP.knows("full")
    assert not STOP.knows("other")
