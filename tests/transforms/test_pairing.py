"""Calls and results: one row for each way a history arrives out of order."""

from __future__ import annotations

import re

import pytest

from dragoman.core.codec import ProtocolLimits
from dragoman.core.fold import Restart, end, report
from dragoman.core.losses import Losses
from dragoman.core.model import Media, Message, Text, ToolCall, ToolResult, Url
from dragoman.transforms.pairing import NO_RESULT, Pair, facts_of

ANY = ProtocolLimits(call_id="(?s).*", call_id_length=1_000)
WORDS = ProtocolLimits(call_id="[a-zA-Z0-9_-]+")
LETTERS = ProtocolLimits(call_id="[a-z0-9]+", call_id_length=9)


def user(*parts: object) -> Message:
    return Message("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))  # type: ignore[misc]


def model(*parts: object) -> Message:
    return Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))  # type: ignore[misc]


def call(id: str, name: str = "f") -> ToolCall:
    return ToolCall(id, name, "{}")


def result(id: str, text: str = "ok", name: str = "") -> ToolResult:
    return ToolResult(id, name, (Text(text),))


def answered(id: str, text: str = "ok", name: str = "f") -> ToolResult:
    return ToolResult(id, name, (Text(text),))


IMAGE = Media("image", "", Url("https://x/y.png"))
HELLO = user("hello")
SYSTEM = Message("system", (Text("mind"),))

# name: (messages, expected messages, kinds of losses)
CASES = {
    "nothing to do": ([HELLO, model("hi")], [HELLO, model("hi")], []),
    "a pair in order": (
        [HELLO, model(call("a")), user(result("a"))],
        [HELLO, model(call("a")), user(answered("a"))],
        [],
    ),
    "G37 parallel results in messages of their own are one message": (
        [model(call("a"), call("b")), user(result("a")), user(result("b"))],
        [model(call("a"), call("b")), user(answered("a"), answered("b"))],
        [],
    ),
    "results follow the order of their calls": (
        [model(call("a"), call("b")), user(result("b", "2"), result("a", "1"))],
        [model(call("a"), call("b")), user(answered("a", "1"), answered("b", "2"))],
        [],
    ),
    "G41 G43 text before a result goes behind it": (
        [model(call("a")), user("look:", result("a"), IMAGE)],
        [model(call("a")), user(answered("a"), "look:", IMAGE)],
        [],
    ),
    "G42 text beside a result is kept": (
        [model(call("a")), user(result("a"), "and now?")],
        [model(call("a")), user(answered("a"), "and now?")],
        [],
    ),
    "text in a later message stays a message": (
        [model(call("a")), user(result("a")), user("and now?")],
        [model(call("a")), user(answered("a")), user("and now?")],
        [],
    ),
    "a message between call and result moves behind": (
        [model(call("a")), SYSTEM, user(result("a"))],
        [model(call("a")), user(answered("a")), SYSTEM],
        [],
    ),
    "G44 text around calls keeps its order": (
        [model("one", call("a"), "two"), user(result("a"))],
        [model("one", call("a"), "two"), user(answered("a"))],
        [],
    ),
    "G57 assistant messages in a row are one turn": (
        [model("text"), model(call("a")), model(call("b")), user(result("a"), result("b"))],
        [model("text", call("a"), call("b")), user(answered("a"), answered("b"))],
        [],
    ),
    "steps stay steps": (
        [model(call("a")), user(result("a")), model(call("b")), user(result("b"))],
        [model(call("a")), user(answered("a")), model(call("b")), user(answered("b"))],
        [],
    ),
    "G38 a call without result": (
        [model(call("a")), user("never mind")],
        [model(call("a")), user(answered("a", NO_RESULT)), user("never mind")],
        ["invented"],
    ),
    "G38 a result without call": (
        [HELLO, user(result("zz", "42"))],
        [HELLO, user("Result of a tool call that is no longer in the conversation (zz):", "42")],
        ["changed"],
    ),
    "G39 a second result for one call": (
        [model(call("a")), user(result("a", "1")), user(result("a", "2"))],
        [model(call("a")), user(answered("a", "1"))],
        ["dropped"],
    ),
    "G46 same-named calls without ids pair in order": (
        [model(call(""), call("")), user(result("", "1", "f"), result("", "2", "f"))],
        [
            model(call("call_dgm_1"), call("call_dgm_2")),
            user(answered("call_dgm_1", "1"), answered("call_dgm_2", "2")),
        ],
        [],
    ),
    "G46 calls without ids pair by name": (
        [model(call("", "f"), call("", "g")), user(result("", "2", "g"), result("", "1", "f"))],
        [
            model(call("call_dgm_1", "f"), call("call_dgm_2", "g")),
            user(answered("call_dgm_1", "1", "f"), answered("call_dgm_2", "2", "g")),
        ],
        [],
    ),
    "G46 a result without an id answers the latest turn that waits": (
        [model(call("", "f")), user("stop"), model(call("", "f")), user(result("", "2", "f"))],
        [
            model(call("call_dgm_1", "f")),
            user(answered("call_dgm_1", NO_RESULT, "f")),
            user("stop"),
            model(call("call_dgm_2", "f")),
            user(answered("call_dgm_2", "2", "f")),
        ],
        ["invented"],
    ),
    "G46 a late result without an id": (
        [
            model(call("", "f")),
            user("stop"),
            model(call("", "f")),
            user(result("", "2", "f")),
            user(result("", "1", "f")),
        ],
        [
            model(call("call_dgm_1", "f")),
            user(answered("call_dgm_1", "1", "f")),
            user("stop"),
            model(call("call_dgm_2", "f")),
            user(answered("call_dgm_2", "2", "f")),
        ],
        [],
    ),
    "a client that keeps ids on results alone": (
        [model(call("", "f")), user(result("x", "1", "f"))],
        [model(call("call_dgm_1", "f")), user(answered("call_dgm_1", "1", "f"))],
        [],
    ),
    "G47 an id used again in a later turn": (
        [model(call("a")), user(result("a", "1")), model(call("a")), user(result("a", "2"))],
        [model(call("a")), user(answered("a", "1")), model(call("a_2")), user(answered("a_2", "2"))],
        [],
    ),
    "an unanswered call whose id comes back later": (
        [model(call("a")), user("stop"), model(call("a")), user(result("a", "2"))],
        [
            model(call("a")),
            user(answered("a", NO_RESULT)),
            user("stop"),
            model(call("a_2")),
            user(answered("a_2", "2")),
        ],
        ["invented"],
    ),
}


def settled(
    messages: list[Message], limits: ProtocolLimits, losses: Losses, whole: bool = True
) -> list[Message]:
    runs = [Pair(limits, whole).begin()]
    paired = end(runs, [facts_of(message, limits) for message in messages])
    report(runs, losses)
    return [*paired]


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in windows"])
@pytest.mark.parametrize("messages, expected, kinds", CASES.values(), ids=CASES)
def test_pairing(messages: list[Message], expected: list[Message], kinds: list[str], whole: bool) -> None:
    losses = Losses()
    try:
        paired = settled(messages, ANY, losses, whole)
    except Restart:  # a result that comes too late for its window
        assert not whole
        return
    assert paired == expected
    assert [loss.kind for loss in losses] == kinds


@pytest.mark.parametrize("messages, expected, kinds", CASES.values(), ids=CASES)
def test_what_is_in_order_stays(messages: list[Message], expected: list[Message], kinds: list[str]) -> None:
    losses = Losses()
    assert list(settled(expected, ANY, losses)) == expected
    assert not list(losses)


def test_ids_are_spelled_as_the_upstream_takes_them() -> None:
    paired = settled([model(call("a:1")), user(result("a:1"))], WORDS, Losses())
    ids = [part.id for part in paired[0].parts if isinstance(part, ToolCall)]
    assert ids[0].startswith("a_1_")
    assert [part.call_id for part in paired[1].parts if isinstance(part, ToolResult)] == ids


def test_the_number_of_a_repeated_id_is_spelled_so_too() -> None:
    turns = [model(call("a")), user(result("a")), model(call("a")), user(result("a"))]
    paired = settled(turns, LETTERS, Losses())
    first, second = [part.id for message in paired for part in message.parts if isinstance(part, ToolCall)]
    assert first == "a"
    assert re.fullmatch("[a-z0-9]{9}", second)


def test_the_cost_is_linear_in_calls() -> None:
    ids = [f"c{number % 9000}" for number in range(18_000)]  # a search through all would take minutes
    calls, results = model(*map(call, ids)), user(*map(result, reversed(ids)))
    assert len(settled([calls, results], ANY, Losses())[1].parts) == len(ids)
