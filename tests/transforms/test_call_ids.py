"""Call ids: legal toward upstreams, carrying and restorable toward clients."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.codec import ProtocolLimits
from dragoman.core.model import Reasoning, State
from dragoman.transforms.call_ids import CallId, invent, invented, legal, unwrap, wrap

ANTHROPIC = ProtocolLimits(call_id=r"[a-zA-Z0-9_-]+", call_id_length=128, call_id_prefix="toolu_")
CHAT = ProtocolLimits(call_id_length=40)
MISTRAL = ProtocolLimits(call_id=r"[a-zA-Z0-9]{9}", call_id_length=9)
EVERY = [ANTHROPIC, CHAT, MISTRAL]

LEGAL = {
    "a legal id is kept": ("call_1", CHAT, "call_1"),
    "G48 Kimi's dots and colons are legal in Chat": ("functions.Bash:0", CHAT, "functions.Bash:0"),
}


@pytest.mark.parametrize("id, limits, expected", LEGAL.values(), ids=LEGAL)
def test_legal(id: str, limits: ProtocolLimits, expected: str) -> None:
    assert legal(id, limits) == expected


@pytest.mark.parametrize("limits", EVERY)
@given(id=st.text(min_size=1))
def test_G48_every_id_becomes_legal(limits: ProtocolLimits, id: str) -> None:
    spelled = legal(id, limits)
    assert len(spelled) <= limits.call_id_length
    assert re.fullmatch(limits.call_id, spelled)
    assert legal(spelled, limits) == spelled


@given(first=st.text(min_size=1), second=st.text(min_size=1))
def test_different_ids_stay_different(first: str, second: str) -> None:
    for limits in EVERY:
        assert (legal(first, limits) == legal(second, limits)) == (first == second)


WRAPPED = {
    "G50 Anthropic clients see their prefix": (CallId("call_1"), ANTHROPIC, "toolu__call_1"),
    "an id of their own is theirs": (CallId("toolu_01"), ANTHROPIC, "toolu_01"),
    "one that looks wrapped is wrapped again": (CallId("toolu__x"), ANTHROPIC, "toolu__toolu__x"),
    "Chat clients take any id": (CallId("functions.Bash:0"), CHAT, "functions.Bash:0"),
}


@pytest.mark.parametrize("call, limits, expected", WRAPPED.values(), ids=WRAPPED)
def test_wrap(call: CallId, limits: ProtocolLimits, expected: str) -> None:
    assert wrap(call, limits) == expected
    assert (unwrap(expected, limits) or CallId(expected)) == call


texts = st.text(max_size=40)
states = st.none() | st.builds(State, st.sampled_from(["gemini", "anthropic"]), texts, texts)
reasonings = st.lists(st.builds(Reasoning, texts, st.booleans(), state=states), max_size=2).map(tuple)


@given(call=st.builds(CallId, st.text(min_size=1, max_size=30), states, reasonings, reasonings))
def test_G97_what_an_id_carries_comes_back(call: CallId) -> None:
    for limits in EVERY:
        wrapped = wrap(call, limits)
        assert (unwrap(wrapped, limits) or CallId(wrapped)) == call
        if limits is not MISTRAL:
            assert re.fullmatch(limits.call_id, wrapped)


@given(id=st.text(max_size=60))
def test_a_strange_id_never_raises(id: str) -> None:
    for strange in (id, "toolu_ZHJhZ29t" + id):
        assert unwrap(strange, ANTHROPIC) is None or strange.startswith("toolu__")


def test_invented_ids_are_recognised() -> None:
    assert invented(invent(7)) == 7
    assert invented("call_7") is None
