"""Files of Anthropic's clients: kept by the gateway, read by any upstream. On SQLite and on PostgreSQL."""

from __future__ import annotations

import base64
from typing import Any

import anthropic
import pytest

from dragoman.core import jsontext
from gateway.canned import Answer, Canned, chat
from gateway.conversations.databases import Database
from gateway.conversations.stands import OTHER_KEY, messages, responses
from gateway.jobs.file_stands import DATA, PDF, PNG, SEEN, blocks_of, over, read_by, without_names
from gateway.plain import send
from gateway.stands import CLIENT_KEY
from seeds.wires import whole_reply


def document(id: str) -> Any:
    return {"type": "document", "source": {"type": "file", "file_id": id}}


def asked(client: anthropic.Anthropic, *blocks: Any) -> Any:
    content = [*blocks, {"type": "text", "text": "What does it say?"}]
    return client.messages.create(model="up:m", max_tokens=9, messages=[{"role": "user", "content": content}])


@pytest.mark.parametrize("protocol", SEEN)
def test_a_document_over_every_upstream(protocol: str, database: Database) -> None:
    canned = read_by(protocol)
    with over(canned, database, protocol) as stand:
        client = messages(stand)
        file = client.files.upload(file=("report.pdf", PDF, "application/pdf"))
        assert asked(client, document(file.id)).content[0].text == "read"
    assert SEEN[protocol] in [without_names(part) for part in blocks_of(canned.requests[0].json)]


def test_files(database: Database) -> None:
    with over(Canned(Answer(200, chat("x"))), database) as stand:
        client = messages(stand)
        first = client.files.upload(file=("report.pdf", PDF, "application/pdf"))
        assert (first.filename, first.mime_type, first.size_bytes) == (
            "report.pdf",
            "application/pdf",
            len(PDF),
        )
        second = client.files.upload(file=("notes.md", b"# Notes"))
        assert second.mime_type == "text/markdown"
        assert client.files.retrieve_metadata(first.id) == first
        assert client.files.download(first.id).read() == PDF
        assert [file.id for file in client.files.list(limit=1)] == [second.id, first.id]  # two pages
        beta = client.beta.files
        assert [file.id for file in beta.list(limit=1)] == [second.id, first.id]
        with pytest.raises(anthropic.BadRequestError, match="not by their ids"):
            client.files.list(ids=[first.id])
        assert not list(responses(stand).files.list())  # OpenAI's are others
        other = messages(stand, OTHER_KEY)
        assert not list(other.files.list())
        with pytest.raises(anthropic.NotFoundError, match="no file"):
            other.files.retrieve_metadata(first.id)
        assert client.files.delete(first.id).type == "file_deleted"
        with pytest.raises(anthropic.NotFoundError):
            client.files.download(first.id)


def test_kinds_of_files(database: Database) -> None:
    canned = Canned(Answer(200, jsontext.encode(whole_reply("anthropic", "read"))))
    with over(canned, database, "anthropic") as stand:
        client = messages(stand)
        notes = client.files.upload(file=("notes.txt", b"18 C", "text/plain")).id
        picture = client.files.upload(file=("a.png", PNG)).id
        asked(client, document(notes), {"type": "image", "source": {"type": "file", "file_id": picture}})
        text, image, _ = canned.requests[0].json["messages"][0]["content"]
        assert text["source"] == {"type": "text", "media_type": "text/plain", "data": "18 C"}
        assert text["title"] == "notes.txt"
        assert image["source"]["media_type"] == "image/png"
        assert base64.b64decode(image["source"]["data"]) == PNG


def test_in_a_result_and_twice(database: Database) -> None:
    canned = Canned(Answer(200, jsontext.encode(whole_reply("anthropic", "read"))))
    with over(canned, database, "anthropic") as stand:
        client = messages(stand)
        id = client.files.upload(file=("a.pdf", PDF)).id
        call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [document(id)]}
        turns: Any = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result, document(id)]},
        ]
        client.messages.create(model="up:m", max_tokens=9, messages=turns)
    sent, again = canned.requests[0].json["messages"][2]["content"]
    assert sent["content"][0]["source"]["data"] == again["source"]["data"] == DATA


def test_a_file_that_is_not_stored_here_stays(database: Database) -> None:
    """It may be the upstream's. One of another key is not stored here."""
    canned = Canned(Answer(200, jsontext.encode(whole_reply("anthropic", "read"))))
    with over(canned, database, "anthropic") as stand:
        theirs = messages(stand, OTHER_KEY).files.upload(file=("a.pdf", PDF)).id
        for id in ("file_011CNha8iCJcU1wXNR6q4V8w", theirs):
            asked(messages(stand), document(id))
            assert canned.requests[-1].json["messages"][0]["content"][0] == document(id)


def test_too_large_with_its_files(database: Database) -> None:
    with over(Canned(Answer(200, chat("x"))), database) as stand:
        client = messages(stand)
        id = client.files.upload(file=("a.pdf", PDF + bytes(500_000))).id
        assert asked(client, document(id)).content[0].text == "x"
        with pytest.raises(anthropic.APIStatusError, match="the request and its files have more than"):
            asked(client, document(id), document(id))


def test_the_count_of_tokens_sees_the_content(database: Database) -> None:
    with over(Canned(Answer(200, chat("x"))), database) as stand:
        client = messages(stand)
        id = client.files.upload(file=("a.txt", b"word " * 2000, "text/plain")).id
        given: Any = [{"role": "user", "content": [document(id)]}]
        assert client.messages.count_tokens(model="up:m", messages=given).input_tokens > 1000


def test_what_is_refused(database: Database) -> None:
    with over(Canned(Answer(200, chat("x"))), database) as stand:
        version = {"anthropic-version": "2023-06-01", "x-api-key": CLIENT_KEY}
        got = send(stand.url, "POST", "/v1/files", b"{}", version)
        assert (got.status, got.json["type"]) == (400, "error")
        got = send(stand.url, "GET", "/v1/files/file_none", headers=version)
        assert (got.status, got.json["error"]["type"]) == (404, "not_found_error")
