"""The vendors' SDKs over the httpx transport, each on a provider of every protocol."""

import asyncio
import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

from dragoman import Provider, protocols
from dragoman.client import Model
from dragoman.core.losses import Loss
from dragoman.core.transport import Timeouts
from dragoman.demo import DemoTransport
from dragoman.integrations import HttpxTransport, async_http_client, http_client

TEXT, SAID = "Good morning", "You said: Good morning"
WEATHER = {
    "name": "get_weather",
    "description": "Get the weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CHAT_TOOL: Any = {"type": "function", "function": WEATHER}
ASKED = "What is the weather in NYC?"


@pytest.fixture(params=protocols())
def model(request: pytest.FixtureRequest) -> Model:
    return Provider("demo", protocol=request.param).model("any")


def test_openai_chat(model: Model):
    client = openai.OpenAI(api_key="-", http_client=http_client(model))
    messages: Any = [{"role": "user", "content": ASKED}]
    reply = client.chat.completions.create(model="gpt-4o", messages=messages, tools=[CHAT_TOOL])
    call: Any = (reply.choices[0].message.tool_calls or [])[0]
    assert (reply.model, call.function.name) == ("gpt-4o", "get_weather")
    messages += [reply.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "foggy"}]
    chunks = client.chat.completions.create(model="gpt-4o", messages=messages, tools=[CHAT_TOOL], stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "foggy" in text


def test_openai_responses(model: Model):
    client = openai.OpenAI(api_key="-", http_client=http_client(model))
    assert client.responses.create(model="gpt-4o", input=TEXT).output_text == SAID
    with client.responses.stream(model="gpt-4o", input=TEXT) as stream:
        assert "".join(event.delta for event in stream if event.type == "response.output_text.delta") == SAID


def test_anthropic(model: Model):
    client = anthropic.Anthropic(api_key="-", http_client=http_client(model))
    request: Any = {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": TEXT}]}
    reply = client.messages.create(**request)
    assert [block.text for block in reply.content if block.type == "text"] == [SAID]
    with client.messages.stream(**request) as stream:
        assert "".join(stream.text_stream) == SAID
    assert client.messages.count_tokens(model="claude-x", messages=request["messages"]).input_tokens > 0


def test_google(model: Model):
    options = types.HttpOptions(httpx_client=http_client(model), httpx_async_client=async_http_client(model))
    client = genai.Client(api_key="-", http_options=options)
    assert client.models.generate_content(model="gemini-x", contents=TEXT).text == SAID
    chunks = client.models.generate_content_stream(model="gemini-x", contents=TEXT)
    assert "".join(chunk.text or "" for chunk in chunks) == SAID


def test_async_clients(model: Model):
    async def ask() -> None:
        client = openai.AsyncOpenAI(api_key="-", http_client=async_http_client(model))
        messages: Any = [{"role": "user", "content": TEXT}]
        async with client:
            chunks = await client.chat.completions.create(model="x", messages=messages, stream=True)
            assert "".join([c.choices[0].delta.content or "" async for c in chunks if c.choices]) == SAID
        async with anthropic.AsyncAnthropic(api_key="-", http_client=async_http_client(model)) as other:
            reply = await other.messages.create(model="x", max_tokens=9, messages=messages)
            assert reply.content[-1].type == "text"

    asyncio.run(ask())


def chat(transport: HttpxTransport, model: str = "x", text: str = TEXT, **fields: Any) -> httpx2.Response:
    body = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
    with httpx2.Client(transport=transport) as client:
        return client.post("http://anywhere/v1/chat/completions", json=body)


ROUTINGS: dict[str, tuple[Any, str, int]] = {
    "by the request": (None, "demo:any", 200),
    "by a table": ({"small": "demo:any"}, "small", 200),
    "by the star of a table": ({"small": "nobody:x", "*": "demo:any"}, "large", 200),
    "by a function": (lambda requested: f"demo:{requested}", "any", 200),
    "not in the table": ({"small": "demo:any"}, "large", 404),
    "an unknown provider": (None, "nobody:x", 404),
    "no provider": (None, "any", 404),
}


@pytest.mark.parametrize("routing, model, status", ROUTINGS.values(), ids=ROUTINGS)
def test_routing(routing: Any, model: str, status: int):
    reply = chat(HttpxTransport(routing), model)
    assert reply.status_code == status
    assert ("error" in reply.json()) == (status != 200)


ERRORS = {
    "an upstream that refuses": ("Hello [[fault: 400]]", {}, 400),
    "one that fails in a stream": ("Hello [[fault: 401]]", {"stream": True}, 401),
    "a broken answer": ("Hello [[fault: malformed]]", {}, 500),
}


@pytest.mark.parametrize("text, fields, status", ERRORS.values(), ids=ERRORS)
def test_errors_are_those_of_the_clients_protocol(text: str, fields: dict[str, Any], status: int):
    reply = chat(HttpxTransport("demo:any"), text=text, **fields)
    assert reply.status_code == status
    assert reply.json()["error"]["message"]


def test_a_stream_that_breaks_says_so():
    provider = Provider("demo", tries=1)
    reply = chat(HttpxTransport(provider.model("any")), text="Hello [[fault: cut]]", stream=True)
    assert reply.status_code == 200
    assert '"error"' in reply.text


@pytest.mark.parametrize("path", ["/v1/nowhere", "/v1/responses/compact"])
def test_what_is_not_served_is_404(path: str):
    with httpx2.Client(transport=HttpxTransport("demo:any")) as client:
        assert client.post(f"http://anywhere{path}", json={"model": "x", "input": "y"}).status_code == 404


def test_malformed_requests_are_400():
    with httpx2.Client(transport=HttpxTransport("demo:any")) as client:
        reply = client.post("http://anywhere/v1/messages", content=b"{broken")
        assert (reply.status_code, reply.json()["type"]) == (400, "error")
        packed = {"content-encoding": "gzip"}
        assert client.post("http://x/v1/messages", content=b"no gzip", headers=packed).status_code == 400


def test_losses_are_reported_and_strict_refuses():
    seen: list[Loss] = []
    reply = chat(HttpxTransport("demo:any", on_losses=seen.extend), seed=7)
    assert reply.status_code == 200
    assert "setting.seed.dropped" in [loss.code for loss in seen]
    assert chat(HttpxTransport("demo:any", strict=True), seed=7).status_code == 400


class Recorder:
    """A transport that stores headers and answers as the demo does."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self._demo = DemoTransport()

    async def send(
        self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts
    ) -> Any:
        self.headers = headers
        return await self._demo.send(method, url, headers, body, timeouts)


@pytest.mark.parametrize("protocol, passes", [("anthropic", True), ("gemini", False)])
def test_headers_of_a_body_go_with_it_to_its_own_protocol(protocol: str, passes: bool):
    recorder = Recorder()
    model = Provider("x", protocol=protocol, base_url="http://x", api_key="k", transport=recorder).model("m")
    client = anthropic.Anthropic(api_key="-", http_client=http_client(model))
    messages: Any = [{"role": "user", "content": TEXT}]
    client.messages.create(model="m", max_tokens=9, messages=messages, extra_headers={"anthropic-beta": "b"})
    assert (recorder.headers.get("anthropic-beta") == "b") == passes
    assert "-" not in recorder.headers.values()


def test_clients_get_the_time_of_the_next_try():
    reply = chat(HttpxTransport(Provider("demo", tries=1).model("any")), text="Hello [[fault: 429]]")
    assert reply.status_code == 429
    assert float(reply.headers["retry-after"]) >= 0


def test_model_lists():
    with httpx2.Client(transport=HttpxTransport({"small": "demo:any", "*": "demo:any"})) as client:
        assert [row["id"] for row in client.get("http://x/v1/models").json()["data"]] == ["small"]
        assert client.get("http://x/v1/models/small").json()["id"] == "small"


def test_leaving_a_stream_closes_it():
    with httpx2.Client(transport=HttpxTransport("demo:any")) as client:
        body = {"model": "x", "messages": [{"role": "user", "content": TEXT}], "stream": True}
        with client.stream("POST", "http://x/v1/chat/completions", content=json.dumps(body)) as reply:
            assert next(reply.iter_bytes())
