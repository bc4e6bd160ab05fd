"""What a client repeats of a conversation is recognised; what it changes is not."""

from __future__ import annotations

import pytest

from dragoman.core.model import AnyPart, Base64, Media, Message, Reasoning, State, Text, ToolCall, ToolResult
from dragoman.transforms.session import fingerprint


def user(*parts: AnyPart) -> Message:
    return Message("user", parts)


def assistant(*parts: AnyPart) -> Message:
    return Message("assistant", parts)


def result(text: str, id: str = "call_1", failed: bool = False) -> ToolResult:
    return ToolResult(id, content=(Text(text),), failed=failed)


ASKED = user(Text("Read it."))
CALLED = assistant(Text("I'll read it."), ToolCall("call_1", "read", '{"path":"/p","lines":5}'))
IMAGE = Media("image", "image/png", Base64("aaaa"))
TOLD = (ASKED, CALLED, user(result("text"), IMAGE))

SAME = {
    "white space": assistant(Text("I'll read it.\n\n"), CALLED.parts[1]),
    "reasoning": assistant(Reasoning("hm"), *CALLED.parts),
    "spelling of arguments": assistant(
        CALLED.parts[0], ToolCall("call_1", "read", '{ "lines": 5.0, "path": "\\u002fp" }')
    ),
    "text around the call": assistant(Text("I'll "), CALLED.parts[1], Text("read it.")),
    "state and extras": assistant(
        Text("I'll read it.", extras={"x": {"cache": 1}}),
        ToolCall("call_1", "read", '{"path":"/p","lines":5}', state=State("o", "s"), where="messages[1]"),
    ),
    "a call that was cut": assistant(*CALLED.parts, ToolCall("call_2", "read", '{"pa', complete=False)),
}
OTHER = {
    "another prompt": (user(Text("Read it. ")), *TOLD[1:]),
    "another role": (Message("system", ASKED.parts), *TOLD[1:]),
    "another text": (ASKED, assistant(Text("I read it."), CALLED.parts[1]), TOLD[2]),
    "another tool": (ASKED, assistant(CALLED.parts[0], ToolCall("call_1", "cat", "{}")), TOLD[2]),
    "another argument": (
        ASKED,
        assistant(CALLED.parts[0], ToolCall("call_1", "read", '{"path":"/p","lines":"5"}')),
        TOLD[2],
    ),
    "another result": (ASKED, CALLED, user(result("other"), IMAGE)),
    "a failed result": (ASKED, CALLED, user(result("text", failed=True), IMAGE)),
    "another image": (ASKED, CALLED, user(result("text"), Media("image", "image/png", Base64("bbbb")))),
    "one turn less": TOLD[:2],
    "no reply": (ASKED, TOLD[2]),
}


@pytest.mark.parametrize("name", SAME)
def test_repeated(name: str) -> None:
    assert fingerprint(["s"], (ASKED, SAME[name], TOLD[2])) == fingerprint(["s"], TOLD)


@pytest.mark.parametrize("name", OTHER)
def test_changed(name: str) -> None:
    assert fingerprint(["s"], OTHER[name]) != fingerprint(["s"], TOLD)


def test_what_stands_in_front() -> None:
    prints = {fingerprint(front, TOLD) for front in (["s"], ["t"], [], ["", "s"], ["s", ""])}
    assert len(prints) == 5


def test_a_reply_may_be_several_messages() -> None:
    apart = (ASKED, assistant(CALLED.parts[0]), assistant(CALLED.parts[1]), TOLD[2])
    assert fingerprint([], apart) == fingerprint([], TOLD)


def test_ids_count_only_as_far_as_they_tell_which_call_was_answered() -> None:
    def digest_of(first: str, second: str, answered: str) -> str:
        calls = (ToolCall(first, "read", "{}"), ToolCall(second, "read", "{}"))
        return fingerprint([], (ASKED, assistant(*calls), user(result("x", answered))))

    assert digest_of("a", "b", "a") == digest_of("c", "d", "c")
    assert digest_of("a", "b", "a") != digest_of("a", "b", "b")
