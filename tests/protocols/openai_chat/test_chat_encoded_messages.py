"""Conversations of any protocol as Chat messages; state that is sealed into them."""

from typing import Any

import pytest
from msgspec.structs import replace

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
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Wire,
)
from dragoman.core.seal import seal, seal_state
from protocols.openai_chat.conversations import OURS, PDF, PNG, assistant, bare, call, decode, encode, user

IMAGE = Media("image", "image/png", Base64(PNG), where="a.image")
SHOWN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
CALLS = assistant(ToolCall("c1", "look", "{}"), ToolCall("c2", "f", "{}"))
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [call("c1", "look"), call("c2", "f")],
}
MOVED = "changed a.image: Chat takes no image in a tool result. It follows in a message."

# Conversations from other protocols, and what they become.
WRITTEN: dict[str, tuple[tuple[Message, ...], dict[str, Any], list[Wire], list[str]]] = {
    "system of one text": (
        (user(Text("hi")),),
        {"system": (Text("Be brief."),)},
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        [],
    ),
    "G55 system of several texts, and leading system messages, are one": (
        (Message("developer", (Text("c"),)), user(Text("hi"))),
        {"system": (Text("a"), Text("b"))},
        [
            {"role": "system", "content": [{"type": "text", "text": t} for t in "abc"]},
            {"role": "user", "content": "hi"},
        ],
        [],
    ),
    "system of several texts for a server that takes strings": (
        (user(Text("hi")),),
        {"system": (Text("a"), Text("b", where="system[1]")), "model": "deepseek-chat"},
        [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "hi"}],
        ["changed system[1]: It was joined to the text before it."],
    ),
    "G54 G56 system in mid-conversation stays, and is never a developer": (
        (user(Text("hi")), Message("developer", (Text("now"),)), user(Text("ho"))),
        {},
        [
            {"role": "user", "content": "hi"},
            {"role": "system", "content": "now"},
            {"role": "user", "content": "ho"},
        ],
        [],
    ),
    "user of parts": (
        (user(Text("see"), IMAGE, Text("")),),
        {},
        [{"role": "user", "content": [{"type": "text", "text": "see"}, SHOWN]}],
        [],
    ),
    "G52 calls alone": ((CALLS,), {}, [CALLED], []),
    "G64 a call without arguments": (
        (assistant(ToolCall("c1", "f")),),
        {},
        [{"role": "assistant", "content": None, "tool_calls": [call("c1", "f", "{}")]}],
        [],
    ),
    "G44 text after a call": (
        (assistant(Text("a"), ToolCall("c1", "f", "{}"), Text("b", where="content[2]")),),
        {},
        [
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                "tool_calls": [call("c1", "f")],
            }
        ],
        ["changed content[2]: Chat puts the text of a message before its calls."],
    ),
    "an empty assistant falls away": (
        (user(Text("a")), assistant(Text(""))),
        {},
        [{"role": "user", "content": "a"}],
        [],
    ),
    "custom call": (
        (assistant(ToolCall("c1", "patch", "***", "custom")),),
        {},
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "***"}}],
            }
        ],
        [],
    ),
    "refusal at OpenAI": (
        (assistant(Refusal("no")),),
        {},
        [{"role": "assistant", "content": None, "refusal": "no"}],
        [],
    ),
    "refusal elsewhere": (
        (assistant(Refusal("no")),),
        {"model": "llama-4"},
        [{"role": "assistant", "content": "no"}],
        [],
    ),
    "G37 G43 results first, each a message, then the text": (
        (
            CALLS,
            user(Text("and?"), ToolResult("c1", "look", (Text("1"),)), ToolResult("c2", "f", (Text("2"),))),
        ),
        {},
        [
            CALLED,
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
            {"role": "user", "content": "and?"},
        ],
        [],
    ),
    "result of several texts": (
        (user(ToolResult("c1", "f", (Text("1"), Text("2")))),),
        {},
        [{"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": t} for t in "12"]}],
        [],
    ),
    "result of several texts for a server that takes strings": (
        (user(ToolResult("c1", "f", (Text("1"), Text("2")))),),
        {"model": "deepseek-chat"},
        [{"role": "tool", "tool_call_id": "c1", "content": "1\n\n2"}],
        [],
    ),
    "empty result": (
        (user(ToolResult("c1", "f")),),
        {},
        [{"role": "tool", "tool_call_id": "c1", "content": ""}],
        [],
    ),
    "G69 image of a result, after all results": (
        (CALLS, user(ToolResult("c1", "look", (IMAGE,)), ToolResult("c2", "f", (Text("2"),)))),
        {},
        [
            CALLED,
            {"role": "tool", "tool_call_id": "c1", "content": "[image: see the next message]"},
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "From the result of look (call c1):"}, SHOWN],
            },
        ],
        [MOVED],
    ),
    "G69 image beside text, and a question after it": (
        (CALLS, user(ToolResult("c1", "look", (Text("shot"), IMAGE)), Text("well?"))),
        {},
        [
            CALLED,
            {"role": "tool", "tool_call_id": "c1", "content": "shot"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "From the result of look (call c1):"},
                    SHOWN,
                    {"type": "text", "text": "well?"},
                ],
            },
        ],
        [MOVED],
    ),
    "G69 results in messages of their own": (
        (
            CALLS,
            user(ToolResult("c1", "look", (IMAGE,))),
            user(ToolResult("c2", "f", (Text("2"),))),
            assistant(Text("ok")),
        ),
        {},
        [
            CALLED,
            {"role": "tool", "tool_call_id": "c1", "content": "[image: see the next message]"},
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "From the result of look (call c1):"}, SHOWN],
            },
            {"role": "assistant", "content": "ok"},
        ],
        [MOVED],
    ),
    "G74 PDF of a result": (
        (
            user(
                ToolResult(
                    "c1", "read", (Media("document", "application/pdf", Base64(PDF), "a.pdf", where="doc"),)
                )
            ),
        ),
        {},
        [
            {"role": "tool", "tool_call_id": "c1", "content": "[file: see the next message]"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "From the result of read (call c1):"},
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
                    },
                ],
            },
        ],
        ["changed doc: Chat takes no document in a tool result. It follows in a message."],
    ),
    "text file of a result stands in it": (
        (
            user(
                ToolResult(
                    "c1", "read", (Media("document", "text/plain", Plain("hi"), "a.txt", where="doc"),)
                )
            ),
        ),
        {},
        [{"role": "tool", "tool_call_id": "c1", "content": "a.txt:\nhi"}],
        ["changed doc: Chat takes no plain text files. The text was put into the message."],
    ),
    "Mistral wants an assistant between a result and the user": (
        (user(ToolResult("c1", "f", (Text("1"),)), Text("well?")),),
        {"model": "mistral-large-latest"},
        [
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "assistant", "content": "OK"},
            {"role": "user", "content": "well?"},
        ],
        ["invented assistant message: This upstream demands one between a result and the user."],
    ),
    "failed result": (
        (user(ToolResult("c1", "f", (Text("no such file"),), failed=True, where="r")),),
        {},
        [{"role": "tool", "tool_call_id": "c1", "content": "Error: no such file"}],
        ["changed r: Chat has no field for the failure of a tool. The text says it."],
    ),
    "failed result that says so": (
        (user(ToolResult("c1", "f", (Text('{"error": "x"}'),), failed=True, where="r")),),
        {},
        [{"role": "tool", "tool_call_id": "c1", "content": '{"error": "x"}'}],
        ["changed r: Chat has no field for the failure of a tool. The text says it."],
    ),
    "failed result without a word": (
        (user(ToolResult("c1", "f", failed=True, where="r")),),
        {},
        [{"role": "tool", "tool_call_id": "c1", "content": "Error: the tool call failed"}],
        ["changed r: Chat has no field for the failure of a tool. The text says it."],
    ),
    "audio": (
        (user(Media("audio", "audio/wav", Base64("QQ=="))),),
        {},
        [
            {
                "role": "user",
                "content": [{"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}}],
            }
        ],
        [],
    ),
    "audio of a type that Chat lacks": (
        (user(Media("audio", "audio/ogg", Base64("QQ=="), where="a")),),
        {},
        [{"role": "user", "content": [{"type": "text", "text": "[audio of type audio/ogg left out]"}]}],
        ["dropped a: Chat takes no audio of this form (audio/ogg)."],
    ),
    "PDF without a name": (
        (user(Media("document", "application/pdf", Base64(PDF), where="d")),),
        {},
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "file",
                        "file": {
                            "filename": "document.pdf",
                            "file_data": f"data:application/pdf;base64,{PDF}",
                        },
                    }
                ],
            }
        ],
        ["invented d.filename: Chat needs a name beside a file. document.pdf was sent."],
    ),
    "PDF by address": (
        (user(Media("document", "application/pdf", Url("https://a/b.pdf"), where="d")),),
        {},
        [{"role": "user", "content": [{"type": "text", "text": "[document: https://a/b.pdf]"}]}],
        ["changed d: Chat takes no files by address. The address was sent as text."],
    ),
    "file of another provider": (
        (user(Media("document", "", FileId("f", "anthropic"), where="d")),),
        {},
        [{"role": "user", "content": [{"type": "text", "text": "[document of type unknown left out]"}]}],
        ["dropped d: Chat takes no document of this form (unknown type)."],
    ),
    "picture of an assistant": (
        (assistant(Text("see"), IMAGE),),
        {},
        [{"role": "assistant", "content": "see"}],
        ["dropped a.image: Chat has no image in a message of the assistant."],
    ),
    "sources of an assistant": (
        (assistant(Text("fact", (Citation("https://a"),), where="t")),),
        {},
        [{"role": "assistant", "content": "fact"}],
        ["dropped t.citations: Chat takes no sources in a history."],
    ),
    "a foreign part was reported by whoever read it": (
        (assistant(Text("a"), Foreign("anthropic", {"type": "server_tool_use"})),),
        {},
        [{"role": "assistant", "content": "a"}],
        [],
    ),
    "a call in a user's mouth": (
        (user(ToolCall("c", "f", where="x")),),
        {},
        [{"role": "user", "content": [{"type": "text", "text": "[toolcall left out]"}]}],
        ["dropped x: Chat has no place for this ToolCall here."],
    ),
    "a result in an assistant's mouth": (
        (assistant(Text("a"), ToolResult("c", "f", where="x")),),
        {},
        [{"role": "assistant", "content": "a"}],
        ["dropped x: Chat has no results in a message of the assistant."],
    ),
    "G104 reasoning for a closed validator": (
        (assistant(Reasoning("hm", where="content[0]"), Text("ok")),),
        {},
        [{"role": "assistant", "content": "ok"}],
        ["dropped content[0]: This upstream does not take earlier reasoning."],
    ),
    "G102 reasoning for a model that takes it back": (
        (assistant(Reasoning("hm"), Reasoning("so"), Text("ok")),),
        {"model": "qwen3-max"},
        [{"role": "assistant", "reasoning_content": "hm\n\nso", "content": "ok"}],
        [],
    ),
    "G102 a model that demands it gets a placeholder on every turn": (
        (
            user(Text("a")),
            assistant(Text("ok"), ToolCall("c1", "f", "{}")),
            assistant(Reasoning("hm"), Text("b")),
        ),
        {"model": "kimi-k2-thinking"},
        [
            {"role": "user", "content": "a"},
            {
                "role": "assistant",
                "content": "ok",
                "tool_calls": [call("c1", "f")],
                "reasoning_content": "[reasoning unavailable]",
            },
            {"role": "assistant", "content": "b", "reasoning_content": "hm"},
        ],
        ["invented reasoning: This upstream demands reasoning on each of its messages."],
    ),
    "reasoning alone": (
        (assistant(Reasoning("hm")),),
        {"model": "qwen3"},
        [{"role": "assistant", "reasoning_content": "hm", "content": ""}],
        [],
    ),
    "signed reasoning returns to the server that signed it": (
        (
            assistant(
                Reasoning("hm", state=State(OURS, '[{"type":"reasoning.text","text":"hm","signature":"s"}]')),
                Text("ok"),
            ),
        ),
        {"model": "anthropic/claude-opus"},
        [
            {
                "role": "assistant",
                "content": "ok",
                "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}],
            }
        ],
        [],
    ),
    "G97 the signature of a call returns to the server that made it": (
        (assistant(ToolCall("c1", "f", "{}", state=State(OURS, "c2ln"))),),
        {"model": "gemini-3-pro"},
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call("c1", "f", extra_content={"google": {"thought_signature": "c2ln"}})],
            }
        ],
        [],
    ),
    "G97 and to nobody else": (
        (assistant(ToolCall("c1", "f", "{}", state=State("gemini", "c2ln"))),),
        {},
        [{"role": "assistant", "content": None, "tool_calls": [call("c1", "f")]}],
        [],
    ),
    "state that is not what we made of it is not sent": (
        (assistant(Reasoning("", True, state=State(OURS, "{"), where="r"), Text("ok")),),
        {},
        [{"role": "assistant", "content": "ok"}],
        ["dropped r: This upstream does not take earlier reasoning."],
    ),
}


@pytest.mark.parametrize("row", WRITTEN.values(), ids=WRITTEN)
def test_how_a_conversation_is_written(
    row: tuple[tuple[Message, ...], dict[str, Any], list[Wire], list[str]],
) -> None:
    messages, more, wires, lost = row
    assert encode(*messages, **more) == (wires, lost)


def test_no_placeholder_where_the_model_does_not_think() -> None:
    from dragoman.core.model import Settings

    wires, losses = encode(assistant(Text("ok")), model="kimi-k2", settings=Settings(effort="none"))
    assert wires == [{"role": "assistant", "content": "ok"}]
    assert not losses


SIGNED = seal_state(State("anthropic", "sig=="), "")
SEALED: dict[str, tuple[Wire, Message]] = {
    "text with a signature": (
        {"type": "reasoning.text", "text": "hm", "signature": SIGNED, "format": "dragoman-v1", "index": 0},
        assistant(Reasoning("hm", state=State("anthropic", "sig==")), Text("ok"), ToolCall("c1", "f", "{}")),
    ),
    "G105 hidden": (
        {"type": "reasoning.encrypted", "data": SIGNED, "format": "dragoman-v1", "index": 0},
        assistant(
            Reasoning("", True, state=State("anthropic", "sig==")), Text("ok"), ToolCall("c1", "f", "{}")
        ),
    ),
    "after the text": (
        {
            "type": "reasoning.encrypted",
            "data": SIGNED,
            "format": "dragoman-v1",
            "index": 0,
            "after": "content",
        },
        assistant(
            Text("ok"), Reasoning("", True, state=State("anthropic", "sig==")), ToolCall("c1", "f", "{}")
        ),
    ),
    "without state": (
        {"type": "reasoning.text", "text": "hm", "format": "dragoman-v1", "index": 0},
        assistant(Reasoning("hm"), Text("ok"), ToolCall("c1", "f", "{}")),
    ),
}


@pytest.mark.parametrize("row", SEALED.values(), ids=SEALED)
def test_sealed_state_comes_back_with_a_client_that_echoes_it(row: tuple[Wire, Message]) -> None:
    entry, meaning = row
    echoed = {
        "role": "assistant",
        "content": "ok",
        "reasoning_content": "hm",
        "reasoning_details": [entry],
        "tool_calls": [call("c1", "f")],
    }
    messages, losses = decode(echoed)
    assert [bare(message) for message in messages] == [meaning]
    assert losses == []


def test_foreign_state_is_never_sent_to_an_upstream() -> None:
    entry = {"type": "reasoning.text", "text": "hm", "signature": SIGNED, "format": "dragoman-v1", "index": 0}
    messages, _ = decode({"role": "assistant", "content": "ok", "reasoning_details": [entry]})
    wires, losses = encode(*messages)
    assert wires == [{"role": "assistant", "content": "ok"}]
    assert losses == ["dropped messages[0].reasoning_details: This upstream does not take earlier reasoning."]


def test_a_broken_seal_is_read_as_state_of_ours_and_kept_back() -> None:
    entry = {"type": "reasoning.text", "signature": seal("x")[:-4], "format": "dragoman-v1", "index": 0}
    messages, _ = decode({"role": "assistant", "content": "ok", "reasoning_details": [entry]})
    assert encode(*messages)[0] == [{"role": "assistant", "content": "ok"}]


def test_calls_that_changed_their_kind_leave_their_old_shape() -> None:
    """A transform may have made a function of a freeform call, or moved a legacy call beside another."""
    custom = {"id": "c1", "type": "custom", "custom": {"name": "p", "input": "x", "y": 1}}
    messages, _ = decode({"role": "assistant", "content": None, "tool_calls": [custom]})
    part: Any = messages[0].parts[0]
    flat = replace(messages[0], parts=(replace(part, kind="function", arguments='{"input":"x"}'),))
    assert encode(flat)[0][0]["tool_calls"] == [call("c1", "p", '{"input":"x"}')]
    messages, _ = decode(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    )
    old: Any = messages[0].parts[0]
    both = replace(messages[0], parts=(replace(old, id="a"), ToolCall("b", "g", "{}")))
    assert encode(both)[0][0]["tool_calls"] == [call("a", "f"), call("b", "g")]


def test_renamed_and_renumbered_results_are_written_so() -> None:
    messages, _ = decode({"role": "tool", "tool_call_id": "c1", "name": "f", "content": "42"})
    result: Any = messages[0].parts[0]
    renamed = user(replace(result, call_id="abcdefghi", name="g"))
    assert encode(renamed)[0] == [{"role": "tool", "tool_call_id": "abcdefghi", "name": "g", "content": "42"}]
