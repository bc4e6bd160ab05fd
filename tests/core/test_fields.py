"""Reading by taking: what each method gives, what it leaves, and how it refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, describe, own, read_body, string, whole_seconds
from dragoman.core.losses import Losses

Read = Callable[[Fields], Any]

# name: (value of the field "a", how it is read, what that gives, what is left)
TAKEN: dict[str, tuple[Any, Read, Any, Any]] = {
    "a string": ("x", lambda f: f.take("a", str), "x", None),
    "null counts as absent and stays": (None, lambda f: f.take("a", str), None, {"a": None}),
    "text": ("x", lambda f: f.text("a"), "x", None),
    "empty text is taken": ("", lambda f: f.text("a"), "", None),
    "nonempty leaves an empty string": ("", lambda f: f.nonempty("a"), "", {"a": ""}),
    "nonempty takes the others": ("x", lambda f: f.nonempty("a"), "x", None),
    "flag takes true": (True, lambda f: f.flag("a"), True, None),
    "flag leaves false": (False, lambda f: f.flag("a"), False, {"a": False}),
    "a number": (1.5, lambda f: f.number("a"), 1.5, None),
    "a whole number": (10.0, lambda f: f.integer("a"), 10, None),
    "a list": ([1], lambda f: f.list("a"), [1], None),
    "an object": ({"b": 1}, lambda f: f.object("a"), {"b": 1}, None),
    "anything": (3, lambda f: f.any("a"), 3, None),
    "anything but null": (None, lambda f: f.any("a"), None, {"a": None}),
}


@pytest.mark.parametrize(("value", "read", "given", "left"), TAKEN.values(), ids=TAKEN)
def test_taking(value: Any, read: Read, given: Any, left: Any) -> None:
    body = {"a": value}
    fields = Fields(body, "here", "p")
    assert read(fields) == given
    assert fields.rest == (left or {})
    assert body == {"a": value}  # the wire itself is never touched


@pytest.mark.parametrize(("value", "read", "given", "left"), TAKEN.values(), ids=TAKEN)
def test_an_absent_field_is_nothing(value: Any, read: Read, given: Any, left: Any) -> None:
    assert not read(Fields({}, "here", "p"))


# name: (value of the field "a", how it is read, the problem)
REFUSED: dict[str, tuple[Any, Read, str]] = {
    "a number for a string": (5, lambda f: f.take("a", str), "expected a string, got the number 5"),
    "true for a number": (True, lambda f: f.number("a"), "expected a number, got true"),
    "true for a whole number": (True, lambda f: f.take("a", int), "expected a whole number, got true"),
    "a half for a whole number": (
        1.5,
        lambda f: f.integer("a"),
        "expected a whole number, got the number 1.5",
    ),
    "infinity for a whole number": (float("inf"), lambda f: f.integer("a"), "expected a whole number"),
    "no number at all": (float("nan"), lambda f: f.integer("a"), "expected a whole number"),
    "a number for a flag": (1, lambda f: f.flag("a"), "expected true or false, got the number 1"),
    "zero for a flag": (0, lambda f: f.flag("a"), "expected true or false, got the number 0"),
    "a list for text": ([], lambda f: f.nonempty("a"), "expected a string, got an array"),
    "an object for a list": ({}, lambda f: f.list("a"), "expected an array, got an object"),
    "a list for an object": ([], lambda f: f.object("a"), "expected an object, got an array"),
    "text for an inner object": ("x", lambda f: f.fields("a"), "expected an object, got the string 'x'"),
    "nothing where something is needed": (None, lambda f: f.need("a", str), "expected a string, got nothing"),
}


@pytest.mark.parametrize(("value", "read", "problem"), REFUSED.values(), ids=REFUSED)
def test_refusing(value: Any, read: Read, problem: str) -> None:
    with pytest.raises(WireError) as caught:
        read(Fields({"a": value}, "here", "p"))
    assert (caught.value.protocol, caught.value.path) == ("p", "here.a")
    assert caught.value.problem.startswith(problem)


def test_paths_of_inner_objects() -> None:
    inner = Fields({"a": {"b": 1}}, "", "p").fields("a")
    assert inner is not None
    with pytest.raises(WireError, match=r"^p: a\.b: expected a string"):
        inner.text("b")
    with pytest.raises(WireError, match=r"^p: body: expected an object, got an array$"):
        Fields([], "", "p")


def test_leftovers_are_extras_and_losses() -> None:
    losses, fields = Losses(), Fields({"a": 1, "b": None, "c": 2, "d": {"e": []}}, "x[0]", "p")
    assert fields.extras(losses, quiet=frozenset({"c"})) == {"p": {"a": 1, "b": None, "c": 2, "d": {"e": []}}}
    assert [str(loss) for loss in losses] == [
        "dropped x[0].a: Only p has this field.",
        "dropped x[0].d: Only p has this field.",
    ]


DESCRIBED = {
    "null": (None, "null"),
    "true": (True, "true"),
    "a number": (1.5, "the number 1.5"),
    "a long string": ("x" * 99, f"the string {'x' * 40!r}"),
    "a long number": (10**99, f"the number {str(10**99)[:40]}"),
    "an array": ([1], "an array"),
    "an object": ({}, "an object"),
    "something else": (b"", "a bytes"),
}


@pytest.mark.parametrize(("value", "words"), DESCRIBED.values(), ids=DESCRIBED)
def test_describing(value: Any, words: str) -> None:
    assert describe(value) == words


def test_own() -> None:
    assert own({"p": {"a": 1}, "q": {}}, "p") == {"a": 1}
    assert own({"q": {}}, "p") == own(None, "p") == {}


BODIES: dict[str, tuple[Any, Any]] = {
    "a dict": ({"a": 1}, {"a": 1}),
    "bytes": (b'{"a":1}', {"a": 1}),
    "text": ('{"a":1}', {"a": 1}),
    "an array of one": ('[{"a":1}]', {"a": 1}),
    "an array of two": ("[{},{}]", "expected an object, got an array"),
    "a number": ("5", "expected an object, got the number 5"),
    "broken": (b"{", "invalid JSON"),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES)
def test_reading_bodies(body: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert read_body(body, "p") == expected
        return
    with pytest.raises(WireError, match=f"^p: body: {expected}"):
        read_body(body, "p")


def test_a_table_reads_what_is_there() -> None:
    fields = Fields({"b": 2, "unknown": 1, "a": "x", "c": None}, "here", "p")
    table = {
        "a": ("first", string),
        "b": ("second", Fields.integer),
        "c": ("third", string),
        "d": ("no", string),
    }
    assert fields.read(table) == {"second": 2, "first": "x", "third": None}
    assert fields.rest == {"unknown": 1, "c": None}


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        (1_753_879_075, 1_753_879_075),
        (1_753_879_075.9, 1_753_879_075),
        (1_753_879_075_170, 1_753_879_075),
        (1_753_879_075_170_000_000, 1_753_879_075),
        (-1, 0),
        (float("inf"), 0),
        (True, 0),
        ("2025", 0),
    ],
)
def test_times_of_servers_are_seconds(time: Any, seconds: int) -> None:
    assert whole_seconds(time) == seconds
