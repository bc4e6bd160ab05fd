"""Interactions that google-genai continues by id, over every upstream, on each database."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai._gaos.lib.compat_errors import BadRequestError, NotFoundError

from dragoman.core import jsontext
from gateway.conversations.stands import OTHER_KEY
from gateway.plain import send
from gateway.sdks import Interactions, Turn, plain, schema
from gateway.stands import CLIENT_KEY, MODELS, UPSTREAMS, Stand
from seeds.wires import gather_interactions

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather of a city.",
    "parameters": schema(["city"]),
}
THINKS = {"thinking_level": "low", "thinking_summaries": "auto"}


def ask(stand: Stand, mode: str, upstream: str, key: str = CLIENT_KEY, **more: Any) -> tuple[str, Turn]:
    """The id of the interaction and its turn."""
    sdk = Interactions(stand.url, key)
    model = f"{upstream}:{MODELS[upstream]}"
    request: Any = {"model": model, "tools": [WEATHER], "generation_config": THINKS, **more}
    if mode == "whole":
        found = plain(sdk.sync.interactions.create(**request))
    else:
        events = [plain(event) for event in sdk.sync.interactions.create(**request, stream=True)]
        assert {event["interaction"]["id"] for event in events if "interaction" in event} == {
            events[-1]["interaction"]["id"]
        }
        found = gather_interactions(events)
    return found["id"], sdk.turn(found)


@pytest.mark.parametrize("mode", ("whole", "streamed"))
def test_a_tool_cycle_by_id(stand: Stand, mode: str) -> None:
    """Only what is new is sent; the upstream checks that its state came back."""
    for upstream in UPSTREAMS:
        first, turn = ask(stand, mode, upstream, input="What is the weather in Oslo?")
        (call,) = turn.calls
        assert (call.name, call.arguments) == ("get_weather", {"city": "Oslo"})
        result = {"type": "function_result", "call_id": call.id, "name": call.name, "result": "rain"}
        second, turn = ask(stand, mode, upstream, input=[result], previous_interaction_id=first)
        assert turn.text == "get_weather returned: rain"
        _, turn = ask(
            stand, mode, upstream, input="And what is the weather in Bern?", previous_interaction_id=second
        )
        assert [call.arguments for call in turn.calls] == [{"city": "Bern"}]


def test_retrieved_listed_streamed_again_and_deleted(stand: Stand) -> None:
    client = Interactions(stand.url, CLIENT_KEY).sync
    sdk = client.interactions
    id, turn = ask(stand, "streamed", "anthropic", input="What is the weather in Oslo?")
    found = plain(sdk.get(id))
    assert (found["id"], found["status"], found["steps"]) == (id, "requires_action", turn.raw)
    whole = plain(sdk.get(id, include_input=True))
    assert whole["steps"] == [
        {"type": "user_input", "content": [{"type": "text", "text": "What is the weather in Oslo?"}]},
        *turn.raw,
    ]
    events = [plain(event) for event in sdk.get(id, stream=True)]
    assert gather_interactions(events)["steps"] == turn.raw
    assert [event["event_id"] for event in events] == [str(number) for number in range(len(events))]
    rest = [plain(event) for event in sdk.get(id, stream=True, last_event_id="3")]
    assert rest == events[4:]
    sdk.delete(id)
    for action in (
        lambda: sdk.get(id),
        lambda: ask(stand, "whole", "gemini", previous_interaction_id=id, input="?"),
    ):
        with pytest.raises(NotFoundError, match="No interaction with id"):
            action()


def test_what_is_not_stored_or_of_another_key(stand: Stand) -> None:
    id, _ = ask(stand, "whole", "gemini", input="hello", store=False)
    with pytest.raises(NotFoundError, match="No interaction with id"):
        ask(stand, "whole", "gemini", input="again", previous_interaction_id=id)
    id, _ = ask(stand, "whole", "gemini", input="hello")
    with pytest.raises(NotFoundError, match="No interaction with id"):
        ask(stand, "whole", "gemini", OTHER_KEY, input="again", previous_interaction_id=id)
    with pytest.raises(BadRequestError, match="expected store to be true"):
        ask(stand, "whole", "gemini", input="hello", store=False, background=True)


@pytest.mark.parametrize(
    "path", ("/v1/interactions", "/v1beta2/interactions", "/v1beta1/projects/p/locations/l/interactions")
)
def test_every_path(stand: Stand, path: str) -> None:
    body = b'{"model":"demo:m","input":{"type":"text","text":"hello"}}'
    got = send(stand.url, "POST", path.replace("demo:m", ""), body.replace(b"demo:m", b"gemini:m"))
    assert (got.status, got.text("gemini-interactions")) == (200, "You said: hello")
    again = send(stand.url, "GET", f"{path}/{got.json['id']}?stream=false")
    assert again.json == got.json


@pytest.mark.parametrize("revision", ["2026-05-20", "2026-11-01", "2026-05-07"])
def test_revisions(stand: Stand, revision: str) -> None:
    """The one before steps had another schema; Google ended it in June 2026."""
    headers = {"x-goog-api-key": CLIENT_KEY, "api-revision": revision}
    body = jsontext.encode({"model": f"openai-chat:{MODELS['openai-chat']}", "input": "hi"})
    got = send(stand.url, "POST", "/v1beta/interactions", body, headers)
    assert got.status == (400 if revision == "2026-05-07" else 200)
    assert got.status == 200 or "2026-05-20 or later" in got.json["error"]["message"]
