"""Content that the upstream can read."""

from __future__ import annotations

import pytest

from dragoman.core.losses import Losses
from dragoman.core.model import Base64, Foreign, Media, Text, ToolResult, Url
from dragoman.transforms.content import settle_part

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
