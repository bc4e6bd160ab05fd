"""Each conversation of the tree comes back from each other protocol as it went, minus the reported losses."""

from __future__ import annotations

import pytest

from dragoman import protocols
from dragoman.core.losses import Losses
from dragoman.protocols import codec
from laws.round_trips import facts, trips, unexplained
from laws.taint import of_the_tree


@pytest.mark.parametrize("protocol", protocols())
def test_a_conversation_comes_back(protocol: str) -> None:
    made = [*trips(of_the_tree(protocol))]
    found = [each for each in made if each]
    assert len(found) == len(made) > 20
    assert any(each.codes for each in found)
    assert any(not each.codes for each in found)
    assert [each for each in found if each.missing or each.added] == []


ASKED = {"role": "user", "content": "What is in /f?"}
CALLED = {"id": "1", "type": "function", "function": {"name": "read", "arguments": '{"path":"/f"}'}}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "a line"}
TURNS = [ASKED, {"role": "assistant", "tool_calls": [CALLED]}, RESULT]
OTHER = {"role": "assistant", "tool_calls": [CALLED | {"function": {"name": "read", "arguments": "{}"}}]}


@pytest.mark.parametrize(
    "turns, kinds",
    [
        ([ASKED], {"call", "result"}),
        (TURNS[:2], {"result"}),
        (TURNS[1:], {"text"}),
        ([ASKED, OTHER, RESULT], {"call"}),
        ([ASKED, *TURNS[2:], TURNS[1]], {"result"}),
    ],
    ids=["no call", "no result", "no question", "another call", "a result before its call"],
)
def test_what_is_lost_is_found(turns: list[object], kinds: set[str]) -> None:
    decode = codec("openai-chat").decode_request
    before, after = (facts(decode({"messages": each}, Losses())) for each in (TURNS, turns))
    assert {kind for kind, _ in unexplained(before, after, ())} == kinds
    assert {kind for kind, _ in unexplained(before, after, ["reasoning.signature.dropped"])} == kinds
    assert unexplained(before, after, ["call.x.dropped", "result.x.dropped", "text.x.dropped"]) == ()
