"""G95: a search that another provider made is one that Anthropic's clients can count."""

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.events import unfold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    Citation,
    Foreign,
    HostedTool,
    Message,
    Request,
    Response,
    Stop,
    Text,
    ToolDeclaration,
    ToolResult,
    Wire,
)
from dragoman.core.seal import MAGIC
from dragoman.protocols.anthropic import CODEC

NATIVE = {"type": "web_search_result_location", "url": "https://n", "encrypted_index": "E"}
A = Citation("https://a", "A", extras={"openai-responses": {"type": "url_citation"}})
B, FILE = Citation("https://b"), Citation("", "a file")
SEARCHED = Request(
    "m",
    (Message("user", (Text("first"),)), Message("user", (ToolResult("t"), Text("who won?")))),
    tools=(HostedTool("web_search", "web_search"),),
)
FUNCTIONS = Request("m", (Message("user", (Text("hi"),)),), tools=(ToolDeclaration("web_search"),))


def blocks(request: Request | None, *citations: Citation) -> tuple[list[Wire], list[str]]:
    losses = Losses()
    response = Response(
        "resp-1",
        "m",
        (Text("They won.", citations), Text("Yes.", (B,) if A in citations else ())),
        Stop("end"),
    )
    whole = CODEC.encode_response(response, losses, request)["content"]
    assert _streamed(response, request) == whole
    return whole[2:], [str(loss) for loss in losses]


def _streamed(response: Response, request: Request | None) -> list[Wire]:
    """The blocks of the same reply as a stream, put together again."""
    encoder, grammar = CODEC.stream_encoder(Losses(), request), CODEC.grammar()
    content: list[Wire] = []
    for frame in [frame for event in unfold(response) for frame in encoder.feed(event)]:
        grammar.feed(frame)
        match frame.data:
            case {"type": "content_block_start", "content_block": block}:
                content.append(dict(block))
            case {"delta": {"type": "text_delta", "text": text}}:
                content[-1]["text"] += text
            case {"delta": {"type": "input_json_delta", "partial_json": text}}:
                content[-1]["input"] = jsontext.decode(text)
            case {"delta": {"type": "citations_delta", "citation": citation}}:
                content[-1]["citations"] = [*(content[-1]["citations"] or ()), citation]
            case _:
                pass
    grammar.close()
    return content


def test_the_search_is_described_with_its_results() -> None:
    (call, result), losses = blocks(SEARCHED, A, B, A, FILE)
    assert call["type"] == "server_tool_use"
    assert (call["name"], call["input"]) == ("web_search", {"query": "who won?"})
    assert call["id"] == result["tool_use_id"] == "srvtoolu_dragoman_resp_1"
    assert result["type"] == "web_search_tool_result"
    assert [(item["type"], item["url"], item["title"]) for item in result["content"]] == [
        ("web_search_result", "https://a", "A"),
        ("web_search_result", "https://b", ""),
    ]
    assert losses == ["invented content: The model cites what it found, so a search was added."]


# Where nobody searched, nothing is made up: name: (request, citations)
SILENT: dict[str, tuple[Request | None, tuple[Citation, ...]]] = {
    "no request is known": (None, (A,)),
    "the client did not ask": (FUNCTIONS, (A,)),
    "nothing was cited": (SEARCHED, ()),
    "only a file was cited": (SEARCHED, (FILE,)),
    "Anthropic searched itself": (SEARCHED, (Citation("https://n", extras={"anthropic": NATIVE}),)),
}


@pytest.mark.parametrize(("request_", "citations"), SILENT.values(), ids=SILENT)
def test_nothing_is_made_up(request_: Request | None, citations: tuple[Citation, ...]) -> None:
    assert blocks(request_, *citations) == ([], [])


def test_a_search_that_we_described_never_reaches_anthropic() -> None:
    encoded, _ = blocks(SEARCHED, A)
    own: Any = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    ]
    body = {
        "model": "m",
        "messages": [{"role": "assistant", "content": [*encoded, *own, {"type": "text", "text": "x"}]}],
    }
    request = CODEC.decode_request(body, Losses())
    call, result, *_ = request.messages[0].parts
    assert isinstance(call, Foreign)
    assert isinstance(result, Foreign)
    assert (call.text, result.text) == (
        '[web_search: {"query":"who won?"}]',
        "[web_search result: A (https://a)\nhttps://b]",
    )
    losses = Losses()
    sent = CODEC.encode_request(request, losses)
    assert sent["messages"][0]["content"] == [*own, {"type": "text", "text": "x"}]
    assert [loss.where for loss in losses] == ["messages[0].content[0]", "messages[0].content[1]"]
    assert encoded[1]["content"][0]["encrypted_content"].startswith(
        MAGIC
    )  # so that a forwarded body is looked at
