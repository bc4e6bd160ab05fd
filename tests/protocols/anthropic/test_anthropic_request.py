"""Anthropic requests as they are read: what each field and block becomes, and what others will miss."""

import copy
from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    FileId,
    Foreign,
    Media,
    Plain,
    Reasoning,
    Request,
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Wire,
)
from dragoman.core.seal import seal_state
from dragoman.protocols.anthropic import CODEC

OWN = {"anthropic": {}}
SEALED = seal_state(State("gemini", "c2ln"), "anthropic")


def decode(body: Wire) -> tuple[Request, list[str]]:
    losses = Losses()
    return CODEC.decode_request(body, losses), [str(loss) for loss in losses]


def encode(request: Request) -> Wire:
    return CODEC.encode_request(request, Losses())


def body(*blocks: Wire, role: str = "user", **more: Any) -> Wire:
    return {"model": "m", "max_tokens": 9, "messages": [{"role": role, "content": list(blocks)}], **more}


def image(source: Wire, **more: Any) -> Wire:
    return {"type": "image", "source": source, **more}


def document(source: Wire, **more: Any) -> Wire:
    return {"type": "document", "source": source, **more}


PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
FOUND = {
    "type": "web_search_result_location",
    "url": "https://a",
    "title": "A",
    "cited_text": "x",
    "encrypted_index": "E",
}

# name: (block, part)
BLOCKS: dict[str, tuple[Wire, AnyPart]] = {
    "text": ({"type": "text", "text": "hi"}, Text("hi", extras=OWN)),
    "text with a cache mark": (
        {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
        Text("hi", extras={"anthropic": {"cache_control": {"type": "ephemeral"}}}, cache="5m"),
    ),
    "text with explicit nothing": (
        {"type": "text", "text": "hi", "citations": None},
        Text("hi", extras={"anthropic": {"citations": None}}),
    ),
    "text with empty citations": (
        {"type": "text", "text": "hi", "citations": []},
        Text("hi", extras={"anthropic": {"citations": []}}),
    ),
    "empty text": ({"type": "text", "text": ""}, Text("", extras=OWN)),
    "text with a web citation": (
        {"type": "text", "text": "hi", "citations": [FOUND]},
        Text("hi", (Citation("https://a", "A", "x", extras={"anthropic": FOUND}),), extras=OWN),
    ),
    "image, base64": (image(PNG), Media("image", "image/png", Base64("iVBORw0KGgo="), extras=OWN)),
    "image by address": (
        image({"type": "url", "url": "https://x/y"}),
        Media("image", "", Url("https://x/y"), extras=OWN),
    ),
    "image by file": (
        image({"type": "file", "file_id": "f1"}),
        Media("image", "", FileId("f1", "anthropic"), extras=OWN),
    ),
    "image of a type that Anthropic does not know": (
        image({**PNG, "media_type": "image/heic"}),
        Media("image", "image/heic", Base64("iVBORw0KGgo="), extras=OWN),
    ),
    "pdf": (
        document(PDF, title="T"),
        Media("document", "application/pdf", Base64("JVBERi0="), "T", extras=OWN),
    ),
    "pdf with an empty title": (
        document(PDF, title=""),
        Media("document", "application/pdf", Base64("JVBERi0="), extras={"anthropic": {"title": ""}}),
    ),
    "pdf by address": (
        document({"type": "url", "url": "https://x/y"}),
        Media("document", "application/pdf", Url("https://x/y"), extras=OWN),
    ),
    "text file": (
        document({"type": "text", "media_type": "text/plain", "data": "hi"}),
        Media(
            "document",
            "text/plain",
            Plain("hi"),
            extras={"anthropic": {"source": {"media_type": "text/plain"}}},
        ),
    ),
    "call": (
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1.10, "a": "é"}},
        ToolCall("t1", "f", '{"b":1.1,"a":"é"}', extras=OWN),
    ),
    "G64 call without arguments": (
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
        ToolCall("t1", "f", "{}", extras=OWN),
    ),
    "call that code made": (
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": {"type": "direct"}},
        ToolCall("t1", "f", "{}", extras={"anthropic": {"caller": {"type": "direct"}}}),
    ),
    "G59 call whose arguments were no object": (
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"_raw_arguments": "[1"}},
        ToolCall("t1", "f", "[1", extras=OWN),
    ),
    "call that means what looks like ours": (
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"_raw_arguments": "{}"}},
        ToolCall("t1", "f", '{"_raw_arguments":"{}"}', extras=OWN),
    ),
    "result": (
        {"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
        ToolResult("t1", content=(Text("ok"),), extras=OWN),
    ),
    "result without content": ({"type": "tool_result", "tool_use_id": "t1"}, ToolResult("t1", extras=OWN)),
    "result with empty content": (
        {"type": "tool_result", "tool_use_id": "t1", "content": []},
        ToolResult("t1", extras={"anthropic": {"content": []}}),
    ),
    "result with an empty string": (
        {"type": "tool_result", "tool_use_id": "t1", "content": ""},
        ToolResult("t1", content=(Text(""),), extras=OWN),
    ),
    "failed result": (
        {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True},
        ToolResult("t1", content=(Text("no"),), failed=True, extras=OWN),
    ),
    "result that says it did not fail": (
        {"type": "tool_result", "tool_use_id": "t1", "content": "ok", "is_error": False},
        ToolResult("t1", content=(Text("ok"),), extras={"anthropic": {"is_error": False}}),
    ),
    "result with an image": (
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [{"type": "text", "text": "see"}, image(PNG)],
        },
        ToolResult(
            "t1",
            content=(
                Text("see", extras=OWN),
                Media("image", "image/png", Base64("iVBORw0KGgo="), extras=OWN),
            ),
            extras=OWN,
        ),
    ),
    "thinking": (
        {"type": "thinking", "thinking": "hm", "signature": "S"},
        Reasoning("hm", state=State("anthropic", "S"), extras=OWN),
    ),
    "thinking that is not shown": (
        {"type": "thinking", "thinking": "", "signature": "S"},
        Reasoning("", state=State("anthropic", "S"), extras=OWN),
    ),
    "thinking with an empty signature": (
        {"type": "thinking", "thinking": "hm", "signature": ""},
        Reasoning("hm", extras={"anthropic": {"signature": ""}}),
    ),
    "thinking without a signature": ({"type": "thinking", "thinking": "hm"}, Reasoning("hm", extras=OWN)),
    "G105 redacted thinking": (
        {"type": "redacted_thinking", "data": "R"},
        Reasoning(hidden=True, state=State("anthropic", "R"), extras=OWN),
    ),
}


@pytest.mark.parametrize(("block", "part"), BLOCKS.values(), ids=BLOCKS)
def test_a_block_becomes_a_part_and_goes_back_as_it_came(block: Wire, part: AnyPart) -> None:
    wire = body(block, role="assistant")
    given = copy.deepcopy(wire)
    request, losses = decode(wire)
    assert request.messages[0].parts == (part,)
    assert request.messages[0].parts[0].where == "messages[0].content[0]"
    assert encode(request) == wire == given
    assert [loss for loss in losses if "cache_control" not in loss] == []


# Blocks that nobody else has: name: (block, the words for it, the loss)
WORDS = "changed {0}: Only anthropic understands a block of type {1}. It was sent as text."
DROPPED = "dropped {0}: Only anthropic understands a block of type {1}."
SEARCH = "changed {0}: A search for tools was sent as the tools that it found. They are declared."
FOREIGN: dict[str, tuple[Wire, str, str]] = {
    "search result": (
        {
            "type": "search_result",
            "source": "https://a",
            "title": "A",
            "content": [{"type": "text", "text": "x"}],
        },
        "A (https://a)\nx",
        WORDS,
    ),
    "document of blocks": (
        document({"type": "content", "content": [{"type": "text", "text": "x"}, image(PNG)]}, title="T"),
        "T\nx",
        WORDS,
    ),
    "document of a string": (document({"type": "content", "content": "x"}), "x", WORDS),
    "G95 hosted search": (
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        '[web_search: {"query":"q"}]',
        WORDS,
    ),
    "G95 what it found": (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {"type": "web_search_result", "url": "https://a", "title": "A", "encrypted_content": "E"},
                {"type": "web_search_result", "url": "https://b", "encrypted_content": "E"},
            ],
        },
        "[web_search result: A (https://a)\nhttps://b]",
        WORDS,
    ),
    "a search that failed": (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        },
        "[web_search result: failed with max_uses_exceeded]",
        WORDS,
    ),
    "a page": (
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "s",
            "content": {
                "type": "web_fetch_result",
                "url": "https://a",
                "content": {"title": "A", "source": PDF},
            },
        },
        "[web_fetch result: A (https://a)]",
        WORDS,
    ),
    "printed output": (
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "s",
            "content": {
                "type": "bash_code_execution_result",
                "stdout": "42\n",
                "stderr": "warn",
                "return_code": 0,
            },
        },
        "[bash_code_execution result: 42\n\nwarn]",
        WORDS,
    ),
    "a file that was shown": (
        {
            "type": "text_editor_code_execution_tool_result",
            "tool_use_id": "s",
            "content": {"type": "text_editor_code_execution_view_result", "content": "x = 1"},
        },
        "[text_editor_code_execution result: x = 1]",
        WORDS,
    ),
    "remote call": (
        {"type": "mcp_tool_use", "id": "m1", "name": "f", "server_name": "s", "input": {}},
        "[f: {}]",
        WORDS,
    ),
    "remote result": (
        {
            "type": "mcp_tool_result",
            "tool_use_id": "m1",
            "is_error": False,
            "content": [{"type": "text", "text": "x"}],
        },
        "[mcp result: x]",
        WORDS,
    ),
    "an empty remote result": (
        {"type": "mcp_tool_result", "tool_use_id": "m1", "content": []},
        "[mcp result: nothing]",
        WORDS,
    ),
    "a summary of what was before": (
        {"type": "compaction", "content": "sum", "encrypted_content": "E"},
        "sum",
        WORDS,
    ),
    "a summary that failed": ({"type": "compaction", "content": None}, "", DROPPED),
    "a file for a container": ({"type": "container_upload", "file_id": "f"}, "", DROPPED),
    "something newer than we are": ({"type": "hologram", "data": [1]}, "", DROPPED),
    "tool search": (
        {"type": "server_tool_use", "id": "s", "name": "tool_search_tool_bm25", "input": {"query": "q"}},
        "",
        SEARCH,
    ),
    "what a tool search found": (
        {
            "type": "tool_search_tool_result",
            "tool_use_id": "s",
            "content": {"type": "tool_search_tool_search_result", "tool_references": []},
        },
        "",
        SEARCH,
    ),
}


@pytest.mark.parametrize(("block", "words", "loss"), FOREIGN.values(), ids=FOREIGN)
def test_blocks_that_only_anthropic_knows_are_described_in_words(block: Wire, words: str, loss: str) -> None:
    wire = body(block, role="assistant")
    request, losses = decode(wire)
    assert request.messages[0].parts == (Foreign("anthropic", block, words),)
    assert losses == [loss.format("messages[0].content[0]", block["type"])]
    assert encode(request) == wire


def test_a_result_keeps_what_only_anthropic_knows() -> None:
    inside = [
        {"type": "tool_reference", "tool_name": "f"},
        {"type": "tool_use", "id": "x", "name": "y", "input": {}},
    ]
    wire = body({"type": "tool_result", "tool_use_id": "t1", "content": inside})
    request, losses = decode(wire)
    (result,) = request.messages[0].parts
    assert isinstance(result, ToolResult)
    assert result.content == (
        Foreign("anthropic", inside[0], "Tool f is now available."),
        Foreign("anthropic", inside[1], ""),
    )
    assert losses == [
        WORDS.format("messages[0].content[0].content[0]", "tool_reference"),
        DROPPED.format("messages[0].content[0].content[1]", "tool_use"),
    ]
    assert encode(request) == wire


# What points into documents has no address: name: (citation, url, title, cited, losses)
CITATIONS: dict[str, tuple[Wire, Citation, int]] = {
    "search result": (
        {
            "type": "search_result_location",
            "source": "https://s",
            "title": "S",
            "cited_text": "c",
            "start_block_index": 0,
        },
        Citation("https://s", "S", "c"),
        1,
    ),
    "characters": (
        {"type": "char_location", "document_title": "D", "cited_text": "c", "start_char_index": 0},
        Citation("", "D", "c"),
        1,
    ),
    "pages": ({"type": "page_location", "document_title": None, "cited_text": "c"}, Citation("", "", "c"), 1),
}


@pytest.mark.parametrize(("wire", "citation", "lost"), CITATIONS.values(), ids=CITATIONS)
def test_citations(wire: Wire, citation: Citation, lost: int) -> None:
    request, losses = decode(body({"type": "text", "text": "hi", "citations": [wire]}, role="assistant"))
    (text,) = request.messages[0].parts
    assert isinstance(text, Text)
    assert (text.citations[0].url, text.citations[0].title, text.citations[0].cited) == (
        citation.url,
        citation.title,
        citation.cited,
    )
    assert len(losses) == lost
    assert encode(request)["messages"][0]["content"][0]["citations"] == [wire]


def test_g100_thinking_that_others_signed_is_read_and_never_sent() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": SEALED}
    redacted = {"type": "redacted_thinking", "data": SEALED}
    request, _ = decode(body(thinking, redacted, {"type": "text", "text": "hi"}, role="assistant"))
    assert request.messages[0].parts == (
        Reasoning("hm", state=State("gemini", "c2ln")),
        Reasoning(hidden=True, state=State("gemini", "c2ln")),
        Text("hi", extras=OWN),
    )
    losses = Losses()
    sent = CODEC.encode_request(request, losses)
    assert sent["messages"][0]["content"] == [{"type": "text", "text": "hi"}]
    assert [loss.where for loss in losses] == ["messages[0].content[0]", "messages[0].content[1]"]


# Whole bodies that go back as they came: name: (body, losses)
DEFERRED = {"name": "f", "input_schema": {"type": "object"}, "defer_loading": True}
BODIES: dict[str, tuple[Wire, list[str]]] = {
    "the least": ({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}, []),
    "content as a string and as an array": (
        {
            "model": "m",
            "max_tokens": 1,
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
                {"role": "user", "content": ""},
                {"role": "assistant", "content": []},
            ],
        },
        [],
    ),
    "system as a string": (body(system="be brief"), []),
    "system as an empty string": (body(system=""), []),
    "system as blocks": (body(system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), []),
    "system as no blocks": (body(system=[]), []),
    "G54 system in mid-conversation": (
        {"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]},
        [],
    ),
    "system first in the conversation": (
        {"model": "m", "messages": [{"role": "system", "content": "b"}]},
        [],
    ),
    "explicit defaults": (
        body(stream=False, tools=[], stop_sequences=[], temperature=None, tool_choice=None, thinking=None),
        [],
    ),
    "no model, as Vertex and Bedrock have it": (
        {"anthropic_version": "vertex-2023-10-16", "messages": []},
        ["anthropic_version"],
    ),
    "an empty model": ({"model": "", "messages": []}, []),
    "a tool choice without tools, as in a thread": (body(tool_choice={"type": "auto"}), []),
    "every setting": (
        body(
            temperature=0.5,
            top_p=0.9,
            top_k=5,
            stop_sequences=["x", " "],
            thinking={"type": "enabled", "budget_tokens": 2000, "display": "omitted"},
            output_config={"effort": "max", "format": {"type": "json_schema", "schema": {"type": "object"}}},
            metadata={"user_id": "u"},
            service_tier="standard_only",
            stream=True,
        ),
        [],
    ),
    "settings that only Anthropic has": (
        body(
            container="c",
            context_management={"edits": []},
            thread={"type": "create"},
            speed="fast",
            betas=["x"],
            inference_geo="eu",
            cache_control={"type": "ephemeral"},
            diagnostics={"previous_message_id": None},
            unknown={"a": [1]},
        ),
        [
            "container",
            "thread",
            "speed",
            "betas",
            "inference_geo",
            "diagnostics",
            "unknown",
        ],
    ),
    "inner fields that only Anthropic has": (
        body(
            metadata={"user_id": "u", "x": 1},
            thinking={"type": "between_tools", "y": 1},
            output_config={"task_budget": {"type": "tokens"}, "effort": "hyper"},
        ),
        ["output_config.effort", "output_config.task_budget", "thinking.type", "thinking.y", "metadata.x"],
    ),
    "the old name of the output format": (body(output_format={"type": "json_schema", "schema": {}}), []),
    "an output format that is newer than we are": (
        body(output_config={"format": {"type": "xml"}}),
        ["output_config.format.type"],
    ),
    "extras of a message": (
        {"model": "m", "messages": [{"role": "system", "content": "a", "clear_at": "never"}]},
        ["messages[0].clear_at"],
    ),
    "fields of a source": (
        body(image({**PNG, "x": 1}, transformations={"oversized_image": "error"})),
        ["messages[0].content[0].source.x", "messages[0].content[0].transformations"],
    ),
    "result of a member of a toolset": (
        body({"type": "tool_result", "tool_use_id": "t", "content": "ok", "toolset_name": "computer"}),
        [],
    ),
    "a deferred tool": (body(tools=[DEFERRED]), []),
}


@pytest.mark.parametrize(("wire", "lost"), BODIES.values(), ids=BODIES)
def test_a_body_goes_back_as_it_came(wire: Wire, lost: list[str]) -> None:
    given = copy.deepcopy(wire)
    losses = Losses()
    request = CODEC.decode_request(wire, losses)
    losses.respell(CODEC.spelling, wire)
    assert [loss.where for loss in losses] == lost
    assert encode(request) == wire == given


def test_numbers_of_arguments_keep_their_spelling() -> None:
    wire = jsontext.decode(b'{"type":"tool_use","id":"t","name":"f","input":{"a":1.10,"b":1e400}}')
    request, _ = decode(body(wire, role="assistant"))
    (call,) = request.messages[0].parts
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"a":1.10,"b":1e400}'
    assert b'"input":{"a":1.10,"b":1e400}' in jsontext.encode(encode(request))


def test_g65_arguments_that_are_text_already() -> None:
    request, _ = decode(
        body({"type": "tool_use", "id": "t", "name": "f", "input": '{"a": 1}'}, role="assistant")
    )
    (call,) = request.messages[0].parts
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"a": 1}'


ATTRIBUTION = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=00000;"}
PROMPT = {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("system", "left", "places"),
    [
        ([ATTRIBUTION, PROMPT], ["You are a coding agent."], [0]),
        ([PROMPT, ATTRIBUTION], ["You are a coding agent."], [1]),
        ([ATTRIBUTION], [], [0]),
        ([ATTRIBUTION, ATTRIBUTION, PROMPT], ["You are a coding agent."], [0, 1]),
    ],
)
def test_g58_the_attribution_is_for_anthropic_alone(
    system: list[Wire], left: list[str], places: list[int]
) -> None:
    wire = body(system=system)
    request, losses = decode(wire)
    assert [text.text for text in request.system] == left
    dropped = [
        f"dropped system[{i}]: This billing header is for anthropic. Other providers do not get it."
        for i in places
    ]
    assert [loss for loss in losses if "cache_control" not in loss] == dropped
    assert encode(request) == wire


def test_g94_tools_that_the_conversation_loaded_are_not_deferred() -> None:
    names = ("referenced", "searched", "added", "called", "unknown")
    tools = [{**DEFERRED, "name": name} for name in names] + [
        {**DEFERRED, "name": "plain", "defer_loading": False}
    ]
    found = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "searched"}],
    }
    wire: Wire = {
        "model": "m",
        "tools": tools,
        "messages": [
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "a", "name": "ToolSearch", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "called", "input": {}},
                    {"type": "tool_search_tool_result", "tool_use_id": "s", "content": found},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "a",
                        "content": [{"type": "tool_reference", "tool_name": "referenced"}],
                    },
                ],
            },
            {
                "role": "system",
                "content": [
                    {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "added"}},
                    {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "unknown"}},
                ],
            },
        ],
    }
    request, _ = decode(wire)
    assert {tool.name for tool in request.tools if tool.deferred} == {"unknown"}  # type: ignore[union-attr]
    assert encode(request) == wire


def test_an_overridden_stream_and_model_win_over_what_came() -> None:
    from msgspec.structs import replace

    request, _ = decode(body(stream=False))
    assert encode(replace(request, stream=True, model="n")) == body(stream=True) | {"model": "n"}
    request, _ = decode(body(stream=True))
    assert encode(replace(request, stream=False)) == body()
