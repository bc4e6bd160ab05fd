"""Interactions in the background, driven by google-genai: polled, streamed, resumed, cancelled."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai._gaos.lib.compat_errors import BadRequestError, NotFoundError

from gateway.jobs.upstreams import HeldModel
from gateway.sdks import Interactions, plain
from gateway.stands import CLIENT_KEY, Stand
from seeds.wires import gather_interactions
from waiting import wait_until


@pytest.fixture
def client(stand: Stand) -> Any:
    return Interactions(stand.url, CLIENT_KEY).sync


def started(client: Any, prompt: str, **more: Any) -> Any:
    return client.interactions.create(model="up:m", input=prompt, background=True, **more)


def ended(client: Any, id: str) -> Any:
    wait_until(lambda: client.interactions.get(id).status not in ("in_progress", "queued"))
    return client.interactions.get(id)


def text_of(interaction: dict[str, Any]) -> str:
    outputs = [step for step in interaction["steps"] if step["type"] == "model_output"]
    return "".join(block["text"] for step in outputs for block in step["content"])


def test_polled_and_continued(client: Any, model: HeldModel) -> None:
    first = started(client, "slow one")
    assert (first.status, first.steps) == ("in_progress", None)
    model.released = True
    done = plain(ended(client, first.id))
    assert (done["status"], text_of(done), done["id"]) == ("completed", "You said: slow one", first.id)
    whole = plain(client.interactions.get(first.id, include_input=True))
    assert [step["type"] for step in whole["steps"]] == ["user_input", "model_output"]
    later = client.interactions.create(model="up:m", input="two", previous_interaction_id=first.id)
    assert text_of(plain(later)) == "You said: two"
    assert model.requests == ["slow one", "two"]


def test_streamed_while_it_runs_and_resumed(client: Any, model: HeldModel) -> None:
    """It was created without a stream, as the API demands; its events are there all the same."""
    id = started(client, "slow one").id
    wait_until(lambda: model.requests == ["slow one"])
    model.released = True
    events = [plain(event) for event in client.interactions.get(id, stream=True)]
    assert text_of(gather_interactions(events)) == "You said: slow one"
    assert events[0]["event_type"] == "interaction.created"
    assert events[-1]["event_type"] == "interaction.completed"
    assert [event["event_id"] for event in events] == [str(number) for number in range(len(events))]
    rest = client.interactions.get(id, stream=True, last_event_id=events[2]["event_id"])
    assert [plain(event) for event in rest] == events[3:]


def test_cancelled_and_deleted(client: Any, model: HeldModel) -> None:
    id = started(client, "slow one").id
    wait_until(lambda: model.requests == ["slow one"])
    assert client.interactions.cancel(id).status == "cancelled"
    wait_until(lambda: model.gone == ["slow one"])
    assert client.interactions.get(id).status == "cancelled"
    client.interactions.delete(id)
    with pytest.raises(NotFoundError):
        client.interactions.get(id)
    plain_one = client.interactions.create(model="up:m", input="hello")
    with pytest.raises(BadRequestError, match="Only interactions with background=true"):
        client.interactions.cancel(plain_one.id)


def test_a_run_that_fails(client: Any, model: HeldModel) -> None:
    model.refusals["one"] = [(400, {})]
    done = plain(ended(client, started(client, "one").id))
    assert (done["status"], done["errors"][0]["message"]) == ("failed", "refused")
    events = [plain(event) for event in client.interactions.get(done["id"], stream=True)]
    assert events[-1]["interaction"]["status"] == "failed"
