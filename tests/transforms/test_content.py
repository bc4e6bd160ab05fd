"""Content that the upstream can read."""

from __future__ import annotations

import pytest

from dragoman.core.codec import ProtocolLimits
from dragoman.core.fold import end
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    Foreign,
    Media,
    Message,
    Reasoning,
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.exchange import Exchange
from dragoman.transforms.content import JoinPieces, settle_part, without_images
from dragoman.transforms.pairing import facts_of

WAV, WEBP, AVI = "UklGRiQAAABXQVZFZm10", "UklGRiQAAABXRUJQVlA4", "UklGRiQAAABBVkkgTElT"
PNG, JPEG, PDF = "iVBORw0KGgoAAAA", "/9j/4AAQ", "JVBERi0xLjQ"


def image(media_type: str, data: str) -> Media:
    return Media("image", media_type, Base64(data))


CASES = {
    "a true type stays": (image("image/png", PNG), image("image/png", PNG), []),
    "G73 image/jpg": (image("image/jpg", JPEG), image("image/jpeg", JPEG), ["changed"]),
    "G73 the bytes know better": (image("image/png", JPEG), image("image/jpeg", JPEG), ["changed"]),
    "a PDF sent as an image": (
        image("image/png", PDF),
        Media("document", "application/pdf", Base64(PDF)),
        ["changed"],
    ),
    "WAV is not WebP": (
        Media("audio", "audio/wav", Base64(WAV)),
        Media("audio", "audio/wav", Base64(WAV)),
        [],
    ),
    "WAV sent as an image": (
        image("image/webp", WAV),
        Media("audio", "audio/wav", Base64(WAV)),
        ["changed"],
    ),
    "WebP sent as PNG": (image("image/png", WEBP), image("image/webp", WEBP), ["changed"]),
    "AVI": (
        Media("video", "video/avi", Base64(AVI)),
        Media("video", "video/x-msvideo", Base64(AVI)),
        ["changed"],
    ),
    "a RIFF of another kind": (
        image("image/x", "UklGRiQAAABBQkNEAAAA"),
        image("image/x", "UklGRiQAAABBQkNEAAAA"),
        [],
    ),
    "too short to tell": (image("image/webp", "UklGRiQA"), image("image/webp", "UklGRiQA"), []),
    "unknown bytes keep their name": (image("image/png", "AAAA"), image("image/png", "AAAA"), []),
    "a URL is not opened": (Media("image", "", Url("u")), Media("image", "", Url("u")), []),
    "own foreign parts stay": (Foreign("here", {"a": 1}), Foreign("here", {"a": 1}), []),
    "words for a foreign part": (
        Foreign("there", {}, "Tool x is now available."),
        Text("Tool x is now available."),
        [],
    ),
    "a foreign part without words goes": (Foreign("there", {}), None, []),
}


@pytest.mark.parametrize("part, expected, kinds", CASES.values(), ids=CASES)
@pytest.mark.parametrize("inside", [False, True], ids=["message", "result"])
def test_settle(part, expected, kinds: list[str], inside: bool) -> None:
    losses = Losses()
    settled = settle_part(ToolResult("1", content=(part,)) if inside else part, "here", False, losses)
    if inside:
        assert settled == ToolResult("1", content=() if expected is None else (expected,))
    else:
        assert settled == expected
    assert [loss.kind for loss in losses] == kinds


def test_seed_001_a_binary_result_is_summarised_where_that_is_asked() -> None:
    losses = Losses()
    shown = ToolResult("1", content=(Text("shot"), image("image/png", PNG)))
    result = settle_part(shown, "here", True, losses)
    assert result == ToolResult(
        "1", content=(Text("shot"), Text("Binary content of type image/png was processed."))
    )
    assert [loss.kind for loss in losses] == ["changed"]


def test_a_result_that_sums_up_its_binary_says_so_once() -> None:
    losses = Losses()
    summary = Text("Binary content of type image/png was processed.")
    shown = ToolResult("1", content=(image("image/png", PNG), summary))
    assert settle_part(shown, "here", True, losses) == ToolResult("1", content=(summary,))
    assert [loss.kind for loss in losses] == ["changed"]


def test_a_note_stands_for_images_where_the_model_reads_text_only() -> None:
    losses = Losses()
    shown = Media("image", "image/png", Base64(PNG), where="messages[0].content[1]")
    note = "[An image (image/png) was left out: the model reads text only.]"
    message = Message("user", (Text("look"), shown, ToolResult("1", content=(Text("shot"), shown))))
    assert without_images(message, losses).parts == (
        Text("look"),
        Text(note),
        ToolResult("1", content=(Text("shot"), Text(note))),
    )
    assert [(loss.code, loss.where) for loss in losses] == [("media.image.changed", "messages[0].content[1]")]


def test_only_images_are_replaced() -> None:
    message = Message("user", (Media("document", "application/pdf", Base64(PDF)), Text("read")))
    losses = Losses()
    assert without_images(message, losses) == message
    assert not list(losses)


SIGNED = Text("c", state=State("them", "s"))
CITED = Text("c", (Citation("u"),))
CALL = ToolCall("1", "f")
EXTRAS = {"here": {"x": 1}}

# name: (parts, parts as one would have said them whole)
PIECES: dict[str, tuple[list[AnyPart], list[AnyPart]]] = {
    "nothing": ([], []),
    "one": ([Text("a")], [Text("a")]),
    "several": ([Text("a"), Text(" b", extras={"here": {}}), Text("")], [Text("a b")]),
    "thoughts and texts": (
        [Reasoning("a"), Reasoning("b"), Text("c"), Text("d")],
        [Reasoning("ab"), Text("cd")],
    ),
    "around a call": ([Text("a"), CALL, Text("b")], [Text("a"), CALL, Text("b")]),
    "what is signed stays": ([Text("a"), SIGNED, Text("b")], [Text("a"), SIGNED, Text("b")]),
    "what is cited stays": ([Text("a"), CITED], [Text("a"), CITED]),
    "hidden thoughts stay": ([Reasoning("", hidden=True)] * 2, [Reasoning("", hidden=True)] * 2),
    "extras stay": ([Text("a"), Text("b", extras=EXTRAS)], [Text("a"), Text("b", extras=EXTRAS)]),
}


def joined(messages: list[Message]) -> list[Message]:
    limits = ProtocolLimits()
    runs = [JoinPieces(limits).begin()]
    return [facts.message for facts in end(runs, [facts_of(message, limits) for message in messages])]


@pytest.mark.parametrize("parts, whole", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("apart", [False, True], ids=["in one message", "each in a message"])
def test_pieces_of_a_streamed_text_are_one_text(parts: list[AnyPart], whole: list[AnyPart], apart: bool):
    pieces = [(part,) for part in parts] if apart else [tuple(parts)]
    messages = joined([Message("assistant", piece) for piece in pieces])
    assert [part for message in messages for part in message.parts] == whole
    assert len(messages) == (1 if pieces else 0)


def test_separate_texts_of_a_user_stay_separate():
    messages = [Message("user", (Text("a"), Text("b"))), Message("user", (Text("c"),))]
    assert joined(messages) == messages


def test_messages_with_extras_of_their_own_stay():
    messages = [Message("assistant", (Text("a"),)), Message("assistant", (Text("b"),), extras=EXTRAS)]
    assert joined(messages) == messages


@pytest.mark.parametrize("upstream", ["openai-chat", "openai-responses", "anthropic"])
def test_a_history_that_google_genai_kept_chunk_by_chunk(upstream: str):
    """Its chats keep every chunk of a streamed reply as a content; servers would join them by lines."""
    contents = [("user", "Hi"), ("model", "The"), ("model", " end"), ("model", ""), ("user", "And?")]
    body = {"contents": [{"role": role, "parts": [{"text": text}]} for role, text in contents]}
    sent = Exchange("gemini", upstream).request(body, model="m")
    texts = [turn["content"] for turn in sent.get("messages") or sent["input"] if turn["role"] == "assistant"]
    assert texts == ["The end"]
