"""Bodies that are read only as far as somebody asks: what is seen of them, and which are read in full."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import Body
from dragoman.core.jsontext import Glance, Once


class Entry(TypedDict):
    """Of it nothing is read."""


class Seen(TypedDict, total=False):
    a: Any
    model: Once
    list: list[Entry] | None


GLANCE: Glance[Any] = Glance(Seen)
PIECE = 16384  # the text is looked through in pieces of this size
DIGITS = b"7" * 4300  # no integer may be longer

# What is seen of a body; None: it must be read in full
CASES: dict[str, tuple[bytes, Any]] = {
    "nothing": (b"{}", {}),
    "only what is named": (b'{"b":{"c":[1]},"a":1.10,"list":[{"d":1},{}]}', {"a": 1.1, "list": [{}, {}]}),
    "the last of two": (b'{"a":1,"a":2}', {"a": 2}),
    "a field that may stand once": (b'{"model":"x","b":{"model":1}}', {"model": "x"}),
    "that stands twice": (b'{"model":"x","model":"x"}', None),
    "that stands twice, once in escapes": (b'{"mod\\u0065l":"x","model":"y"}', None),
    "a name in escapes": (b'{"\\u0061":1}', {"a": 1}),
    "null": (b'{"a":null,"list":null}', {"a": None, "list": None}),
    "another type": (b'{"list":7}', None),
    "another type inside": (b'{"list":[{},7]}', None),
    "another type, said again": (b'{"list":7,"list":[]}', None),
    "an array": (b"[{}]", None),
    "a number": (b"5", None),
    "no text": (b"", None),
    "a cut text": (b'{"a":1,"b":', None),
    "something behind": (b"{} x", None),
    "a bad escape in what is skipped": (b'{"b":"\\x"}', None),
    "a control character in what is skipped": (b'{"b":"\n"}', None),
    "a bad number in what is skipped": (b'{"b":01}', None),
    "half a surrogate pair": (b'{"b":"\\ud83d"}', None),
    "a whole pair": (b'{"b":"\\ud83d\\ude00"}', {}),
    "no UTF-8": (b'{"b":"\xff"}', None),
    "no UTF-8 in a name": (b'{"\xff":1}', None),
    "a surrogate in UTF-8": (b'{"b":"\xed\xa0\x80"}', None),
    "letters that are not ASCII": ('{"b":"é→😀"}'.encode(), {}),
    "a long number": (b'{"b":%b}' % DIGITS[:3000], {}),
    "one that is too long": (b'{"b":%b7}' % DIGITS, None),
    "a negative one": (b'{"b":-%b7}' % DIGITS, None),
    "a number too large for a float": (b'{"a":1,"b":1e400}', {"a": 1}),
}


@pytest.mark.parametrize(("body", "seen"), CASES.values(), ids=CASES)
def test_a_glance(body: bytes, seen: Any) -> None:
    assert GLANCE.read(body) == seen


@pytest.mark.parametrize("levels", [9_999, 200_000])
def test_deep_nesting_is_skipped_or_left_to_others(levels: int) -> None:
    """How deep is too deep, Python decides, each version in its way."""
    assert GLANCE.read(b'{"b":' + b"[" * levels + b"]" * levels + b"}") in (None, {})


@pytest.mark.parametrize("place", range(PIECE - 12, PIECE + 2))
def test_characters_where_pieces_meet(place: int) -> None:
    padding = b'{"b":"' + b"x" * (place - 6)
    assert GLANCE.read(padding + "→".encode() + b'"}') == {}
    assert GLANCE.read(padding + b'\xe2\x86"}') is None
    assert GLANCE.read(padding + b"\xc3" + b"x" * PIECE * 2 + b'\xa9"}') is None
    assert GLANCE.read(padding + b'\xc3","c":"\xa9"}') is None


@pytest.mark.parametrize("place", range(0, 1024, 73))
def test_a_long_number_is_found_wherever_it_stands(place: int) -> None:
    assert GLANCE.read(b'{"x":"%b","b":%b7}' % (b"x" * place, DIGITS)) is None


STRUCTURE = [b'"', b'{"a":', b'{"b":', b"}", b"[", b"]", b",", b":", b"1", b"-", b".5", b"e9", b"null"]
LETTERS = [b"\\", b"\\u00e9", b"\\ud83d", b"\\ude00", b"\xe2\x86\x92", b"\xc3", b"\xa9", b" ", b"\n", b"\x00"]
SCRAPS = st.sampled_from(STRUCTURE + LETTERS)


@given(scraps=st.lists(SCRAPS, max_size=12), inside=st.booleans())
def test_nothing_passes_at_a_glance_that_is_not_json(scraps: list[bytes], inside: bool) -> None:
    text = b"".join(scraps)
    body = b'{"b":"%b"}' % text if inside else b'{"b":%b}' % text
    seen = GLANCE.read(body)
    if seen is not None:
        wire = jsontext.decode(body)
        assert seen == {name: wire[name] for name in ("a",) if name in wire}


NAMES = st.sampled_from(['"model"', '"mod\\u0065l"', '"x\\"model"', '"x"'])
TEXTS = st.sampled_from(['"a"', '"\\u0061"', '"model"', '"\\u00e9"', '"\\\\"'])
COLONS = st.sampled_from([":", ": ", " : "])
OBJECTS = st.recursive(
    TEXTS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(NAMES, COLONS, inner).map("".join), max_size=4).map(
            lambda items: f"{{{','.join(items)}}}"
        ),
    ),
    max_leaves=12,
)


@given(body=OBJECTS.filter(lambda text: text.startswith("{")))
def test_a_model_is_replaced_where_a_glance_saw_it(body: str) -> None:
    data = body.encode()
    seen = GLANCE.read(data)
    made = jsontext.replaced(data, "model", seen.get("model"), "new", once=True) if seen else None
    if made is not None:
        assert jsontext.decode(made) == {**jsontext.decode(data), "model": "new"}


def test_the_rest_is_read_once_and_when_it_is_needed() -> None:
    body = Body(b'{"a":1,"b":2}', "p", GLANCE.read(b'{"a":1,"b":2}'))
    assert body.glance == {"a": 1}
    assert body.wire == {"a": 1, "b": 2}
    assert body.wire is body.wire


def test_what_cannot_be_seen_at_a_glance_is_read_in_full() -> None:
    for body in (Body(b'[{"a":1,"b":2}]', "p", GLANCE.read(b'[{"a":1,"b":2}]')), Body(b'{"a":1,"b":2}', "p")):
        assert body.glance == {"a": 1, "b": 2}
        assert body.glance is body.wire


def test_what_was_read_already_is_not_read_again() -> None:
    wire = {"a": 1}
    body = Body(b"whatever", "p", None, wire)
    assert body.glance is body.wire is wire


@pytest.mark.parametrize("data", [b"{", b"7", b'{"b":"\xff"}'])
def test_what_is_no_object_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(WireError, match=r"^p: body: "):
        Body(data, "p", GLANCE.read(data))
