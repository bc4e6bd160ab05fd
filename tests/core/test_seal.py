"""Sealed state opens wherever it comes back; everything else passes untouched."""

import base64
import re

import pytest

from dragoman.core.model import State
from dragoman.core.seal import LONGEST, MAGIC, seal, seal_state, unseal, unseal_state

STATES = {
    "short": State("gemini", "c2ln"),
    "with an id": State("openai-responses", "enc", "rs_1"),
    "any characters": State("anthropic", 'é\n"\\\u2028😀'),
    "long": State("gemini", "x" * 100_000),
    "empty": State("gemini", ""),
}
# What clients and servers do to base64 on the way
ON_THE_WAY = {
    "nothing": lambda text: text,
    "padding lost": lambda text: text.rstrip("="),
    "the other alphabet": lambda text: text.replace("-", "+").replace("_", "/"),
}


@pytest.mark.parametrize("way", ON_THE_WAY.values(), ids=ON_THE_WAY)
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_foreign_state_travels_sealed(state: State, way: object) -> None:
    sealed = seal_state(state, "elsewhere")
    assert re.fullmatch(r"[A-Za-z0-9_-]+=*", sealed)
    assert base64.urlsafe_b64decode(sealed)
    assert unseal_state(way(sealed), "elsewhere") == state  # type: ignore[operator]


def test_own_state_passes_byte_for_byte() -> None:
    assert seal_state(State("anthropic", "EqoB+/=="), "anthropic") == "EqoB+/=="
    assert unseal_state("EqoB+/==", "anthropic", "id") == State("anthropic", "EqoB+/==", "id")


def test_own_state_that_looks_sealed_is_sealed() -> None:
    state = State("anthropic", f"{MAGIC}xyz")
    assert unseal_state(seal_state(state, "anthropic"), "anthropic") == state


# Texts that are not ours, whatever they look like
STRANGE = {
    "plain": "hello",
    "only the magic word": MAGIC,
    "not base64": f"{MAGIC}!!!",
    "base64 of something else": MAGIC + base64.urlsafe_b64encode(b"1not json").decode(),
    "another version": base64.urlsafe_b64encode(b'dragom2["a"]').decode(),
    "an object inside": base64.urlsafe_b64encode(b'dragom1{"a":1}').decode(),
    "too long": seal("x" * LONGEST),
    "not ASCII": f"{MAGIC}é",
}


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_strange_texts_stay_closed(text: str) -> None:
    assert unseal(text) is None
    assert unseal_state(text, "p") == State("p", text)


def test_a_seal_of_something_else_is_no_state() -> None:
    assert unseal(seal("citation", 1)) == ["citation", 1]
    assert unseal_state(seal("citation"), "p") == State("p", seal("citation"))
