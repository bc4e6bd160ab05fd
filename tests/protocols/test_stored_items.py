"""Items of stored conversations are read before a codec has checked them."""

from __future__ import annotations

import pytest

from dragoman.protocols import codec, names, server
from dragoman.serving.conversations import PastTurn

# What no set and no dict can look up
ODD = {"type": [], "call_id": {}}
STORING = [name for name in names() if server(name).turn_codec]


@pytest.mark.parametrize("protocol", STORING)
def test_a_malformed_item_is_left_to_the_codec(protocol: str) -> None:
    turns, field = server(protocol).turn_codec, codec(protocol).turns
    assert turns
    request = {field: [ODD]}
    assert turns.new_items(request) == [ODD]
    joined = turns.join(request, [PastTurn("x", [ODD], {}, {})], {})
    assert joined[field] == [ODD, ODD]
    turns.unanswered(request)
