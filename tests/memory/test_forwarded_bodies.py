"""Bodies that are forwarded, recognised by their beginning and their tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import pytest

from dragoman.core.jsontext import Glance, encode
from dragoman.core.model import Wire
from dragoman.memory.forwarded_bodies import KnownBodies


class Seen(TypedDict, total=False):
    model: Any
    tools: list[Any]


class NotingGlance(Glance):
    """Notes what is read."""

    __slots__ = ("texts",)

    def __init__(self) -> None:
        super().__init__(Seen)
        self.texts: list[bytes] = []

    def read(self, body: bytes) -> Wire | None:
        self.texts.append(body)
        return super().read(body)


def messages(count: int) -> list[Wire]:
    return [{"role": "user", "content": f"{i} " + "état " * 40} for i in range(count)]


def body(count: int, model: str = "m", **more: Any) -> bytes:
    return encode({"model": model, "messages": messages(count), "tools": [{"name": "t"}], **more})


def learnt(data: bytes, caller: str = "a") -> tuple[KnownBodies, NotingGlance]:
    known, glance = KnownBodies(), NotingGlance()
    for _ in range(2):
        known.read(caller, glance, "messages", data)
    return known, glance


def is_read(known: KnownBodies, glance: NotingGlance, data: bytes, caller: str = "a") -> bool:
    """Whether the body is read in full; what is found must be the same."""
    glance.texts.clear()
    read = known.read(caller, glance, "messages", data)
    assert (read.fields if read else None) == Glance(Seen).read(data)
    return data in glance.texts


def test_a_conversation_is_learnt_when_it_comes_again() -> None:
    known, glance = KnownBodies(), NotingGlance()
    assert is_read(known, glance, body(6))
    assert is_read(known, glance, body(6))
    assert not is_read(known, glance, body(6))


def test_it_stays_known_while_it_grows() -> None:
    known, glance = learnt(body(6))
    assert not any(is_read(known, glance, body(count)) for count in range(7, 60))
    assert is_read(known, glance, body(7))  # from what is known of a longer one


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_of_a_short_one_what_follows_the_messages_is_known(count: int) -> None:
    tools = [{"name": "t" * 1000}]
    known, glance = learnt(body(count, tools=tools))
    assert not is_read(known, glance, body(count, tools=tools))
    assert not is_read(known, glance, body(count + 2, tools=tools)) or count < 2  # it begins otherwise


def test_of_a_short_one_nothing_else_is_known() -> None:
    known, glance = learnt(body(2))
    assert is_read(known, glance, body(2, tools=[{"name": "t"}, {}]))


def test_one_that_has_grown_too_large_is_not_learnt_and_drops_nothing() -> None:
    known, glance = KnownBodies(40_000), NotingGlance()
    for caller in "aabb":
        known.read(caller, glance, "messages", body(6))
    for tools in ([{"name": "t"}], [], [], []):
        assert not is_read(known, glance, body(200, tools=tools), "b")
    assert not any(is_read(known, glance, body(6), caller) for caller in "ab")


def test_of_two_tails_with_the_same_end_the_longer_one_is_tried() -> None:
    """Requests without tools, for titles, end like the array of the tools."""
    known, glance = learnt(body(2, tools=[{"name": "t" * 1000}]))
    short = encode({"model": "m", "messages": messages(2)})
    assert [is_read(known, glance, short) for _ in range(4)][-1] is False
    assert not is_read(known, glance, body(2, tools=[{"name": "t" * 1000}]))


def test_messages_at_its_end_may_change() -> None:
    known, glance = learnt(body(6))
    changed = encode({"model": "m", "messages": [*messages(4), {}, {}, {}], "tools": [{"name": "t"}]})
    assert not is_read(known, glance, changed)


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new)


LAST = b'},{"role":"user","content":"5 '
TAILS: dict[str, Callable[[bytes], bytes]] = {
    "the tools": replaced(b'"t"', b'"other"'),
    "a field at its end": lambda data: data[:-1] + b',"model":"other"}',
    "two fields": lambda data: data[:-1] + b',"messages":[{},{},{},{},{}]}',
    "spaces": replaced(b'],"tools"', b'  ] ,"tools"'),
}


@pytest.mark.parametrize("name", TAILS)
def test_what_follows_may_change(name: str) -> None:
    known, glance = learnt(body(6))
    other = TAILS[name](body(6))
    assert other != body(6)
    assert not is_read(known, glance, other)
    more = TAILS[name](body(9))
    for _ in range(3):  # it goes on from the first
        assert not is_read(known, glance, more)
    assert is_read(known, glance, more.replace(b"content", b"Content", 1))


OTHERS: dict[str, Callable[[bytes], bytes]] = {
    "an early message": replaced(b"1 \xc3\xa9", b"1 e"),
    "the model": replaced(b'"m"', b'"other"'),
    "a tail without its beginning": lambda data: data[:600] + data[-20:],
    "the beginning without a tail": lambda data: data[:-1],
    "broken JSON in the last message": replaced(b'"5 ', b'"5 \x01'),
    "the array ends early": replaced(LAST, b'}],"x":[{"content":"'),
    "two arrays end": replaced(LAST, b'}]],"x":[[{"content":"'),
    "bytes that are not UTF-8": replaced(b'"5 \xc3', b'"5 \xff'),
    "two commas": replaced(LAST, b'},,{"content":"'),
    "no comma": replaced(LAST, b'} {"content":"'),
    "a number that is too long": replaced(LAST, b'},%b,{"content":"' % (b"1" * 9000)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_everything_else_is_read(name: str) -> None:
    known, glance = learnt(body(6))
    other = OTHERS[name](body(6))
    assert other != body(6)
    assert is_read(known, glance, other)


def test_a_broken_body_is_read_twice_at_most() -> None:
    """However many known ones it begins like: those of a conversation that went back to earlier turns."""
    known, glance = KnownBodies(), NotingGlance()
    for count in (50, 40, 30, 20, 10):
        assert [is_read(known, glance, body(count)) for _ in "abc"] == [True, True, False]
    assert is_read(known, glance, body(60)[:-1])
    assert len(glance.texts) == 2


def test_where_the_tail_overlaps_the_beginning_it_is_read() -> None:
    data = b'{"messages":[%b]}' % b",".join([b'{"a":"%b]}"}' % (b"x" * 600)] * 6)
    known, glance = learnt(data)
    assert not is_read(known, glance, data)
    assert is_read(known, glance, data[: data.index(b']}"}') + 2])


def test_an_array_elsewhere_with_the_same_text_is_not_taken_for_the_messages() -> None:
    text = encode(messages(6)).decode()
    data = f'{{"tools":[{{"messages":{text}}}],"messages":{text}}}'.encode()
    known, glance = learnt(data)
    assert is_read(known, glance, data)


def test_of_two_fields_the_first_is_not_taken_for_the_messages() -> None:
    text = encode(messages(6)).decode()
    known, glance = learnt(f'{{"messages":{text},"messages":[]}}'.encode())
    assert is_read(known, glance, f'{{"messages":{text},"messages":[]}}'.encode())


def test_numbers_are_no_messages() -> None:
    data = b'{"messages":[%b]}' % b",".join([b"1"] * 900)
    known, glance = learnt(data)
    assert is_read(known, glance, data)


def test_callers_share_nothing() -> None:
    known, glance = learnt(body(6))
    assert is_read(known, glance, body(6), "b")


def test_a_body_that_may_hold_a_key_is_not_kept() -> None:
    known, glance = KnownBodies(), NotingGlance()
    for _ in range(4):
        known.read("a", glance, "messages", body(6), lambda seen: "tools" in seen)
    assert known.size == 0
    assert is_read(known, glance, body(6))


def test_bodies_that_never_come_again_are_learnt_ever_more_rarely() -> None:
    known, glance = KnownBodies(), NotingGlance()
    for number in range(1000):
        known.read("a", glance, "messages", body(6, f"m{number}"))
    assert known.size < 12 * (len(body(6)) + 1000)


def test_all_take_no_more_than_the_limit() -> None:
    known, glance = KnownBodies(50_000), NotingGlance()
    for number in range(40):
        for _ in range(3):
            known.read(f"caller {number}", glance, "messages", body(20, f"m{number}"))
        assert known.size <= 50_000
    assert not is_read(known, glance, body(20, "m39"), "caller 39")
    assert is_read(known, glance, body(20, "m0"), "caller 0")


@pytest.mark.parametrize("tools_first", [True, False])
def test_many_conversations_of_one_agent_stay_known(tools_first: bool) -> None:
    def conversation(number: int) -> bytes:
        tools = {"tools": [{"name": "t", "description": "x" * 1000}]}
        talk = {"messages": [{"role": "user", "content": f"{number} "}, *messages(5)]}
        return encode({"model": "m", **tools, **talk} if tools_first else {"model": "m", **talk, **tools})

    known, glance = KnownBodies(), NotingGlance()
    for _ in range(12):  # not every unknown one is learnt
        for number in range(100):
            known.read("a", glance, "messages", conversation(number))
    assert not any(is_read(known, glance, conversation(number)) for number in range(100))


def test_what_is_known_of_a_caller_is_counted() -> None:
    known, glance = KnownBodies(), NotingGlance()
    for number in range(3000):
        head = {"system": "s" * (number % 40)}
        data = encode({**head, "messages": messages(1 + number % 9), "n": number % 7})
        for _ in range(2):
            known.read("a", glance, "messages", data)
    places = known._callers["a"].places  # pyright: ignore[reportPrivateUsage]
    bodies = [body for place in places for alike in place.known.values() for body in alike]
    assert known.size == sum(body.size for body in bodies) > 0
