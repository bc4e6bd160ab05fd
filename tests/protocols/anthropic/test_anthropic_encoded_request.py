"""Requests from elsewhere as Anthropic takes them: the order of turns, and what cannot be said."""

from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import (
    Base64,
    Citation,
    FileId,
    Foreign,
    Media,
    Message,
    Plain,
    Reasoning,
    Refusal,
    Request,
    Role,
    Settings,
    State,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
    Url,
    Wire,
)
from dragoman.profiles import profile_of
from dragoman.protocols.anthropic import CODEC

OLD, NEW = "claude-sonnet-4-5", "claude-opus-5"
LIMIT = Settings(max_tokens=9)
TOOLS = (ToolDeclaration("f"),)


def encode(*messages: Message, model: str = OLD, **more: Any) -> tuple[Wire, list[str]]:
    losses = Losses()
    request = Request(model, messages, tools=TOOLS, settings=LIMIT, **more)
    return CODEC.encode_request(request, losses, profile_of(request.model, "", CODEC.name)), [
        str(loss) for loss in losses
    ]


def message(role: Role, *parts: Any, where: str = "") -> Message:
    texts = [Text(part, where=f"{where}.text") if isinstance(part, str) else part for part in parts]
    return Message(role, tuple(texts), where=where)


def user(*parts: Any) -> Message:
    return message("user", *parts, where="U")


def model(*parts: Any) -> Message:
    return message("assistant", *parts, where="A")


def system(*parts: Any) -> Message:
    return message("system", *parts, where="S")


def turn(role: str, *blocks: Any) -> Wire:
    return {
        "role": role,
        "content": blocks[0] if len(blocks) == 1 and isinstance(blocks[0], str) else list(blocks),
    }


def text(words: str) -> Wire:
    return {"type": "text", "text": words}


HELLO = user("hello")
ASKED = turn("user", "hello")
SIGNED = Reasoning("hm", state=State("anthropic", "S"), where="R")
THINKING = {"type": "thinking", "thinking": "hm", "signature": "S"}
CALL = ToolCall("t1", "f", '{"a":1}')
CALLED = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
CONTINUED = "(conversation continues)"

# name: (messages, model, system, messages, losses)
TURNS: dict[str, tuple[list[Message], str, Any, list[Wire], list[str]]] = {
    "texts": (
        [HELLO, model("hi"), user("and?")],
        OLD,
        None,
        [ASKED, turn("assistant", "hi"), turn("user", "and?")],
        [],
    ),
    "several texts are several blocks": (
        [user("a", "b")],
        OLD,
        None,
        [turn("user", text("a"), text("b"))],
        [],
    ),
    "leading system text stands outside": (
        [system("a"), message("developer", "b"), HELLO],
        OLD,
        [text("a"), text("b")],
        [ASKED],
        [],
    ),
    "G54 later system text is the user's on older models": (
        [HELLO, model("hi"), system("mind"), user("x"), system("so")],
        OLD,
        None,
        [ASKED, turn("assistant", "hi"), turn("user", "mind"), turn("user", "x"), turn("user", "so")],
        ["changed S: The model takes no system text at this place. It was sent as the user's."],
    ),
    "G54 but results follow their calls": (
        [HELLO, model(CALL), system("mind"), user(ToolResult("t1")), user("x")],
        OLD,
        None,
        [
            ASKED,
            turn("assistant", CALLED),
            turn("user", {"type": "tool_result", "tool_use_id": "t1"}),
            turn("user", "mind"),
            turn("user", "x"),
        ],
        ["changed S: The model takes no system text at this place. It was sent as the user's."],
    ),
    "G54 newer models take it before their turn": (
        [HELLO, system("mind"), model("hi"), user("x"), system("a"), system("b")],
        NEW,
        None,
        [
            ASKED,
            turn("system", "mind"),
            turn("assistant", "hi"),
            turn("user", "x"),
            turn("system", "a"),
            turn("system", "b"),
        ],
        [],
    ),
    "but only after a user's turn": (
        [HELLO, model("hi"), system("mind"), user("x")],
        NEW,
        None,
        [ASKED, turn("assistant", "hi"), turn("user", "mind"), turn("user", "x")],
        ["changed S: The model takes no system text at this place. It was sent as the user's."],
    ),
    "and not between turns of the model": (
        [HELLO, model(SIGNED, CALL), system("mind"), model("x"), user("y")],
        NEW,
        None,
        [
            ASKED,
            turn("assistant", THINKING, CALLED),
            turn("user", "mind"),
            turn("assistant", "x"),
            turn("user", "y"),
        ],
        ["changed S: The model takes no system text at this place. It was sent as the user's."],
    ),
    "the system says text only": (
        [system("a", Media("image", "", Url("https://x"))), HELLO],
        OLD,
        "a",
        [ASKED],
        ["dropped S: Anthropic takes only text from the system."],
    ),
    "blank system text falls away": ([system(" "), HELLO], OLD, None, [ASKED], []),
    "G57 turns of the model that meet are one": (
        [HELLO, model(SIGNED), model("x"), model(CALL), user(ToolResult("t1"))],
        OLD,
        None,
        [
            ASKED,
            turn("assistant", THINKING, text("x"), CALLED),
            turn("user", {"type": "tool_result", "tool_use_id": "t1"}),
        ],
        [],
    ),
    "G51 blank texts": (
        [user("hello", " \n", ""), model(""), user("\t")],
        OLD,
        None,
        [turn("user", "hello")],
        ["dropped U.text: Anthropic refuses blank text."],
    ),
    "blank texts beside others in a result": (
        [
            user(ToolResult("t1", content=(Text(" "), Text("x"), Text("")))),
            user(ToolResult("t2", content=(Text(" "),))),
        ],
        OLD,
        None,
        [
            turn("user", {"type": "tool_result", "tool_use_id": "t1", "content": "x"}),
            turn("user", {"type": "tool_result", "tool_use_id": "t2", "content": " "}),
        ],
        [],
    ),
    "a turn of the model does not end with thinking": (
        [HELLO, model("x", SIGNED), user("y"), model(SIGNED), user("z")],
        OLD,
        None,
        [ASKED, turn("assistant", "x"), turn("user", "y"), turn("user", "z")],
        ["dropped R: Anthropic refuses a model's message that ends with thinking."],
    ),
    "G100 unsigned thinking": (
        [HELLO, model(Reasoning("hm", where="R"), "x"), user("y")],
        OLD,
        None,
        [ASKED, turn("assistant", "x"), turn("user", "y")],
        ["dropped R: Anthropic takes back only reasoning that it signed."],
    ),
    "G100 thinking that others signed": (
        [HELLO, model(Reasoning("hm", state=State("gemini", "S"), where="R"), "x"), user("y")],
        OLD,
        None,
        [ASKED, turn("assistant", "x"), turn("user", "y")],
        ["dropped R: Anthropic takes back only reasoning that it signed."],
    ),
    "a conversation that begins with the model": (
        [model("hi"), user("x")],
        OLD,
        None,
        [turn("user", CONTINUED), turn("assistant", "hi"), turn("user", "x")],
        [f"invented messages: For Anthropic a conversation begins with the user. {CONTINUED!r} was sent."],
    ),
    "no conversation": (
        [system("a")],
        OLD,
        "a",
        [turn("user", CONTINUED)],
        [f"invented messages: For Anthropic a conversation begins with the user. {CONTINUED!r} was sent."],
    ),
    "G53 a last turn of the model that ends in white space": (
        [HELLO, model("The answer: \n")],
        OLD,
        None,
        [ASKED, turn("assistant", "The answer:")],
        ["changed A.text: For Anthropic the last message cannot end in white space. It was cut off."],
    ),
    "white space in the middle stays": (
        [HELLO, model("x \n"), user("y \n")],
        OLD,
        None,
        [ASKED, turn("assistant", "x \n"), turn("user", "y \n")],
        [],
    ),
    "G53 newer models take no last turn of their own": (
        [HELLO, model("The answer: ")],
        NEW,
        None,
        [ASKED, turn("assistant", "The answer: "), turn("user", CONTINUED)],
        [f"invented messages: For this model a conversation ends with the user. {CONTINUED!r} was sent."],
    ),
    "a refusal": (
        [HELLO, model(Refusal("no", where="F")), user("x")],
        OLD,
        None,
        [ASKED, turn("assistant", "no"), turn("user", "x")],
        ["changed F: Anthropic has no refusals in requests. It was sent as text."],
    ),
    "citations that others made": (
        [HELLO, model(Text("x", (Citation("https://a"),), where="A.text")), user("y")],
        OLD,
        None,
        [ASKED, turn("assistant", "x"), turn("user", "y")],
        ["dropped A.text.citations: Anthropic takes back only citations that it made."],
    ),
    "parts that only others understand": (
        [user("x", Foreign("gemini", {}))],
        OLD,
        None,
        [turn("user", text("x"))],
        [],
    ),
}


@pytest.mark.parametrize(("messages", "name", "front", "expected", "lost"), TURNS.values(), ids=TURNS)
def test_turns(messages: list[Message], name: str, front: Any, expected: list[Wire], lost: list[str]) -> None:
    wire, losses = encode(*messages, model=name)
    assert wire["messages"] == expected
    assert wire.get("system") == front
    assert losses == lost


def test_system_text_of_the_request_stands_before_that_of_messages() -> None:
    wire, _ = encode(system("b"), HELLO, system=(Text("a"),))
    assert wire["system"] == [text("a"), text("b")]


PNG, PDF = "iVBORw0KGgo=", "JVBERi0="
LOST = "dropped M: Anthropic takes no {0} of this form ({1})."
# name: (media, block, losses)
MEDIA: dict[str, tuple[Media, Wire, list[str]]] = {
    "image": (
        Media("image", "image/png", Base64(PNG)),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        [],
    ),
    "image by address": (
        Media("image", "image/png", Url("https://x")),
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
        [],
    ),
    "detail": (
        Media("image", "image/png", Url("https://x"), detail="high"),
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
        ["dropped M.detail: Anthropic has no such setting."],
    ),
    "detail that says nothing": (
        Media("image", "", Url("https://x"), detail="auto"),
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
        [],
    ),
    "image of another type": (
        Media("image", "image/tiff", Base64(PNG)),
        text("[image of type image/tiff left out]"),
        [LOST.format("image", "image/tiff")],
    ),
    "G74 pdf": (
        Media("document", "application/pdf", Base64(PDF), "a.pdf"),
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            "title": "a.pdf",
        },
        [],
    ),
    "pdf by address": (
        Media("document", "", Url("https://x")),
        {"type": "document", "source": {"type": "url", "url": "https://x"}},
        [],
    ),
    "text file": (
        Media("document", "text/markdown", Plain("# x"), "a.md"),
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "# x"},
            "title": "a.md",
        },
        [],
    ),
    "text file as base64": (
        Media("document", "text/csv", Base64("YSxiCg==")),
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b\n"}},
        [],
    ),
    "JSON file as base64": (
        Media("document", "application/json", Base64("e30=")),
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "{}"}},
        [],
    ),
    "text file that is no text": (
        Media("document", "text/plain", Base64("/w==")),
        text("[document of type text/plain left out]"),
        [LOST.format("document", "text/plain")],
    ),
    "text file in broken base64": (
        Media("document", "text/plain", Base64("é")),
        text("[document of type text/plain left out]"),
        [LOST.format("document", "text/plain")],
    ),
    "a table": (
        Media("document", "application/vnd.ms-excel", Base64("AAAA")),
        text("[document of type application/vnd.ms-excel left out]"),
        [LOST.format("document", "application/vnd.ms-excel")],
    ),
    "audio": (
        Media("audio", "audio/wav", Base64("AAAA")),
        text("[audio of type audio/wav left out]"),
        [LOST.format("audio", "audio/wav")],
    ),
    "video by address": (
        Media("video", "", Url("https://x")),
        text("[video of type unknown left out]"),
        [LOST.format("video", "unknown type")],
    ),
    "own file": (
        Media("image", "", FileId("f1", "anthropic")),
        {"type": "image", "source": {"type": "file", "file_id": "f1"}},
        [],
    ),
    "file of another provider": (
        Media("image", "image/png", FileId("f1", "openai")),
        text("[image of type image/png left out]"),
        [LOST.format("image", "image/png")],
    ),
}


@pytest.mark.parametrize(("media", "block", "lost"), MEDIA.values(), ids=MEDIA)
def test_media(media: Media, block: Wire, lost: list[str]) -> None:
    wire, losses = encode(user(replace(media, where="M")))
    assert wire["messages"] == [turn("user", block)]
    assert losses == lost


def test_g69_media_inside_a_result() -> None:
    content = (Text("see"), Media("image", "image/png", Base64(PNG)))
    wire, losses = encode(user(ToolResult("t1", "f", content, failed=True), "and?"))
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("see"), image], "is_error": True}
    assert wire["messages"] == [turn("user", result, text("and?"))]
    assert losses == []


# name: (call, input, losses)
RAW = "changed C.arguments: The arguments are no JSON object. They were sent as written."
ARGUMENTS: dict[str, tuple[ToolCall, Any, list[str]]] = {
    "an object": (ToolCall("t", "f", '{"a": 1}'), {"a": 1}, []),
    "G64 nothing": (ToolCall("t", "f", ""), {}, []),
    "blank": (ToolCall("t", "f", " \n"), {}, []),
    "G59 an array": (ToolCall("t", "f", "[1]"), {"_raw_arguments": "[1]"}, [RAW]),
    "G66 broken": (ToolCall("t", "f", '{"a":'), {"_raw_arguments": '{"a":'}, [RAW]),
    "freeform that says nothing": (ToolCall("t", "f", "", kind="custom"), {"input": ""}, []),
    "freeform": (ToolCall("t", "f", "*** Begin", kind="custom"), {"input": "*** Begin"}, []),
}


@pytest.mark.parametrize(("call", "expected", "lost"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(call: ToolCall, expected: Any, lost: list[str]) -> None:
    wire, losses = encode(HELLO, model(replace(call, where="C")), user(ToolResult("t")))
    assert wire["messages"][1]["content"][0]["input"] == expected
    assert losses == lost


def test_a_history_with_calls_and_no_tools_declares_them() -> None:
    """Bedrock and older models refuse tool blocks without tools; the model must not call them."""
    losses = Losses()
    request = Request(OLD, (HELLO, model(CALL), user(ToolResult("t1"))), settings=LIMIT)
    wire = CODEC.encode_request(request, losses)
    assert wire["tools"] == [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]
    assert wire["tool_choice"] == {"type": "none"}
    assert [loss.code for loss in losses] == ["tool.declaration.invented"]


def test_what_is_written_is_the_same_every_time() -> None:
    """G111: prompts are cached by their bytes."""
    request = Request(OLD, (HELLO, model(CALL), user(ToolResult("t1", content=(Text("x"),)))), settings=LIMIT)
    one, two = (CODEC.encode_request(request, Losses()) for _ in range(2))
    assert repr(one) == repr(two)


# name: (lifetime, cache_control)
CACHED: dict[str, tuple[str, Wire]] = {
    "the usual time": ("5m", {"type": "ephemeral"}),
    "an hour": ("1h", {"type": "ephemeral", "ttl": "1h"}),
}


@pytest.mark.parametrize(("lifetime", "mark"), CACHED.values(), ids=CACHED)
def test_a_cache_breakpoint_of_another_protocol(lifetime: str, mark: Wire) -> None:
    wire, losses = encode(user(Text("long", cache=lifetime)))
    assert wire["messages"] == [turn("user", {**text("long"), "cache_control": mark})]
    assert losses == []
