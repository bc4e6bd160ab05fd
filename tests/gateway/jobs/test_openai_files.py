"""Files of OpenAI's clients: kept by the gateway, read by any upstream, named in Responses and in Chat."""

from __future__ import annotations

import base64
from typing import Any

import openai
import pytest

from gateway.canned import Answer, Canned, chat
from gateway.conversations.databases import Database
from gateway.conversations.stands import OTHER_KEY, responses
from gateway.jobs.file_stands import DATA, PDF, PNG, SEEN, blocks_of, over, read_by, without_names


def asked(client: openai.OpenAI, protocol: str, *parts: Any) -> str:
    """Says what the model answers to `parts`."""
    if protocol == "openai-chat":
        content: Any = [*parts, {"type": "text", "text": "What does it say?"}]
        made = client.chat.completions.create(model="up:m", messages=[{"role": "user", "content": content}])
        return made.choices[0].message.content or ""
    content = [*parts, {"type": "input_text", "text": "What does it say?"}]
    message: Any = {"role": "user", "content": content}
    return client.responses.create(model="up:m", input=[message]).output_text


def named(protocol: str, id: str) -> Any:
    if protocol == "openai-chat":
        return {"type": "file", "file": {"file_id": id}}
    return {"type": "input_file", "file_id": id}


@pytest.mark.parametrize("upstream", SEEN)
@pytest.mark.parametrize("client", ["openai-chat", "openai-responses"])
def test_a_document_over_every_upstream(client: str, upstream: str, database: Database) -> None:
    canned = read_by(upstream)
    with over(canned, database, upstream) as stand:
        sdk = responses(stand)
        file = sdk.files.create(file=("report.pdf", PDF, "application/pdf"), purpose="user_data")
        assert (file.filename, file.purpose, file.bytes) == ("report.pdf", "user_data", len(PDF))
        assert sdk.files.content(file.id).read() == PDF
        assert asked(sdk, client, named(client, file.id)) == "read"
    assert SEEN[upstream] in [without_names(part) for part in blocks_of(canned.requests[0].json)]


def test_an_image_and_a_result(database: Database) -> None:
    canned = read_by("openai-responses")
    with over(canned, database, "openai-responses") as stand:
        sdk = responses(stand)
        picture = sdk.files.create(file=("a.png", PNG), purpose="vision").id
        report = sdk.files.create(file=("a.pdf", PDF), purpose="user_data").id
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": "c"}
        image = {"type": "input_image", "file_id": picture, "detail": "low"}
        output = [image, {"type": "input_file", "file_id": report}]
        given: Any = [{"role": "user", "content": "hi"}, call, {**result, "output": output}]
        sdk.responses.create(model="up:m", input=given)
    image, document = canned.requests[0].json["input"][2]["output"]
    data = base64.b64encode(PNG).decode()
    assert image == {"type": "input_image", "image_url": f"data:image/png;base64,{data}", "detail": "low"}
    assert document["file_data"] == f"data:application/pdf;base64,{DATA}"
    assert document["filename"] == "a.pdf"


@pytest.mark.parametrize("client", ["openai-chat", "openai-responses"])
def test_a_file_that_is_not_stored_here_stays(client: str, database: Database) -> None:
    """It may be the upstream's. One of another key is not stored here."""
    canned = read_by(client)
    with over(canned, database, client) as stand:
        id = responses(stand, OTHER_KEY).files.create(file=("a.pdf", PDF), purpose="user_data").id
        assert asked(responses(stand), client, named(client, id)) == "read"
    assert named(client, id) in [without_names(part) for part in blocks_of(canned.requests[0].json)]


def test_a_conversation_that_is_continued_holds_the_file(database: Database) -> None:
    """Its content is part of the stored turn, so deleting the file later takes nothing away."""
    canned = Canned(Answer(200, chat("18")), Answer(200, chat("Paris")))
    with over(canned, database) as stand:
        sdk = responses(stand)
        id = sdk.files.create(file=("report.pdf", PDF, "application/pdf"), purpose="user_data").id
        message: Any = {"role": "user", "content": [named("openai-responses", id)]}
        first = sdk.responses.create(model="up:m", input=[message])
        sdk.files.delete(id)
        sdk.responses.create(model="up:m", input="Where?", previous_response_id=first.id)
    assert SEEN["openai-chat"] in [
        without_names(part) for part in canned.requests[1].json["messages"][0]["content"]
    ]
