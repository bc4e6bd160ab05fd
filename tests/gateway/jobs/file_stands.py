"""A gateway that keeps files, over each upstream, and what a document is there."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dragoman.core import jsontext
from dragoman.core.model import Wire
from gateway.canned import Answer, Canned, provider
from gateway.conversations.databases import Database
from gateway.conversations.stands import OTHER_KEY, stored_at
from gateway.running import running
from gateway.stands import CLIENT_KEY, Stand, gateway
from seeds.wires import whole_reply

PDF = b"%PDF-1.4 tiny"
DATA = base64.b64encode(PDF).decode()
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ")
CONVERSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "read"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
}
# upstream -> what the document is there, without its name
SEEN: dict[str, Any] = {
    "openai-chat": {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{DATA}"}},
    "openai-responses": {"type": "input_file", "file_data": f"data:application/pdf;base64,{DATA}"},
    "anthropic": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
    },
    "gemini": {"inlineData": {"mimeType": "application/pdf", "data": DATA}},
    "bedrock-converse": {"document": {"format": "pdf", "source": {"bytes": DATA}}},
}


@contextmanager
def over(canned: Canned, database: Database, protocol: str = "openai-chat") -> Iterator[Stand]:
    with running(canned) as url:
        keys = f'[server]\nkeys = ["{CLIENT_KEY}", "{OTHER_KEY}"]\nmax_body_mb = 1\n'
        text = keys + provider("up", url, protocol) + stored_at(database.url)
        with gateway(text) as stand:
            yield stand


def without_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_names(each)
            for key, each in value.items()
            if key not in ("filename", "name", "title", "displayName")
        }
    return [without_names(each) for each in value] if isinstance(value, list) else value


def blocks_of(sent: Wire) -> list[Any]:
    """All parts of all messages, whatever the protocol calls them."""
    turns = sent.get("messages") or sent.get("contents") or sent.get("input") or []
    return [part for turn in turns for part in turn.get("content") or turn.get("parts") or []]


def read_by(protocol: str) -> Canned:
    """An upstream that says that it read."""
    reply = CONVERSE if protocol == "bedrock-converse" else whole_reply(protocol, "read")
    return Canned(Answer(200, jsontext.encode(reply)))
