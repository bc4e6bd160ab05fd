"""Requests of other protocols as Gemini requests: messages, results, media, system text, losses."""

from typing import Any

import pytest

from dragoman import Exchange
from dragoman.core import jsontext
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
    State,
    Text,
    ToolCall,
    ToolResult,
    Url,
    Wire,
)
from protocols.gemini.requests import HELLO, PNG, assistant, contents, decode, encode, request_of, user

# Requests of others


ENCODED = {
    "text": (user(Text("a")), [{"role": "user", "parts": [{"text": "a"}]}]),
    "empty text is left out": (user(Text("")), []),
    "refusal is text": (assistant(Refusal("no")), [{"role": "model", "parts": [{"text": "no"}]}]),
    "reasoning without state": (
        assistant(Reasoning("hm"), Text("a")),
        [{"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "a"}]}],
    ),
    "own state returns byte for byte": (
        assistant(Text("a", state=State("gemini", "c2_-"))),
        [{"role": "model", "parts": [{"text": "a", "thoughtSignature": "c2_-"}]}],
    ),
    "own state of an empty text": (
        assistant(Text("", state=State("gemini", "c2ln"))),
        [{"role": "model", "parts": [{"text": "", "thoughtSignature": "c2ln"}]}],
    ),
    "image": (
        user(Media("image", "image/png", Base64(PNG))),
        [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}],
    ),
    "image in detail": (
        user(Media("image", "image/png", Base64(PNG), detail="high")),
        [
            {
                "role": "user",
                "parts": [
                    {
                        "inlineData": {"mimeType": "image/png", "data": PNG},
                        "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"},
                    }
                ],
            }
        ],
    ),
    "plain document": (
        user(Media("document", "text/plain", Plain("hello"))),
        [{"role": "user", "parts": [{"inlineData": {"mimeType": "text/plain", "data": "aGVsbG8="}}]}],
    ),
    "own file": (
        user(Media("document", "application/pdf", FileId("files/x", "gemini"))),
        [{"role": "user", "parts": [{"fileData": {"mimeType": "application/pdf", "fileUri": "files/x"}}]}],
    ),
    "neighbours of one role become one content": (
        [user(Text("a")), user(Text("b")), assistant(Text("c")), assistant(Text("d"))],
        [
            {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
            {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
        ],
    ),
    "foreign parts of others are left out": (
        assistant(Text("a"), Foreign("anthropic", {"type": "x"})),
        [{"role": "model", "parts": [{"text": "a"}]}],
    ),
}


@pytest.mark.parametrize("messages, wire", ENCODED.values(), ids=ENCODED)
def test_messages_of_others(messages: Any, wire: list[Wire]):
    messages = messages if isinstance(messages, list) else [messages]
    assert contents(*messages) == wire


def test_calls_and_results_of_others():
    """G40, G41, G45: one content for all results, in order and by name, before everything else."""
    turns = [
        user(Text("go")),
        assistant(Text("ok"), ToolCall("1", "f", '{"a":1}'), ToolCall("2", "g", "")),
        user(
            Text("and"),
            ToolResult("1", content=(Text("x"),)),
            ToolResult("2", content=(Text("boom"),), failed=True),
        ),
    ]
    assert contents(*turns, model="gemini-2.5-pro")[1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "ok"},
                {"functionCall": {"id": "1", "name": "f", "args": {"a": 1}}},
                {"functionCall": {"id": "2", "name": "g", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "1", "name": "f", "response": {"output": "x"}}},
                {"functionResponse": {"id": "2", "name": "g", "response": {"error": "boom"}}},
                {"text": "and"},
            ],
        },
    ]


ANSWERS = {
    "text": ("ok", {"output": "ok"}),
    "nothing": ("", {"output": ""}),
    "an object goes as it is": ('{"temperature": 20.50}', {"temperature": 20.5}),
    "an empty object": ("{}", {}),
    "G59 an array is wrapped": ("[1, 2]", {"output": [1, 2]}),
    "a number stays text": ("72", {"output": "72"}),
    "a JSON string stays text": ('"a"', {"output": '"a"'}),
    "broken JSON stays text": ('{"a":', {"output": '{"a":'}),
    "an object that only has an output": ('{"output": "ok"}', {"output": "ok"}),
    "an object that has an output among others": (
        '{"output": "ok", "metadata": {"exit_code": 0}}',
        {"output": {"output": "ok", "metadata": {"exit_code": 0}}},
    ),
    "an object that looks like an error": ('{"error": "none"}', {"output": {"error": "none"}}),
}


@pytest.mark.parametrize("text, response", ANSWERS.values(), ids=ANSWERS)
def test_what_a_result_says(text: str, response: Wire):
    body = contents(user(ToolResult("1", "f", (Text(text),))))
    assert body[0]["parts"][0]["functionResponse"]["response"] == response


FAILURES = {
    "text": ("boom", {"error": "boom"}),
    "an error of Gemini's form": ('{"error": "boom"}', {"error": "boom"}),
    "another object": ('{"code": 1}', {"error": '{"code": 1}'}),
}


@pytest.mark.parametrize("text, response", FAILURES.values(), ids=FAILURES)
def test_what_a_failure_says(text: str, response: Wire):
    body = contents(user(ToolResult("1", "f", (Text(text),), failed=True)))
    assert body[0]["parts"][0]["functionResponse"]["response"] == response


IMAGE = Media("image", "image/png", Base64(PNG), "a.png", where="m")


def test_media_in_results_stand_inside_for_gemini_3():
    """G71."""
    body, losses = encode(request_of(user(ToolResult("1", "f", (Text("see"), IMAGE)))))
    assert body["contents"][0]["parts"] == [
        {
            "functionResponse": {
                "id": "1",
                "name": "f",
                "response": {"output": "see"},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
            }
        }
    ]
    assert losses == ["dropped m.name: Gemini has no field for the name of a file."]


def test_media_in_results_stand_beside_for_older_models():
    """Seed 001: the bytes follow all results, and a result that was only media says so."""
    results = [ToolResult("1", "f", (IMAGE,), where="r"), ToolResult("2", "g", (Text("ok"),))]
    body, losses = encode(request_of(user(*results), model="gemini-2.5-flash"))
    note = "Binary content of type image/png was processed."
    assert body["contents"][0]["parts"] == [
        {"functionResponse": {"id": "1", "name": "f", "response": {"output": note}}},
        {"functionResponse": {"id": "2", "name": "g", "response": {"output": "ok"}}},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
    ]
    assert losses == [
        f"invented r: Gemini needs text in each result. This was sent: {note}",
        "changed m: Results of this model hold no media. It was sent beside the result.",
        "dropped m.name: Gemini has no field for the name of a file.",
    ]


BESIDE = {
    "a URL": Media("image", "image/png", Url("https://x.test/a.png")),
    "sound": Media("audio", "audio/mpeg", Base64("AAAA")),
    "an animation": Media("image", "image/gif", Base64("AAAA")),
}


@pytest.mark.parametrize("media", BESIDE.values(), ids=BESIDE)
def test_media_that_no_result_holds(media: Media):
    body = contents(user(ToolResult("1", "f", (Text("see"), IMAGE, media)), Text("so?")))
    result, beside, text = body[0]["parts"]
    assert [list(part) for part in result["functionResponse"]["parts"]] == [["inlineData"]]
    assert beside == contents(user(media))[0]["parts"][0]
    assert text == {"text": "so?"}


@pytest.mark.parametrize("upstream", ["gemini", "gemini-interactions"])
def test_a_detail_that_gemini_has_not(upstream: str):
    for detail, lost in (("auto", []), ("original", ["media.detail.dropped"])):
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": detail}
        exchange = Exchange("openai-responses", upstream)
        exchange.request({"model": "m", "input": [{"role": "user", "content": [image]}]})
        assert [loss.code for loss in exchange.losses] == lost


def test_detail_inside_a_result():
    body, losses = encode(
        request_of(
            user(ToolResult("1", "f", (Media("image", "image/png", Base64(PNG), detail="low", where="m"),)))
        )
    )
    assert body["contents"][0]["parts"][0]["functionResponse"]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": PNG}}
    ]
    assert losses == ["dropped m.detail: Gemini has no such setting for media in results."]


SYSTEM = {
    "system": (request_of(user(Text("a")), system=(Text("s"), Text("t"))), ["s", "t"], []),
    "G56 leading system and developer messages": (
        request_of(Message("system", (Text("s"),)), Message("developer", (Text("t"),)), user(Text("a"))),
        ["s", "t"],
        [],
    ),
    "G54 in mid-conversation": (
        request_of(
            user(Text("a")), Message("system", (Text("t"),), where="messages[1]"), system=(Text("s"),)
        ),
        ["s"],
        ["changed messages[1]: Gemini has no system text inside a conversation. It was sent as the user's."],
    ),
}


@pytest.mark.parametrize("request_, texts, losses", SYSTEM.values(), ids=SYSTEM)
def test_system_text(request_: Request, texts: list[str], losses: list[str]):
    body, lost = encode(request_)
    assert body["systemInstruction"] == {"parts": [{"text": text} for text in texts]}
    assert body["contents"][0]["parts"][0] == {"text": "a"}
    assert lost == losses


def test_later_system_text_is_user_text_in_its_place():
    """G54: in front it would invalidate the cached prefix; results still follow their calls."""
    mind = Message("system", (Text("mind"),))
    call = Message("assistant", (ToolCall("1", "f", "{}"),))
    body, _ = encode(
        request_of(user(Text("a")), call, mind, user(ToolResult("1", "f", (Text("x"),))), user(Text("b")))
    )
    assert "systemInstruction" not in body
    assert [part.get("text", "result") for part in body["contents"][2]["parts"]] == ["result", "mind", "b"]


def test_several_system_parts_are_all_read():
    """G55."""
    request, _ = decode({"contents": [HELLO], "systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}]}})
    assert [part.text for part in request.system] == ["a", "b"]


LOST = {
    "foreign state": (
        assistant(Text("a", state=State("anthropic", "x"), where="m")),
        ["dropped m: It was signed by anthropic. Nobody else can verify the signature."],
    ),
    "hidden reasoning of another": (
        assistant(Reasoning(hidden=True, where="m")),
        ["dropped m: This reasoning is hidden, and Gemini did not make it."],
    ),
    "citations": (
        assistant(Text("a", (Citation("https://x.test"),), where="m")),
        ["dropped m.citations: Gemini takes no citations back."],
    ),
    "a file of another": (
        user(Media("image", "", FileId("f1", "openai-responses"), where="m")),
        ["dropped m: Only openai-responses can open this image."],
    ),
    "a file of another in a result": (
        user(ToolResult("1", "f", (Media("image", "", FileId("f1", "anthropic"), where="m"),))),
        ["dropped m: Only anthropic can open this image."],
    ),
    "G72 a URL": (
        user(Media("image", "", Url("https://x.test/a.png?b"), where="m")),
        [],
    ),
    "a type that nobody said": (
        user(Media("image", "", Base64(PNG), where="m")),
        ["invented m.mimeType: Gemini requires it. image/png was sent."],
    ),
    "the name of a file": (
        user(Media("document", "application/pdf", Base64("AAAA"), "a.pdf", where="m")),
        ["dropped m.name: Gemini has no field for the name of a file."],
    ),
    "several texts in a result": (
        user(ToolResult("1", "f", (Text("a"), Text("b")), where="m")),
        ["changed m: Gemini has one text for a result. The texts were joined."],
    ),
    "G66 arguments that are no object": (
        assistant(ToolCall("1", "f", "[1]", state=State("gemini", "c2ln"), where="m")),
        ["changed m.arguments: The arguments are no JSON object. They were sent as written."],
    ),
    "a result whose call is gone": (
        user(ToolResult("1", where="m")),
        ["invented m.name: No call in the conversation has this id."],
    ),
    "an image as system text": (
        Message("system", (Media("image", "image/png", Base64(PNG), where="m"),)),
        ["dropped m: Gemini takes only text from the system."],
    ),
}


@pytest.mark.parametrize("message, losses", LOST.values(), ids=LOST)
def test_losses_are_reported(message: Message, losses: list[str]):
    _, lost = encode(request_of(message, user(Text("go on"))))
    assert lost == losses


def test_foreign_state_is_never_written():
    body, _ = encode(
        request_of(
            assistant(
                Reasoning("hm", state=State("anthropic", "secret")),
                ToolCall("1", "f", "{}", state=State("anthropic", "secret")),
            )
        )
    )
    assert "secret" not in jsontext.dumps(body)
    assert "ZHJhZ29t" not in jsontext.dumps(body)


ENDINGS = {
    "https://x.test/a.jpg?size=1.png": "image/jpeg",
    "https://x.test/a.PNG": "image/png",
    "https://x.test/a.pdf": "application/pdf",
    "https://x.test/a.mp3": "audio/mpeg",
    "https://x.test/a": None,
}


@pytest.mark.parametrize("url, media_type", ENDINGS.items(), ids=ENDINGS)
def test_the_type_follows_from_the_url(url: str, media_type: str | None):
    (part,) = contents(user(Media("image", "", Url(url))))[0]["parts"]
    assert part["fileData"] == {"fileUri": url, **({"mimeType": media_type} if media_type else {})}


def test_a_conversation_that_ends_with_the_assistant():
    """G53."""
    _, losses = encode(request_of(user(Text("a")), Message("assistant", (Text("b"),), where="messages[1]")))
    assert losses == [
        "changed messages[1]: Gemini answers the last message of the assistant. It does not continue it."
    ]
