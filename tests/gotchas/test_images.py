"""G69-G76: images and documents."""

from __future__ import annotations

from typing import Any

import pytest

from gotchas.exchanges import ANTHROPIC, CHAT, GEMINI, RESPONSES, request_body, sent, translated
from seeds.wires import Wire, dumps

PNG, JPEG, PDF = "iVBORw0KGgoAAAA=", "/9j/4AAQSkZJRg==", "JVBERi0xLjQ="


def image(data: str = PNG, media_type: str = "image/png") -> Wire:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def shown(*blocks: Wire, more: Any = ()) -> Wire:
    """A Messages conversation in which a tool answers with `blocks`."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "screenshot", "input": {}}
    other = {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}}
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(blocks)},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "text"},
        *more,
    ]
    return request_body(
        ANTHROPIC,
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": [call, other]},
        {"role": "user", "content": results},
    )


def test_G69_an_image_follows_all_tool_messages_of_chat_with_a_label() -> None:
    out, losses = translated(ANTHROPIC, CHAT, shown(image()))
    roles = [turn["role"] for turn in out["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user"]
    assert "image" in out["messages"][2]["content"]
    label, picture = out["messages"][4]["content"]
    assert "screenshot" in label["text"]
    assert picture == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert any("image" in loss for loss in losses)


def test_G70_no_data_url_inside_the_text_of_a_result() -> None:
    out = sent(ANTHROPIC, CHAT, shown(image()))
    assert all(isinstance(turn["content"], str) for turn in out["messages"] if turn["role"] == "tool")
    assert "base64" not in dumps([turn for turn in out["messages"] if turn["role"] == "tool"])


@pytest.mark.parametrize("client", [ANTHROPIC, RESPONSES])
@pytest.mark.parametrize("model", ["gemini-3-pro", "gemini-2.5-flash"])
def test_G71_an_image_reaches_gemini_as_bytes(client: str, model: str) -> None:
    body = shown(image())
    if client == RESPONSES:
        output = [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]
        body = request_body(
            RESPONSES,
            {"role": "user", "content": "Look"},
            {"type": "function_call", "call_id": "toolu_1", "name": "screenshot", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "toolu_1", "output": output},
        )
    parts = sent(client, GEMINI, body, model)["contents"][-1]["parts"]
    inline = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    if model == "gemini-3-pro":
        assert parts[0]["functionResponse"]["parts"] == [inline]
    else:
        assert parts[-1] == inline
        assert all("functionResponse" in part for part in parts[:-1])
    assert PNG not in dumps([part.get("functionResponse", {}).get("response") for part in parts])


URL = "https://a.test/cat.png"


def test_G72_an_image_by_address_is_never_lost_silently() -> None:
    picture = {"type": "image_url", "image_url": {"url": URL}}
    body = request_body(CHAT, {"role": "user", "content": [picture]})
    out, losses = translated(CHAT, GEMINI, body)
    assert URL in dumps(out) or losses


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES, GEMINI])
@pytest.mark.parametrize(
    "data, declared, true",
    [(JPEG, "image/jpg", "image/jpeg"), (JPEG, "image/png", "image/jpeg"), (PNG, "image/jpeg", "image/png")],
    ids=["image/jpg", "a wrong name", "another"],
)
def test_G73_the_bytes_tell_the_type(upstream: str, data: str, declared: str, true: str) -> None:
    body = request_body(ANTHROPIC, {"role": "user", "content": [image(data, declared)]})
    out, losses = translated(ANTHROPIC, upstream, body)
    assert true in dumps(out)
    assert declared not in dumps(out)
    assert any(true in loss for loss in losses)


def test_G74_a_pdf_is_a_file_and_no_image() -> None:
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        "title": "a.pdf",
    }
    body = request_body(ANTHROPIC, {"role": "user", "content": [document]})
    (chat,) = sent(ANTHROPIC, CHAT, body)["messages"][0]["content"]
    assert chat == {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
    }
    (responses,) = sent(ANTHROPIC, RESPONSES, body)["input"][0]["content"]
    assert (responses["type"], responses["filename"]) == ("input_file", "a.pdf")
    (gemini,) = sent(ANTHROPIC, GEMINI, body)["contents"][0]["parts"]
    assert gemini["inlineData"]["mimeType"] == "application/pdf"
    assert gemini["inlineData"]["data"] == PDF


@pytest.mark.parametrize("url", [{"url": URL}, {"url": URL, "detail": ""}, {"url": URL, "detail": "auto"}])
def test_G75_responses_gets_a_detail(url: Wire) -> None:
    body = request_body(CHAT, {"role": "user", "content": [{"type": "image_url", "image_url": url}]})
    (part,) = sent(CHAT, RESPONSES, body)["input"][0]["content"]
    assert part == {"type": "input_image", "image_url": URL, "detail": "auto"}
