"""The agent loop: until the answer, or a limit; what may run, for how long, and what is seen of it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from client.scripted import Script
from client.upstreams import UPSTREAMS, model_named
from dragoman import SystemMessage, Tool, UpstreamError, UserMessage, arun, generate, protocols, run, tool
from dragoman.client import (
    Finish,
    Model,
    Run,
    TextDelta,
    ToolRunEnd,
    ToolRunStart,
    TurnEnd,
    TurnStart,
    export,
    load,
)
from dragoman.client import tools as client_tools
from dragoman.core.losses import Losses
from dragoman.core.model import Text, ToolCall, ToolResult
from dragoman.core.transport import ReplyBroken
from dragoman.protocols import codec
from waiting import LONG, NEVER, wait_until

DEMO = "demo:demo"
BOTH = "Weather in NYC and SF?"
ANSWER = "get_weather returned: 72 in NYC\nget_weather returned: 72 in SF"


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"72 in {city}"


def sleeper(seconds: float, **options: Any) -> Tool:
    async def get_weather(city: str) -> str:
        await asyncio.sleep(seconds)
        return f"72 in {city}"

    return client_tools.tool(**options)(get_weather)


def test_until_the_answer(model: Model):
    done = run(BOTH, model, [get_weather])
    assert (done.stopped, done.content) == ("answer", ANSWER)
    assert [type(message).__name__ for message in done.messages] == [
        "UserMessage",
        "Result",
        "ToolMessage",
        "ToolMessage",
        "Result",
    ]
    assert done.usage.output == sum(result.usage.output for result in done.results) > 0
    assert done.tool_calls == []


def transcript(protocol: str, body: dict[str, Any]) -> list[Any]:
    """What a transcript says: texts, calls and results, in order."""
    request = codec(protocol).decode_request(body, Losses())
    parts = [part for message in request.messages for part in message.parts]
    listed: list[Any] = []
    for part in parts:
        match part:
            case Text() if part.text != "(conversation continues)":
                listed.append(part.text)
            case ToolCall():
                listed.append((part.name, part.arguments.replace(" ", "")))
            case ToolResult():
                listed.append([item.text for item in part.content if isinstance(item, Text)])
            case _:
                pass
    return listed


@pytest.mark.parametrize("protocol", protocols())
def test_the_transcript_in_every_protocol(protocol: str):
    done = run(BOTH, DEMO, [get_weather])
    assert transcript(protocol, done.export(protocol)) == [
        BOTH,
        "I will use get_weather and get_weather.",
        ("get_weather", '{"city":"NYC"}'),
        ("get_weather", '{"city":"SF"}'),
        ["72 in NYC"],
        ["72 in SF"],
        ANSWER,
    ]


@pytest.mark.parametrize("protocol", protocols())
def test_a_transcript_is_loaded_again(protocol: str):
    body = run([SystemMessage("Be brief."), UserMessage(BOTH)], DEMO, [get_weather]).export(protocol)
    loaded = load(body, protocol)
    assert transcript(protocol, export(loaded, protocol)) == transcript(protocol, body)
    assert [type(message).__name__ for message in loaded][:5] == [
        "SystemMessage",
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "ToolMessage",
    ]
    more = [*loaded[:6], UserMessage("And the weather in Rome?")]
    assert run(more, DEMO, [get_weather]).content == "get_weather returned: 72 in Rome"


def test_state_stays_in_a_transcript_for_who_made_it():
    done = run(BOTH, DEMO, [get_weather])
    made = done.results[0].parts[0].state
    assert made is not None
    assert made.data in str(done.export("anthropic"))
    assert made.data not in str(done.export("openai-chat"))


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_run_goes_on_elsewhere(address: str, upstream: str):
    done = run(BOTH, DEMO, [get_weather])
    more = run(
        [*done.messages, UserMessage("And the weather in Rome?")],
        model_named(address, upstream),
        [get_weather],
    )
    assert more.content == "get_weather returned: 72 in Rome"
    assert more.messages[: len(done.messages)] == done.messages


# Limits

LIMITS: dict[str, tuple[dict[str, Any], str, int]] = {
    "turns": ({"max_turns": 1}, "turns", 2),
    "tokens": ({"max_total_tokens": 10}, "tokens", 2),
    "none is reached": ({"max_turns": 2, "max_total_tokens": 10_000, "max_seconds": LONG}, "answer", 5),
}


@pytest.mark.parametrize(("limits", "stopped", "messages"), LIMITS.values(), ids=LIMITS)
def test_limits(limits: dict[str, Any], stopped: str, messages: int):
    done = run(BOTH, DEMO, [get_weather], **limits)
    assert (done.stopped, len(done.messages)) == (stopped, messages)


def test_a_limit_of_time(time_is_up: Callable[[], None]):
    async def get_weather(city: str) -> str:
        time_is_up()
        await asyncio.sleep(NEVER)
        return city

    done = run(BOTH, DEMO, [get_weather], max_seconds=NEVER)
    assert (done.stopped, len(done.messages)) == ("time", 2)


def test_a_limit_leaves_a_conversation_that_can_go_on():
    done = run(BOTH, DEMO, [get_weather], max_turns=1)
    assert len(done.tool_calls) == 2
    assert generate([*done.messages, UserMessage("Never mind")], DEMO, tools=[get_weather]).content


def test_a_failure_in_mid_run_keeps_what_was_done():
    """The provider answers once and then fails; the messages go on with another model."""

    class FailsLater(Script):
        async def send(self, *given: Any, **named: Any) -> Any:
            if self.sent:
                raise ReplyBroken("the connection was reset")
            return await super().send(*given, **named)

    script = FailsLater("openai-chat", ToolCall("call_1", "get_weather", '{"city": "NYC"}'))
    with pytest.raises(UpstreamError) as raised:
        run("Weather in NYC", script.model(), [get_weather], tries=1)
    failed = cast(Run[Any], raised.value.run)  # pyright: ignore[reportAttributeAccessIssue]
    assert (failed.stopped, len(failed.results)) == ("error", 1)
    assert [type(message).__name__ for message in failed.messages] == ["UserMessage", "Result", "ToolMessage"]
    assert run(failed.messages, DEMO, [get_weather]).content == "get_weather returned: 72 in NYC"


def test_a_tool_without_a_function_is_handed_back():
    bare = Tool("get_weather", "", get_weather.parameters)
    done = run(BOTH, DEMO, [bare])
    assert done.stopped == "tool_calls"
    assert [call["function"]["name"] for call in done.tool_calls] == ["get_weather"] * 2


# What may run

APPROVALS: dict[str, tuple[Any, str]] = {
    "yes": (lambda call: True, "get_weather returned: 72 in NYC"),
    "no": (lambda call: False, "get_weather failed: This call was not allowed."),
    "with a reason": (lambda call: "too far", "get_weather failed: This call was not allowed: too far."),
    "nothing given": (lambda call: None, "get_weather failed: This call was not allowed."),
}


@pytest.mark.parametrize(("approve", "answer"), APPROVALS.values(), ids=APPROVALS)
@pytest.mark.parametrize("way", ["sync", "async"])
def test_approval(approve: Any, answer: str, way: str):
    async def later(call: dict[str, Any]) -> Any:
        return approve(call)

    done = run("Weather in NYC", DEMO, [get_weather], approve=approve if way == "sync" else later)
    assert done.content == answer


def test_hooks_are_called_on_the_caller_s_thread():
    threads = set[threading.Thread]()
    run(
        "Weather in NYC",
        DEMO,
        [get_weather],
        approve=lambda call: threads.add(threading.current_thread()) is None,
        on_event=lambda event: threads.add(threading.current_thread()),
    )
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("hook", ["on_event", "approve"])
def test_a_hook_that_fails_ends_the_run(hook: str):
    with pytest.raises(ZeroDivisionError):
        run(BOTH, DEMO, [get_weather], **{hook: lambda event: 1 / 0})  # pyright: ignore[reportArgumentType] - one keyword of many


def test_one_question_at_a_time():
    asking: list[str] = []
    most = 0

    async def approve(call: dict[str, Any]) -> bool:
        nonlocal most
        asking.append(call["id"])
        most = max(most, len(asking))
        await asyncio.sleep(0.01)
        asking.remove(call["id"])
        return True

    assert run(BOTH, DEMO, [get_weather], approve=approve).content == ANSWER
    assert most == 1


# For how long

TIMEOUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "of the run": ({}, {"tool_timeout": 0.05}),
    "of the tool": ({"timeout": 0.05}, {}),
    "of the tool wins": ({"timeout": 0.05}, {"tool_timeout": 60}),
}


@pytest.mark.parametrize(("of_tool", "of_run"), TIMEOUTS.values(), ids=TIMEOUTS)
def test_timeouts(of_tool: dict[str, Any], of_run: dict[str, Any]):
    done = run("Weather in NYC", DEMO, [sleeper(30, **of_tool)], **of_run)
    assert done.content == "get_weather failed: The tool get_weather took more than 0.05 s"


@pytest.mark.parametrize(("parallel", "most"), [(True, 2), (False, 1)])
def test_calls_run_beside_each_other_where_allowed(parallel: bool, most: int):
    running, seen = set[str](), list[int]()

    @tool(parallel=parallel)
    async def get_weather(city: str) -> str:
        running.add(city)
        await asyncio.sleep(0.02)
        seen.append(len(running))
        running.remove(city)
        return f"72 in {city}"

    assert run(BOTH, DEMO, [get_weather]).content == ANSWER
    assert max(seen) == most


def test_functions_that_block_run_beside_each_other():
    together = threading.Barrier(2, timeout=60)

    @tool
    def get_weather(city: str) -> str:
        together.wait()
        return f"72 in {city}"

    assert run(BOTH, DEMO, [get_weather]).content == ANSWER


def test_a_tool_may_call_a_model():
    @tool
    def get_weather(city: str) -> str:
        return generate(f"{city} is warm", DEMO).content

    assert run("Weather in NYC", DEMO, [get_weather]).content == "get_weather returned: You said: NYC is warm"


def test_failures_of_tools_go_to_the_model():
    @tool
    def get_weather(city: str) -> str:
        raise LookupError(f"no {city}")

    assert run("Weather in NYC", DEMO, [get_weather]).content == "get_weather failed: LookupError: no NYC"


def test_failures_of_the_provider_are_raised():
    with pytest.raises(UpstreamError, match="bad request"):
        run("Weather in NYC [[fault: 400]]", DEMO, [get_weather])


def test_cancelling_the_task_cancels_the_tools():
    seen: list[str] = []

    async def get_weather(city: str) -> str:
        seen.append("started")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return city

    async def main() -> None:
        task = asyncio.create_task(arun("Weather in NYC", DEMO, [get_weather]))
        while not seen:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == ["started", "cancelled"]


def test_ctrl_c_cancels_the_tools():
    seen: list[str] = []
    main = threading.main_thread().ident
    if threading.current_thread() is not threading.main_thread() or main is None:
        pytest.skip("signals go to the main thread")

    async def get_weather(city: str) -> str:
        await asyncio.sleep(0.1)  # so that the caller surely waits
        try:
            while True:  # an interrupt that meets a callback of the collector is lost
                signal.pthread_kill(main, signal.SIGINT)
                await asyncio.sleep(5)
        finally:
            seen.append("cancelled")
        return city

    with pytest.raises(KeyboardInterrupt):
        run("Weather in NYC", DEMO, [get_weather])
    wait_until(lambda: seen == ["cancelled"])


def test_events(model: Model):
    events: list[Any] = []
    done = run("Weather in NYC", model, [get_weather], on_event=events.append)
    turns = [event.number for event in events if isinstance(event, TurnStart)]
    kinds = [type(event) for event in events if not isinstance(event, TextDelta)]
    assert turns == [1, 2]
    assert [event.result for event in events if isinstance(event, TurnEnd)] == done.results
    assert kinds.index(ToolRunStart) < kinds.index(ToolRunEnd)
    assert [event.message for event in events if isinstance(event, ToolRunEnd)] == [done.messages[2]]
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert shown == "".join(result.content for result in done.results)
    assert len([event for event in events if isinstance(event, Finish)]) == 2
