"""Two gateways on one store: a conversation that an upstream keeps goes on at the other one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from cli.gateways import PATIENT, serving
from gateway.canned import provider
from gateway.conversations.databases import Database
from gateway.conversations.stateful_upstream import StatefulUpstream
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway
from waiting import wait_until


@pytest.fixture
def upstream() -> Iterator[tuple[StatefulUpstream, str]]:
    app = StatefulUpstream()
    with running(app) as url:
        yield app, url


def is_ready(url: str) -> bool:
    """Whether the store is open; where that takes too long for a request, its handle is not stored."""
    return send(url, "GET", "/readyz").status == 200


def continued(url: str, *texts: str) -> list[str]:
    """A conversation with one more reply: the user and the assistant in turn."""
    messages = [
        {"role": "assistant" if index % 2 else "user", "content": text} for index, text in enumerate(texts)
    ]
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
    reply = client.chat.completions.create(model="kept:m", messages=messages)  # pyright: ignore[reportArgumentType] - plain dicts
    return [*texts, reply.choices[0].message.content or ""]


def test_a_conversation_goes_on_when_one_gateway_is_gone(
    upstream: tuple[StatefulUpstream, str], database: Database
) -> None:
    kept, url = upstream
    text = f'[store]\nurl = "{database.url}"\n' + provider("kept", f"{url}/v1", "qwen-chat")
    with gateway(text) as second:
        with gateway(text) as first:
            wait_until(lambda: is_ready(first.url) and is_ready(second.url))
            texts = continued(first.url, "one")
            texts = continued(second.url, *texts, "two")
            texts = continued(first.url, *texts, "three")
        texts = continued(second.url, *texts, "What did I say?")
    assert texts[-1] == "You said: one | two | three"
    assert [body["parent_id"] for body in kept.requests] == [None, "reply-1", "reply-2", "reply-3"]
    assert [len(body["messages"]) for body in kept.requests] == [1, 1, 1, 1]


def test_a_conversation_goes_on_when_one_gateway_is_killed(
    upstream: tuple[StatefulUpstream, str], database: Database, tmp_path: Path
) -> None:
    """Real processes; the one that answered is killed as soon as the client has its reply."""
    kept, url = upstream
    text = f'[store]\nurl = "{database.url}"\n' + provider("kept", f"{url}/v1", "qwen-chat")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dragoman.toml").write_text(text)
    with (
        serving(tmp_path / "first", program=PATIENT) as first,
        serving(tmp_path / "second", program=PATIENT) as second,
    ):
        wait_until(lambda: is_ready(first[0]) and is_ready(second[0]))
        texts = continued(first[0], "one")
        first[1].kill()
        texts = continued(second[0], *texts, "What did I say?")
    assert texts[-1] == "You said: one"
    assert [body["parent_id"] for body in kept.requests] == [None, "reply-1"]


def test_what_is_kept_is_a_hash_and_a_handle(
    upstream: tuple[StatefulUpstream, str], database: Database
) -> None:
    kept, url = upstream
    text = f'[store]\nurl = "{database.url}"\n' + provider("kept", f"{url}/v1", "qwen-chat")
    with gateway(text) as stand:
        continued(stand.url, "a secret prompt")
    stored = str(database.rows("select * from dragoman_handles"))
    assert kept.requests[0]["chat_id"] in stored
    assert "secret" not in stored
    assert "key-of-kept" not in stored
