"""Tool names: legal, injective, restored."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.codec import ProtocolLimits
from dragoman.transforms.tools import Names, recognise

OPENAI = ProtocolLimits()
GEMINI = ProtocolLimits(tool_name=r"[a-zA-Z_][a-zA-Z0-9_.:-]*")

SPELLED = {
    "a legal name is kept": ("read_file", OPENAI, "read_file"),
    "G85 dots": ("fs.read", OPENAI, "fs_read"),
    "G85 dots are legal in Gemini": ("fs.read", GEMINI, "fs.read"),
    "G85 a digit in front": ("7zip", GEMINI, "_7zip"),
}


@pytest.mark.parametrize("name, limits, expected", SPELLED.values(), ids=SPELLED)
def test_spelling(name: str, limits: ProtocolLimits, expected: str) -> None:
    names = Names([name], limits)
    assert names.encode(name) == expected
    assert names.decode(expected) == name


def test_G85_names_that_would_become_equal_are_distinguished() -> None:
    names = Names(["a.b", "a_b", "a/b"], OPENAI)
    spelled = [names.encode(name) for name in ("a.b", "a_b", "a/b")]
    assert spelled[1] == "a_b"
    assert len(set(spelled)) == 3


@given(
    st.lists(st.text(min_size=1, max_size=100), max_size=6, unique=True), st.sampled_from([OPENAI, GEMINI])
)
def test_names_are_legal_injective_and_restored(wanted: list[str], limits: ProtocolLimits) -> None:
    names = Names(wanted, limits)
    spelled = [names.encode(name) for name in wanted]
    assert [names.decode(name) for name in spelled] == wanted
    assert len(set(spelled)) == len(wanted)
    for name in spelled:
        assert len(name) <= limits.tool_name_length
        assert re.fullmatch(limits.tool_name, name)


RECOGNISED = {
    "exact": ("read", ["read", "Read"], "read"),
    "G86 other case": ("read", ["Read", "Write"], "Read"),
    "G86 a prefix": ("default_api:read", ["read"], "read"),
    "G86 a prefix and other case": ("functions.READ", ["Read"], "Read"),
    "two candidates are no match": ("READ", ["read", "Read"], "READ"),
    "nothing declared": ("x", [], "x"),
    "an undeclared name passes": ("bash", ["read"], "bash"),
}


@pytest.mark.parametrize("name, declared, expected", RECOGNISED.values(), ids=RECOGNISED)
def test_recognise(name: str, declared: list[str], expected: str) -> None:
    assert recognise(name, declared) == expected
