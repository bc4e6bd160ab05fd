"""Calls over the network: settings, failures and tries, streams in time, event loops, state."""

from __future__ import annotations

import asyncio
import base64
import inspect
import re
import subprocess
import sys
from itertools import count
from typing import Any

import pytest

from client.upstreams import KEY, provider
from dragoman import (
    ConfigError,
    LossError,
    Provider,
    SystemMessage,
    Tool,
    ToolMessage,
    UpstreamError,
    UserMessage,
    __version__,
    agenerate,
    arun,
    astream,
    generate,
    protocols,
    run,
    stream,
)
from dragoman.client import Finish, Model, ReasoningDelta, RequestSettings
from dragoman.client.providers import model_of
from dragoman.client.setting_types import OTHER_NAMES
from dragoman.core import jsontext
from dragoman.core.codec import OutgoingRequest
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, Media, Settings, Text
from dragoman.demo import DemoApp
from dragoman.http.client import Timeouts
from dragoman.protocols import codec
from waiting import finish, wait_until

DEMO = "demo:demo"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
weather = Tool(
    "get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
)
runs = count(1)


class Spy:
    """A transport that keeps what is sent and lets the embedded model answer."""

    def __init__(self) -> None:
        from dragoman.demo import DemoTransport

        self._demo, self.sent = DemoTransport(), list[tuple[str, dict[str, str], dict[str, Any]]]()
        self.timeouts: list[Timeouts] = []

    async def send(self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts):
        self.sent.append((url, headers, jsontext.decode(body)))
        self.timeouts.append(timeouts)
        return await self._demo.send(method, url, headers, body, timeouts)


def spied(protocol: str) -> tuple[Spy, Model]:
    spy = Spy()
    base = "http://x/v1" if protocol.startswith("openai") else "http://x"
    return spy, Provider("spied", protocol=protocol, base_url=base, api_key="k", transport=spy).model("m")


# Settings

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "temperature": ({"temperature": 0.5}, {"temperature": 0.5}),
    "max_tokens": ({"max_tokens": 7}, {"max_tokens": 7}),
    "stop": ({"stop": "END"}, {"stop_sequences": ["END"]}),
    "system": ({"system": "Be brief."}, {"system": "Be brief."}),
    "a tool by name": (
        {"tool_choice": "get_weather"},
        {"tool_choice": {"type": "tool", "name": "get_weather"}},
    ),
    "a tool": ({"tool_choice": weather}, {"tool_choice": {"type": "tool", "name": "get_weather"}}),
    "required": ({"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
    "not parallel": (
        {"parallel": False},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    "extra": ({"extra": {"top_k": 3, "new": [1]}}, {"top_k": 3, "new": [1]}),
}


@pytest.mark.parametrize(("settings", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_settings(settings: dict[str, Any], expected: dict[str, Any]):
    spy, model = spied("anthropic")
    generate("Hi", model, tools=[weather], **settings)
    ((url, headers, body),) = spy.sent
    assert (url, headers["x-api-key"]) == ("http://x/v1/messages", "k")
    assert {name: body.get(name) for name in expected} == expected


def test_an_unknown_setting_is_refused():
    for name, meant in (("max_turn", "max_turns"), ("tool", "tools"), ("aprove", "approve")):
        with pytest.raises(ConfigError, match=rf"Unknown setting '{name}'. Did you mean '{meant}'"):
            run("hi", "demo:any", **{name: 1})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"max_turns is an option of run\."):
        generate("hi", "demo:any", max_turns=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"Unknown setting 'temprature'. Did you mean 'temperature'"):
        generate("Hi", DEMO, temprature=1)  # pyright: ignore[reportCallIssue] - that is the point


def test_strict_refuses_what_would_be_lost():
    _, model = spied("anthropic")
    assert any(loss.where == "seed" for loss in generate("Hi", model, seed=1).losses)
    with pytest.raises(LossError, match="seed"):
        generate("Hi", model, seed=1, strict=True)


@pytest.mark.parametrize("protocol", protocols())
def test_images_of_the_user(protocol: str):
    spy, model = spied(protocol)
    generate([UserMessage("What is this?", images=[PNG])], model)
    request = codec(protocol).decode_request(spy.sent[0][2], Losses())
    text, image = request.messages[0].parts
    assert isinstance(text, Text)
    assert text.text == "What is this?"
    assert isinstance(image, Media)
    assert (image.kind, image.media_type, image.source) == ("image", "image/png", Base64(PNG))


@pytest.mark.parametrize("protocol", protocols())
@pytest.mark.parametrize("name", ["weather service.get/now", "wétter", "weather_" + "x" * 100])
def test_names_that_a_provider_does_not_take(protocol: str, name: str):
    _, model = spied(protocol)
    odd = Tool(name, "", weather.parameters)
    reply = generate("Hi", model, tools=[odd], tool_choice="required")
    assert [call["function"]["name"] for call in reply.tool_calls] == [name]
    again = generate([UserMessage("Hi"), reply, ToolMessage(reply.tool_calls[0], "72")], model, tools=[odd])
    assert again.content.endswith("returned: 72")


# Providers

MISTAKES: dict[str, tuple[Any, str]] = {
    "no provider": (
        lambda: generate("Hi", "gpt-5"),
        r"'gpt-5' names no provider. Write provider:model. Known providers: .*openai",
    ),
    "unknown provider": (
        lambda: generate("Hi", "acme:m"),
        r"Unknown provider 'acme'. Known: anthropic, .*demo",
    ),
    "no key": (lambda: generate("Hi", "groq:m"), r"Provider 'groq' has no key. Set GROQ_API_KEY"),
    "no address": (lambda: Provider("acme"), r"needs a protocol and a base_url"),
    "unknown protocol": (
        lambda: Provider("a", protocol="x", base_url="http://x"),
        r"Unknown protocol 'x'. Known",
    ),
    "unknown dialect": (
        lambda: Provider("a", protocol="gemini", base_url="http://x", dialect="x"),
        r"Unknown dialect 'x'. Known",
    ),
}


@pytest.mark.parametrize(("mistake", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_explained(mistake: Any, message: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=message):
        mistake()


def test_a_known_provider_takes_its_key_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GROQ_API_KEY", "secret")
    assert asyncio.run(Provider("groq").headers_for(OutgoingRequest("POST", "", {}, b""))) == {
        "user-agent": f"dragoman/{__version__}",
        "authorization": "Bearer secret",
    }
    assert "secret" not in repr(Provider("groq").model("m"))


# Failures and tries

FAILURES: dict[str, tuple[str, str, int]] = {
    "400": ("bad_request", "bad request", 400),
    "401": ("unauthenticated", "bad key", 401),
    "404": ("not_found", "no such model", 404),
    "cut": ("truncated", "closed", 502),
    "drop": ("server", "closed", 502),
    "garbage": ("server", "malformed", 502),
    "empty": ("server", "malformed", 502),
}


@pytest.mark.parametrize("protocol", protocols())
@pytest.mark.parametrize(("fault", "expected"), FAILURES.items(), ids=FAILURES)
def test_failures(address: str, protocol: str, fault: str, expected: tuple[str, str, int]):
    model = provider(address, protocol, tries=1).model("demo")
    with pytest.raises(UpstreamError) as caught:
        generate(f"Hi [[fault: {fault}]]", model)
    kind, message, status = expected
    failure = caught.value.failure
    assert (failure.kind, failure.status) == (kind, status)
    assert message in failure.message


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", ["429", "500", "529", "drop"])
def test_another_try(address: str, fault: str, streamed: bool):
    def ask(times: int, tries: int) -> str:
        model = provider(address, "anthropic", tries=tries).model("demo")
        prompt = f"Hi [[fault: {fault} x{times} run {next(runs)}]]"
        shown = (lambda event: None) if streamed else None
        return generate(prompt, model, on_event=shown).content

    assert ask(times=1, tries=2) == "You said: Hi"
    with pytest.raises(UpstreamError):
        ask(times=2, tries=2)


def test_tries_of_one_call(address: str):
    model = provider(address, "anthropic", tries=1).model("demo")
    prompt = f"Hi [[fault: 429 x2 run {next(runs)}]]"
    assert generate(prompt, model, tries=3).content == "You said: Hi"
    with pytest.raises(UpstreamError):
        generate(f"Hi [[fault: 429 x1 run {next(runs)}]]", model)


@pytest.mark.parametrize(("fault", "streamed"), [("hang", False), ("hang", True), ("stall 3", True)])
def test_timeout_of_one_call(address: str, fault: str, streamed: bool):
    model = provider(address, "anthropic").model("demo")
    shown = (lambda event: None) if streamed else None
    with pytest.raises(UpstreamError, match=r"no complete reply within 0\.2 s") as caught:
        generate(f"Hi [[fault: {fault}]]", model, timeout=0.2, on_event=shown)
    assert caught.value.failure.kind == "timeout"
    assert generate("Hi", model, timeout=60, on_event=shown).content == "You said: Hi"


def test_a_timeout_does_not_wait_for_a_retry_that_comes_too_late():
    class Busy(Spy):
        async def send(self, *sent: Any, **more: Any):
            reply = await super().send(*sent, **more)
            reply.status, reply.headers = 429, {"retry-after": "25"}
            return reply

    model = Provider("busy", protocol="anthropic", base_url="http://x", transport=Busy()).model("m")
    with pytest.raises(UpstreamError) as caught:
        finish(generate, "Hi", model, timeout=20)
    assert caught.value.failure.kind == "rate_limit"


def test_timeouts_of_one_call():
    spy, model = spied("anthropic")
    generate("Hi", model, timeout=Timeouts(first_byte=7))
    assert spy.timeouts[-1] == Timeouts(first_byte=7)
    assert generate("Hi", model).content
    assert spy.timeouts[-1] == Timeouts()


OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "for the provider": ({"spied": {"new": {"a": 1}}}, {"new": {"a": 1}}, []),
    "for the protocol": ({"anthropic": {"top_k": 5}}, {"top_k": 5}, []),
    "both": ({"spied": {"a": 6}, "anthropic": {"a": 5}}, {"a": 6}, ["field.option.changed"]),
    "deeply": ({"anthropic": {"metadata": {"x": 1}}}, {"metadata": {"user_id": "u", "x": 1}}, []),
    "for somebody else": ({"openai-chat": {"logit_bias": {}}}, {}, ["field.unknown.dropped"]),
    "in place of a setting": ({"anthropic": {"max_tokens": 7}}, {"max_tokens": 7}, ["field.option.changed"]),
}


@pytest.mark.parametrize(("options", "expected", "codes"), OPTIONS.values(), ids=OPTIONS)
def test_provider_options(options: dict[str, Any], expected: dict[str, Any], codes: list[str]):
    spy, model = spied("anthropic")
    reply = generate("Hi", model, provider_options=options, user="u", max_tokens=99)
    sent = spy.sent[-1][2]
    assert {name: sent[name] for name in expected} == expected
    assert [loss.code for loss in reply.losses] == codes
    if codes == ["field.unknown.dropped"]:
        with pytest.raises(LossError):
            generate("Hi", model, provider_options=options, strict=True)


@pytest.mark.parametrize("fault", ["cut", "fail", "malformed", "empty"])
@pytest.mark.parametrize("protocol", protocols())
def test_a_stream_that_breaks_is_never_a_result(address: str, protocol: str, fault: str):
    with stream(f"Hi [[fault: {fault}]]", provider(address, protocol).model("demo")) as events:
        with pytest.raises(UpstreamError):
            list(events)
        with pytest.raises(ConfigError, match="not ended"):
            _ = events.result


def test_nobody_listens():
    model = Provider("away", protocol="gemini", base_url="http://127.0.0.1:9", tries=1).model("m")
    with pytest.raises(UpstreamError, match="'away' is not reachable") as caught:
        generate("Hi", model)
    assert caught.value.failure.kind == "overloaded"


def test_a_wrong_key(address: str):
    with pytest.raises(UpstreamError, match="bad key"):
        generate("Hi", provider(address, "gemini", api_key=f"not {KEY}").model("demo"))


# Streams in time


@pytest.mark.parametrize("protocol", protocols())
def test_the_first_event_does_not_wait_for_the_second(address: str, protocol: str):
    """The stream stops for good after its first pieces; what they said is shown all the same."""
    model = provider(address, protocol).model("demo")
    with stream("Hi there [[fault: stall 8]]", model) as events:
        first = finish(next, events)
    assert isinstance(first, ReasoningDelta)


def test_leaving_a_stream_early_cancels_it(address: str, app: DemoApp):
    with stream("Hi there [[fault: stall 8]]", provider(address, "anthropic").model("demo")) as events:
        next(events)
        assert app.under_way >= 1
    wait_until(lambda: not app.under_way)
    assert list(events) == []


def test_a_server_that_does_not_stream():
    class Whole(Spy):
        async def send(self, method: str, url: str, headers: dict[str, str], body: bytes, timeouts: Timeouts):
            changed = {**jsontext.decode(body), "stream": False}
            return await super().send(method, url, headers, jsontext.encode(changed), timeouts)

    model = Provider("whole", protocol="anthropic", base_url="http://x", transport=Whole()).model("m")
    with stream("Hi", model) as events:
        assert isinstance(list(events)[-1], Finish)
    assert events.result.content == "You said: Hi"


# Event loops


def test_sync_functions_work_inside_a_running_loop(address: str):
    async def main() -> str:
        return generate("Hi", provider(address, "gemini").model("demo")).content

    assert asyncio.run(main()) == "You said: Hi"


def test_async_functions_on_loops_of_their_own(address: str):
    model = provider(address, "openai-responses").model("demo")

    async def main() -> list[str]:
        replies = await asyncio.gather(*(agenerate(f"Hi {n}", model) for n in range(8)))
        async with astream("Bye", model) as events:
            shown = [event async for event in events]
        assert isinstance(shown[-1], Finish)
        return [*(reply.content for reply in replies), events.result.content]

    for _ in range(2):
        assert asyncio.run(main()) == [*(f"You said: Hi {n}" for n in range(8)), "You said: Bye"]


def test_the_loop_does_not_wait_for_itself():
    async def inside(event: object) -> None:
        generate("Hi", DEMO)

    with pytest.raises(ConfigError, match="Use await arun"):
        generate("Hi", DEMO, on_event=inside)


def test_importing_dragoman_does_not_import_the_client():
    program = (
        "import sys, dragoman; heavy = {'httptools', 'asyncio', 'dragoman.client'} & set(sys.modules);"
        "from dragoman import generate, stream; assert callable(stream);"
        "print(heavy, generate('Hi', 'demo:x').content)"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("set() You said: Hi\n", "")


# State


def signatures(body: dict[str, Any]) -> int:
    return jsontext.dumps(body).count("ZGVtb")  # what base64 makes of "demo", with which its state begins


@pytest.mark.parametrize("protocol", protocols())
def test_state_goes_back_to_who_made_it_and_to_nobody_else(protocol: str):
    spy, model = spied(protocol)
    first = generate("Weather in NYC", model, tools=[weather])
    conversation = [UserMessage("Weather in NYC"), first, ToolMessage(first.tool_calls[0], "72")]
    generate(conversation, model, tools=[weather])
    assert signatures(spy.sent[-1][2]) == 1
    other = Provider("other", protocol=protocol, base_url=model.provider.base_url, transport=spy, tries=1)
    try:
        reply = generate(conversation, other.model("m"), tools=[weather])
    except UpstreamError:  # the scripted model knows its own call by its id, and misses its thought
        pass
    else:
        assert any("spied" in loss.why for loss in reply.losses)
    assert signatures(spy.sent[-1][2]) == 0
    generate([SystemMessage("Hi"), *conversation], model, tools=[weather])
    assert signatures(spy.sent[-1][2]) == 1


def test_the_typed_settings_are_all_that_is_known():
    neutral = set(Settings.__struct_fields__) - {"extras", "where"}
    beside = {"system", "tool_choice", "parallel", "strict", "extra", "output_mode", "output_retries"}
    beside |= {"provider_options", "timeout", "tries"}
    assert set(RequestSettings.__annotations__) == neutral - {"output"} | beside | set(OTHER_NAMES)


@pytest.mark.parametrize("function", [agenerate, arun, astream, generate, run, stream])
def test_every_function_takes_the_typed_settings(function: Any):
    written = function.__annotations__
    assert (written.get("settings") or written["options"]) in (
        "Unpack[RequestSettings]",
        "Unpack[RunOptions]",
    )
    assert set(RequestSettings.__annotations__) <= set(inspect.signature(function).parameters)


def test_help_shows_the_settings_and_their_types():
    shown = str(inspect.signature(run))
    for part in ("temperature: 'float | None'", "max_turns: 'int | None'", "on_event: 'OnEvent | None'"):
        assert part in shown
    assert "**" not in shown


WRONG_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"temperature": "hot"}, "The setting temperature is a number, not 'hot'."),
    ({"max_tokens": 1.5}, "The setting max_tokens is a whole number, not 1.5."),
    ({"max_output_tokens": "9"}, "The setting max_output_tokens is a whole number, not '9'."),
    ({"stop": 3}, "The setting stop is a text or a list of texts, not 3."),
    (
        {"effort": "huge"},
        "The setting effort is one of 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', ",
    ),
    ({"metadata": "m"}, "The setting metadata is a dict, not 'm'."),
    ({"parallel": "no"}, "The setting parallel is True or False, not 'no'."),
    ({"system": 7}, "The setting system is a text, not 7."),
    ({"timeout": "soon"}, "The setting timeout is a number, not 'soon'."),
    ({"tries": "often"}, "The setting tries is a whole number, not 'often'."),
    ({"extra": [1]}, "The setting extra is a dict, not [1]."),
]


@pytest.mark.parametrize(("settings", "message"), WRONG_SETTINGS, ids=lambda each: next(iter(each)))
@pytest.mark.parametrize("function", [generate, run, stream])
def test_a_setting_of_the_wrong_type_is_named(function: Any, settings: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        function("Hi", "demo:any", **settings)


def test_an_option_of_the_wrong_type_is_named():
    with pytest.raises(ConfigError, match=r"^The setting max_turns is a whole number, not 'many'"):
        run("Hi", "demo:any", max_turns="many")  # pyright: ignore[reportArgumentType] - it is the test
    with pytest.raises(ConfigError, match=r"^The setting output_retries is a whole number"):
        generate("Hi", "demo:any", output=int, output_retries="x")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("prompt", ["", " \n", []])
@pytest.mark.parametrize("function", [generate, run, stream])
def test_an_empty_prompt_is_refused(function: Any, prompt: Any):
    with pytest.raises(ConfigError, match=r"is empty\. Pass a"):
        function(prompt, "demo:any")


# Addresses in the environment


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai", "OPENAI_BASE_URL"),
        ("openai-chat", "OPENAI_BASE_URL"),
        ("anthropic", "ANTHROPIC_BASE_URL"),
        ("google-ai-studio", "GOOGLE_GEMINI_BASE_URL"),
    ],
)
def test_the_vendors_own_variable_names_the_address(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str
):
    usual = Provider(name, api_key="k").base_url
    monkeypatch.setenv(variable, "http://127.0.0.1:9/v1/")
    assert Provider(name).base_url == model_of(f"{name}:m").provider.base_url == "http://127.0.0.1:9/v1"
    assert Provider(name, base_url="http://x").base_url == "http://x"
    monkeypatch.delenv(variable)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert Provider(name, api_key="k").base_url == usual


ENDINGS = {
    "an error that nobody catches": ("generate('Hi [[fault: 401]]', 'demo:any')", 1),
    "a stream that is still open": (
        "s = stream('Hi [[fault: stall 8]]', 'demo:any'); next(s.__enter__())",
        0,
    ),
    "an upstream that is away": (
        "at = Provider('x', protocol='anthropic', base_url='http://127.0.0.1:9', tries=1)\n"
        "generate('Hi', at.model('m'))",
        1,
    ),
}


@pytest.mark.parametrize(("line", "code"), ENDINGS.values(), ids=ENDINGS)
def test_a_process_ends_in_order(line: str, code: int):
    """The loop ends before the interpreter does, which else crashes at times, with 139."""
    program = f"from dragoman import Provider, generate, stream\n{line}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == code, ran.stderr
    assert ("Traceback" in ran.stderr) == bool(code)
    assert "dragoman-client" not in ran.stderr
