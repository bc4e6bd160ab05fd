"""Requests for Converse: what becomes of each client's fields, and what is reported."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import Exchange
from dragoman.core.fold import encode_whole
from dragoman.core.losses import Losses
from dragoman.core.model_profile import UNKNOWN
from dragoman.protocols import upstream
from dragoman.protocols.bedrock_converse.request import encode_messages

CLAUDE = "anthropic.claude-sonnet-4-5-v1:0"
PNG = "iVBORw0KGgo="
ASKED = {"role": "user", "content": "hi"}
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
SPEC = {
    "toolSpec": {
        "name": "look",
        "description": "Looks.",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }
}
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
POINT = {"cachePoint": {"type": "default"}}
HOUR_POINT = {"cachePoint": {"type": "default", "ttl": "1h"}}


def called(**result: Any) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "x"}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", **result}
    return [
        ASKED,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [answer]},
    ]


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def image(data: str = PNG) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def document(**source: Any) -> dict[str, Any]:
    return {"type": "document", "source": source}


IMAGE = {"image": {"format": "png", "source": {"bytes": PNG}}}
PDF = document(type="base64", media_type="application/pdf", data="JVBERi0=") | {"title": "a.pdf"}


def named(name: str) -> dict[str, Any]:
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": "JVBERi0="}}}


def result(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": "toolu_1", "content": [*content], **more}}


# Anthropic's messages -> the last message on the wire
MESSAGES: dict[str, tuple[list[Any], list[Any], list[str]]] = {
    "text": ([ASKED], [{"text": "hi"}], []),
    "blank text": (
        [{"role": "user", "content": [text("a"), text(" ")]}],
        [{"text": "a"}],
        ["text.blank.dropped"],
    ),
    "a result": (called(content="18 C"), [result({"text": "18 C"})], []),
    "a failed result": (called(content="no", is_error=True), [result({"text": "no"}, status="error")], []),
    "a result without content": (called(), [result({"text": "(no output)"})], ["result.text.invented"]),
    "an image in a result": (called(content=[text("see"), image()]), [result({"text": "see"}, IMAGE)], []),
    "a point behind a result, never in it": (
        called(content=[text("18 C", cache_control=MARK)]),
        [result({"text": "18 C"}), POINT],
        [],
    ),
    "a point on the result itself": (
        called(content="18 C", cache_control=MARK),
        [result({"text": "18 C"}), POINT],
        [],
    ),
    "a point behind a text": (
        [{"role": "user", "content": [text("a", cache_control=MARK), text("b")]}],
        [{"text": "a"}, POINT, {"text": "b"}],
        [],
    ),
    "an hour, then five minutes": (
        [{"role": "user", "content": [text("a", cache_control=HOUR), text("b", cache_control=MARK)]}],
        [{"text": "a"}, HOUR_POINT, {"text": "b"}, POINT],
        [],
    ),
    "an hour behind five minutes": (
        [{"role": "user", "content": [text("a", cache_control=MARK), text("b", cache_control=HOUR)]}],
        [{"text": "a"}, POINT, {"text": "b"}, POINT],
        ["cache.breakpoint.changed"],
    ),
    "an image": ([{"role": "user", "content": [image()]}], [IMAGE], []),
    "an image by its address": (
        [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "url", "url": "https://e.x/a.png"}}],
            }
        ],
        [{"text": "[image of type unknown left out]"}],
        ["media.image.dropped"],
    ),
    "thinking of another vendor": (
        [
            ASKED,
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, text("a")],
            },
            ASKED,
        ],
        [{"text": "hi"}],
        ["reasoning.signature.dropped", "reasoning.history.dropped"],
    ),
    "turns of one role are one": ([ASKED, ASKED], [{"text": "hi"}, {"text": "hi"}], []),
    "one file twice, which a tool reads again": (
        [{"role": "user", "content": [PDF, text("look")]}, *called(content=[PDF, PDF])[1:]],
        [result(named("a b3a529d6 (2)"), named("a b3a529d6 (3)"))],
        ["media.name.changed"] * 3,
    ),
}


def sent(
    body: dict[str, Any], client: str = "anthropic", model: str = CLAUDE
) -> tuple[dict[str, Any], list[str]]:
    exchange = Exchange(client, "bedrock-converse")
    wire = exchange.request({"max_tokens": 100, "model": "m", **body}, model=model)
    return wire, [loss.code for loss in exchange.losses]


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message(name: str) -> None:
    messages, content, codes = MESSAGES[name]
    wire, lost = sent({"messages": messages, "tools": [TOOL]})
    assert (wire["messages"][-1], lost) == ({"role": "user", "content": content}, codes)


def test_a_document_has_a_name_and_text_beside_it() -> None:
    pdf = document(type="base64", media_type="application/pdf", data="JVBERi0=")
    wire, lost = sent(
        {"messages": [{"role": "user", "content": [{**pdf, "title": "Q3 report (final).pdf!"}]}]}
    )
    first, second = wire["messages"][0]["content"]
    assert first["document"]["format"] == "pdf"
    assert first["document"]["name"].startswith("Q3 report (final) ")
    assert second == {"text": "(see the document)"}
    assert lost == ["media.name.changed", "message.filler.invented"]


def test_two_documents_of_one_name_differ() -> None:
    files = [
        document(type="text", media_type="text/plain", data=data) | {"title": "a"} for data in ("x", "y")
    ]
    wire, _ = sent({"messages": [{"role": "user", "content": [*files, text("compare")]}]})
    names = [block["document"]["name"] for block in wire["messages"][0]["content"][:2]]
    assert len(set(names)) == 2
    again, _ = sent({"messages": [{"role": "user", "content": [*files, text("compare")]}]})
    assert again == wire


# fields beside the messages -> what stands beside them on the wire
FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "sampling": (
        {"temperature": 0.5, "stop_sequences": ["X"]},
        {"inferenceConfig": {"maxTokens": 100, "temperature": 0.5, "stopSequences": ["X"]}},
        [],
    ),
    "top_k stands under the model's own name": (
        {"top_k": 5},
        {"inferenceConfig": {"maxTokens": 100}, "additionalModelRequestFields": {"top_k": 5}},
        [],
    ),
    "system text with a point": (
        {"system": [text("Be brief.", cache_control=MARK)]},
        {"inferenceConfig": {"maxTokens": 100}, "system": [{"text": "Be brief."}, POINT]},
        [],
    ),
    "thinking": (
        {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        {
            "inferenceConfig": {"maxTokens": 4000},
            "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        },
        [],
    ),
    "tools and a choice": (
        {"tools": [TOOL], "tool_choice": {"type": "any"}},
        {"inferenceConfig": {"maxTokens": 100}, "toolConfig": {"tools": [SPEC], "toolChoice": {"any": {}}}},
        [],
    ),
    "one tool is forced": (
        {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "look"}},
        {
            "inferenceConfig": {"maxTokens": 100},
            "toolConfig": {"tools": [SPEC], "toolChoice": {"tool": {"name": "look"}}},
        },
        [],
    ),
    "no word for none": (
        {"tools": [TOOL], "tool_choice": {"type": "none"}},
        {"inferenceConfig": {"maxTokens": 100}},
        ["tool.choice.changed"],
    ),
    "a schema for the answer": (
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {
            "inferenceConfig": {"maxTokens": 100},
            "outputConfig": {
                "textFormat": {
                    "type": "json_schema",
                    "structure": {"jsonSchema": {"schema": '{"type":"object"}'}},
                }
            },
        },
        [],
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name: str) -> None:
    body, expected, codes = FIELDS[name]
    wire, lost = sent({"messages": [ASKED], **body})
    assert ({key: value for key, value in wire.items() if key != "messages"}, lost) == (expected, codes)


def test_the_history_needs_its_tools() -> None:
    wire, lost = sent({"messages": called(content="18 C")})
    spec = {"name": "look", "inputSchema": {"json": {"type": "object", "properties": {}}}}
    assert wire["toolConfig"] == {"tools": [{"toolSpec": spec}]}
    assert lost == ["tool.declaration.invented"]
    wire, lost = sent({"messages": called(content="18 C"), "tools": [TOOL], "tool_choice": {"type": "none"}})
    assert (wire["toolConfig"], lost) == ({"tools": [SPEC]}, ["tool.choice.dropped"])


def test_a_model_without_a_cache() -> None:
    body = {"messages": [{"role": "user", "content": [text("a", cache_control=MARK)]}]}
    wire, lost = sent(body, model="us.meta.llama4-maverick-17b-instruct-v1:0")
    assert (wire["messages"][0]["content"], lost) == ([{"text": "a"}], ["cache.breakpoint.dropped"])


def test_thinking_without_a_limit_gets_room() -> None:
    exchange = Exchange("openai-chat", "bedrock-converse")
    wire = exchange.request({"model": "m", "messages": [ASKED], "reasoning_effort": "high"}, model=CLAUDE)
    thinking = wire["additionalModelRequestFields"]["thinking"]
    assert thinking["budget_tokens"] < wire["inferenceConfig"]["maxTokens"]


def test_system_text_within_the_conversation() -> None:
    messages = [ASKED, {"role": "assistant", "content": "a"}, {"role": "system", "content": "s"}, ASKED]
    wire, lost = sent({"messages": messages}, client="openai-chat")
    assert wire["messages"][-1] == {"role": "user", "content": [{"text": "s"}, {"text": "hi"}]}
    assert "message.role.changed" in lost


@pytest.mark.parametrize("name", MESSAGES)
def test_a_conversation_goes_on_from_any_message(name: str) -> None:
    """As the memory does: from the state of another run, with the same entries, losses and facts."""
    wires = [*called(content=[text("18 C", cache_control=MARK)]), *MESSAGES[name][0], *MESSAGES[name][0]]
    request = upstream("anthropic").decode_request(
        {"model": "m", "max_tokens": 9, "messages": wires}, Losses()
    )
    (fold,) = encode_messages(replace(request, extras=None), UNKNOWN)
    whole = encode_whole((fold,), request.messages)
    for cut in range(len(request.messages) + 1):
        first = fold.begin()
        entries = [*first.feed(request.messages[:cut])]
        second = fold.begin(first.state())
        entries += [*second.feed(request.messages[cut:]), *second.close()]
        assert (entries, second.facts()) == (whole.entries, whole.facts)
