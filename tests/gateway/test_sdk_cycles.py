"""Real SDKs against the gateway: every client over every upstream, sync and async, whole and streamed.

Each goes through the same conversation: two calls at once, an image result and a failed one, the answer,
another question, its call and its answer. The upstream refuses a conversation whose state did not survive.
"""

from __future__ import annotations

import base64
from hashlib import blake2s
from typing import Any

import pytest

from gateway.sdks import MODES, PNG, SDKS, Output, sdk_of, speaking
from gateway.stands import MODELS, UPSTREAMS, Stand

SEEN = f"[image image/png {blake2s(base64.b64encode(PNG), digest_size=8).hexdigest()}]"


each_client = pytest.mark.parametrize("client", SDKS)
each_mode = pytest.mark.parametrize("mode", MODES)


@each_mode
@pytest.mark.parametrize("upstream", UPSTREAMS)
@each_client
def test_a_conversation(stand: Stand, client: str, upstream: str, mode: str) -> None:
    hold_conversation(sdk_of(client, stand.url), mode, f"{upstream}:{MODELS[upstream]}")

    last = stand.last()
    assert (last["client"], last["provider"], last["status"]) == (client, upstream, 200)
    assert (len(stand.records), stand.records[0]["calls"], stand.records[0]["tools"]) == (4, 2, 2)
    silent = client == "openai-chat" and upstream in ("openai-chat", "hermes") and "streamed" in mode
    assert stand.records[0].get("output") or silent  # Chat tells usage only to those who ask for it


def hold_conversation(sdk: Any, mode: str, model: str) -> None:
    speak = speaking(sdk, mode)
    history = sdk.user("Show me a picture of Oslo and Rome")
    first = speak(sdk.request(model, history))
    assert [(call.name, call.arguments) for call in first.calls] == [
        ("take_picture", {"city": "Oslo"}),
        ("take_picture", {"city": "Rome"}),
    ]
    assert first.text == "I will use take_picture and take_picture."
    assert first.thought == "I need take_picture and take_picture."

    history += sdk.results(first, [Output("here it is", PNG), Output("no camera there", failed=True)])
    second = speak(sdk.request(model, history))
    assert "take_picture returned: here it is" in second.text
    assert SEEN in second.text
    assert "no camera there" in second.text
    assert second.calls == []

    history += [*sdk.reply_turns(second), *sdk.user("And the weather in Bern?")]
    third = speak(sdk.request(model, history))
    assert [(call.name, call.arguments) for call in third.calls] == [("get_weather", {"city": "Bern"})]

    history += sdk.results(third, [Output("rain")])
    assert speak(sdk.request(model, history)).text == "get_weather returned: rain"


@each_mode
@each_client
def test_leaked_calls_are_calls(stand: Stand, client: str, mode: str) -> None:
    sdk = sdk_of(client, stand.url)
    request = sdk.request("leaky:m", sdk.user("Tell me the weather in Bern [[fault: leak]]"))
    turn = speaking(sdk, mode)(request)
    assert [(call.name, call.arguments) for call in turn.calls] == [("get_weather", {"city": "Bern"})]


@each_mode
@each_client
def test_the_embedded_demo(client: str, mode: str, embedded: Stand) -> None:
    """No provider configured: a scripted model that really calls the declared tools."""
    sdk = sdk_of(client, embedded.url)
    speak = speaking(sdk, mode)
    history = sdk.user("What is the weather in Oslo and Rome?")
    first = speak(sdk.request("any-name-at-all", history))
    assert [call.arguments for call in first.calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    history += sdk.results(first, [Output("rain"), Output("sun")])
    second = speak(sdk.request("any-name-at-all", history))
    assert second.text == "get_weather returned: rain\nget_weather returned: sun"
